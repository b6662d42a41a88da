"""What runs on executors: reading, filtering, rewriting and writing data files in Arrow.

Imports pyarrow, numpy, the standard library and `deltamerge.protocol`; both packages are shipped, so that a
cluster needs nothing installed but what Spark's own Arrow support needs.
"""
