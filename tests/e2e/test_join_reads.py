"""Statements that read more than the rows which they match, beside others that change different rows of their files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

import deltamerge
from deltamerge.exceptions import ConcurrentAppendException, DeltaMergeError
from deltamerge.tables import DeltaTable
from tests.e2e.meanwhile import interrupting
from tests.e2e.tables import content, make, source, version

SCHEMA = "id int, v string, n int"
ROWS = [(number, f"row {number}", number * 10) for number in range(20)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t"


@pytest.mark.parametrize("vectors", [True, False])
@pytest.mark.parametrize("files", [1, 2])
def test_rows_that_a_by_source_clause_looks_for_are_seen_beside_a_condition_about_the_target(
    spark: SparkSession, path: Path, monkeypatch: pytest.MonkeyPatch, vectors: bool, files: int
) -> None:
    """The condition is not true for the new row, the clause deletes it."""
    table = make(spark, path, SCHEMA, ROWS, vectors=vectors, files=files)
    other = DeltaTable.forPath(spark, str(path)).alias("t")
    new = other.merge(source(spark, SCHEMA, [(3, "w", 5), (50, "w", 5)]), "t.id = s.id").whenNotMatchedInsertAll()
    merge = table.merge(source(spark, SCHEMA, [(1, "x", 1)]), "t.n > 150").whenMatchedUpdate(set={"v": "'x'"})
    merge = merge.whenNotMatchedBySourceDelete("t.n >= 0 AND t.n <= 60")
    interrupting(monkeypatch, new.execute)
    with pytest.raises(ConcurrentAppendException):
        merge.execute()
    assert content(spark, path) == sorted([*ROWS, (50, "w", 5)])
    merge.execute()
    assert content(spark, path) == [(id, "x" if n > 150 else v, n) for id, v, n in ROWS if n > 60]


@pytest.mark.parametrize("statement", ["update", "merge"])
@pytest.mark.parametrize("others", ["id = 1", "id BETWEEN 5 AND 19"])
def test_a_value_that_asks_a_query_is_not_taken_for_that_of_another_version(
    spark: SparkSession, path: Path, monkeypatch: pytest.MonkeyPatch, statement: str, others: str
) -> None:
    """The other transaction marks a row of the file, or writes it again, and the query would find what it has written."""
    table = make(spark, path, SCHEMA, ROWS, vectors=True)
    DeltaTable.forPath(spark, str(path)).toDF().createOrReplaceTempView("before_others")
    value = {"n": "(SELECT max(n) FROM before_others)"}
    run: dict[str, Callable[[], object]] = {
        "update": lambda: table.update("id = 3", value),
        "merge": lambda: table.merge(source(spark, "id int", [(3,)]), "t.id = s.id").whenMatchedUpdate(set=value).execute(),
    }
    interrupting(monkeypatch, lambda: DeltaTable.forPath(spark, str(path)).update(others, {"n": "n + 100000"}))
    try:
        with pytest.raises(ConcurrentAppendException):
            run[statement]()
    finally:
        spark.catalog.dropTempView("before_others")
    assert version(path) == 1


def refused_after_a_change(
    spark: SparkSession, path: Path, patch: pytest.MonkeyPatch, moment: str, run: Callable[[], object]
) -> None:
    """A statement is refused, before or while it runs, as another transaction has changed a row that its query has read."""
    before = version(path)

    def change() -> None:
        DeltaTable.forPath(spark, str(path)).update("id = 15", {"n": "100000"})

    if moment == "before":
        change()
    else:
        interrupting(patch, change)
    with pytest.raises(ConcurrentAppendException, match="Read the table again"):
        run()
    assert version(path) == before + 1


@pytest.mark.parametrize("statement", ["update", "merge", "sql"])
@pytest.mark.parametrize("moment", ["before", "meanwhile"])
def test_a_value_that_asks_a_query_is_not_taken_for_that_of_other_files_before(
    spark: SparkSession, path: Path, monkeypatch: pytest.MonkeyPatch, statement: str, moment: str
) -> None:
    """The other transaction changes a file that the statement does not read, and the query of its value does."""
    table = make(spark, path, SCHEMA, ROWS, files=2)
    query = "(SELECT max(n) FROM seen_rows)"
    new_source = source(spark, "id int", [(3,)])
    run: dict[str, Callable[[], object]] = {
        "update": lambda: table.update("id = 3", {"n": query}),
        "merge": lambda: table.merge(new_source, "t.id = s.id").whenMatchedUpdate(set={"n": query}).retryConflicts(3).execute(),
        "sql": lambda: deltamerge.sql(spark, f"UPDATE delta.`{path}` SET n = {query} WHERE id = 3"),
    }

    DeltaTable.forPath(spark, str(path)).toDF().createOrReplaceTempView("seen_rows")
    try:
        refused_after_a_change(spark, path, monkeypatch, moment, run[statement])
        DeltaTable.forPath(spark, str(path)).toDF().createOrReplaceTempView("seen_rows")
        run[statement]()
    finally:
        spark.catalog.dropTempView("seen_rows")
    assert content(spark, path)[3] == (3, "row 3", 100000)


@pytest.mark.parametrize("form", ["scalar", "case", "cast"])
@pytest.mark.parametrize("moment", ["before", "meanwhile"])
def test_a_query_within_a_column_has_read_the_rows_of_its_frame(
    spark: SparkSession, path: Path, monkeypatch: pytest.MonkeyPatch, form: str, moment: str
) -> None:
    table = make(spark, path, SCHEMA, ROWS, vectors=True)

    def value() -> Column:
        rows = DeltaTable.forPath(spark, str(path)).toDF()
        rows.createOrReplaceTempView("seen_rows")
        largest = rows.select(F.max("n")).scalar() if form != "cast" else F.expr("(SELECT max(n) FROM seen_rows)")
        return {"scalar": largest, "case": F.when(F.col("id") > 0, largest).otherwise(0), "cast": largest.cast("int")}[form]

    old = value()
    try:
        refused_after_a_change(spark, path, monkeypatch, moment, lambda: table.update("id = 3", {"n": old}))
        table.update("id = 3", {"n": value()})
    finally:
        spark.catalog.dropTempView("seen_rows")
    assert content(spark, path)[3] == (3, "row 3", 100000)


def test_a_query_within_the_column_of_a_condition_is_refused(spark: SparkSession, path: Path) -> None:
    table = make(spark, path, SCHEMA, ROWS)
    largest = table.toDF().select(F.max("n")).scalar()
    for condition in (F.col("n") == largest, F.col("n") == F.when(F.col("id") > 0, largest).otherwise(0)):
        with pytest.raises(DeltaMergeError, match="DELTA_UNSUPPORTED_SUBQUERY"):
            table.delete(condition)


@pytest.mark.parametrize("called", ["doubled(n)", "abs(n)"])
def test_a_function_of_the_session_may_read_tables(
    spark: SparkSession, path: Path, monkeypatch: pytest.MonkeyPatch, called: str
) -> None:
    table = make(spark, path, SCHEMA, ROWS, vectors=True)
    spark.udf.register("doubled", lambda n: n, "int")
    interrupting(monkeypatch, lambda: DeltaTable.forPath(spark, str(path)).delete("id = 1"))
    if called == "abs(n)":
        table.update("id = 3", {"n": called})
        assert version(path) == 2
        return
    with pytest.raises(ConcurrentAppendException):
        table.update("id = 3", {"n": called})


def test_one_commit_that_marks_rows_and_writes_a_file_again_lets_a_statement_run_again(
    spark: SparkSession, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks for rows of both files, and finds them as they were."""
    table = make(spark, path, SCHEMA, ROWS, files=2, vectors=True)
    before = version(path)
    winner = "id = 4 OR id BETWEEN 10 AND 14 OR id BETWEEN 16 AND 18"
    interrupting(monkeypatch, lambda: DeltaTable.forPath(spark, str(path)).delete(winner))
    table.delete("id IN (3, 15)")
    assert [row[0] for row in content(spark, path)] == [0, 1, 2, 5, 6, 7, 8, 9, 19]
    assert version(path) == before + 2
