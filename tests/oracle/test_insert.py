"""INSERT statements by delta-spark and here: the same rows, the same history, the same errors."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import deltamerge
from tests.oracle.engines import copy_table
from tests.oracle.readers import by_delta_spark, by_deltamerge

STATEMENTS = {
    "values": "INTO $t VALUES (5, 'e', 1.5, named_struct('x', 1, 'y', 'z')), (6, NULL, 2, NULL)",
    "fields by position": "INTO $t SELECT 5, 'e', 1.5, named_struct('y', 1, 'x', 'z')",
    "columns": "INTO $t (p, id) SELECT 'e', 5",
    "by name": "INTO $t BY NAME SELECT 'e' AS P, 5 AS id",
    "fields by name": "INTO $t BY NAME SELECT 5 AS id, named_struct('y', 'z', 'x', 1) AS s",
    "a query with names": "INTO $t (id) WITH c AS (SELECT 5) SELECT * FROM c",
    "too few": "INTO $t VALUES (5, 'e')",
    "too many": "INTO $t VALUES (5, 'e', 1, NULL, 2)",
    "too many for the list": "INTO $t (id) VALUES (5, 'e')",
    "too few for the list": "INTO $t (id, p) VALUES (5)",
    "overwrite": "OVERWRITE $t SELECT 5, 'a', 1, NULL",
    "a partition": "OVERWRITE $t PARTITION (p = 'a') SELECT 5, 1, NULL",
    "the rest of a partition": "INTO $t PARTITION (p = 'a') SELECT 5, 1, NULL",
    "no partition": "OVERWRITE $t PARTITION (p = 'q') (id) SELECT 5",
    "rows": "INTO $t REPLACE WHERE id >= 2 AND p = 'a' SELECT 5, 'a', 1, NULL",
    "other rows": "INTO $t REPLACE WHERE id < 2 SELECT 5, 'a', 1, NULL",
    "overflow": "INTO $t VALUES (3000000000, 'e', 1, NULL)",
    "more columns": "WITH SCHEMA EVOLUTION INTO $t BY NAME SELECT 5 AS id, 1 AS w",
}
# What an error is called there and here, where the names differ.
RENAMED = {"overflow": ("CAST_OVERFLOW_IN_TABLE_INSERT", "DELTA_CAST_OVERFLOW_IN_TABLE_WRITE")}


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "t"
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id INT, p STRING, d DECIMAL(10, 2), s STRUCT<x: INT, y: STRING>) USING delta "
        "PARTITIONED BY (p)"
    )
    spark.sql(f"INSERT INTO delta.`{path}` SELECT id, if(id % 2 = 0, 'a', 'b'), id, NULL FROM range(1, 5)")
    return path


@pytest.mark.parametrize("name", STATEMENTS)
def test_both_insert_the_same(spark: SparkSession, made: Path, tmp_path: Path, name: str) -> None:
    paths, conditions = [tmp_path / "theirs", tmp_path / "ours"], []
    for path, run in zip(paths, (spark.sql, lambda text: deltamerge.sql(spark, text)), strict=True):
        copy_table(made, path)
        try:
            run("INSERT " + STATEMENTS[name].replace("$t", f"delta.`{path}`"))
            conditions.append(None)
        except Exception as error:
            conditions.append(error.getCondition() if hasattr(error, "getCondition") else str(error)[:200])
    if conditions[0] != conditions[1]:
        assert RENAMED.get(name) == tuple(conditions)
    assert by_delta_spark(spark, paths[0]) == by_delta_spark(spark, paths[1]) == by_deltamerge(spark, paths[1])
    news = [spark.sql(f"DESCRIBE HISTORY delta.`{path}` LIMIT 1").collect()[0] for path in paths]
    assert news[0]["operation"] == news[1]["operation"]
    assert news[0]["operationParameters"].get("mode") == news[1]["operationParameters"].get("mode")
