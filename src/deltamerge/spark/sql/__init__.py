"""SQL text as tokens and trees, for seeing into it. Spark decides what it means."""
