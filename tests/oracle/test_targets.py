"""Which names may be merged into: views of whole tables, here and in delta-spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import deltamerge

MERGE = "MERGE INTO shown AS t USING (SELECT 2 AS id, 21 AS n) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET *"


@pytest.mark.parametrize("ours", [True, False])
def test_a_view_of_a_delta_table(spark: SparkSession, tmp_path: Path, ours: bool) -> None:
    path = str(tmp_path / "t")
    spark.sql(f"CREATE TABLE delta.`{path}` (id INT, n INT) USING delta")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (1, 10), (2, 20)")
    run = (lambda text: deltamerge.sql(spark, text)) if ours else spark.sql
    delta = spark.read.format("delta")
    whole = deltamerge.read(spark, path) if ours else delta.load(path)
    old = deltamerge.read(spark, path, version=1) if ours else delta.option("versionAsOf", 1).load(path)
    try:
        whole.createOrReplaceTempView("shown")
        assert run(MERGE).collect()[0]["num_updated_rows"] == 1
        assert run("UPDATE shown SET n = 11 WHERE shown.id = 1").collect()[0][0] == 1
        assert sorted(map(tuple, spark.table("shown").collect())) == [(1, 11), (2, 21)]
        for frame, condition in (
            (whole.where("id > 0"), "DELTA_UNEXPECTED_PARTIAL_SCAN"),
            (old, "DELTA_FAILED_SCAN_WITH_HISTORICAL_VERSION"),
        ):
            frame.createOrReplaceTempView("shown")
            for text in (MERGE, "UPDATE shown SET n = 1", "DELETE FROM shown"):
                with pytest.raises(AnalysisException, match=condition):
                    run(text)
    finally:
        spark.catalog.dropTempView("shown")
    assert sorted(map(tuple, spark.read.format("delta").load(path).collect())) == [(1, 11), (2, 21)]


def test_a_view_that_the_jar_reads_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Its plan does not say for certain what it shows."""
    path = str(tmp_path / "t")
    spark.range(2).selectExpr("id", "id AS n").write.format("delta").save(path)
    spark.read.format("delta").load(path).createOrReplaceTempView("shown")
    try:
        with pytest.raises(AnalysisException, match="DELTA_TABLE_ONLY_OPERATION"):
            deltamerge.sql(spark, MERGE)
    finally:
        spark.catalog.dropTempView("shown")
