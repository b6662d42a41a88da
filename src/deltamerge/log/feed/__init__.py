"""Which files hold the rows that some versions changed."""
