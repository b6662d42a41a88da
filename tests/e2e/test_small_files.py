"""Merges in a row leave no flood of small files: those that are written again take up their neighbours and what is inserted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from deltamerge.log.replay.table import open_log
from tests.e2e.tables import content, make, source

pytestmark = pytest.mark.usefixtures("strategy")


@pytest.mark.parametrize(("partition_by", "expected"), [((), 1), (("p",), 2)])
def test_merges_in_a_row(spark: SparkSession, tmp_path: Path, partition_by: tuple[str, ...], expected: int) -> None:
    rows = [(number, number % 2, 0) for number in range(20)]
    table = make(spark, tmp_path / "t", "id int, p int, v int", rows, files=3, partition_by=partition_by)
    state = {row[0]: row for row in rows}
    for merge in range(1, 4):
        changes = [(n, n % 2, merge) for n in (*range(0, 20, 3), *range(1, 20, 3), 2 * merge + 100, 2 * merge + 101, 5)]
        on = "t.id = s.id" + (" AND t.p = s.p" if partition_by else "")
        merged = table.merge(source(spark, "id int, p int, v int", changes), on)
        merged.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
        state |= {row[0]: row for row in changes}
    assert content(spark, tmp_path / "t") == sorted(state.values())
    assert len(open_log(str(tmp_path / "t")).snapshot().files) == expected


def test_what_is_inserted_comes_to_its_partitions_small_file(
    spark: SparkSession, tmp_path: Path, limit: Callable[..., None]
) -> None:
    """Also where the partitions are too much for one task; rows that Spark joins are spread by Spark."""
    spark.conf.set("spark.deltamerge.strategy", "auto")
    table = make(spark, tmp_path / "t", "id int, p int", [(n, n % 4) for n in range(40)], partition_by=["p"])
    sizes = open_log(str(tmp_path / "t")).snapshot().files.column("size").to_pylist()
    limit(small_files_bytes=max(sizes) + 150)
    for merge in range(1, 6):
        changes = [(n, n % 4) for n in (0, 1, 2, 3, *range(100 * merge, 100 * merge + 4))]
        merged = table.merge(source(spark, "id int, p int", changes), "t.id = s.id")
        merged.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert len(content(spark, tmp_path / "t")) == 60
    assert len(open_log(str(tmp_path / "t")).snapshot().files) == 4


def test_what_a_small_file_holds_moves_with_it_to_other_partitions(spark: SparkSession, tmp_path: Path) -> None:
    rows = [(number, number % 2) for number in range(10)]
    table = make(spark, tmp_path / "t", "id int, p int", rows, partition_by=["p"], files=2)
    moved = source(spark, "id int", [(n,) for n in range(10)])
    table.merge(moved, "t.id = s.id").whenMatchedUpdate("t.id < 8", {"p": "t.p + 1"}).execute()
    assert content(spark, tmp_path / "t") == [(n, n % 2 + (n < 8)) for n in range(10)]
    files = open_log(str(tmp_path / "t")).snapshot().files
    assert sorted(dict(values)["p"] for values in files.column("partitionValues").to_pylist()) == ["0", "1", "2"]


def test_large_files_stay_as_they_are_cut(spark: SparkSession, tmp_path: Path, limit: Callable[..., None]) -> None:
    """Their limits keep data skipping good; only what is inserted comes to a file of its own."""
    limit(small_file_bytes=0)
    table = make(spark, tmp_path / "t", "id int, v int", [(number, 0) for number in range(20)], files=2)
    changes = source(spark, "id int, v int", [(1, 1), (11, 1), (30, 1)])
    table.merge(changes, "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert len(open_log(str(tmp_path / "t")).snapshot().files) == 3


def test_files_are_full_at_the_size_that_the_table_asks_for(spark: SparkSession, tmp_path: Path) -> None:
    properties = {"delta.targetFileSize": "100kb"}
    table = make(spark, tmp_path / "t", "id long, v double", [(-1, 0.0)], properties=properties)
    rows = spark.range(100_000).selectExpr("id", "rand() AS v").coalesce(1).alias("s")
    table.merge(rows, "t.id = s.id").whenNotMatchedInsertAll().execute()
    sizes = open_log(str(tmp_path / "t")).snapshot().files.column("size").to_pylist()
    assert len(sizes) > 5
    assert max(sizes) < 400_000
