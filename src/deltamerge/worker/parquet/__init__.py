"""Parquet files as bytes: their footers, read and written again, and the places of their column chunks. Decodes no value."""
