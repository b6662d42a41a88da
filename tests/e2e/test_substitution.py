"""Texts that Spark reads otherwise than they stand: by its settings, or with variables put in. They prune nothing wrongly."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

import deltamerge
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
