"""`df.write.format("delta")`, `insertInto`, `saveAsTable` and `df.writeTo` in an active session."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import deltamerge
from deltamerge.tables import DeltaTable
from tests.e2e.catalog import listed
from tests.e2e.tables import conf, content, make


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


def added(path: Path, version: int) -> list[dict[str, Any]]:
    """What the commit says of the files that it adds."""
    lines = (path / "_delta_log" / f"{version:020d}.json").read_text().splitlines()
    return [action["add"] for action in map(json.loads, lines) if "add" in action]


def shape(path: Path, version: int) -> tuple[list[int], set[str]]:
    """The rows of the files of a commit, and the codecs of their columns."""
    footers = [pq.read_metadata(path / unquote(file["path"])) for file in added(path, version)]
    columns = [footer.row_group(0).column(at) for footer in footers for at in range(footer.num_columns)]
    return sorted(footer.num_rows for footer in footers), {column.compression for column in columns}


@pytest.mark.connect
@pytest.mark.local(reason="files and log are read from the disk")
def test_files_are_as_the_options_say(spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "t"
    rows = spark.range(10).coalesce(1)
    rows.write.format("delta").options(maxRecordsPerFile=4, compression="gzip", header=True).save(str(path))
    assert shape(path, 0) == ([2, 4, 4], {"GZIP"})
    assert "header" in caplog.text
    rows.writeTo(f"delta.`{path}`").option("maxrecordsperfile", "3").option("compression", "ZSTD").append()
    assert shape(path, 1) == ([1, 3, 3, 3], {"ZSTD"})
    deltamerge.write(rows, str(path), "append", max_records_per_file=5, compression="uncompressed")
    assert shape(path, 2) == ([5, 5], {"UNCOMPRESSED"})
    with conf(spark, {"spark.sql.files.maxRecordsPerFile": "6", "spark.sql.parquet.compression.codec": "gzip"}):
        rows.write.format("delta").mode("append").save(str(path))
        rows.write.format("delta").mode("append").option("maxRecordsPerFile", "0").save(str(path))
        spark.sql(f"UPDATE delta.`{path}` SET id = id + 100 WHERE id < 8")
    assert (shape(path, 3), shape(path, 4)) == (([4, 6], {"GZIP"}), ([10], {"GZIP"}))
    assert max(shape(path, 5)[0]) <= 6
    assert content(spark, path) == sorted([(id,) for id in (8, 9)] * 5 + [(id,) for id in range(100, 108)] * 5)


@pytest.mark.local(reason="the log is read from the disk")
def test_rows_that_are_only_rearranged(spark: SparkSession, rows: DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "t"
    rows.write.format("delta").partitionBy("p").save(str(path))
    again = spark.read.format("delta").load(str(path)).coalesce(1)
    again.write.format("delta").mode("overwrite").option("dataChange", "false").save(str(path))
    assert {file["dataChange"] for file in added(path, 1)} == {False}
    for change in ({"mergeSchema": True}, {"overwriteSchema": True}):
        more = rows.withColumn("n", F.lit(1)).write.format("delta").mode("overwrite").options(dataChange=False, **change)
        with pytest.raises(AnalysisException, match="DELTA_DATA_CHANGE_FALSE"):
            more.save(str(path))
    with pytest.raises(AnalysisException, match="DELTA_REPLACE_WHERE_WITH_FILTER_DATA_CHANGE_UNSET"):
        rows.write.format("delta").mode("overwrite").options(dataChange=False, replaceWhere="id = 1").save(str(path))
    assert content(spark, path) == [(1, "a"), (2, "b")]


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
    for name in ("maxRecordPerFile", "compresion", "replaceOn"):
        with pytest.raises(IllegalArgumentException, match=rf"DELTAMERGE_UNKNOWN_OPTION.*{name}"):
            rows.write.format("delta").option(name, 1).save(path)
    with pytest.raises(IllegalArgumentException, match="DELTAMERGE_NO_BUCKETS"):
        rows.write.format("delta").bucketBy(2, "id").save(path)
    with pytest.raises(IllegalArgumentException, match="DELTA_ILLEGAL_OPTION"):
        rows.write.format("delta").option("mergeSchema", "yes").save(path)
    with pytest.raises(IllegalArgumentException, match="CODEC_NOT_AVAILABLE"):
        rows.write.format("delta").option("compression", "zip").save(path)
    with pytest.raises(AnalysisException, match="DELTA_DATA_CHANGE_FALSE"):
        rows.write.format("delta").option("dataChange", "false").save(path)
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
