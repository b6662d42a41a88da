"""Table commands besides MERGE, one file each."""
