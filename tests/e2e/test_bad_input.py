"""A wrong merge ends in an error that names what is wrong and how to go on; the table's files stay as they were.

What can be known without a job is refused before one: those merges have a source that fails when it is evaluated.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import (
    AnalysisException,
    ArithmeticException,
    DateTimeException,
    IllegalArgumentException,
    NumberFormatException,
    ParseException,
    SparkRuntimeException,
    UnsupportedOperationException,
)
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from deltamerge.budgets import DEFAULTS
from deltamerge.exceptions import DeltaMultipleMatchException
from deltamerge.spark.pyspark.adapter import estimated_bytes
from deltamerge.tables import DeltaMergeBuilder, DeltaTable
from tests.e2e.refusals import refused
from tests.e2e.tables import conf, make, source

Build = Callable[[DeltaTable, DataFrame], DeltaMergeBuilder]
SCHEMA = "id int, name string, n int, d date"
ON = "t.id = s.id"
DAY = date(2020, 1, 1)


@pytest.fixture(scope="module")
def path(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table that the tests share, since none of them changes it."""
    folder = tmp_path_factory.mktemp("bad") / "t"
    make(spark, folder, SCHEMA, [(1, "a", 10, DAY), (2, "b", 20, DAY), (3, "c", 30, None)])
    return folder


@pytest.fixture
def table(spark: SparkSession, path: Path) -> DeltaTable:
    return DeltaTable.forPath(spark, str(path)).alias("t")


UNKNOWN: dict[str, tuple[Build, str, str, str]] = {
    "ON": (lambda t, s: t.merge(s, "t.id = s.idd").whenMatchedDelete(), "s.idd", "search condition", "s.id?"),
    "ON as Column": (
        lambda t, s: t.merge(s, F.col("t.id") == F.col("s.idd")).whenMatchedDelete(),
        "s.idd",
        "search condition",
        "s.id?",
    ),
    "SET target": (lambda t, s: t.merge(s, ON).whenMatchedUpdate(set={"nam": "s.name"}), "nam", "UPDATE clause", "t.name?"),
    "SET value": (lambda t, s: t.merge(s, ON).whenMatchedUpdate(set={"name": "s.nam"}), "s.nam", "UPDATE clause", "s.name?"),
    "SET value in a call": (
        lambda t, s: t.merge(s, ON).whenMatchedUpdate(set={"name": "concat(t.name, upper(s.nam))"}),
        "s.nam",
        "UPDATE clause",
        "s.name?",
    ),
    "VALUES target": (lambda t, s: t.merge(s, ON).whenNotMatchedInsert(values={"nam": "'x'"}), "nam", "INSERT clause", "t.name?"),
    "VALUES value": (
        lambda t, s: t.merge(s, ON).whenNotMatchedInsert(values={"name": F.col("s.nam")}),
        "s.nam",
        "INSERT clause",
        "s.name?",
    ),
    "VALUES of the target": (
        lambda t, s: t.merge(s, ON).whenNotMatchedInsert(values={"name": "t.name"}),
        "t.name",
        "INSERT clause",
        "s.name?",
    ),
    "MATCHED condition": (
        lambda t, s: t.merge(s, ON).whenMatchedDelete("s.nn > 1"),
        "resolve s.nn in",
        "DELETE condition",
        "s.n?",
    ),
    "after a condition of wrong types": (
        lambda t, s: t.merge(s, "t.id = s.id AND t.n = array(s.n)").whenMatchedDelete("s.nn > 1"),
        "resolve s.nn in",
        "DELETE condition",
        "s.n?",
    ),
    "NOT MATCHED condition on the target": (
        lambda t, s: t.merge(s, ON).whenNotMatchedInsertAll("t.name = 'x'"),
        "resolve t.name in",
        "INSERT condition",
        "s.name?",
    ),
    "BY SOURCE condition on the source": (
        lambda t, s: t.merge(s, ON).whenNotMatchedBySourceDelete("s.name = 'x'"),
        "resolve s.name in",
        "DELETE condition",
        "t.name?",
    ),
    "BY SOURCE target": (
        lambda t, s: t.merge(s, ON).whenNotMatchedBySourceUpdate(set={"nam": "name"}),
        "nam",
        "UPDATE clause",
        "t.name?",
    ),
    "BY SOURCE value of the source": (
        lambda t, s: t.merge(s, ON).whenNotMatchedBySourceUpdate(set={"name": "s.name"}),
        "s.name",
        "UPDATE clause",
        "t.name?",
    ),
    "star": (lambda t, s: t.merge(s.drop("n"), ON).whenNotMatchedInsertAll(), "n", "INSERT clause", ""),
}


