"""A table is made anew at its path while a merge runs: an error here; delta-spark leaves a log that nobody can read."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import deltamerge
import deltamerge.tables
from deltamerge.exceptions import MetadataChangedException

SCHEMA = "id BIGINT, v STRING"


def make(spark: SparkSession, path: Path, versions: int, value: str) -> None:
    for number in range(versions):
        spark.createDataFrame([(number, value)], SCHEMA).coalesce(1).write.format("delta").mode("append").save(str(path))


@pytest.fixture(params=[1, 5], ids=["shorter", "longer"])
def held(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> DataFrame:
    """A source that is computed once the table, of three versions, has another log, of a table of one version or of five."""
    table, log, other = tmp_path / "table", tmp_path / "table/_delta_log", tmp_path / "other"
    make(spark, table, 3, "old")
    make(spark, other, request.param, "new")
    moved = str(tmp_path / "moved")

    def swap(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        if not os.path.exists(moved):
            shutil.move(log, moved)
            shutil.copytree(other, table, dirs_exist_ok=True)
        yield from batches

    rows = spark.createDataFrame([(0, "ours"), (9, "ours")], SCHEMA).coalesce(1)
    return rows.mapInArrow(swap, SCHEMA)


def test_here_it_is_an_error(spark: SparkSession, tmp_path: Path, held: DataFrame) -> None:
    table = tmp_path / "table"
    merge = deltamerge.tables.DeltaTable.forPath(spark, str(table)).alias("t").merge(held.alias("s"), "t.id = s.id")
    with pytest.raises(MetadataChangedException, match="DELTAMERGE_TABLE_REPLACED"):
        merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert {row.v for row in spark.read.format("delta").load(str(table)).collect()} == {"new"}


@pytest.mark.parametrize("held", [1], indirect=True)
def test_delta_spark_leaves_a_log_that_nobody_can_read(spark: SparkSession, tmp_path: Path, held: DataFrame) -> None:
    from delta.tables import DeltaTable

    table = tmp_path / "table"
    # What a session has once read of a log it does not read again.
    assert spark.read.format("delta").load(str(table)).count() == 3
    merge = DeltaTable.forPath(spark, str(table)).alias("t").merge(held.alias("s"), "t.id = s.id")
    merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert sorted(path.name for path in (table / "_delta_log").glob("*.json")) == [f"{number:020d}.json" for number in (0, 3)]
    with pytest.raises(Exception, match="DELTA_VERSIONS_NOT_CONTIGUOUS"):
        spark.read.format("delta").load(str(table)).collect()
