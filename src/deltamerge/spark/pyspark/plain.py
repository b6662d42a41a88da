"""Spark's own methods of sessions and DataFrames, also while `deltamerge.activate` has put others in their place.

What this library asks of Spark it asks here, so that it never asks itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

# Known by class and name: an attribute of what stands in their place is lost when somebody wraps it.
_OWN: dict[tuple[type, str], Any] = {}


def keep_own(owner: type, name: str, own: Any) -> None:
    """Have a class's own method or property asked here, whatever stands in its place."""
    _OWN[owner, name] = own


def forget_own(owner: type, name: str) -> None:
    """Have what stands in a class asked here."""
    _OWN.pop((owner, name), None)


def is_replaced(kind: type, name: str) -> bool:
    """Whether this library's method or property stands in the place of a class's own, below others or not."""
    return _own_of(kind, name) is not None


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


def plain_stream_reader(spark: SparkSession) -> DataStreamReader:
    """Spark's `spark.readStream`."""
    found: DataStreamReader = _own(spark, "readStream")
    return found


def _own(owner: object, name: str) -> Any:
    own = _own_of(type(owner), name)
    return getattr(owner, name) if own is None else own.__get__(owner, type(owner))


def _own_of(kind: type, name: str) -> Any | None:
    """What is kept of the class or of one it inherits from; of the last one, as the others' may call it."""
    found = (_OWN.get((owner, name)) for owner in reversed(kind.__mro__))
    return next((own for own in found if own is not None), None)
