"""The Delta protocol as pure data and functions: no I/O, no Spark, no table state."""
