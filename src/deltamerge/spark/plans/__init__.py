"""Plans as PySpark shows them: their text, and the messages of Spark Connect."""
