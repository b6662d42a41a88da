"""Statistics of files as a log stores them: JSON text and structs."""
