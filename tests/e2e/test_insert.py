"""INSERT as SQL text: columns by position and by name, defaults, and what an overwrite replaces."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, ArithmeticException, ParseException
from pyspark.sql import SparkSession

import deltamerge
from deltamerge.tables import DeltaTable
from tests.e2e.tables import content, make


def insert(spark: SparkSession, path: Path, text: str) -> None:
    found = deltamerge.sql(spark, text.replace("$t", f"delta.`{path}`"))
    assert (found.columns, found.count()) == ([], 0)


def test_columns_by_position_and_by_name(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    make(spark, path, "id int, name string, s struct<a: int, b: string>", [(1, "a", (1, "x"))])
    insert(spark, path, "INSERT INTO $t VALUES (2, 'b', named_struct('c', 2, 'd', 'y')), (3, NULL, NULL);")
    insert(spark, path, "INSERT INTO TABLE $t (name, id) SELECT name || '!', id + 3 FROM $t WHERE id = 1")
    insert(spark, path, "INSERT INTO $t BY NAME (SELECT 5 AS id, named_struct('b', 'z', 'a', 5) AS S)")
    insert(spark, path, "WITH six AS (SELECT 6) INSERT INTO $t (id) WITH s AS (TABLE six) TABLE s")
    assert content(spark, path) == [
        (1, "a", (1, "x")), (2, "b", (2, "y")), (3, None, None), (4, "a!", None), (5, None, (5, "z")), (6, None, None),
    ]  # fmt: skip
    insert(spark, path, "INSERT WITH SCHEMA EVOLUTION INTO $t BY NAME SELECT 7 AS id, true AS more")
    assert content(spark, path)[-1] == (7, None, None, True)
    assert DeltaTable.forPath(spark, str(path)).history(1).collect()[0]["operationParameters"]["mode"] == "Append"


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("INSERT INTO $t VALUES (1)", AnalysisException, "DELTA_INSERT_COLUMN_ARITY_MISMATCH"),
        ("INSERT INTO $t (id) VALUES (1, 2)", AnalysisException, "INSERT_COLUMN_ARITY_MISMATCH.TOO_MANY_DATA_COLUMNS"),
        ("INSERT INTO $t (id, name) SELECT 1", AnalysisException, "INSERT_COLUMN_ARITY_MISMATCH.NOT_ENOUGH_DATA_COLUMNS"),
        ("INSERT INTO $t VALUES (1, DEFAULT, 3)", AnalysisException, "INSERT_COLUMN_ARITY_MISMATCH.TOO_MANY_DATA_COLUMNS"),
        ("INSERT INTO $t (id, none) VALUES (1, 2)", AnalysisException, "DELTA_COLUMN_NOT_FOUND_IN_SCHEMA"),
        ("INSERT INTO $t VALUES (1, 2, 3)", AnalysisException, "DELTA_METADATA_MISMATCH"),
        ("INSERT INTO $t SELECT 1, 2, 3 AS id", AnalysisException, "DELTA_DUPLICATE_COLUMNS_FOUND.DATA"),
        ("INSERT INTO $t VALUES (3000000000, 'x')", ArithmeticException, "DELTA_CAST_OVERFLOW_IN_TABLE_WRITE"),
        ("INSERT $t VALUES (1, 2)", ParseException, r"INTO or OVERWRITE expected[^$]*line 1, position 7"),
        ("INSERT INTO $t REPLACE USING (id) SELECT 1, 'x'", ParseException, "REPLACE ON are not supported"),
        ("INSERT OVERWRITE $t PARTITION (id = 1) IF NOT EXISTS SELECT 'x'", ParseException, "IF NOT EXISTS is not supported"),
    ],
)
def test_what_can_not_be_inserted(spark: SparkSession, tmp_path: Path, text: str, error: type[Exception], message: str) -> None:
    make(spark, tmp_path / "t", "id int, name string", [(1, "a")])
    with pytest.raises(error, match=f"(?s){message}"):
        insert(spark, tmp_path / "t", text)
    assert content(spark, tmp_path / "t") == [(1, "a")]


def test_an_overwrite_replaces_the_table_a_partition_or_rows(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    make(spark, path, "id int, p string, q int", [(1, "a", 1), (2, "a", 2), (3, "b", 1), (4, None, 1)], partition_by=["p", "q"])
    insert(spark, path, "INSERT OVERWRITE $t PARTITION (p = 'a') SELECT 9, 2")
    assert content(spark, path) == [(3, "b", 1), (4, None, 1), (9, "a", 2)]
    insert(spark, path, "INSERT OVERWRITE TABLE $t PARTITION (q = 1, p = NULL) VALUES (5)")
    assert content(spark, path) == [(3, "b", 1), (5, None, 1), (9, "a", 2)]
    insert(spark, path, "INSERT INTO $t REPLACE WHERE id < 4 OR (q = 7) SELECT 2, 'c', 7")
    assert content(spark, path) == [(2, "c", 7), (5, None, 1), (9, "a", 2)]
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    insert(spark, path, "INSERT OVERWRITE $t PARTITION (p = 'c', q) (id, q) SELECT 8, 7")
    spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert content(spark, path) == [(5, None, 1), (8, "c", 7), (9, "a", 2)]
    with pytest.raises(AnalysisException, match="DELTA_REPLACE_WHERE_MISMATCH"):
        insert(spark, path, "INSERT INTO $t REPLACE WHERE id < 4 SELECT 5, 'c', 7")
    insert(spark, path, "INSERT OVERWRITE $t SELECT id + 1, p, q FROM $t WHERE p = 'c'")
    assert content(spark, path) == [(9, "c", 7)]


def test_other_targets_are_sparks(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql(f"CREATE TABLE plain_rows (id int) USING parquet LOCATION '{tmp_path / 'plain'}'")
    try:
        deltamerge.sql(spark, "INSERT INTO plain_rows VALUES (2)")
        deltamerge.sql(spark, "INSERT OVERWRITE TABLE plain_rows VALUES ((1))")
        with pytest.raises(ParseException, match="PARSE_SYNTAX_ERROR"):
            deltamerge.sql(spark, "INSERT INTO plain_rows BY VALUES (1)")
        deltamerge.sql(spark, f"INSERT OVERWRITE DIRECTORY '{tmp_path / 'folder'}' USING parquet SELECT 5 AS a")
        assert [row[0] for row in spark.table("plain_rows").collect()] == [1]
        assert [row[0] for row in spark.read.parquet(str(tmp_path / "folder")).collect()] == [5]
    finally:
        spark.sql("DROP TABLE plain_rows")
