"""Small tables for tests, and their rows in comparable form."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import deltamerge
from deltamerge.tables import DeltaTable
from tests.e2e.vectors import ask_for_vectors


def make(
    spark: SparkSession,
    path: Path,
    schema: str,
    rows: Sequence[tuple[Any, ...]],
    *,
    partition_by: Sequence[str] = (),
    files: int = 1,
    vectors: bool = False,
) -> DeltaTable:
    """A new table with alias t, its rows spread over `files` files in order; merges mark rows if `vectors`."""
    step = max(1, -(-len(rows) // files))
    for start in range(0, max(1, len(rows)), step):
        frame = spark.createDataFrame(list(rows[start : start + step]), schema).coalesce(1)
        deltamerge.write(frame, str(path), mode="append", partition_by=partition_by)
        if vectors and not start:
            ask_for_vectors(path)
    return DeltaTable.forPath(spark, str(path)).alias("t")


def source(spark: SparkSession, schema: str, rows: Iterable[tuple[Any, ...]]) -> DataFrame:
    """A source with alias s."""
    return spark.createDataFrame(list(rows), schema).alias("s")


def content(spark: SparkSession, path: Path, version: int | None = None) -> list[tuple[Any, ...]]:
    """All rows of a table, sorted."""
    rows = [tuple(row) for row in deltamerge.read(spark, str(path), version).collect()]
    return sorted(rows, key=lambda row: tuple((value is None, str(type(value)), value) for value in row))


def version(path: Path) -> int:
    """The newest version, by the file names in the log."""
    return max(int(file.name[:20]) for file in (path / "_delta_log").glob("*.json"))
