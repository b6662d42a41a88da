"""A merge that changes rows in few pages of a file copies the others, says so, and leaves the rows of a plain rewrite."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import deltamerge
from deltamerge.budgets import using
from deltamerge.tables import DeltaTable, MergeReport
from tests.e2e.tables import conf, content

ROWS = 60_000  # three pages of a row group


def merged(spark: SparkSession, path: Path) -> list[MergeReport]:
    """The reports of an update of all columns, a deletion, and an update of one column in rows that stand together."""
    rows = f"SELECT id, id % 50 AS few, concat('text ', id) AS text FROM range({ROWS})"
    deltamerge.write(spark.sql(rows).coalesce(1), str(path))
    table = DeltaTable.forPath(spark, str(path)).alias("t")
    source = spark.sql("SELECT id + 25000 AS id, id % 9 + 100 AS few, concat('new ', id) AS text FROM range(20)").alias("s")
    all_columns = table.merge(source, "t.id = s.id").whenMatchedUpdateAll().run()
    source = spark.sql("SELECT 31000L AS id").alias("s")
    deletion = table.merge(source, "t.id = s.id").whenMatchedDelete().run()
    source = spark.sql("SELECT 25010L AS id").alias("s")
    return [all_columns, deletion, table.merge(source, "t.id = s.id").whenMatchedUpdate(set={"text": "'again'"}).run()]


@pytest.mark.parametrize("place", ["driver", "tasks"])
def test_the_report_counts_files_that_are_spliced_by_pages(spark: SparkSession, tmp_path: Path, place: str) -> None:
    limits = {"small_file_bytes": 0, "page_bytes": 0, **({"driver_write_bytes": -1} if place == "tasks" else {})}
    with using(**limits):
        reports = merged(spark, tmp_path / "paged")
        with conf(spark, {"spark.deltamerge.splice": "false"}):
            plain = merged(spark, tmp_path / "plain")
    assert [(report.paged_files, report.spliced_files) for report in reports] == [(1, 1)] * 3, reports
    assert reports[0].to_dict()["paged_files"] == 1
    assert [(report.paged_files, report.spliced_files) for report in plain] == [(0, 0)] * 3
    assert content(spark, tmp_path / "paged") == content(spark, tmp_path / "plain")


def test_little_that_stays_is_not_copied_by_pages(spark: SparkSession, tmp_path: Path) -> None:
    with using(small_file_bytes=0):
        reports = merged(spark, tmp_path / "t")
    assert [report.paged_files for report in reports] == [0] * 3
