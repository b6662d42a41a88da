"""Temporary views of whole tables in the place of the tables that MERGE, UPDATE and DELETE change."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import deltamerge
from deltamerge.spark.pyspark.plain import plain_sql
from deltamerge.tables import DeltaTable
from tests.e2e.tables import make

UPDATE = "UPDATE shown SET n = shown.n + 1 WHERE shown.id = 1"
MERGE = """MERGE INTO shown USING (SELECT 2 AS id, 21 AS n UNION ALL SELECT 7, 70) s ON shown.id = s.id
    WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"""


@pytest.fixture
def path(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    make(spark, tmp_path / "t", "id int, n int", [(1, 10), (2, 20)])
    yield str(tmp_path / "t")
    spark.catalog.dropTempView("shown")
    spark.catalog.dropGlobalTempView("shown")
    spark.catalog.dropTempView("of_view")


def content(spark: SparkSession, name: str) -> list[tuple[int, int]]:
    return sorted(map(tuple, spark.table(name).collect()))


@pytest.mark.connect
def test_a_view_of_a_whole_table_stands_for_it(spark: SparkSession, path: str) -> None:
    table = DeltaTable.forPath(spark, path)
    table.toDF().createOrReplaceTempView("shown")
    table.alias("t").update("id = 2", {"n": "22"})
    deltamerge.sql(spark, UPDATE)
    assert content(spark, "shown") == [(1, 11), (2, 22)]
    plain_sql(spark, "CREATE TEMP VIEW of_view AS SELECT * FROM shown")
    deltamerge.sql(spark, MERGE.replace("INTO shown", "INTO of_view AS shown"))
    assert content(spark, "of_view") == [(1, 11), (2, 21), (7, 70)]
    table.toDF().select("*").alias("x").createOrReplaceGlobalTempView("shown")
    deltamerge.sql(spark, "DELETE FROM global_temp.shown t WHERE t.id = 7")
    assert content(spark, "global_temp.shown") == [(1, 11), (2, 21)]
    assert [row.operation for row in table.history().collect()] == ["DELETE", "MERGE", "UPDATE", "UPDATE", "WRITE"]


@pytest.mark.connect
def test_a_view_of_a_part_is_refused(spark: SparkSession, path: str) -> None:
    whole, old = deltamerge.read(spark, path), deltamerge.read(spark, path, version=0)
    refused = {
        "DELTA_UNEXPECTED_PARTIAL_SCAN.*some rows": whole.where("id > 0"),
        "DELTA_UNEXPECTED_PARTIAL_SCAN.*some columns": whole.select("id"),
        "DELTA_UNEXPECTED_PARTIAL_SCAN.*another order": whole.select("n", "id"),
        "DELTA_FAILED_SCAN_WITH_HISTORICAL_VERSION.*version 0": old,
    }
    for number, (said, frame) in enumerate(refused.items()):
        frame.createOrReplaceTempView("shown")
        with pytest.raises(AnalysisException, match=said):
            deltamerge.sql(spark, (MERGE, UPDATE, "DELETE FROM shown")[number % 3])
    for frame in (whole.distinct(), whole.union(whole), whole.limit(5)):
        frame.createOrReplaceTempView("shown")
        with pytest.raises(AnalysisException, match="DELTA_TABLE_ONLY_OPERATION"):
            deltamerge.sql(spark, MERGE)
    whole.createOrReplaceTempView("shown")
    deltamerge.sql(spark, f"ALTER TABLE delta.`{path}` ADD COLUMNS (m INT)")
    with pytest.raises(AnalysisException, match=r"(?s)DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS.*Make the view anew"):
        deltamerge.sql(spark, UPDATE)
    assert DeltaTable.forPath(spark, path).history().count() == 2


@pytest.mark.connect
@pytest.mark.parametrize("text", ["of_no_table", "of_no_table WHERE id = 1", "IDENTIFIER('of_no_table')"])
def test_a_view_of_no_table_is_told_by_name(spark: SparkSession, text: str) -> None:
    """Spark's own error is an internal one, with a stack trace; delta-spark leaves it as it is."""
    spark.range(3).createOrReplaceTempView("of_no_table")
    with pytest.raises(AnalysisException, match=r"DELTA_TABLE_ONLY_OPERATION.*is not a Delta table: it is a view"):
        deltamerge.sql(spark, f"DELETE FROM {text}")
    assert spark.table("of_no_table").count() == 3
