"""Sessions: PySpark's private parts behind one adapter, settings, types, jobs."""
