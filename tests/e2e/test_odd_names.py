"""Merges whose columns, aliases and expressions have names that something else has, too."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import deltamerge
from deltamerge.exceptions import DeltaAnalysisException, DeltaMultipleMatchException
from deltamerge.tables import DeltaTable
from tests.e2e.refusals import refused
from tests.e2e.tables import content, make, source

SCHEMA = "id int, name string, n int"
ROWS = [(1, "a", 10), (2, "b", 20), (3, "c", 30)]
pytestmark = pytest.mark.usefixtures("strategy")


@pytest.mark.parametrize("column", ["comment", "current_date", "values"])
def test_a_source_column_named_like_a_keyword_or_function(spark: SparkSession, tmp_path: Path, column: str) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS)
    changes = source(spark, f"id int, {column} string", [(1, "A"), (7, "B")])
    merge = table.merge(changes, "t.id = s.id").whenMatchedUpdate(set={"name": f"coalesce({column}, 'none')"})
    merge.whenNotMatchedInsert(values={"id": "s.id", "name": column}).execute()
    assert content(spark, tmp_path / "t") == [(1, "A", 10), (2, "b", 20), (3, "c", 30), (7, "B", None)]


def test_a_source_column_named_like_the_sources_alias(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS)
    changes = source(spark, "id int, s int", [(2, None), (3, 5)])
    table.merge(changes, "t.id = s.id").whenMatchedUpdate("s is not null", {"n": F.lit(7)}).execute()
    assert content(spark, tmp_path / "t") == [(1, "a", 10), (2, "b", 20), (3, "c", 7)]


def test_a_struct_is_no_alias(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS)
    changes = spark.sql("select 'b' as name, named_struct('name', 'c', 'x', 1) as u")
    table.merge(changes, "u.name = t.name").whenMatchedUpdate(set={"n": "u.x"}).execute()
    assert content(spark, tmp_path / "t") == [(1, "a", 10), (2, "b", 20), (3, "c", 1)]


@pytest.mark.parametrize("form", ["text", "columns"])
@pytest.mark.parametrize("by", ["names", "condition"])
def test_a_source_joined_of_frames_with_aliases(spark: SparkSession, tmp_path: Path, form: str, by: str) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS)
    one = spark.createDataFrame([(2, 7), (5, 8), (6, -1)], "id int, n int").alias("a")
    other = spark.createDataFrame([(2, "x", 70), (5, "y", 80), (6, "z", 1)], "id int, label string, m int").alias("b")
    joined = (one.join(other, "id") if by == "names" else one.join(other, F.expr("a.id = b.id"))).where("a.n > 0")
    if form == "text":
        merge = table.merge(joined, "t.id = a.id").whenMatchedUpdate("b.m > 0", {"name": "b.label", "n": "a.n + b.m"})
        merge = merge.whenNotMatchedInsert(values={"id": "a.id", "name": "label", "n": "a.n"})
    else:
        merge = table.merge(joined, F.col("t.id") == F.col("a.id"))
        merge = merge.whenMatchedUpdate(F.col("b.m") > 0, {"name": F.col("b.label"), "n": F.col("a.n") + F.col("m")})
        merge = merge.whenNotMatchedInsert(values={"id": F.col("a.id"), "name": F.col("b.label"), "n": F.col("a.n")})
    merge.execute()
    assert content(spark, tmp_path / "t") == [ROWS[0], (2, "x", 77), ROWS[2], (5, "y", 8)]


def test_the_builder_takes_names_as_pyspark_does(spark: SparkSession, tmp_path: Path) -> None:
    """As its methods take them: blanks and signs belong to a name, no SQL is in it."""
    schema, properties = "id int, `a b` int, `c-d` int, st struct<`x y`: int>", {"delta.columnMapping.mode": "name"}
    deltamerge.write(spark.createDataFrame([(1, 1, 1, (1,))], schema), str(tmp_path / "t"), properties=properties)
    merge = DeltaTable.forPath(spark, str(tmp_path / "t")).alias("t").merge(source(spark, "id int", [(1,)]), "t.id = s.id")
    merge.whenMatchedUpdate(set={"t.a b": "7", "c-d": "8", "st.x y": "9"}).execute()
    assert content(spark, tmp_path / "t") == [(1, 7, 8, (9,))]
    for name, condition in ((" id ", "DELTA_MERGE_UNRESOLVED_EXPRESSION"), ("id /* 1 */", "DELTA_MERGE_UNRESOLVED_EXPRESSION")):
        with refused(tmp_path / "t", DeltaAnalysisException, condition):
            merge.whenMatchedUpdate(set={name: "1"}).execute()
    with refused(tmp_path / "t", DeltaAnalysisException, "INVALID_ATTRIBUTE_NAME_SYNTAX", "'t..id'"):
        merge.whenMatchedUpdate(set={"t..id": "1"}).execute()


@pytest.mark.parametrize("star", ["*", "s.*", "t.*"])
def test_a_star_is_no_value(spark: SparkSession, tmp_path: Path, star: str) -> None:
    merge = make(spark, tmp_path / "t", SCHEMA, ROWS).merge(source(spark, SCHEMA, ROWS), "t.id = s.id")
    for value in (F.col(star), F.struct(F.col(star)), f"concat_ws('|', {star})"):
        with refused(tmp_path / "t", DeltaAnalysisException, "INVALID_USAGE_OF_STAR_OR_REGEX", "UPDATE"):
            merge.whenMatchedUpdate(set={"name": value}).execute()


def test_a_name_of_several_joined_frames_needs_an_alias(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS)
    one = spark.createDataFrame([(2, 7)], "id int, n int").alias("a")
    joined = one.join(spark.createDataFrame([(2, 9)], "id int, n int").alias("b"), F.expr("a.id = b.id"))
    merge = table.merge(joined, "t.id = a.id AND b.n > 0")
    for clauses in (merge.whenNotMatchedInsert(values={"id": "a.id", "n": "n"}), merge.whenMatchedUpdate(set={"n": "n"})):
        with refused(tmp_path / "t", DeltaAnalysisException, "AMBIGUOUS_REFERENCE"):
            clauses.execute()


def test_one_alias_of_a_join_names_columns_that_the_other_frame_has_too(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS)
    one = spark.createDataFrame([(2, 7), (5, 8)], "id int, n int").alias("a")
    joined = one.join(spark.createDataFrame([(2, 9), (5, 10)], "id int, n int").alias("b"), F.expr("a.id = b.id"))
    merge = table.merge(joined, "t.id = b.id").whenMatchedUpdate(F.col("b.n").cast("int") > 8, {"n": F.col("b.n") + 1})
    merge.whenNotMatchedInsert(values={"id": "b.id", "n": F.when(F.col("b.id") > 4, F.col("b.n"))}).execute()
    assert content(spark, tmp_path / "t") == [ROWS[0], (2, "b", 10), ROWS[2], (5, None, 10)]
    with refused(tmp_path / "t", DeltaAnalysisException, "AMBIGUOUS_REFERENCE"):
        merge.whenMatchedUpdate(set={"n": F.expr("id + b.n")}).execute()


def test_columns_that_go_by_one_name_are_in_nobodys_way(spark: SparkSession, tmp_path: Path) -> None:
    """However little of an expression can be seen; unqualified, the name is ambiguous."""
    table = make(spark, tmp_path / "t", SCHEMA, ROWS)
    changes = source(spark, SCHEMA, [(2, "B", 21), (9, "z", 90)]).select(
        "id", "name", "n", F.lit(1).alias("x"), F.lit(2).alias("X")
    )
    own = changes.select("*", F.lit("?").alias("name")).alias("s")
    for values in (F.col("s.n").cast("int"), F.when(F.col("s.n") > 0, F.col("s.n")), F.transform(F.array("s.n"), lambda e: e)[0]):
        merge = table.merge(own, F.col("t.id").cast("int") == F.col("s.id")).whenMatchedUpdate(set={"n": values})
        merge.whenNotMatchedInsert(F.col("s.n").cast("int") < 0, {"id": F.col("s.id").cast("int")}).execute()
        assert content(spark, tmp_path / "t")[1] == (2, "b", 21)
        table.update("id = 2", {"n": F.lit(20)})
    table.merge(own, "t.id = s.id").whenMatchedUpdate(set={"n": "(SELECT max(id) FROM VALUES (7) AS v(id)) + s.n"}).execute()
    assert content(spark, tmp_path / "t") == [ROWS[0], (2, "b", 28), ROWS[2]]
    with refused(tmp_path / "t", DeltaAnalysisException, "AMBIGUOUS_REFERENCE"):
        table.merge(own, "t.id = s.id").whenMatchedUpdate(set={"n": F.col("s.x").cast("int")}).execute()


def test_source_and_target_under_one_alias_are_ambiguous(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS)
    changes = source(spark, SCHEMA, [(2, "B", 21)]).alias("t")
    with refused(tmp_path, DeltaAnalysisException, "AMBIGUOUS_REFERENCE", "t.id = t.id"):
        table.merge(changes, "t.id = t.id").whenMatchedDelete().execute()


@pytest.mark.parametrize("name", ["__deltamerge_file", "__DELTAMERGE_clause"])
def test_names_of_the_merges_own_columns_are_refused(spark: SparkSession, tmp_path: Path, name: str) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS)
    changes = source(spark, f"id int, {name} int", [(2, 1)])
    with refused(tmp_path, DeltaAnalysisException, "DELTAMERGE_RESERVED_COLUMN_NAME", name):
        table.merge(changes, "t.id = s.id").whenMatchedDelete().execute()


def test_source_rows_count_though_no_source_column_is_used(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS[:1])
    report = table.merge(spark.range(2), "false").whenNotMatchedInsert(values={"id": "7"}).run()
    assert (report.inserted, report.metrics["numSourceRows"]) == (2, 2)
    assert content(spark, tmp_path / "t") == [(1, "a", 10), (7, None, None), (7, None, None)]
    with pytest.raises(DeltaMultipleMatchException, match="3 target rows"):
        table.merge(spark.range(2), "true").whenMatchedUpdate(set={"n": "1"}).execute()


def test_bound_columns_within_casts_tests_and_choices(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS)
    df = spark.createDataFrame([(2, "B", 21), (9, "z", 90)], SCHEMA)
    (
        table.merge(df, F.col("t.id") == df["id"].cast("int"))
        .whenMatchedUpdate(df["n"].isin(21, 22), {"n": F.when(df["n"] > 1, df["n"] * 2).otherwise(0)})
        .whenNotMatchedInsert(df["n"].between(50, 100), {"id": df["id"].cast("int")})
        .execute()
    )
    assert content(spark, tmp_path / "t") == [(1, "a", 10), (2, "b", 42), (3, "c", 30), (9, None, None)]


_UNSUPPORTED = "UNSUPPORTED_EXPR_FOR_OPERATOR"
_GENERATOR = "UNSUPPORTED_GENERATOR.OUTSIDE_SELECT"
_AGGREGATE = "DELTA_AGGREGATION_NOT_SUPPORTED"
_RANDOM = "DELTA_NON_DETERMINISTIC_FUNCTION_NOT_SUPPORTED"
_SUBQUERY = "DELTA_UNSUPPORTED_SUBQUERY"


@pytest.mark.parametrize(
    ("value", "condition"),
    [
        ("max(s.n)", _UNSUPPORTED),
        ("row_number() over (order by s.n)", _UNSUPPORTED),
        ("explode(array(1, 2))", _GENERATOR),
    ],
)
def test_a_value_that_is_not_one_for_a_row_is_refused(spark: SparkSession, tmp_path: Path, value: str, condition: str) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS)
    merge = table.merge(source(spark, SCHEMA, [(2, "B", 21), (9, "z", 90)]), "t.id = s.id")
    with refused(tmp_path, AnalysisException, condition, value):
        merge.whenMatchedUpdate(set={"n": value}).execute()
    with refused(tmp_path, AnalysisException, condition, value):
        merge.whenNotMatchedInsert(values={"n": value}).execute()


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("max({s}.n) > 1", _AGGREGATE),
        ("row_number() over (order by {s}.n) = 1", _UNSUPPORTED),
        ("max({s}.n) over () = 1", _UNSUPPORTED),
        ("explode(array({s}.n)) = 1", _GENERATOR),
        ("{s}.n > rand()", _RANDOM),
        ("uuid() = {s}.name", _RANDOM),
        ("{s}.n = (select 1)", _SUBQUERY),
        ("{s}.n IN (SELECT 1)", _SUBQUERY),
        ("exists (select 1 where 1 = {s}.n)", _SUBQUERY),
    ],
)
def test_a_condition_that_asks_more_than_one_row_or_answers_twice_is_refused(
    spark: SparkSession, tmp_path: Path, text: str, condition: str
) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS)
    changes = source(spark, SCHEMA, [(2, "B", 21), (9, "z", 90)])
    merge = table.merge(changes, "t.id = s.id")
    of_source, of_target = text.format(s="s"), text.format(s="t")
    with refused(tmp_path, AnalysisException, condition, "search condition", of_source):
        table.merge(changes, f"t.id = s.id AND {of_source}").whenMatchedDelete().execute()
    with refused(tmp_path, AnalysisException, condition, "UPDATE condition", of_source):
        merge.whenMatchedUpdate(of_source, {"n": "1"}).execute()
    with refused(tmp_path, AnalysisException, condition, "INSERT condition", of_source):
        merge.whenNotMatchedInsertAll(of_source).execute()
    with refused(tmp_path, AnalysisException, condition, "DELETE condition", of_target):
        merge.whenNotMatchedBySourceDelete(of_target).execute()


def test_values_may_be_random_and_conditions_may_have_functions_of_functions(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS)
    merge = table.merge(source(spark, SCHEMA, [(2, "B", 21)]), "t.id = s.id AND exists(array(s.n), x -> x > 20)")
    merge.whenMatchedUpdate("s.n > 1 AND current_date() > DATE'2020-01-01'", {"n": "cast(rand() as int) - 5"}).execute()
    assert content(spark, tmp_path / "t") == [(1, "a", 10), (2, "b", -5), (3, "c", 30)]


def test_an_unconditional_update_of_nothing_is_no_clause(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS)
    merge = table.merge(source(spark, SCHEMA, [(2, "B", 21), (9, "z", 90)]), "t.id = s.id")
    with refused(tmp_path, AnalysisException, "DELTA_MERGE_MISSING_WHEN"):
        merge.whenMatchedUpdate(set={}).execute()
    report = merge.whenMatchedUpdate(set={}).whenNotMatchedInsertAll().run()
    assert (report.updated, report.inserted) == (0, 1)
    report = merge.whenMatchedUpdate("s.id = 2", {}).whenMatchedDelete().run()
    assert (report.updated, report.deleted) == (1, 1)


def test_a_condition_is_read_as_the_session_reads_its_quotes(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS)
    changes = source(spark, SCHEMA, [(2, "b", 21)])
    spark.conf.set("spark.sql.ansi.doubleQuotedIdentifiers", "true")
    try:
        table.merge(changes, 't.id = s.id AND t.name = s."name"').whenMatchedUpdate(set={"n": "s.n"}).execute()
    finally:
        spark.conf.unset("spark.sql.ansi.doubleQuotedIdentifiers")
    assert content(spark, tmp_path / "t") == [(1, "a", 10), (2, "b", 21), (3, "c", 30)]


def test_a_backslash_is_read_as_the_session_reads_it(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, [(1, "\\u0062", 10), (2, "b", 20)], files=2)
    changes = source(spark, SCHEMA, [(1, "x", 11)])
    spark.conf.set("spark.sql.parser.escapedStringLiterals", "true")
    try:
        table.merge(changes, r"t.id = s.id AND t.name = '\u0062'").whenMatchedUpdate(set={"n": "s.n"}).execute()
    finally:
        spark.conf.unset("spark.sql.parser.escapedStringLiterals")
    assert content(spark, tmp_path / "t") == [(1, "\\u0062", 11), (2, "b", 20)]


def test_a_column_whose_name_looks_like_a_variable(spark: SparkSession, tmp_path: Path) -> None:
    schema = "id int, `a${x}` string, n int"
    table = make(spark, tmp_path / "t", schema, ROWS, properties={"delta.columnMapping.mode": "name"})
    merge = table.merge(source(spark, schema, [(2, "B", 21), (7, "G", 70)]), "t.id = s.id")
    merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert content(spark, tmp_path / "t") == [(1, "a", 10), (2, "B", 21), (3, "c", 30), (7, "G", 70)]
