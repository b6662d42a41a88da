"""Everything that touches Spark, classic or Connect: sessions, schemas, expressions, scans, sources, jobs.

The only place that imports pyspark besides the public front ends.
"""
