"""Commands about the files of a table: which are kept, which are in force."""
