"""Table state from the transaction log, and commits to it. Knows files and actions; must not know Spark or MERGE."""
