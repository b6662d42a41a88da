"""Commands about rows, tables and their layout."""
