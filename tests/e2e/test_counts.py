"""Merges may not come to cost more than they do: a table of upper bounds, each number counted, none of them a time.

A number that falls may be written down here; one that rises needs a reason. The table has 16 files of 2,000 rows in four
row groups, 24 columns, and a warm snapshot; the source is a Parquet file, which is read in the driver, without a job. The log is
listed, and before the commit asked whether it is still that of the same table.
"""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Callable
from pathlib import Path

import pytest
from benchmarks.cases import CDC, FEED, ONE, PARTIAL, PARTITIONS, RANGE, SYNC, SYNC_RANGE, BenchCase, Clause, insert, upsert
from benchmarks.data import KEYS, Shape
from benchmarks.engines import merge_of
from benchmarks.tables import fresh_copy, table_path
from pyspark.sql import SparkSession

import deltamerge
from deltamerge.tables import DeltaTable
from tests.e2e.counting import Counts, Ledger, rises

SHAPE = Shape(32_000, group_rows=500)
PARTITIONED = Shape(32_000, group_rows=500, layout="partitioned")
UPSERT = upsert(ONE, 0.1, 0.1)
WIDE = upsert(1.0, 0.01, 0.001)
DELETE = BenchCase("delete", (Clause("delete"),), ONE, 0.05, 0, 4 / 16)
INSERT = insert(0.05, several=False)
NO_MATCH = BenchCase("update of nothing", (Clause("update"),), ONE, 0, 0.1, 4 / 16)

pytestmark = pytest.mark.local(reason="what is opened and read is counted on a disk")

# Where files are read and written: in the driver, which does so for small tables, by the jobs of large ones, or by a join.
HERE, JOBS, JOIN = "driver", "jobs", "join"
REWRITE, MARK = "rewrite", "mark"

