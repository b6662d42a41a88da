"""What the user said: clauses from the builder or from SQL text. Knows no table."""
