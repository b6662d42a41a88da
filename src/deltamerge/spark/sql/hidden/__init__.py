"""Columns of tables that only those see who name them."""
