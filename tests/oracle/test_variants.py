"""VARIANT tables of delta-spark's read and merged here, byte by byte, shredded ones too; tables made here read by delta-spark."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import deltamerge
from tests.e2e.tables import conf

SHREDDED = {
    "spark.sql.variant.writeShredding.enabled": "true",
    "spark.sql.variant.forceShreddingSchemaForTest": (
        "a bigint, b string, c array<struct<a: int, b: double>>, d struct<a: decimal(5,2), c: boolean>"
    ),
}


def document(random: random.Random, depth: int = 3) -> Any:
    kinds = [None, True, random.randint(-200, 1 << random.randint(1, 60)), random.random(), 1.25, "é" * random.randint(0, 70)]
    if depth and random.random() < 0.8:
        if random.random() < 0.3:
            return [document(random, depth - 1) for _ in range(random.randint(0, 4))]
        names = random.sample("abcdef", random.randint(0, 6))
        return {name: document(random, depth - 1) for name in names}
    return random.choice(kinds)


def texts(seed: int) -> list[tuple[int, str | None]]:
    chance = random.Random(seed)
    return [(n, None if n % 17 == 0 else json.dumps(document(chance))) for n in range(300)]


def values(frame: Any) -> list[Any]:
    return [(row.id, row.v and (bytes(row.v.value), bytes(row.v.metadata))) for row in frame.sort("id").collect()]


@pytest.mark.parametrize("settings", [{}, SHREDDED], ids=["whole", "shredded"])
def test_tables_of_both_are_read_alike(spark: SparkSession, tmp_path: Path, settings: dict[str, str]) -> None:
    spark.createDataFrame(texts(1), "id int, j string").selectExpr("id", "parse_json(j) v").createOrReplaceTempView("olds")
    spark.createDataFrame(texts(2), "id int, j string").selectExpr("id + 200 id", "parse_json(j) v").createOrReplaceTempView(
        "news"
    )
    path = str(tmp_path / "t")
    with conf(spark, settings):
        spark.sql(
            f"CREATE TABLE delta.`{path}` (id INT, v VARIANT) USING delta TBLPROPERTIES ('delta.enableVariantShredding' = 'true')"
        )
        spark.sql(f"INSERT INTO delta.`{path}` SELECT * FROM olds")
    files = [pq.ParquetFile(file).schema_arrow.field("v").type for file in (tmp_path / "t").glob("*.parquet")]
    assert all((type.get_field_index("typed_value") >= 0) == bool(settings) for type in files)
    theirs = spark.read.format("delta").load(path).selectExpr("id", "to_json(v) j").sort("id").collect()
    assert deltamerge.read(spark, path).selectExpr("id", "to_json(v) j").sort("id").collect() == theirs
    assert values(deltamerge.read(spark, path)) == values(spark.table("olds")) or settings
    deltamerge.sql(
        spark,
        f"MERGE INTO delta.`{path}` t USING news n ON t.id = n.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
    )
    wanted = (
        spark.sql("SELECT id, to_json(v) j FROM olds WHERE id < 200 UNION ALL SELECT id, to_json(v) FROM news")
        .sort("id")
        .collect()
    )
    assert spark.read.format("delta").load(path).selectExpr("id", "to_json(v) j").sort("id").collect() == wanted
    assert deltamerge.read(spark, path).selectExpr("id", "to_json(v) j").sort("id").collect() == wanted
