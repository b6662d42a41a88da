"""The source of a merge, evaluated exactly once."""
