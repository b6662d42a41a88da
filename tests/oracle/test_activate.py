"""Statements and readers' options: what delta-spark makes of them, and what this library does."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession

import deltamerge
from deltamerge.activation.reader import with_delta
from deltamerge.spark.pyspark.plain import plain_reader

STATEMENTS = [
    "DELETE FROM delta.`{}` WHERE id = 1",
    "UPDATE delta.`{}` t SET t.n = t.n + 1, p = NULL WHERE t.id < 2",
    "UPDATE delta.`{}` SET n = 5",
    "DELETE FROM delta.`{}`",
]


@pytest.fixture
def tables(spark: SparkSession, tmp_path: Path) -> list[str]:
    """The same table twice, in two versions."""
    for name in ("theirs", "ours"):
        for mode in ("error", "append"):
            rows = spark.range(4).selectExpr("id", "int(id * 10) AS n", "'x' AS p").coalesce(1)
            writer = rows.write.format("delta").mode(mode).option("delta.enableChangeDataFeed", "true")
            writer.save(str(tmp_path / name))
    return [str(tmp_path / "theirs"), str(tmp_path / "ours")]


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, frame.collect()), key=str)


def test_statements_give_the_same(spark: SparkSession, tables: list[str]) -> None:
    theirs, ours = tables
    for text in STATEMENTS:
        expected, found = spark.sql(text.format(theirs)), deltamerge.sql(spark, text.format(ours))
        assert found.columns == expected.columns
        assert rows(found) == rows(expected)
        assert rows(deltamerge.sql(spark, f"TABLE delta.`{ours}`")) == rows(spark.sql(f"TABLE delta.`{theirs}`"))
    changes = "SELECT id, n, p, _change_type, _commit_version FROM table_changes_by_path('{}', 0)"
    assert rows(deltamerge.sql(spark, changes.format(ours))) == rows(spark.sql(changes.format(theirs)))
    history = "DESCRIBE HISTORY delta.`{}` LIMIT 5"
    expected, found = spark.sql(history.format(theirs)), deltamerge.sql(spark, history.format(ours))
    assert [(row.version, row.operation) for row in found.collect()] == [(r.version, r.operation) for r in expected.collect()]


OPTIONS: list[dict[str, Any]] = [
    {},
    {"anything": 1},
    {"versionAsOf": 0},
    {"versionAsOf": 9},
    {"versionAsOf": "x"},
    {"versionAsOf": 0, "timestampAsOf": "2024-01-01"},
    {"timestampAsOf": "x"},
    {"timestampAsOf": "2020-01-01"},
    {"timestampAsOf": "2099-01-01"},
    {"startingVersion": 1},
    {"readChangeFeed": "true", "startingVersion": 1},
    {"readChangeData": "true", "startingVersion": 0, "endingVersion": 0},
    {"readChangeFeed": "true"},
    {"readChangeFeed": "yes", "startingVersion": 0},
    {"readChangeFeed": "true", "startingVersion": "latest"},
    {"readChangeFeed": "true", "startingVersion": 0, "versionAsOf": 0},
    {"readChangeFeed": "true", "startingTimestamp": "x"},
]


def test_options_of_readers_say_the_same(spark: SparkSession, tables: list[str]) -> None:
    logging.getLogger("DataFrameQueryContextLogger").setLevel(logging.CRITICAL)

    def read(reader: Any, options: dict[str, Any]) -> Any:
        try:
            return rows(reader.format("delta").options(**options).load(tables[0]))
        except Exception as error:
            kinds = [kind for kind in type(error).__mro__ if kind.__module__.startswith("pyspark.errors")]
            return kinds[0], getattr(error, "getCondition", str)()

    for options in OPTIONS:
        expected = read(spark.read, options)
        found = read(with_delta(spark, plain_reader(spark)), options)
        if isinstance(expected, tuple):
            assert found[1] == expected[1], options
            assert issubclass(found[0], expected[0]) or found[0].__name__ == expected[0].__name__
        else:
            assert found == expected, options


# Those that ask for changes are refused: queries ask for them by a function.
@pytest.mark.parametrize(
    "options", [given for given in OPTIONS if given and not {"readChangeFeed", "readChangeData"} & given.keys()], ids=str
)
def test_options_of_queries_say_the_same(spark: SparkSession, tables: list[str], options: dict[str, Any]) -> None:
    said = ", ".join(f"'{name}' = '{value}'" for name, value in options.items())

    def read(sql: Any, clause: str) -> Any:
        try:
            return rows(sql(f"SELECT x.id, n FROM delta.`{tables[0]}` {clause} WITH ({said}) x"))
        except PySparkException as error:
            return error.getCondition().partition(".")[0]

    is_mistaken = options.get("timestampAsOf") == "x"  # of two mistakes either may be told
    for clause in ("",) if is_mistaken else ("", "VERSION AS OF 0"):
        assert read(lambda query: deltamerge.sql(spark, query), clause) == read(spark.sql, clause)


@pytest.mark.parametrize("said", ["'versionAsOf' = 0, versionAsOf = 1", "'timestampAsOf' = 'x', 'timestampAsOf' = 'x'"])
def test_an_option_of_a_query_is_given_once(spark: SparkSession, tables: list[str], said: str) -> None:
    query = f"SELECT * FROM delta.`{tables[0]}` WITH ({said})"
    found = []
    for sql in (spark.sql, lambda text: deltamerge.sql(spark, text)):
        with pytest.raises(ParseException, match="DUPLICATE_KEY") as caught:
            sql(query)
        found.append((caught.value.getCondition(), caught.value.getMessageParameters()))
    assert found[0] == found[1]


def test_of_two_spellings_of_an_option_the_last_one_counts(spark: SparkSession, tables: list[str]) -> None:
    for said in ("'versionAsOf' = 0, 'VERSIONASOF' = 1", "'versionAsOf' = 1, 'versionasof' = 0"):
        query = f"SELECT id, n FROM delta.`{tables[0]}` WITH ({said})"
        assert rows(deltamerge.sql(spark, query)) == rows(spark.sql(query))
