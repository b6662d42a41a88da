"""How results look: values to show, and what they become on a page, on a terminal, in JSON. Knows no table and no Spark."""
