"""Matching source rows with target rows in tasks."""
