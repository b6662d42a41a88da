"""From log files to a snapshot."""
