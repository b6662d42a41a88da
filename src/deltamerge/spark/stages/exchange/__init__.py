"""Rows that go to other tasks: by ranges of keys, by hashes of keys, by the files that they are written to."""