@pytest.mark.parametrize(("build", "name", "place", "meant"), UNKNOWN.values(), ids=UNKNOWN)
def test_an_unknown_column_is_named_with_its_place_and_a_suggestion(
    table: DeltaTable, path: Path, untouchable: DataFrame, build: Build, name: str, place: str, meant: str
) -> None:
    words = (name, f"in {place}", "name")
    with refused(
        path, AnalysisException, "DELTA_MERGE_UNRESOLVED_EXPRESSION", *words, hint=f"Did you mean {meant}" if meant else ""
    ):
        build(table, untouchable).execute()


AMBIGUOUS: dict[str, tuple[Build, str, str]] = {
    "ON": (lambda t, s: t.merge(s, "id = s.id").whenMatchedDelete(), "`id`", "search condition"),
    "SET value": (lambda t, s: t.merge(s, ON).whenMatchedUpdate(set={"name": "upper(name)"}), "`name`", "UPDATE clause"),
    "MATCHED condition": (lambda t, s: t.merge(s, ON).whenMatchedDelete("id > 1"), "`id`", "DELETE condition"),
    "VALUES value": (lambda t, s: t.merge(s, ON).whenNotMatchedInsert(values={"n": "s.twice"}), "`s`.`twice`", "INSERT clause"),
    "NOT MATCHED condition": (
        lambda t, s: t.merge(s, ON).whenNotMatchedInsert("twice > 1", {"id": "s.id"}),
        "`twice`",
        "INSERT condition",
    ),
}


