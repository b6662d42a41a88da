"""Reading data files in Arrow."""
