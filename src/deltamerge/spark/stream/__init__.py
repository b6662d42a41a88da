"""Tables as sources of streams, by PySpark's API for data sources in Python.

What runs beside Spark's driver is shipped by value, as what runs on executors is: no server has to have this library.
"""
