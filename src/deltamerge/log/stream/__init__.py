"""A table's log as the source of a stream: offsets, what lies between two of them, and where a batch ends."""