@pytest.mark.parametrize(("build", "name", "place"), AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_an_ambiguous_column_is_named_with_its_place(
    table: DeltaTable, path: Path, untouchable: DataFrame, build: Build, name: str, place: str
) -> None:
    doubled = untouchable.select("s.*", F.lit(1).alias("twice"), F.lit(2).alias("twice")).alias("s")
    with refused(path, AnalysisException, "AMBIGUOUS_REFERENCE", f"{name} is ambiguous", f"in {place}"):
        build(table, doubled).execute()


def test_sides_without_an_alias_are_called_source_and_target(path: Path, spark: SparkSession, untouchable: DataFrame) -> None:
    merge = DeltaTable.forPath(spark, str(path)).merge(untouchable.select(F.col("id")), "id = id").whenMatchedDelete()
    with refused(path, AnalysisException, "AMBIGUOUS_REFERENCE", "[source.`id`, target.`id`]", hint='.alias("s")'):
        merge.execute()


def test_a_merge_without_a_clause(table: DeltaTable, path: Path, untouchable: DataFrame) -> None:
    with refused(path, AnalysisException, "DELTA_MERGE_MISSING_WHEN", "WHEN clause", hint="whenMatchedUpdateAll"):
        table.merge(untouchable, ON).execute()


NON_LAST: dict[str, Build] = {
    "MATCHED": lambda t, s: t.merge(s, ON).whenMatchedDelete().whenMatchedUpdateAll("s.n > 1"),
    "NOT MATCHED": lambda t, s: t.merge(s, ON).whenNotMatchedInsertAll().whenMatchedDelete().whenNotMatchedInsertAll("s.n > 1"),
    "NOT MATCHED BY SOURCE": lambda t, s: (
        t.merge(s, ON).whenNotMatchedBySourceUpdate(set={"n": "0"}).whenNotMatchedBySourceDelete()
    ),
}


@pytest.mark.parametrize("side", NON_LAST)
def test_only_the_last_clause_of_a_kind_may_omit_its_condition(
    table: DeltaTable, path: Path, untouchable: DataFrame, side: str
) -> None:
    condition = f"DELTA_NON_LAST_{side.replace(' ', '_')}_CLAUSE_OMIT_CONDITION"
    with refused(path, AnalysisException, condition, f"the last {side} clause", hint="move it to the end"):
        NON_LAST[side](table, untouchable).execute()


SYNTAX: dict[str, tuple[Build, str]] = {
    "ON": (lambda t, s: t.merge(s, "t.id = = s.id").whenMatchedDelete(), "t.id = = s.id"),
    "condition": (lambda t, s: t.merge(s, ON).whenMatchedDelete("s.n > (1"), "s.n > (1"),
    "SET": (lambda t, s: t.merge(s, ON).whenMatchedUpdate(set={"n": "s.n +"}), "s.n +"),
    "VALUES": (lambda t, s: t.merge(s, ON).whenNotMatchedInsert(values={"n": "1 1"}), "1 1"),
}


@pytest.mark.parametrize(("build", "text"), SYNTAX.values(), ids=SYNTAX)
def test_a_syntax_error_shows_the_text_and_the_place(
    table: DeltaTable, path: Path, untouchable: DataFrame, build: Build, text: str
) -> None:
    with refused(path, ParseException, "PARSE_SYNTAX_ERROR", repr(text), "^^^"):
        build(table, untouchable).execute()


NO_CAST = {
    "date into int": ("date'2020-01-01'", "DATATYPE_MISMATCH.CAST_WITH_FUNC_SUGGESTION", "date", "explicitly"),
    "struct into int": ("named_struct('a', 1)", "DATATYPE_MISMATCH.CAST_WITHOUT_SUGGESTION", "struct<a:int>", "explicitly"),
}


@pytest.mark.parametrize(("value", "condition", "type", "hint"), NO_CAST.values(), ids=NO_CAST)
def test_a_type_that_cannot_be_cast_is_named_with_the_column(
    table: DeltaTable, path: Path, untouchable: DataFrame, value: str, condition: str, type: str, hint: str
) -> None:
    with refused(path, AnalysisException, condition, "column n", type, "int", hint=hint):
        table.merge(untouchable, ON).whenMatchedUpdate(set={"n": value}).execute()
    with refused(path, AnalysisException, condition, "column n", type, "int", hint=hint):
        table.merge(untouchable, ON).whenNotMatchedInsert(values={"n": value}).execute()


BAD_VALUES: dict[str, tuple[int, str, Any, type[Exception], str]] = {
    "updated long into int": (2, "n", 3_000_000_000, ArithmeticException, "DELTA_CAST_OVERFLOW_IN_TABLE_WRITE"),
    "inserted long into int": (9, "n", 3_000_000_000, ArithmeticException, "DELTA_CAST_OVERFLOW_IN_TABLE_WRITE"),
    "updated string into int": (2, "n", "12x", NumberFormatException, "CAST_INVALID_INPUT"),
    "inserted string into date": (9, "d", "2020-13-01", DateTimeException, "CAST_INVALID_INPUT"),
}


@pytest.mark.usefixtures("strategy")
@pytest.mark.parametrize(("id", "column", "value", "kind", "condition"), BAD_VALUES.values(), ids=BAD_VALUES)
def test_a_value_that_does_not_fit_is_named_with_its_column(
    spark: SparkSession, table: DeltaTable, path: Path, id: int, column: str, value: Any, kind: type[Exception], condition: str
) -> None:
    type = "long" if isinstance(value, int) else "string"
    changes = source(spark, f"id int, value {type}", [(id, value)])
    values = {"id": "s.id", column: "s.value"}
    with refused(path, kind, condition, str(value), f"column {column}", hint="Nothing was committed"):
        table.merge(changes, ON).whenMatchedUpdate(set=values).whenNotMatchedInsert(values=values).execute()


@pytest.mark.usefixtures("strategy")
def test_several_source_rows_for_one_target_row_are_shown(spark: SparkSession, table: DeltaTable, path: Path) -> None:
    changes = source(spark, SCHEMA, [(2, "x", 1, None), (2, "y", 2, None), (9, "z", 3, None)])
    condition = "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE"
    words = ("1 target row", "(id=2)", "'x'", "'y'")
    with refused(path, UnsupportedOperationException, condition, *words, hint="one source row") as caught:
        table.merge(changes, ON).whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert isinstance(caught.value, DeltaMultipleMatchException)
    assert [collision["key"] for collision in caught.value.collisions] == [{"id": 2}]


def small(spark: SparkSession) -> DataFrame:
    return spark.range(100)


def checkpointed(spark: SparkSession) -> DataFrame:
    """100 rows of which Spark expects very many more, or can't say, so that they are not collected at once."""
    rows = spark.range(5000).crossJoin(spark.range(5000).withColumnRenamed("id", "j")).where("j = 0 and id < 100").drop("j")
    assert (estimated_bytes(rows) or DEFAULTS.collected_bytes) >= DEFAULTS.collected_bytes
    return rows


@pytest.mark.usefixtures("strategy")
@pytest.mark.parametrize("rows", [small, checkpointed])
def test_a_source_that_fails_half_way_tells_its_own_error(
    spark: SparkSession, table: DeltaTable, path: Path, rows: Callable[[SparkSession], DataFrame]
) -> None:
    def failing(id):
        if id >= 70:
            raise ValueError(f"no name for {id}")
        return str(id)

    named = F.udf(failing, "string")
    changes = rows(spark).select(F.col("id").cast("int").alias("id"), named("id").alias("name")).alias("s")
    values = {"id": "s.id", "name": "s.name"}
    with refused(path, SparkRuntimeException, "DELTAMERGE_PYTHON_FAILED", "ValueError", "no name for 70", hint="traceback"):
        table.merge(changes, ON).whenMatchedUpdate(set=values).whenNotMatchedInsert(values=values).execute()


@pytest.mark.usefixtures("strategy")
def test_a_clause_that_raises_tells_its_own_error(spark: SparkSession, table: DeltaTable, path: Path) -> None:
    value = "if(t.id = 3, raise_error('three is not for sale'), 'sold')"
    with refused(path, SparkRuntimeException, "USER_RAISED_EXCEPTION", "three is not for sale", hint="Nothing was committed"):
        table.merge(source(spark, "id int", [(2,), (3,)]), ON).whenMatchedUpdate(set={"name": value}).execute()


def test_a_setting_that_does_not_exist(spark: SparkSession, table: DeltaTable, path: Path, untouchable: DataFrame) -> None:
    merge = table.merge(untouchable, ON).whenMatchedDelete()
    spark.conf.set("spark.deltamerge.conflictRetry", "3")
    try:
        for call in (merge.execute, merge.preview, merge.explain, table.delete):
            with refused(path, IllegalArgumentException, "DELTAMERGE_UNKNOWN_SETTING", hint="spark.deltamerge.conflictRetries"):
                call()
    finally:
        spark.conf.unset("spark.deltamerge.conflictRetry")


def test_a_strategy_that_is_none(spark: SparkSession, table: DeltaTable, path: Path, untouchable: DataFrame) -> None:
    spark.conf.set("spark.deltamerge.strategy", "fast")
    try:
        with refused(
            path,
            IllegalArgumentException,
            "DELTAMERGE_INVALID_STRATEGY",
            "'fast'",
            hint="auto, broadcast, range_exchange, hash_exchange, spark_join",
        ):
            table.merge(untouchable, ON).whenMatchedDelete().execute()
    finally:
        spark.conf.unset("spark.deltamerge.strategy")


@pytest.mark.parametrize(
    ("name", "condition"),
    [
        ("splice", "DELTAMERGE_INVALID_SPLICE"),
        ("joinVectors", "DELTAMERGE_INVALID_JOIN_VECTORS"),
        ("progress", "DELTAMERGE_INVALID_PROGRESS"),
    ],
)
def test_some_settings_are_true_or_false(
    spark: SparkSession, table: DeltaTable, path: Path, untouchable: DataFrame, name: str, condition: str
) -> None:
    with (
        conf(spark, {f"spark.deltamerge.{name}": "yes"}),
        refused(path, IllegalArgumentException, condition, "'yes'", hint="true or false"),
    ):
        table.merge(untouchable, ON).whenMatchedDelete().execute()


def test_the_size_of_a_source_that_may_grow_is_not_foreseen(spark: SparkSession) -> None:
    rows = spark.range(10)
    grown = [
        rows.select(F.explode(F.sequence(F.lit(1), F.lit(1000)))),
        rows.select(F.explode(F.sequence(F.lit(1), F.lit(1000))).alias("x")).where("x > 3").groupBy("x").count(),
        rows.mapInArrow(lambda batches: batches, "id long").join(rows, "id"),
    ]
    assert [estimated_bytes(frame) for frame in grown] == [None] * 3
    assert (estimated_bytes(rows.where("id > 3")) or 0) > 0
