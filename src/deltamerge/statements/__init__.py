"""SQL statements about Delta tables, one file each: parsed by Spark's tokens, run by the commands that the builders run."""
