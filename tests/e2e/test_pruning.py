"""Files that a merge can leave closed: the funnel says so, and no row is missed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from deltamerge.log.replay.table import open_log
from deltamerge.merge.execute import multiple_matches
from deltamerge.merge.report import MergeReport
from deltamerge.spark.stages.target import file_tasks
from deltamerge.worker.scan.scan import FileTask, ScanSpec, scan_file
from deltamerge.worker.skipping.bloom import BloomFilter
from tests.e2e.tables import LARGE_SOURCES, content, make, noted, source

SCHEMA = "id int, day date, v string"
ROWS: list[tuple[Any, ...]] = [(n, None, f"v{n}") for n in range(30)]


def tasks_of(path: Path, version: int) -> list[FileTask]:
    """The files of a version as they are scanned."""
    snapshot = open_log(str(path)).snapshot(version)
    return file_tasks(snapshot, snapshot.files.table())


def opened(report: MergeReport) -> int:
    return report.funnel[-1].files


@pytest.mark.usefixtures("strategy")
def test_by_source_conditions_leave_files_closed(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS, files=3)
    changes = source(spark, "id int, v string", [(25, "new")])
    merge = table.merge(changes, "t.id = s.id").whenMatchedUpdate(set={"v": "s.v"})
    report = merge.whenNotMatchedBySourceUpdate("t.id < 3", {"v": "'old'"}).whenNotMatchedBySourceDelete("t.id = 5").run()
    assert (report.updated, report.deleted, opened(report)) == (4, 1, 2)
    expected = [(n, None, "old" if n < 3 else "new" if n == 25 else f"v{n}") for n in range(30) if n != 5]
    assert content(spark, tmp_path / "t") == expected


@pytest.mark.usefixtures("strategy")
def test_a_range_leaves_files_closed(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS, files=3)
    changes = source(spark, "low int, high int", [(11, 12), (15, 16)])
    report = table.merge(changes, "t.id BETWEEN s.low AND s.high").whenMatchedDelete().run()
    assert (report.deleted, opened(report)) == (4, 1)
    assert content(spark, tmp_path / "t") == [row for row in ROWS if row[0] not in (11, 12, 15, 16)]


@pytest.mark.parametrize("condition", ["t.id = s.id", "t.id >= s.id AND t.id <= s.id"])
def test_a_large_sources_bounds_leave_files_closed(
    spark: SparkSession, tmp_path: Path, limit: Callable[..., None], condition: str
) -> None:
    limit(**LARGE_SOURCES)
    table = make(spark, tmp_path / "t", SCHEMA, ROWS, files=3)
    changes = source(spark, "id int, v string", [(12, "x"), (17, "y"), (None, "z")])
    report = table.merge(changes, condition).whenMatchedUpdate(set={"v": "s.v"}).run()
    assert (report.updated, report.metrics["numSourceRows"], opened(report)) == (2, 3, 1)
    assert content(spark, tmp_path / "t")[12] == (12, None, "x")


def test_a_large_source_of_many_types(spark: SparkSession, tmp_path: Path, limit: Callable[..., None]) -> None:
    limit(**LARGE_SOURCES)
    schema = "d date, s string, t timestamp, x decimal(9,2), n timestamp_ntz"
    query = "DATE'{0}' d, '{0}' s, TIMESTAMP'{0}' t, CAST({1} AS DECIMAL(9,2)) x, TIMESTAMP_NTZ'{0}' n"
    years = ["1970-01-02", "2000-01-01", "9998-01-01"]
    rows = [tuple(spark.sql(f"SELECT {query.format(day, day[:4])}").first() or ()) for day in years]
    table = make(spark, tmp_path / "t", schema, rows, files=3)
    changes = spark.sql(f"SELECT {query.format(years[2], 9998)}").alias("s")
    on = "t.d = s.d AND t.s = s.s AND t.t = s.t AND t.x = s.x AND t.n = s.n"
    report = table.merge(changes, on).whenMatchedDelete().run()
    assert (report.deleted, opened(report)) == (1, 1)


@pytest.fixture
def large(limit: Callable[..., None]) -> None:
    """Every source counts as too large to be held."""
    limit(**LARGE_SOURCES)


@pytest.fixture
def scanned(monkeypatch: pytest.MonkeyPatch) -> list[ScanSpec]:
    """How the target is scanned for Spark's join, merge by merge."""
    return noted(monkeypatch, multiple_matches, "scan_spec")


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize(
    ("condition", "columns"),
    [
        ("t.id = s.id", ("id",)),
        ("t.id = s.id AND t.day <=> s.day", ("id", "day")),
        ("t.id <=> s.id AND t.v = s.old", ("id",)),  # texts are not hashed
    ],
)
def test_rows_that_a_large_source_can_not_match_do_not_reach_spark(
    spark: SparkSession, tmp_path: Path, scanned: list[ScanSpec], condition: str, columns: tuple[str, ...]
) -> None:
    rows = [*ROWS, (None, None, "null")]
    table = make(spark, tmp_path / "t", SCHEMA, rows, files=3)
    given = [(12, None, "v12", "x"), (17, None, "v17", "y"), (99, None, "v99", "new"), (None, None, "null", "z")]
    changes = source(spark, "id long, day date, old string, v string", given)
    merge = table.merge(changes, condition).whenMatchedUpdate(set={"v": "s.v"})
    report = merge.whenNotMatchedInsert(values={"id": "s.id", "v": "s.v"}).run()
    safe = "t.id <=>" in condition
    assert (report.updated, report.inserted) == (3, 1) if safe else (2, 2)
    (spec,) = scanned
    assert isinstance(spec.keys, BloomFilter)
    assert spec.keys.columns == columns
    assert 2 <= sum(batch.num_rows for task in tasks_of(tmp_path / "t", 2) for batch in scan_file(spec, task)) <= 5
    new = [(12, None, "x"), (17, None, "y"), (99, None, "new"), (None, None, "z")] + ([] if safe else [(None, None, "null")])
    expected = [row for row in ROWS if row[0] not in (12, 17)] + new
    assert sorted(content(spark, tmp_path / "t"), key=repr) == sorted(expected, key=repr)


@pytest.mark.usefixtures("large")
def test_a_filter_that_does_not_pay_or_would_be_wrong_is_not_made(
    spark: SparkSession, tmp_path: Path, scanned: list[ScanSpec]
) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS, files=3)
    few = source(spark, "id int, v string", [(1, "a")])
    table.merge(few, "t.id = s.id").whenMatchedUpdate(set={"v": "s.v"}).whenNotMatchedBySourceUpdate(
        "t.id > 28", {"v": "lower('Z')"}
    ).run()
    table.merge(few, "t.v = s.v").whenMatchedDelete(condition="abs(t.id) < 0").run()
    table.merge(few, "t.id = s.id + 1").whenMatchedDelete(condition="abs(t.id) < 0").run()
    many = source(spark, "id int, v string", [(n, "a") for n in range(20)])
    table.merge(many, "t.id = s.id").whenMatchedDelete(condition="abs(t.id) < 0").run()
    assert [spec.keys for spec in scanned] == [None] * 4
    assert content(spark, tmp_path / "t")[1] == (1, None, "a")
    assert content(spark, tmp_path / "t")[29] == (29, None, "z")
