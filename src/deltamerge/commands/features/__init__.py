"""Table features: dropped, with what they leave in the files and the log."""
