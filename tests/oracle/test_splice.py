"""Spliced files are read alike by every reader, and their statistics answer delta-spark's MIN, MAX and COUNT."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

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


Write = Callable[..., None]


def by_spark(spark: SparkSession, path: Path, rows: str = ROWS) -> None:
    with conf(spark, {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}):
        spark.sql(rows).coalesce(1).write.format("delta").save(str(path))


def by_us(spark: SparkSession, path: Path, rows: str = ROWS) -> None:
    deltamerge.write(spark.sql(rows).coalesce(1), str(path))


@pytest.mark.parametrize("write", [by_spark, by_us])
def test_readers_agree_on_spliced_files(spark: SparkSession, tmp_path: Path, write: Write) -> None:
    path = tmp_path / "t"
    write(spark, path)
    with using(small_file_bytes=0, row_group_rows=512):
        reports = [merge(DeltaTable.forPath(spark, str(path)).alias("t"), spark) for merge in MERGES]
    # The second one deletes in the only row group; of its file there are several.
    assert [report.spliced_files for report in reports] == [1, 0, 1, 1], [report.plain_rewrites for report in reports]
    check_readers(spark, path, FILTERS)


def check_readers(spark: SparkSession, path: Path, filters: tuple[str, ...]) -> None:
    """All readers find the same rows, with conditions, too, and delta-spark the same answers in metadata and in rows."""
    expected = by_deltamerge(spark, path)
    assert by_delta_rs(path) == by_duckdb(path) == expected
    where = [f"SELECT COUNT(*), SUM(id), COUNT(word), MAX(nested.y) FROM delta.`{path}` WHERE {text}" for text in filters]
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


ON = "t.id = s.id"
MANY_ROWS = ROWS.replace("range(4000)", "range(70000)")  # four pages of a row group
NEW_ROWS = f"""SELECT id + 61000 AS id, small, group, 'new word' AS word, share, price, day, at, open, numbers, nested
  FROM ({MANY_ROWS}) WHERE id < 300"""


def some_ids(spark: SparkSession, first: int, count: int) -> DataFrame:
    return spark.sql(f"SELECT id + {first} AS id FROM range({count})").alias("s")


# Each over the file that the one before it left: updates of all columns, deletions, and updates of some.
PAGED_MERGES: list[Callable[[DeltaTable, SparkSession], MergeReport]] = [
    lambda table, spark: table.merge(spark.sql(NEW_ROWS).alias("s"), ON).whenMatchedUpdateAll().run(),
    lambda table, spark: (
        table.merge(some_ids(spark, 61100, 50), ON)
        .whenMatchedDelete("t.id % 3 = 0")
        .whenMatchedUpdate(set={"price": "null", "word": "concat(t.word, ' twice')"})
        .run()
    ),
    lambda table, spark: (
        table.merge(some_ids(spark, 62000, 9), ON)
        .whenMatchedUpdate(set={"day": "DATE'1999-01-01'", "share": "1e9D", "small": "CAST(-9 AS SMALLINT)", "id": "-t.id"})
        .run()
    ),
    lambda table, spark: (
        table.merge(some_ids(spark, 61200, 9), ON)
        .whenMatchedDelete("t.id % 2 = 0")
        .whenMatchedUpdate(set={"price": "5000000", "at": "null", "open": "null"})
        .run()
    ),
]
PAGED_FILTERS = (
    "id < 0",
    "word = 'new word'",
    "word LIKE '% twice'",
    "price = 5000000",
    "day < '2000-01-01'",
    "small = 9",
    "share >= 1e8",
    "at IS NULL",
    "id BETWEEN 60990 AND 61310 AND group IN (1, 4)",
)


@pytest.mark.parametrize("write", [by_spark, by_us])
def test_readers_agree_on_pages_that_were_copied(spark: SparkSession, tmp_path: Path, write: Write) -> None:
    path = tmp_path / "t"
    write(spark, path, MANY_ROWS)
    with using(small_file_bytes=0, page_bytes=0, page_share=0.9):
        reports = [merge(DeltaTable.forPath(spark, str(path)).alias("t"), spark) for merge in PAGED_MERGES]
    assert [report.paged_files for report in reports] == [1] * len(reports), [report.plain_rewrites for report in reports]
    check_readers(spark, path, PAGED_FILTERS)
