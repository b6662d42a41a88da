"""Rewriting a file by copying the bytes of what does not change in it."""
