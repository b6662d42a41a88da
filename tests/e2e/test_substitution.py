"""Texts that Spark reads otherwise than they stand: by its settings, or with variables put in. They prune nothing wrongly."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import ParseException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

import deltamerge
from deltamerge.errors import DeltaMergeError
from tests.e2e.tables import conf, content, make, source

SCHEMA = "id int, p string"
ROWS = [(1, "2024-01-01"), (2, "2024-01-02"), (3, "a\\b it's ${x}")]


@pytest.fixture(autouse=True)
def day(spark: SparkSession) -> Iterator[None]:
    """A variable of the session."""
    with conf(spark, {"day": "2024-01-02", "name": "p"}):
        yield


@pytest.mark.usefixtures("strategy")
@pytest.mark.parametrize("partition_by", [(), ("p",)])
@pytest.mark.parametrize(
    "condition", ["t.p = '${day}'", "t.p LIKE '${day}%'", "t.${name} = '2024-01-02'", "IDENTIFIER('t.p') = '2024-01-02'"]
)
@pytest.mark.parametrize("form", [str, F.expr])
def test_variables_are_put_in_before_files_are_pruned(
    spark: SparkSession, tmp_path: Path, partition_by: tuple[str, ...], condition: str, form: type[str] | Column
) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS, files=3, partition_by=partition_by)
    given = form(f"t.id = s.id AND {condition}")  # type: ignore[operator]
    merge = table.merge(source(spark, "id int", [(1,), (2,)]), given).whenMatchedDelete()
    assert merge.whenNotMatchedBySourceUpdate(form("t.p = '${day}'"), {"p": "'x'"}).run().deleted == 1  # type: ignore[operator]
    assert content(spark, tmp_path / "t") == [ROWS[0], ROWS[2]]
    table.delete("p = '${day}' OR id = 1")
    assert content(spark, tmp_path / "t") == [ROWS[2]]


@pytest.mark.parametrize(
    ("setting", "text"),
    [("spark.sql.ansi.doubleQuotedIdentifiers", 't.p = "q"'), ("spark.sql.parser.escapedStringLiterals", r"t.p = 'a\nb'")],
)
@pytest.mark.parametrize("form", [str, F.expr])
def test_quotes_and_backslashes_are_the_sessions(
    spark: SparkSession, tmp_path: Path, setting: str, text: str, form: type[str] | Column
) -> None:
    rows = [(1, "a\nb", "z"), (2, r"a\nb", "z"), (3, "q", "z"), (4, "w", "w")]
    table = make(spark, tmp_path / "t", "id int, p string, q string", rows, files=4)
    changes = source(spark, "id int", [(1,), (2,), (4,)])
    with conf(spark, {"spark.sql.ansi.enabled": "true", setting: "true"}):
        report = table.merge(changes, form(f"t.id = s.id AND {text}")).whenMatchedDelete().run()  # type: ignore[operator]
    assert report.deleted == 1
    assert [row[0] for row in content(spark, tmp_path / "t")] == ([1, 2, 3] if '"' in text else [1, 3, 4])


@pytest.mark.parametrize("text", ["'it''s'", "'it' 's'", "'it'\"s\"", "'it' -- a remark\n's'"])
def test_neighbouring_quotes_are_what_spark_makes_of_them(spark: SparkSession, tmp_path: Path, text: str) -> None:
    """PySpark 4.0 takes two quotes for the end of a text and the beginning of its rest, later ones for a quote."""
    rows = [(1, "its"), (2, "it's"), (3, "z")]
    make(spark, tmp_path / "t", SCHEMA, rows, files=3)
    (meant,) = spark.sql(f"SELECT {text}").collect()[0]
    deltamerge.sql(
        spark,
        f"MERGE INTO delta.`{tmp_path / 't'}` t USING (SELECT 2 AS id UNION ALL SELECT 1) s ON t.id = s.id AND t.p = {text}\n"
        f"WHEN MATCHED THEN UPDATE SET p = concat({text}, '!')",
    )
    assert content(spark, tmp_path / "t") == [(number, f"{p}!" if p == meant else p) for number, p in rows]


@pytest.mark.parametrize("escaped", ["false", "true"])
@pytest.mark.parametrize("value", ["a\\b it's", "x${day}y ${env:HOME}", "${", "'", "\\", 'plain \n\t " `', "é ${day}"])
def test_a_text_given_as_parameter_is_the_text(spark: SparkSession, tmp_path: Path, value: str, escaped: str) -> None:
    make(spark, tmp_path / "t", SCHEMA, [(1, value), (2, "other")], files=2)
    merge = (
        f"MERGE INTO delta.`{tmp_path / 't'}` t USING (SELECT 1 AS id, :p AS p) s ON t.id = s.id AND t.p = :p "
        "WHEN MATCHED THEN UPDATE SET p = concat(s.p, :p) WHEN NOT MATCHED THEN INSERT *"
    )
    with conf(spark, {"spark.sql.parser.escapedStringLiterals": escaped}):
        deltamerge.sql(spark, merge, args={"p": value})
    assert content(spark, tmp_path / "t") == [(1, value + value), (2, "other")]


@pytest.mark.usefixtures("strategy")
@pytest.mark.parametrize("form", [str, F.expr])
def test_a_column_named_by_identifier_is_read(spark: SparkSession, tmp_path: Path, form: type[str] | Column) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS)
    merge = table.merge(source(spark, "id int", [(1,), (2,)]), "t.id = s.id")
    condition = form("IDENTIFIER('t.p') = '2024-01-02'")  # type: ignore[operator]
    assert merge.whenMatchedDelete(condition).run().deleted == 1
    assert content(spark, tmp_path / "t") == [ROWS[0], ROWS[2]]


@pytest.mark.usefixtures("strategy")
@pytest.mark.parametrize("form", [str, F.expr])
@pytest.mark.parametrize(
    ("condition", "matched"),
    [
        ("t.id = s.id -- but not \\\n AND t.p = 'none'", {1, 2, 3}),
        ("t.id = s.id AND t.p = +'1'", {1, 2}),
        ("t.id = s.id AND t.flag isnull", {1, 2}),
    ],
)
def test_no_file_is_pruned_by_what_spark_reads_otherwise(
    spark: SparkSession, tmp_path: Path, condition: str, matched: set[int], form: type[str] | Column
) -> None:
    """A backslash continues a comment on the next line, a plus casts to a number, `isnull` behind an expression is its alias."""
    rows = [(1, "01", True), (2, "1", True), (3, "2", False)]
    table = make(spark, tmp_path / "t", "id int, p string, flag boolean", rows, files=3)
    changes = source(spark, "id int", [(1,), (2,), (3,)])
    merge = table.merge(changes, form(condition)).whenMatchedUpdate(set={"p": "'x'"})  # type: ignore[operator]
    assert merge.whenNotMatchedInsert(values={"id": "-s.id"}).run().inserted == 3 - len(matched)
    assert {id for id, p, _ in content(spark, tmp_path / "t") if p == "x"} == matched


def test_a_clause_in_a_comment_is_not_run(spark: SparkSession, tmp_path: Path) -> None:
    make(spark, tmp_path / "t", SCHEMA, ROWS)
    deltamerge.sql(
        spark,
        f"MERGE INTO delta.`{tmp_path / 't'}` t USING (SELECT 1 AS id) s ON t.id = s.id -- AND false \\\nAND false\n"
        "WHEN MATCHED AND t.p == 'none' THEN UPDATE SET p == 'x' -- or rather \\\nWHEN MATCHED THEN DELETE\n"
        "WHEN NOT MATCHED BY SOURCE AND id = 2 /* /*+ */ THEN DELETE -- */ THEN UPDATE SET p = 'y'",
    )
    assert content(spark, tmp_path / "t") == [ROWS[0], ROWS[2]]


def test_a_part_of_a_statement_has_no_alias(spark: SparkSession, tmp_path: Path) -> None:
    make(spark, tmp_path / "t", SCHEMA, ROWS)
    merge = f"MERGE INTO delta.`{tmp_path / 't'}` t USING (SELECT 1 AS id) s ON t.id = s.id isnull WHEN MATCHED THEN DELETE"
    with pytest.raises(ParseException, match="PARSE_SYNTAX_ERROR"):
        deltamerge.sql(spark, merge)
    assert content(spark, tmp_path / "t") == ROWS


def test_variables_of_the_environment_are_put_in_before_a_statement_is_split(spark: SparkSession, tmp_path: Path) -> None:
    make(spark, tmp_path / "t", SCHEMA, ROWS)
    merge = f"MERGE INTO delta.`{tmp_path / 't'}` t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET p = "
    deltamerge.sql(spark, f"{merge}'${{env:HOME}} ${{system:file.separator}} ${{env:NOT_SET}}' ${{nothing}}")
    (meant,) = spark.sql("SELECT '${env:HOME} ${system:file.separator} ${env:NOT_SET}'").collect()[0]
    assert content(spark, tmp_path / "t")[0] == (1, meant)
    with conf(spark, {"open": "${"}), pytest.raises(DeltaMergeError, match="DELTAMERGE_UNCLEAR_VARIABLE"):
        deltamerge.sql(spark, f"{merge}'${{open}}day}}'")
