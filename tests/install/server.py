"""A Spark Connect server on the port that is given, up to the end of its standard input."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from tests.conftest import SETTINGS

builder = SparkSession.builder.master("local[2]")
for key, value in {
    **SETTINGS,
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    "spark.connect.grpc.binding.port": sys.argv[1],
}.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
print("ready", flush=True)
sys.stdin.read()
spark.stop()
