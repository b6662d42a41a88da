"""Spark's own methods of sessions and DataFrames, also while `deltamerge.activate` has put others in their place.

What this library asks of Spark it asks here, so that it never asks itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, DataFrameReader, SparkSession

PLAIN = "__deltamerge_plain__"
"""The attribute of what stands in the place of a class's own method or property, which holds that one."""


def plain_sql(
    spark: SparkSession, text: str, arguments: Mapping[str, Any] | Sequence[Any] | None = None, **named: Any
) -> DataFrame:
    """The rows of a statement, as `spark.sql` gives them. `named` stand in the text between braces."""
    run = _own(spark, "sql")
    found: DataFrame = run(text, **named) if arguments is None else run(text, arguments, **named)
    return found


def plain_table(spark: SparkSession, name: str) -> DataFrame:
    """The rows of a table or view, as `spark.table` gives them."""
    found: DataFrame = _own(spark, "table")(name)
    return found


def plain_reader(spark: SparkSession) -> DataFrameReader:
    """Spark's `spark.read`."""
    found: DataFrameReader = _own(spark, "read")
    return found


def _own(owner: object, name: str) -> Any:
    plain = getattr(getattr(type(owner), name, None), PLAIN, None)
    return getattr(owner, name) if plain is None else plain.__get__(owner, type(owner))
