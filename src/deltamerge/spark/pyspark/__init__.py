"""PySpark behind one adapter: its private parts, its versions, its own methods, its log of what it refuses."""
