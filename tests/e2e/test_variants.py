"""VARIANT columns: copied as they are, made by `parse_json`, alone and within other types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import deltamerge
from deltamerge.errors import DeltaMergeError
from tests.e2e.tables import conf

COLUMNS = "id INT, v VARIANT, a ARRAY<VARIANT>, s STRUCT<x: VARIANT, y: INT>, m MAP<STRING, VARIANT>"
FULL = """parse_json('{"k": [1, null, "t"]}'), array(parse_json('1'), NULL), named_struct('x', parse_json('2'), 'y', 3),
    map('k', parse_json('3'))"""


@pytest.fixture(autouse=True)
def activated(spark: SparkSession) -> Any:
    deltamerge.activate(spark)
    yield
    deltamerge.deactivate(spark)


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> str:
    name = f"delta.`{tmp_path / 't'}`"
    spark.sql(f"CREATE TABLE {name} ({COLUMNS}) USING delta")
    spark.sql(f"INSERT INTO {name} SELECT 1, {FULL} UNION ALL SELECT 2, NULL, NULL, NULL, NULL")
    return name


@pytest.fixture
def source(spark: SparkSession) -> str:
    rows = "SELECT 1 id, parse_json('[7]') v, array(NULL, parse_json('{}')) a, named_struct('x', CAST(NULL AS VARIANT), 'y', 1) s"
    spark.sql(f"{rows}, map('z', parse_json('null')) m UNION ALL SELECT 3, NULL, NULL, NULL, NULL").createOrReplaceTempView(
        "news"
    )
    return "news"


def rows(spark: SparkSession, table: str) -> list[tuple[Any, ...]]:
    found = spark.sql(f"SELECT id, to_json(v), to_json(struct(a, s, m)) FROM {table} ORDER BY id")
    return [tuple(row) for row in found.collect()]


BEFORE = (1, '{"k":[1,null,"t"]}', '{"a":[1,null],"s":{"x":2,"y":3},"m":{"k":3}}')
NEW = (1, "[7]", '{"a":[null,{}],"s":{"y":1},"m":{"z":null}}')


@pytest.mark.connect
@pytest.mark.parametrize("strategy", ["auto", "spark_join", "hash_exchange", "range_exchange"])
def test_a_merge_copies_variants_and_makes_new_ones(spark: SparkSession, table: str, source: str, strategy: str) -> None:
    assert rows(spark, table) == [BEFORE, (2, None, "{}")]
    with conf(spark, {"spark.deltamerge.strategy": strategy}):
        spark.sql(
            f"MERGE INTO {table} t USING {source} n ON t.id = n.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        )
        assert rows(spark, table) == [NEW, (2, None, "{}"), (3, None, "{}")]
        condition = "variant_get(t.v, '$[0]', 'int') = 7"
        then = "UPDATE SET v = parse_json('{\"b\": 1}') WHEN MATCHED AND n.v IS NULL THEN DELETE"
        spark.sql(f"MERGE INTO {table} t USING {source} n ON t.id = n.id WHEN MATCHED AND {condition} THEN {then}")
    assert rows(spark, table) == [(1, '{"b":1}', NEW[2]), (2, None, "{}")]


def test_rows_of_a_table_with_vectors_and_a_feed(spark: SparkSession, table: str, tmp_path: Path) -> None:
    spark.sql(
        f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', 'delta.enableChangeDataFeed' = 'true')"
    )
    spark.sql(f"UPDATE {table} SET v = 5 WHERE id = 2")
    spark.sql(f"DELETE FROM {table} WHERE variant_get(v, '$.k[0]', 'int') = 1")
    assert rows(spark, table) == [(2, "5", "{}")]
    feed = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 3).load(str(tmp_path / "t"))
    found = feed.selectExpr("_change_type", "id", "to_json(v)").sort("_change_type").collect()
    assert [tuple(row) for row in found] == [
        ("delete", 1, BEFORE[1]),
        ("update_postimage", 2, "5"),
        ("update_preimage", 2, None),
    ]
    spark.sql(f"OPTIMIZE {table}")
    assert rows(spark, table) == [(2, "5", "{}")]
    spark.sql(f"RESTORE TABLE {table} TO VERSION AS OF 1")
    assert rows(spark, table) == [BEFORE, (2, None, "{}")]


def test_an_added_column_brings_the_feature(spark: SparkSession, tmp_path: Path) -> None:
    name = f"delta.`{tmp_path / 'n'}`"
    spark.sql(f"CREATE TABLE {name} (id INT) USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    spark.sql(f"INSERT INTO {name} VALUES (1)")
    spark.sql(f"ALTER TABLE {name} ADD COLUMNS (v VARIANT)")
    assert "variantType" in spark.sql(f"DESCRIBE DETAIL {name}").collect()[0]["tableFeatures"]
    spark.sql(f"UPDATE {name} SET v = parse_json('[]')")
    assert [tuple(row) for row in spark.sql(f"SELECT id, to_json(v) FROM {name}").collect()] == [(1, "[]")]


EVOLVED = "SELECT 2 AS id, parse_json('{\"a\": 1}') AS v, named_struct('y', 1, 'x', parse_json('[2]')) AS s"


@pytest.mark.parametrize("way", ["merge", "append", "overwrite"])
def test_evolution_brings_the_feature(spark: SparkSession, tmp_path: Path, way: str) -> None:
    path = str(tmp_path / "n")
    spark.sql(f"CREATE TABLE delta.`{path}` (id INT, s STRUCT<y: INT>) USING delta")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (1, named_struct('y', 0))")
    if way == "merge":
        clauses = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        spark.sql(f"MERGE WITH SCHEMA EVOLUTION INTO delta.`{path}` t USING ({EVOLVED}) n ON t.id = n.id {clauses}")
    else:
        option = "mergeSchema" if way == "append" else "overwriteSchema"
        spark.sql(EVOLVED).write.format("delta").mode(way).option(option, "true").save(path)
    assert "variantType" in spark.sql(f"DESCRIBE DETAIL delta.`{path}`").collect()[0]["tableFeatures"]
    spark.sql(f"UPDATE delta.`{path}` SET s.y = 5")
    found = spark.sql(f"SELECT id, to_json(v), to_json(s) FROM delta.`{path}` ORDER BY id").collect()
    assert [tuple(row) for row in found][-1] == (2, '{"a":1}', '{"y":5,"x":[2]}')
    assert [tuple(row) for row in found][:-1] == ([] if way == "overwrite" else [(1, None, '{"y":5}')])


REFUSED = {
    "MERGE INTO {} t USING news n ON t.v = n.v WHEN MATCHED THEN DELETE": "DATATYPE_MISMATCH.INVALID_ORDERING_TYPE",
    "DELETE FROM {} WHERE v <=> parse_json('1')": "DATATYPE_MISMATCH.INVALID_ORDERING_TYPE",
    "UPDATE {} SET v = map('a', 1)": "DATATYPE_MISMATCH.CAST_WITHOUT_SUGGESTION",
    "OPTIMIZE {} ZORDER BY (s.x)": "DATATYPE_MISMATCH.INVALID_ORDERING_TYPE",
    "CREATE OR REPLACE TABLE {} (id INT, v VARIANT) USING delta PARTITIONED BY (v)": "DELTA_INVALID_PARTITION_COLUMN_TYPE",
    "CREATE OR REPLACE TABLE {} (id INT, v VARIANT) USING delta CLUSTER BY (v)": (
        "DELTA_CLUSTERING_COLUMNS_DATATYPE_NOT_SUPPORTED"
    ),
    "CREATE OR REPLACE TABLE {} (v VARIANT, n INT GENERATED ALWAYS AS (variant_get(v, '$.a', 'int'))) USING delta": (
        "DELTA_UNSUPPORTED_EXPRESSION_GENERATED_COLUMN"
    ),
    "CREATE OR REPLACE TABLE {} (id INT, v VARIANT GENERATED ALWAYS AS (parse_json('1'))) USING delta": (
        "DELTA_UNSUPPORTED_DATA_TYPE_IN_GENERATED_COLUMN"
    ),
}


def test_what_needs_an_order_or_a_cast_is_refused(spark: SparkSession, table: str, source: str) -> None:
    for statement, condition in REFUSED.items():
        with pytest.raises(DeltaMergeError) as error:
            spark.sql(statement.format(table)).collect()
        assert error.value.condition == condition, statement
    assert rows(spark, table) == [BEFORE, (2, None, "{}")]
