"""SQL statements, parsed."""
