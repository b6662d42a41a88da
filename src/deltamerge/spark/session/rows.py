"""Small results as DataFrames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema

from deltamerge.spark.pyspark.adapter import is_connect
from deltamerge.spark.pyspark.java_rows import row_of_numbers
from deltamerge.spark.pyspark.older import IS_OLDER, arrow_frame, qualified
from deltamerge.spark.pyspark.plain import plain_sql
from deltamerge.spark.session.frames import Frame, Session


def one_row(spark: Session, values: Mapping[str, int | str]) -> Frame:
    """A frame of one row of long and string columns."""
    numbers = {name: value for name, value in values.items() if isinstance(value, int)}
    if not is_connect(spark) and len(numbers) == len(values) and (found := row_of_numbers(spark, numbers)) is not None:
        return found
    return arrow_frame(spark, pa.table({name: pa.array([value]) for name, value in values.items()}))


def rows_frame(spark: Session, rows: pa.Table) -> Frame:
    """An Arrow table as a frame; Spark Connect takes none without rows."""
    if rows.num_rows:
        return arrow_frame(spark, rows)
    return spark.createDataFrame([], from_arrow_schema(rows.schema))


def no_rows(spark: Session) -> Frame:
    """What Spark returns for a statement that has nothing to tell."""
    return spark.createDataFrame([], T.StructType([]))


@lru_cache(maxsize=8)
def bare_row(spark: Session) -> Frame:
    """A row whose column no expression names. To Spark's optimizer a lateral query of it is a projection, no join."""
    return plain_sql(spark, "SELECT 1 AS __deltamerge_one")


def with_aliased(frame: Frame, alias: str, other: str, columns: Sequence[tuple[str, T.StructField]]) -> Frame:
    """The frame by an alias, with some of its columns again, each as a field and by the other alias: a projection, no join."""
    if IS_OLDER:
        return frame.alias(alias).select("*", *[qualified(name, field, other) for name, field in columns])
    chosen = [F.col(name).outer().alias(field.name, metadata=field.metadata) for name, field in columns]
    return frame.alias(alias).lateralJoin(bare_row(frame.sparkSession).select(*chosen).alias(other))
