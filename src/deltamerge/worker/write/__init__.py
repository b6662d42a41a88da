"""Writing and rewriting data files, deletion vectors and change files."""
