"""Sources that are too large to be collected, and small beside the table: read while they are merged, or evaluated after all."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import deltamerge
from deltamerge.budgets import using
from deltamerge.merge import line
from deltamerge.spark.source import parquet_files
from deltamerge.spark.source.facts import Evaluation, Source
from deltamerge.tables import DeltaTable
from deltamerge.worker.join import range_join
from tests.e2e.exchanges import CHANGED, LEGAL, ROWS, SCHEMA, parquet
from tests.e2e.tables import LARGE_SOURCES, conf, content, make
from tests.live import ship_live_code

DAY = date(2024, 2, 27)


@pytest.fixture
def small(limit: Callable[..., None], apart: None) -> None:
    """Every source is too large to be collected, and small beside the table."""
    limit(**LARGE_SOURCES, deferred_share=1e9)


FEW = [(3, 1, "w3"), (5, 2, "y"), (None, 5, "new"), (12, 2, "y"), (-1, 4, "new")]


def upserted(rows: list[tuple[Any, ...]], changes: list[tuple[Any, ...]]) -> list[str]:
    """The rows of a table after an upsert, by their text."""
    return sorted(str(row) for row in ({row[0]: row for row in rows} | {row[0]: row for row in changes}).values())


@pytest.mark.classic
def test_a_source_that_is_small_beside_the_table_goes_straight_to_its_files(
    spark: SparkSession, tmp_path: Path, sources: list[Source], small: None
) -> None:
    changes = parquet(spark, tmp_path / "changes", FEW).alias("s")

    def merged(name: str, rows: list[tuple[Any, ...]] = ROWS, **limits: int) -> str:
        table = make(spark, tmp_path / name, SCHEMA, rows, files=3)
        with using(**limits):
            report = LEGAL["upsert"](table.merge(changes, "t.k = s.k")).run()
        assert sorted(str(row) for row in content(spark, tmp_path / name)) == upserted(ROWS, FEW)
        assert report.metrics["numSourceRows"] == len(FEW)
        assert [step.files for step in report.funnel] == [3, 3, 3 if name == "mixed" else 1]
        return f"{sources[-1].facts.evaluation.value}, {report.strategy}"

    assert merged("apart") == "deferred, range_exchange"
    row = sources[-1].bytes // len(FEW)
    fewer = len(ROWS) // 3 - 1  # than a file has
    assert merged("as many changes as can be held", exchange_task_rows_bytes=fewer * row) == "deferred, range_exchange"
    assert merged("too many changes", exchange_task_rows_bytes=(len(FEW) - 1) * row) == "materialized, spark_join"
    assert merged("mixed", sorted(ROWS, key=lambda row: row[0] % 7)) == "materialized, spark_join"
    with conf(spark, {"spark.deltamerge.conflictRetries": "1"}):
        assert merged("may run again").startswith("materialized")


@pytest.mark.classic
@pytest.mark.parametrize("name", ["told by no file", "another type", "ancient", "without a key", "another machine"])
def test_a_source_whose_files_do_not_tell_its_bounds_is_materialized(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sources: list[Source], small: None, name: str
) -> None:
    if name == "another machine":
        monkeypatch.setattr(parquet_files, "is_here", lambda session: False)
    key = pa.array([3, 5], pa.int32() if name == "another type" else pa.int64())
    rows = {"k": key, "v": pa.array([1, 2], pa.int32()), "w": ["a", "b"], "d": pa.array([-200_000, 3], pa.date32())}
    (tmp_path / "changes").mkdir()
    pq.write_table(pa.table(rows), tmp_path / "changes/a.parquet", write_statistics=name != "told by no file")
    made = [(n, n, f"w{n}", DAY + timedelta(days=n)) for n in range(40)]
    make(spark, tmp_path / "t", f"{SCHEMA}, d date", made, files=3)
    source = spark.read.schema(f"{SCHEMA}, d date").parquet(str(tmp_path / "changes")).alias("s")
    pair = {"ancient": "t.d = s.d", "without a key": "t.w = s.w"}.get(name, "t.k = s.k")
    merge = DeltaTable.forPath(spark, str(tmp_path / "t")).alias("t").merge(source, pair)
    merge.whenMatchedUpdate(set={"v": "s.v"}).execute()
    assert len(content(spark, tmp_path / "t")) == 40
    assert sources[-1].facts.evaluation is Evaluation.MATERIALIZED


@pytest.mark.classic
@pytest.mark.parametrize("why", ["another file", "too much"])
def test_a_source_that_can_not_be_deferred_after_all_is_evaluated_by_spark(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    limit: Callable[..., None],
    sources: list[Source],
    small: None,
    why: str,
) -> None:
    place = tmp_path / "changes.parquet"
    limit(exchange_buffer_bytes=-1 if why == "too much" else 1 << 29)

    def write(rows: list[tuple[Any, ...]], time: int) -> None:
        """The rows in a file that is as long whatever the numbers are."""
        table = pa.Table.from_pylist([dict(zip("kvw", row, strict=True)) for row in rows], CHANGED)
        pq.write_table(table, place, compression="none", use_dictionary=False)
        os.utime(place, (time, time))

    write(FEW, 1_700_000_000)
    moved = [(row[0] and row[0] + 25, *row[1:]) for row in FEW]
    changes = spark.read.parquet(str(place)).alias("s")
    make(spark, tmp_path / "t", SCHEMA, ROWS, files=3)
    run_attempts = line.run_attempts

    def later(*given: Any) -> Any:
        monkeypatch.setattr(line, "run_attempts", run_attempts)
        if why == "another file":
            write(moved, 1_700_000_009)
        else:
            ship_live_code(monkeypatch)
            monkeypatch.setattr(range_join, "matches_of", None)  # it is refused before
        return run_attempts(*given)

    monkeypatch.setattr(line, "run_attempts", later)
    LEGAL["upsert"](DeltaTable.forPath(spark, str(tmp_path / "t")).alias("t").merge(changes, "t.k = s.k")).execute()
    expected = moved if why == "another file" else FEW
    assert [source.facts.evaluation.value for source in sources] == ["deferred", "materialized"]
    assert sorted(str(row) for row in content(spark, tmp_path / "t")) == upserted(ROWS, expected)


@pytest.mark.classic
def test_commits_beyond_a_deferred_source_s_keys_are_no_conflict(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sources: list[Source], small: None
) -> None:
    changes = parquet(spark, tmp_path / "changes", FEW).alias("s")
    make(spark, tmp_path / "t", SCHEMA, ROWS, files=3)
    run_attempts = line.run_attempts

    def later(*given: Any) -> Any:
        monkeypatch.setattr(line, "run_attempts", run_attempts)
        deltamerge.write(spark.createDataFrame([(1000, 0, "far")], SCHEMA), str(tmp_path / "t"), mode="append")
        DeltaTable.forPath(spark, str(tmp_path / "t")).delete("k = 39")
        return run_attempts(*given)

    monkeypatch.setattr(line, "run_attempts", later)
    LEGAL["upsert"](DeltaTable.forPath(spark, str(tmp_path / "t")).alias("t").merge(changes, "t.k = s.k")).execute()
    assert sources[0].facts.evaluation is Evaluation.DEFERRED
    found = sorted(str(row) for row in content(spark, tmp_path / "t"))
    assert found == upserted([*ROWS[:-1], (1000, 0, "far")], FEW)
