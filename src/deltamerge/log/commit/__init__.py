"""From what a transaction wants to a version of the table, and the upkeep of the log."""
