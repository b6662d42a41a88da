"""Spliced files are read alike by every reader, and their statistics answer delta-spark's MIN, MAX and COUNT."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import deltamerge
from deltamerge.budgets import using
from deltamerge.tables import DeltaTable, MergeReport
from tests.e2e.tables import conf
from tests.oracle.readers import by_delta_rs, by_delta_spark, by_deltamerge, by_duckdb

ROWS = """SELECT id, CAST(id % 100 AS SMALLINT) AS small, CAST(id % 7 AS INT) AS group, concat('word ', id % 50) AS word,
  CAST(id / 8 AS DOUBLE) AS share, CAST(IF(id % 9 = 0, null, id) AS DECIMAL(12, 2)) AS price,
  DATE'2020-01-01' + CAST(id % 300 AS INT) AS day,
  TIMESTAMP'2020-01-01 00:00:00' + make_interval(0, 0, 0, 0, 0, CAST(id AS INT)) AS at,
  id % 2 = 0 AS open, IF(id % 5 = 0, null, array(id, id + 1)) AS numbers, named_struct('x', id, 'y', concat('y', id)) AS nested
  FROM range(4000)"""
MERGES: list[Callable[[DeltaTable, SparkSession], MergeReport]] = [
    lambda table, spark: (
        table.merge(spark.sql("SELECT id * 500 AS id FROM range(8)").alias("s"), "t.id = s.id")
        .whenMatchedUpdate(set={"word": "'spliced'", "price": "t.price + 100000", "nested.x": "-1L"})
        .run()
    ),
    lambda table, spark: (
        table.merge(spark.sql("SELECT id + 1500 AS id FROM range(40)").alias("s"), "t.id = s.id")
        .whenMatchedDelete("t.id % 2 = 0")
        .whenMatchedUpdate(set={"share": "CAST('NaN' AS DOUBLE)", "small": "null"})
        .run()
    ),
    lambda table, spark: (
        table.merge(spark.sql("SELECT 3999L AS id").alias("s"), "t.id = s.id")
        .whenMatchedUpdate(set={"day": "DATE'1999-01-01'", "group": "-5"})
        .run()
    ),
    lambda table, spark: (
        table.merge(spark.sql("SELECT id + 600 AS id FROM range(9)").alias("s"), "t.id = s.id").whenMatchedDelete().run()
    ),
]
FILTERS = (
    "id = 3999",
    "word = 'spliced'",
    "word > 'word 48'",
    "price > 100000",
    "day < '2000-01-01'",
    "id BETWEEN 1530 AND 1560",
)
BOUNDS = "SELECT COUNT(*), MIN(id), MAX(id), MIN(small), MAX(small), MIN(group), MAX(group), MIN(day), MAX(day) FROM delta.`{}`"


def by_spark(spark: SparkSession, path: Path) -> None:
    with conf(spark, {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}):
        spark.sql(ROWS).coalesce(1).write.format("delta").save(str(path))


def by_us(spark: SparkSession, path: Path) -> None:
    deltamerge.write(spark.sql(ROWS).coalesce(1), str(path))


@pytest.mark.parametrize("write", [by_spark, by_us])
def test_readers_agree_on_spliced_files(spark: SparkSession, tmp_path: Path, write: Callable[[SparkSession, Path], None]) -> None:
    path = tmp_path / "t"
    write(spark, path)
    with using(small_file_bytes=0, row_group_rows=512):
        reports = [merge(DeltaTable.forPath(spark, str(path)).alias("t"), spark) for merge in MERGES]
    # The second one deletes in the only row group; of its file there are several.
    assert [report.spliced_files for report in reports] == [1, 0, 1, 1], [report.plain_rewrites for report in reports]
    expected = by_deltamerge(spark, path)
    assert by_delta_rs(path) == by_duckdb(path) == expected
    where = [f"SELECT COUNT(*), SUM(id), COUNT(word), MAX(nested.y) FROM delta.`{path}` WHERE {text}" for text in FILTERS]
    found = []
    for vectorized in ("true", "false"):
        with conf(spark, {"spark.sql.parquet.enableVectorizedReader": vectorized}):
            assert by_delta_spark(spark, path) == expected
            found.append([spark.sql(text).collect() for text in where])
    with conf(spark, {"spark.sql.parquet.filterPushdown": "false", "spark.databricks.delta.stats.skipping": "false"}):
        found.append([spark.sql(text).collect() for text in where])
    assert found[0] == found[1] == found[2]
    answers = []
    for from_metadata in ("true", "false"):
        with conf(spark, {"spark.databricks.delta.optimizeMetadataQuery.enabled": from_metadata}):
            answers.append(spark.sql(BOUNDS.format(path)).collect())
    assert answers[0] == answers[1]
