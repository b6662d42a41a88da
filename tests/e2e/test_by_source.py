"""NOT MATCHED BY SOURCE: matched in Arrow where all rows of the files in question can be held, else joined by Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from deltamerge.merge.execute import broadcast
from deltamerge.spark.pyspark.adapter import estimated_bytes
from deltamerge.tables import DeltaMergeBuilder
from tests.e2e.tables import LARGE_SOURCES, conf, content, make, noted, source

SCHEMA = "k int, v int, w string"
ROWS = [(1, 10, "a"), (2, 20, "b"), (3, 30, "c"), (4, 40, "d"), (None, 50, "e")]


@pytest.fixture(params=[False, True], ids=["rewritten", "marked"])
def vectors(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(params=["held", "jobs", "too many", "too wide", "large", "join"])
def strategy(request: pytest.FixtureRequest, spark: SparkSession, limit: Callable[..., None]) -> object:
    """Where rows are matched: in this process, by tasks, by a join for four reasons. The name of the strategy."""
    if request.param == "jobs":
        limit(driver_match_bytes=-1, driver_write_bytes=-1)
    if request.param == "too many":
        limit(match_rows=2)
    if request.param == "too wide":
        limit(match_bytes=20)
    if request.param == "large":
        limit(**LARGE_SOURCES)
    with conf(spark, {"spark.deltamerge.strategy": "join" if request.param == "join" else "auto"}):
        yield "broadcast" if request.param in ("held", "jobs") else "spark_join"


def run(merge: DeltaMergeBuilder, strategy: str) -> None:
    assert merge.preview().strategy == strategy
    merge.execute()


def test_a_row_whose_partners_all_fail_the_condition_has_none(
    spark: SparkSession, tmp_path: Path, strategy: str, vectors: bool
) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS, vectors=vectors)
    changes = source(spark, "k int, v int", [(1, 5), (1, 15), (2, 5), (2, 6), (7, 70), (None, 99)])
    merge = table.merge(changes, "t.k = s.k AND s.v > t.v").whenMatchedUpdate(set={"v": "s.v"})
    merge = merge.whenNotMatchedInsert(values={"k": "s.k", "v": "s.v"}).whenNotMatchedBySourceDelete("t.k = 4")
    run(merge.whenNotMatchedBySourceUpdate("coalesce(k, 9) > 1", {"w": "concat(w, '!')", "v": "NULL"}), strategy)
    stayed = [(1, 15, "a"), (2, None, "b!"), (3, None, "c!"), (None, None, "e!")]
    inserted = [(1, 5, None), (2, 5, None), (2, 6, None), (7, 70, None), (None, 99, None)]
    assert sorted(content(spark, tmp_path / "t"), key=repr) == sorted([*stayed, *inserted], key=repr)


def test_all_rows_are_synchronized(spark: SparkSession, tmp_path: Path, strategy: str, vectors: bool) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS, vectors=vectors)
    table.delete("k = 3")
    changes = source(spark, SCHEMA, [(1, 11, "A"), (5, 55, "E"), (None, 51, "x")])
    merge = table.merge(changes, "t.k <=> s.k").whenMatchedUpdateAll().whenNotMatchedInsertAll()
    run(merge.whenNotMatchedBySourceDelete(), strategy)
    assert sorted(content(spark, tmp_path / "t"), key=repr) == sorted([(1, 11, "A"), (5, 55, "E"), (None, 51, "x")], key=repr)


def test_a_source_without_rows_leaves_all_without_partner(
    spark: SparkSession, tmp_path: Path, strategy: str, vectors: bool
) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS, vectors=vectors)
    merge = table.merge(source(spark, SCHEMA, []), "t.k = s.k").whenMatchedDelete()
    run(merge.whenNotMatchedBySourceUpdate("t.v < 40", {"v": "abs(v) + 1"}), strategy)
    expected = [(1, 11, "a"), (2, 21, "b"), (3, 31, "c"), (4, 40, "d"), (None, 50, "e")]
    assert sorted(content(spark, tmp_path / "t"), key=repr) == sorted(expected, key=repr)


def test_a_clause_sees_columns_named_like_the_alias_of_the_side_that_it_does_not(
    spark: SparkSession, tmp_path: Path, strategy: str, vectors: bool
) -> None:
    schema = "k int, s struct<x: int>"
    table = make(spark, tmp_path / "t", schema, [(1, (1,)), (2, (2,)), (3, (3,)), (4, (4,))], vectors=vectors)
    changes = source(spark, "k int, x int, t struct<x: int>", [(1, 9, (9,)), (7, 7, (8,))])
    merge = table.merge(changes, "t.k = s.k").whenNotMatchedInsert(values={"k": "t.x", "s": "named_struct('x', s.x)"})
    merge = merge.whenNotMatchedBySourceDelete("s.x = 2").whenNotMatchedBySourceUpdate("s.x = 3", {"k": "s.x + 10"})
    run(merge, strategy)
    assert content(spark, tmp_path / "t") == [(1, (1,)), (4, (4,)), (8, (7,)), (13, (3,))]


def test_a_size_that_spark_does_not_know_is_no_estimate(spark: SparkSession) -> None:
    assert (estimated_bytes(spark.createDataFrame(ROWS, SCHEMA)) or 0) < 1 << 50


@pytest.mark.parametrize("where", ["t.k >= 90", "t.k >= 90 AND t.w <> 'w95'", "t.k IN (91, 92, 93) OR t.k > 95"])
@pytest.mark.parametrize("process", ["here", "tasks"])
def test_only_rows_that_a_clause_may_change_are_brought_along(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    limit: Callable[..., None],
    vectors: bool,
    process: str,
    where: str,
) -> None:
    if process == "tasks":
        limit(driver_match_bytes=-1)
    limit(match_rows=20)
    found = noted(monkeypatch, broadcast, "match")
    rows = [(key, key, f"w{key}") for key in sorted(range(100), key=lambda key: key % 7)]
    changes = source(spark, SCHEMA, [(key, 1000, "new") for key in (3, 50, 90, 99, 200)])
    ends = []
    for strategy in ("auto", "join"):
        table = make(spark, tmp_path / strategy, SCHEMA, rows, files=3, vectors=vectors)
        with conf(spark, {"spark.deltamerge.strategy": strategy}):
            merge = table.merge(changes, "t.k = s.k").whenMatchedUpdateAll().whenNotMatchedInsertAll()
            merge.whenNotMatchedBySourceDelete(where).execute()
        ends.append(content(spark, tmp_path / strategy))
    assert ends[0] == ends[1]
    assert found[0] is not None
    assert found[0].scanned.num_rows < 15
