"""`df.write.format("delta")`, `insertInto`, `saveAsTable` and `df.writeTo` in an active session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import deltamerge
from deltamerge.tables import DeltaTable
from tests.e2e.catalog import listed
from tests.e2e.tables import content, make


@pytest.fixture(autouse=True)
def active(spark: SparkSession) -> Iterator[None]:
    """The session is active for the time of the test."""
    deltamerge.activate(spark)
    yield
    deltamerge.deactivate(spark)


@pytest.fixture
def rows(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([(1, "a"), (2, "b")], "id int, p string")


def last(spark: SparkSession, path: Path) -> Any:
    return DeltaTable.forPath(spark, str(path)).history(1).collect()[0]


@pytest.mark.connect
def test_tables_are_written(spark: SparkSession, rows: DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "t"
    rows.write.format("delta").partitionBy("p").option("delta.appendOnly", "false").save(str(path))
    detail = DeltaTable.forPath(spark, str(path)).detail().collect()[0]
    assert (detail.partitionColumns, detail.properties) == (["p"], {"delta.appendOnly": "false"})
    with pytest.raises(AnalysisException, match="DELTA_PATH_EXISTS"):
        rows.write.format("delta").save(str(path))
    rows.write.format("delta").mode("ignore").save(str(path))
    rows.write.option("userMetadata", "again").save(str(path), format="delta", mode="append")
    assert last(spark, path).userMetadata == "again"
    rows.where("id = 2").write.format("delta").mode("overwrite").option("partitionOverwriteMode", "Dynamic").save(str(path))
    assert content(spark, path) == [(1, "a"), (1, "a"), (2, "b")]
    more = rows.withColumn("n", F.lit(1))
    more.write.format("delta").mode("append").options(mergeSchema=True, txnAppId="x", txnVersion=1).save(str(path))
    more.write.format("delta").mode("append").options(mergeSchema=True, txnAppId="x", txnVersion=1).save(str(path))
    assert len(content(spark, path)) == 5
    more.select("n").write.format("delta").mode("overwrite").option("overwriteSchema", "true").save(str(path))
    assert content(spark, path) == [(1,), (1,)]


def test_tables_of_the_catalog_are_written(spark: SparkSession, rows: DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "t"
    make(spark, path, "id int, p string", [(0, "z")])
    with listed(spark, {"written_by_name": path}):
        rows.write.format("delta").mode("append").saveAsTable("written_by_name")
        rows.select(F.col("id").alias("x"), "p").write.insertInto("default.written_by_name")
        assert [row[0] for row in content(spark, path)] == [0, 1, 1, 2, 2]
        rows.select("p", "id").writeTo("written_by_name").append()
        assert [row[0] for row in content(spark, path)] == [0, 1, 1, 1, 2, 2, 2]
        rows.where("id = 2").writeTo("written_by_name").overwrite(F.col("id") == 2)
        assert [row[0] for row in content(spark, path)] == [0, 1, 1, 1, 2]
        rows.writeTo("written_by_name").overwrite(F.lit(True))
        assert content(spark, path) == [(1, "a"), (2, "b")]
        rows.write.insertInto("written_by_name", overwrite=True)
        assert content(spark, path) == [(1, "a"), (2, "b")]
    rows.write.mode("append").insertInto(f"delta.`{path}`")
    rows.writeTo(f"delta.`{path}`").overwritePartitions()
    assert content(spark, path) == [(1, "a"), (2, "b")]


def test_other_formats_are_sparks(spark: SparkSession, rows: DataFrame, tmp_path: Path) -> None:
    rows.write.mode("overwrite").option("header", True).csv(str(tmp_path / "csv"))
    rows.write.format("parquet").partitionBy("p").save(str(tmp_path / "parquet"))
    assert spark.read.parquet(str(tmp_path / "parquet")).count() == 2
    rows.write.format("parquet").saveAsTable("by_spark")
    try:
        rows.write.insertInto("by_spark")
        assert spark.table("by_spark").count() == 4
    finally:
        spark.sql("DROP TABLE by_spark")
    deltamerge.deactivate(spark)
    with pytest.raises(Exception, match="DATA_SOURCE_NOT_FOUND"):  # on classic Spark it is no exception of PySpark's
        rows.write.format("delta").save(str(tmp_path / "none"))
    assert not (tmp_path / "none").exists()


def test_what_cannot_be_is_refused(spark: SparkSession, rows: DataFrame, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    for name in ("maxRecordsPerFile", "compression", "replaceOn"):
        with pytest.raises(IllegalArgumentException, match=rf"DELTAMERGE_UNKNOWN_OPTION.*{name}"):
            rows.write.format("delta").option(name, 1).save(path)
    with pytest.raises(IllegalArgumentException, match="DELTAMERGE_NO_BUCKETS"):
        rows.write.format("delta").bucketBy(2, "id").save(path)
    with pytest.raises(IllegalArgumentException, match="DELTA_ILLEGAL_OPTION"):
        rows.write.format("delta").option("mergeSchema", "yes").save(path)
    with pytest.raises(IllegalArgumentException, match="DELTAMERGE_NO_PATH"):
        rows.write.format("delta").save()
    rows.write.format("delta").save(path)
    with pytest.raises(AnalysisException, match="PARTITION_BY_NOT_ALLOWED_WITH_INSERT_INTO"):
        rows.write.partitionBy("p").insertInto(f"delta.`{path}`")
    with pytest.raises(AnalysisException, match="DELTAMERGE_UNSUPPORTED_PREDICATE"):
        rows.writeTo(f"delta.`{path}`").overwrite(F.crc32(F.col("p")) == 1)
    with pytest.raises(AnalysisException, match="DELTA_REPLACE_WHERE_IN_OVERWRITE"):
        rows.writeTo(f"delta.`{path}`").option("replaceWhere", "id = 1").overwrite(F.col("id") == 2)
    assert DeltaTable.forPath(spark, path).history().count() == 1
