"""Which files can hold a row for which a predicate is true."""
