"""Commands about a table as a whole: what it is, and how it comes to be."""
