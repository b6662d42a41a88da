"""Statements about the files of a table: which are put together, removed, or come back."""
