"""A user's expressions: names, types, casts, and the constraints of a table, by Spark's analyzer."""
