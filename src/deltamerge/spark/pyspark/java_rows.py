"""Small frames made of Java objects. It, the adapter and its neighbours alone look behind PySpark's public interface."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T


def row_of_numbers(spark: SparkSession, values: Mapping[str, int]) -> DataFrame | None:
    """A frame of one row of nullable long columns, of which a classic session parses and analyzes nothing; None where it can't
    be had.
    """
    hidden: Any = spark
    try:
        java = _methods(hidden._jvm)
        numbers = hidden._sc._gateway.new_array(java.long, len(values))
        java.buffer(struct.pack(f">{len(values)}q", *values.values())).asLongBuffer().get(numbers)
        row = java.row(java.stream(numbers).boxed().toArray())  # by itself a small number is sent as an Integer
        schema = _schema(hidden._jvm, tuple(values))
        return DataFrame(hidden._jsparkSession.createDataFrame(java.list(row), schema), spark)
    except Exception:
        return None


@dataclass(frozen=True)
class _Methods:
    """What makes a buffer of bytes, a stream of an array of long numbers, a row of objects, and a list of one."""

    long: Any
    buffer: Any
    stream: Any
    row: Any
    list: Any


@lru_cache(maxsize=1)
def _methods(jvm: Any) -> _Methods:
    """To ask for each by its name takes calls."""
    nio, util = jvm.java.nio, jvm.java.util
    row = jvm.org.apache.spark.sql.RowFactory.create
    return _Methods(jvm.long, nio.ByteBuffer.wrap, util.stream.LongStream.of, row, util.Collections.singletonList)


@lru_cache(maxsize=16)
def _schema(jvm: Any, names: tuple[str, ...]) -> Any:
    schema = T.StructType([T.StructField(name, T.LongType()) for name in names])
    return jvm.org.apache.spark.sql.types.DataType.fromJson(schema.json())
