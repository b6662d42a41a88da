"""Which row groups and rows of a file can meet a source row."""
