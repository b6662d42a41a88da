"""Statements about a table as a whole: made, changed, described, dropped."""