# fmt: off
BOUNDS = [
    # jobs, opened, groups, chunks, KiB read, files, KiB written, requests to the log
    (UPSERT, HERE, REWRITE, Counts(0, 2, 4, 96, 391, 2, 226, 2)),
    (UPSERT, HERE, MARK, Counts(0, 1, 4, 8, 79, 2, 47, 2)),
    (UPSERT, JOBS, REWRITE, Counts(2, 2, 4, 96, 391, 2, 226, 2)),
    (UPSERT, JOBS, MARK, Counts(2, 1, 4, 8, 79, 2, 47, 2)),
    (UPSERT, JOIN, REWRITE, Counts(3, 2, 4, 96, 391, 2, 226, 2)),
    (UPSERT, JOIN, MARK, Counts(3, 1, 4, 8, 79, 3, 54, 2)),
    (WIDE, HERE, REWRITE, Counts(0, 32, 64, 1536, 6255, 17, 3183, 2)),
    (WIDE, HERE, MARK, Counts(0, 16, 64, 128, 1257, 2, 44, 2)),
    (WIDE, JOBS, REWRITE, Counts(2, 32, 64, 1536, 6255, 17, 3183, 2)),
    (WIDE, JOBS, MARK, Counts(2, 16, 64, 128, 1257, 2, 44, 2)),
    (WIDE, JOIN, REWRITE, Counts(3, 32, 64, 1536, 6255, 17, 3183, 2)),
    (WIDE, JOIN, MARK, Counts(3, 16, 64, 128, 1257, 4, 56, 2)),
    (DELETE, HERE, REWRITE, Counts(0, 2, 4, 96, 391, 1, 189, 2)),
    (DELETE, HERE, MARK, Counts(0, 1, 4, 8, 79, 1, 1, 2)),
    (DELETE, JOBS, REWRITE, Counts(2, 2, 4, 96, 391, 1, 189, 2)),
    (DELETE, JOBS, MARK, Counts(2, 1, 4, 8, 79, 1, 1, 2)),
    (DELETE, JOIN, REWRITE, Counts(3, 2, 4, 96, 391, 1, 189, 2)),
    (DELETE, JOIN, MARK, Counts(3, 1, 4, 8, 79, 1, 1, 2)),
    (INSERT, HERE, REWRITE, Counts(0, 1, 4, 8, 79, 1, 17, 2)),
    (INSERT, HERE, MARK, Counts(0, 1, 4, 8, 79, 1, 17, 2)),
    (INSERT, JOBS, REWRITE, Counts(2, 1, 4, 8, 79, 1, 17, 2)),
    (INSERT, JOBS, MARK, Counts(2, 1, 4, 8, 79, 1, 17, 2)),
    (INSERT, JOIN, REWRITE, Counts(3, 1, 4, 8, 79, 1, 17, 2)),
    (INSERT, JOIN, MARK, Counts(3, 1, 4, 8, 79, 1, 17, 2)),
    (NO_MATCH, HERE, REWRITE, Counts(0, 1, 4, 8, 79, 0, 0, 2)),
    (NO_MATCH, HERE, MARK, Counts(0, 1, 4, 8, 79, 0, 0, 2)),
    (PARTIAL, HERE, REWRITE, Counts(0, 16, 32, 768, 3155, 8, 1587, 2)),
    (PARTIAL, HERE, MARK, Counts(0, 8, 32, 736, 3104, 2, 24, 2)),
    (PARTIAL, JOBS, MARK, Counts(3, 8, 32, 736, 3104, 2, 24, 2)),
    (CDC, HERE, REWRITE, Counts(0, 2, 4, 96, 391, 2, 212, 2)),
    (CDC, HERE, MARK, Counts(0, 1, 4, 8, 79, 2, 33, 2)),
    (RANGE, HERE, REWRITE, Counts(0, 2, 4, 96, 392, 1, 199, 2)),
    (RANGE, HERE, MARK, Counts(0, 2, 4, 92, 388, 2, 21, 2)),
    (SYNC, HERE, REWRITE, Counts(0, 32, 64, 1536, 6255, 2, 3041, 2)),
    (SYNC, HERE, MARK, Counts(0, 16, 64, 128, 1257, 2, 40, 2)),
    (SYNC, JOIN, REWRITE, Counts(4, 32, 64, 1536, 6255, 17, 3183, 2)),
    (SYNC, JOIN, MARK, Counts(4, 16, 64, 128, 1257, 2, 41, 2)),
    (SYNC_RANGE, HERE, REWRITE, Counts(0, 2, 4, 96, 391, 1, 182, 2)),
    (SYNC_RANGE, HERE, MARK, Counts(0, 2, 4, 8, 143, 1, 182, 2)),
    (SYNC_RANGE, JOIN, REWRITE, Counts(4, 17, 64, 216, 1569, 2, 188, 2)),
    (SYNC_RANGE, JOIN, MARK, Counts(4, 17, 64, 128, 1321, 2, 188, 2)),
    (FEED, HERE, REWRITE, Counts(0, 2, 4, 96, 391, 4, 298, 2)),
    (FEED, HERE, MARK, Counts(0, 2, 4, 96, 391, 3, 112, 2)),
    (PARTITIONS, HERE, REWRITE, Counts(0, 4, 8, 192, 782, 4, 451, 2)),
    (PARTITIONS, HERE, MARK, Counts(0, 2, 8, 16, 158, 3, 93, 2)),
]
# fmt: on


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the tables lie of which each merge gets a copy."""
    return tmp_path_factory.mktemp("counts")


@pytest.mark.parametrize(
    ("case", "where", "way", "bounds"), [pytest.param(*row, id=f"{row[0].slug}-{row[1]}-{row[2]}") for row in BOUNDS]
)
def test_a_merge_costs_no_more(
    spark: SparkSession,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    limit: Callable[..., None],
    case: BenchCase,
    where: str,
    way: str,
    bounds: Counts,
) -> None:
    shape = PARTITIONED if case is PARTITIONS else SHAPE
    fresh_copy(table_path(folder, shape), shape, tmp_path / "table", way == MARK, case.feed)
    if where == JOBS:
        limit(driver_match_bytes=-1, driver_write_bytes=-1)
    table = DeltaTable.forPath(spark, str(tmp_path / "table"))
    source = spark.read.parquet(str(case.batch(folder / "batches", shape)))
    merge = merge_of(table, source, case, shape)
    merge.explain()
    ledger = Ledger(spark, tmp_path, tmp_path / "table")
    spark.conf.set("spark.deltamerge.strategy", "join" if where == JOIN else "auto")
    try:
        with ledger.open(monkeypatch):
            merge.execute()
    finally:
        spark.conf.unset("spark.deltamerge.strategy")
    found = ledger.counts()
    assert found.requests, "nothing was counted"
    assert not rises(found, bounds)


# Changes by conditions that Arrow evaluates, by one that Spark does, and of all rows.
CHANGES = [
    ("DELETE FROM {t} WHERE {k} % 100 = 7", MARK, Counts(0, 16, 64, 64, 1087, 1, 1, 2)),
    ("DELETE FROM {t} WHERE {k} % 100 = 7", REWRITE, Counts(0, 32, 64, 1536, 6085, 2, 3009, 2)),
    ("UPDATE {t} SET {v} = {v} + 1 WHERE {k} % 100 = 7", MARK, Counts(0, 32, 64, 1536, 6085, 2, 39, 2)),
    ("DELETE FROM {t} WHERE {k} + 0 = 7", MARK, Counts(3, 16, 64, 64, 1087, 1, 1, 2)),
    ("DELETE FROM {t}", MARK, Counts(0, 0, 0, 0, 0, 0, 0, 2)),
]


@pytest.mark.parametrize(("text", "way", "bounds"), CHANGES, ids=[f"{text} {way}" for text, way, _ in CHANGES])
def test_a_change_by_a_condition_costs_no_more(
    spark: SparkSession, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, way: str, bounds: Counts
) -> None:
    fresh_copy(table_path(folder, SHAPE), SHAPE, tmp_path / "table", way == MARK, False)
    table = DeltaTable.forPath(spark, str(tmp_path / "table"))
    assert table.toDF().count()
    statement = text.format(t=f"delta.`{tmp_path / 'table'}`", k=KEYS[0], v="wr_amt_0")
    ledger = Ledger(spark, tmp_path, tmp_path / "table")
    with ledger.open(monkeypatch):
        deltamerge.sql(spark, statement)
    found = ledger.counts()
    assert found.requests, "nothing was counted"
    assert not rises(found, bounds)


def test_planning_takes_time_in_proportion_to_the_columns(spark: SparkSession, tmp_path: Path) -> None:
    few, many = (_calls_to_explain(spark, tmp_path / str(columns), columns) for columns in (150, 600))
    assert many < 5 * few  # 4 times the columns; where each looked through all others, more than 10


def _calls_to_explain(spark: SparkSession, path: Path, columns: int) -> int:
    """How many Python functions are called to plan a merge of all columns."""
    rows = spark.range(1).selectExpr("id", *(f"id AS c{number}" for number in range(columns)))
    deltamerge.write(rows, str(path))
    merge = DeltaTable.forPath(spark, str(path)).alias("t").merge(rows.alias("s"), "t.id = s.id AND t.c1 = s.c1")
    merge = merge.whenMatchedUpdateAll().whenNotMatchedInsertAll()
    merge.explain()
    profile = cProfile.Profile()
    profile.runcall(merge.explain)
    calls: int = pstats.Stats(profile).total_calls  # type: ignore[attr-defined]
    return calls


@pytest.mark.classic
@pytest.mark.parametrize(("case", "most"), [(UPSERT, 65), (CDC, 90)])
def test_a_small_merge_makes_few_calls_of_the_jvm(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: BenchCase, most: int
) -> None:
    """Whatever its columns: those of CDC's clauses are named one by one."""
    from py4j import clientserver  # a PySpark that is a client only has none

    source, shape = case.batch(tmp_path, SHAPE), SHAPE
    fresh_copy(table_path(tmp_path, shape), shape, tmp_path / "t", False, False)
    sent: list[str] = []
    send = clientserver.JavaClient.send_command

    def counted(self: object, command: str, *rest: object, **named: object) -> object:
        sent.append(command.split("\n", 1)[0])
        return send(self, command, *rest, **named)

    def merged() -> None:
        table = DeltaTable.forPath(spark, str(tmp_path / "t"))
        merge_of(table, spark.read.parquet(str(source)), case, shape).execute().collect()

    merged()
    monkeypatch.setattr(clientserver.JavaClient, "send_command", counted)
    merged()
    assert len([kind for kind in sent if kind != "m"]) <= most  # objects that are given back don't count: when, is up to Python
