"""Running a plan: matched rows, changed rows, written files."""
