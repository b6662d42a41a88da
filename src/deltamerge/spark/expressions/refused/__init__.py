"""What is said of an expression that Spark refuses."""
