"""Spark's own types under the names that the layers above use, so that they need not import pyspark."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import DataFrame as Frame
from pyspark.sql import SparkSession as Session
from pyspark.sql.types import DataType as SparkType

__all__ = ["Column", "Frame", "Session", "SparkType"]
