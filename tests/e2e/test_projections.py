"""Columns that Spark computes of the source, so that rows are sent to tasks: the same rows as by a join, and errors as by it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import deltamerge
from deltamerge.errors import DeltaMergeError
from deltamerge.merge.execute.attempts import Ran
from deltamerge.spark.source.facts import Evaluation, Source
from deltamerge.tables import DeltaMergeBuilder, DeltaTable
from tests.e2e.exchanges import CHANGES, JOIN, PROJECTED, READ_BY_WORKERS, ROWS, SCHEMA, parquet
from tests.e2e.meanwhile import interrupting
from tests.e2e.tables import conf, content, make


@pytest.fixture(params=["held", "files"])
def changes(spark: SparkSession, tmp_path: Path, limit: Callable[..., None], request: pytest.FixtureRequest) -> DataFrame:
    """The source, collected or read while it is merged."""
    if request.param == "held":
        return spark.createDataFrame(CHANGES, SCHEMA).alias("s")
    limit(**READ_BY_WORKERS)
    return parquet(spark, tmp_path / "changes", CHANGES).alias("s")


def joined(
    spark: SparkSession, place: Path, changes: DataFrame, clauses: Callable[[DeltaMergeBuilder], DeltaMergeBuilder]
) -> list[tuple[Any, ...]]:
    """The rows after a merge by Spark's join."""
    with conf(spark, JOIN):
        clauses(make(spark, place, SCHEMA, ROWS, files=3).merge(changes, "t.k = s.k")).execute()
    return content(spark, place)


@pytest.mark.parametrize("name", PROJECTED)
def test_rows_are_those_of_a_join(
    spark: SparkSession, tmp_path: Path, changes: DataFrame, runs: list[Ran], apart: None, name: str, way: str
) -> None:
    merge = PROJECTED[name](make(spark, tmp_path / "t", SCHEMA, ROWS, files=3).merge(changes, "t.k = s.k"))
    previewed = merge.preview()
    report = merge.run()
    assert (report.strategy, previewed.strategy) == (f"{way}_exchange",) * 2
    counts = [(found.updated, found.deleted, found.inserted) for found in (previewed, report)]
    assert counts[0] == counts[1]
    assert sum(counts[0]) > 0
    assert content(spark, tmp_path / "t") == joined(spark, tmp_path / "joined", changes, PROJECTED[name])


def halves(merge: DeltaMergeBuilder) -> DeltaMergeBuilder:
    """Only new rows are divided by: none of them is 0."""
    return merge.whenMatchedUpdate(set={"w": "'old'"}).whenNotMatchedInsert(
        "100 / (s.v - 2) > 3", {"k": "s.k", "v": "100 / (s.v - 2)", "w": "upper(s.w)"}
    )


def test_an_error_of_rows_that_nobody_asks_about_is_none(
    spark: SparkSession, tmp_path: Path, changes: DataFrame, runs: list[Ran], apart: None, way: str
) -> None:
    """The row with which the division fails is matched, and no clause about matched rows divides."""
    with conf(spark, {"spark.sql.ansi.enabled": "true"}):
        report = halves(make(spark, tmp_path / "t", SCHEMA, ROWS, files=3).merge(changes, "t.k = s.k")).run()
        expected = joined(spark, tmp_path / "joined", changes, halves)
    assert report.strategy != f"{way}_exchange"
    assert content(spark, tmp_path / "t") == expected
    assert {row for row in expected if row[0] not in range(40)} == {(40, 100, "NEW"), (-1, 50, "NEW"), (None, 33, "NEW")}


def test_an_error_of_rows_that_count_is_the_join_s(
    spark: SparkSession, tmp_path: Path, changes: DataFrame, apart: None, way: str
) -> None:
    def fails(merge: DeltaMergeBuilder) -> DeltaMergeBuilder:
        return merge.whenMatchedUpdate(set={"v": "100 / (s.v - 2)"})

    found = []
    with conf(spark, {"spark.sql.ansi.enabled": "true"}):
        for settings in ({}, JOIN):
            table = make(spark, tmp_path / str(len(found)), SCHEMA, ROWS, files=3)
            with conf(spark, settings), pytest.raises(DeltaMergeError) as caught:
                fails(table.merge(changes, "t.k = s.k")).execute()
            found.append(caught.value.condition)
            assert content(spark, tmp_path / str(len(found) - 1)) == sorted(ROWS)
    assert found[0] == found[1] == "DIVIDE_BY_ZERO"


