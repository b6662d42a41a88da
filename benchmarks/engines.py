"""The engines under test: each merges a batch file into a table and returns what it counted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import deltamerge.tables
from benchmarks.data import KEYS

CONDITION = " AND ".join(f"t.{key} = s.{key}" for key in KEYS)
Engine = Callable[[SparkSession, Path, Path, str], None]


def _with_builder(builder: Any, kind: str) -> None:
    if kind == "delete":
        builder = builder.whenMatchedDelete()
    elif kind == "upsert":
        builder = builder.whenMatchedUpdateAll()
    if kind in ("upsert", "insert"):
        builder = builder.whenNotMatchedInsertAll()
    builder.execute().collect()


def delta_spark(spark: SparkSession, table: Path, source: Path, kind: str) -> None:
    """delta-spark, copy-on-write."""
    from delta.tables import DeltaTable

    frame = spark.read.parquet(str(source)).alias("s")
    _with_builder(DeltaTable.forPath(spark, str(table)).alias("t").merge(frame, CONDITION), kind)


def deltamerge_spark(spark: SparkSession, table: Path, source: Path, kind: str) -> None:
    """This library, copy-on-write."""
    frame = spark.read.parquet(str(source)).alias("s")
    _with_builder(deltamerge.tables.DeltaTable.forPath(spark, str(table)).alias("t").merge(frame, CONDITION), kind)


def delta_rs(spark: SparkSession, table: Path, source: Path, kind: str) -> None:
    """delta-rs in its default mode."""
    merger = deltalake.DeltaTable(table).merge(pq.read_table(source), CONDITION, source_alias="s", target_alias="t")
    if kind == "delete":
        merger = merger.when_matched_delete()
    elif kind == "upsert":
        merger = merger.when_matched_update_all()
    if kind in ("upsert", "insert"):
        merger = merger.when_not_matched_insert_all()
    merger.execute()


ENGINES: dict[str, Engine] = {"deltamerge": deltamerge_spark, "delta-spark": delta_spark, "delta-rs": delta_rs}
