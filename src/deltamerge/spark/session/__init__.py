"""Sessions: settings, types, rows, jobs, the checks of a session."""