def test_a_merge_that_runs_again_has_the_columns(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sources: list[Source], apart: None, way: str
) -> None:
    """The source is kept from the first run."""
    table = make(spark, tmp_path / "t", SCHEMA, ROWS, files=3)
    other = DeltaTable.forPath(spark, str(tmp_path / "t"))
    merge = table.merge(spark.createDataFrame(CHANGES, SCHEMA).alias("s"), "t.k = s.k")
    merge = merge.whenMatchedUpdate("length(s.w) > 1", {"v": "t.v + s.v", "w": "upper(s.w)"}).retryConflicts(2)
    interrupting(monkeypatch, lambda: other.update("k = 3", {"v": "v + 100"}))
    assert merge.run().strategy == f"{way}_exchange"
    assert len(sources) == 1
    assert (3, 131, "W3") in content(spark, tmp_path / "t")


def test_of_the_latest_rows_columns_are_computed(
    spark: SparkSession, tmp_path: Path, runs: list[Ran], apart: None, way: str
) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS, files=3)
    changes = spark.createDataFrame([*CHANGES, (3, 7, "later")], SCHEMA).alias("s")
    merge = table.merge(changes, "t.k = s.k").keepLatest("s.v").whenMatchedUpdate(set={"w": "reverse(s.w)"})
    assert merge.run().strategy == f"{way}_exchange"
    assert (3, 30, "retal") in content(spark, tmp_path / "t")


@pytest.mark.classic
def test_a_source_is_read_twice_only_if_its_columns_stay_the_same(
    spark: SparkSession, tmp_path: Path, limit: Callable[..., None], sources: list[Source], apart: None
) -> None:
    """A function of the session may have the name of one of Spark's."""
    limit(**READ_BY_WORKERS)
    session = spark.newSession()
    session.conf.set("spark.deltamerge.strategy", "range_exchange")
    session.conf.set("spark.sql.functionResolution.sessionOrder", "first")
    parquet(spark, tmp_path / "changes", CHANGES)
    for number in range(2):
        make(spark, tmp_path / str(number), SCHEMA, ROWS, files=3)
        table = DeltaTable.forPath(session, str(tmp_path / str(number))).alias("t")
        changes = session.read.parquet(str(tmp_path / "changes")).alias("s")
        table.merge(changes, "t.k = s.k").whenMatchedUpdate(set={"w": "reverse(s.w)"}).execute()
        session.udf.register("reverse", F.udf(lambda text: text, "string").asNondeterministic())
    assert [source.facts.evaluation is Evaluation.DEFERRED for source in sources] == [True, False]


def test_values_are_cast_as_they_are_by_a_join(spark: SparkSession, tmp_path: Path, apart: None, way: str) -> None:
    rows = [(1, "ab", "2024-02-29", 7), (3, "xyz", "2023-01-31", -2)]
    changes = spark.createDataFrame(rows, "k long, w string, d string, v int").alias("s")
    values = {"c": "upper(s.w)", "x": "substring(s.w, 1, 2)", "n": "s.v * 1.256", "d": "to_date(s.d)", "a": "array(s.v, 0)"}
    found = []
    for settings in ({}, JOIN):
        place = str(tmp_path / str(len(found)))
        columns = "k bigint, c char(4), x varchar(3), n decimal(6,2), d date, a array<int>"
        deltamerge.sql(spark, f"CREATE TABLE delta.`{place}` ({columns}) USING delta")
        deltamerge.sql(
            spark, f"INSERT INTO delta.`{place}` VALUES (1, 'q', 'r', 1, null, null), (2, 'w', 's', 2, null, array(5))"
        )
        merge = DeltaTable.forPath(spark, place).alias("t").merge(changes, "t.k = s.k")
        merge = merge.whenMatchedUpdate(set=values).whenNotMatchedInsert("length(s.w) > 0", {"k": "s.k", **values})
        with conf(spark, settings):
            assert (merge.run().strategy == f"{way}_exchange") is (not settings)
        found.append(content(spark, Path(place)))
    assert found[0] == found[1]
    assert [row[1] for row in found[0]] == ["AB  ", "w   ", "XYZ "]
