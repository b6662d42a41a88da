"""`writeStream.format("delta")` in an active session: each batch is in the table once, also where Spark runs one again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import deltamerge
from deltamerge.activation.stream_sink import Sink
from deltamerge.commands.rows.request import WriteRequest
from deltamerge.tables import DeltaTable
from tests.e2e.tables import content, make, version
from tests.e2e.test_streaming import arrive, forget_last_batch

pytestmark = pytest.mark.local(reason="the stream's files and its checkpoint are on a local disk")


@pytest.fixture(autouse=True)
def active(spark: SparkSession) -> Iterator[None]:
    """The session is active for the time of the test."""
    deltamerge.activate(spark)
    yield
    deltamerge.deactivate(spark)


@pytest.fixture
def rows(spark: SparkSession, tmp_path: Path) -> DataFrame:
    """A stream of two batches."""
    arrive(tmp_path / "in", 0, [(1, 10)])
    arrive(tmp_path / "in", 1, [(2, 20)])
    return spark.readStream.schema("id int, v int").option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))


def writer(frame: DataFrame, tmp_path: Path, name: str = "checkpoint") -> Any:
    found = frame.writeStream.format("delta").option("checkpointLocation", str(tmp_path / name))
    return found.trigger(availableNow=True)


@pytest.mark.connect
def test_each_batch_is_written_once(spark: SparkSession, rows: DataFrame, tmp_path: Path) -> None:
    path = tmp_path / "t"
    query = writer(rows, tmp_path).partitionBy("v").option("userMetadata", "streamed").queryName("one").start(str(path))
    query.awaitTermination()
    assert content(spark, path) == [(1, 10), (2, 20)]
    entry = DeltaTable.forPath(spark, str(path)).history(1).collect()[0]
    assert (entry.operation, entry.userMetadata) == ("STREAMING UPDATE", "streamed")
    assert entry.operationParameters == {"outputMode": "Append", "queryId": query.id, "epochId": "1"}
    assert json.loads((tmp_path / "checkpoint" / "metadata").read_text())["id"] == query.id
    assert DeltaTable.forPath(spark, str(path)).detail().collect()[0].partitionColumns == ["v"]
    forget_last_batch(tmp_path)
    arrive(tmp_path / "in", 2, [(3, 30)])
    writer(rows.withColumn("w", F.lit(1)), tmp_path).option("mergeSchema", True).start(str(path)).awaitTermination()
    assert content(spark, path) == [(1, 10, None), (2, 20, None), (3, 30, 1)]
    assert version(path) == 2
    # Another query has an id of its own, though it counts its batches from 0, too.
    writer(rows, tmp_path, "other").option("path", str(path)).start().awaitTermination()
    assert len(content(spark, path)) == 6


@pytest.mark.connect
def test_a_complete_result_replaces_the_one_before(spark: SparkSession, rows: DataFrame, tmp_path: Path) -> None:
    with_name = f"delta.`{tmp_path / 't'}`"
    make(spark, tmp_path / "t", "n long", [(7,)])
    counted = rows.groupBy().agg(F.count("*").alias("n"))
    writer(counted, tmp_path).toTable(with_name, outputMode="complete").awaitTermination()
    assert content(spark, tmp_path / "t") == [(2,)]
    entry = DeltaTable.forPath(spark, str(tmp_path / "t")).history(1).collect()[0]
    assert entry.operationParameters["outputMode"] == "Complete"
    assert (entry.operationMetrics["numAddedFiles"], entry.operationMetrics["numRemovedFiles"]) == ("1", "1")


def test_a_table_of_the_catalog_is_made(spark: SparkSession, rows: DataFrame, tmp_path: Path) -> None:
    spark.sql(f"CREATE DATABASE streamed LOCATION '{tmp_path / 'db'}'")
    try:
        writer(rows, tmp_path).toTable("streamed.t", partitionBy="v").awaitTermination()
        assert content(spark, tmp_path / "db" / "t") == [(1, 10), (2, 20)]
        history = DeltaTable.forName(spark, "streamed.t").history().collect()
        assert [entry.operation for entry in history] == ["STREAMING UPDATE", "STREAMING UPDATE", "CREATE TABLE"]
        writer(rows, tmp_path, "other").toTable("streamed.t").awaitTermination()
        assert spark.table("streamed.t").count() == 4
    finally:
        spark.sql("DROP DATABASE streamed CASCADE")


def test_what_cannot_be_is_refused_before_the_query_starts(spark: SparkSession, rows: DataFrame, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    for name in ("maxRecordPerFile", "replaceWhere", "txnAppId", "delta.appendOnly"):
        with pytest.raises(IllegalArgumentException, match=rf"DELTAMERGE_UNKNOWN_OPTION.*{name}"):
            writer(rows, tmp_path).option(name, "1").start(path)
    with pytest.raises(AnalysisException, match="DELTA_UNSUPPORTED_OUTPUT_MODE"):
        writer(rows, tmp_path).outputMode("update").start(path)
    with pytest.raises(IllegalArgumentException, match="DELTAMERGE_NO_PATH"):
        writer(rows, tmp_path).start()
    with pytest.raises(AnalysisException, match="DELTAMERGE_SEVERAL_PATHS"):
        writer(rows, tmp_path).option("path", path).start(path)
    with pytest.raises(AnalysisException, match="DELTAMERGE_NO_CHECKPOINT"):
        rows.writeStream.format("delta").start(path)
    with pytest.raises(AnalysisException, match="DELTA_NULL_SCHEMA_IN_STREAMING_WRITE"):
        writer(rows.withColumn("w", F.array(F.lit(None))), tmp_path).start(path)
    assert not (tmp_path / "t").exists()
    assert not (tmp_path / "checkpoint").exists()
    make(spark, tmp_path / "t", "id int", [(1,)])
    with pytest.raises(StreamingQueryException, match="DELTA_METADATA_MISMATCH"):
        writer(rows, tmp_path).start(path).awaitTermination()
    assert content(spark, tmp_path / "t") == [(1,)]
    known = rows.join(spark.read.format("delta").load(path), "id", "left_anti").select("id")
    with pytest.raises(AnalysisException, match=r"(?s)DELTAMERGE_STREAM_READS_ITS_TABLE\b.*foreachBatch"):
        writer(known, tmp_path).start(path)


def test_a_batch_is_written_only_for_a_query_that_is_known(spark: SparkSession, tmp_path: Path) -> None:
    sink = Sink(str(tmp_path / "t"), WriteRequest("append"), str(tmp_path / "checkpoint"))
    with pytest.raises(Exception, match="DELTAMERGE_UNKNOWN_QUERY"):
        sink(spark.range(1), 0)
    assert not (tmp_path / "t").exists()
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "metadata").write_text('{"id": "one"}')
    sink(spark.range(1), 0)
    sink(spark.range(1), 0)
    assert content(spark, tmp_path / "t") == [(0,)]


def test_other_formats_are_sparks(spark: SparkSession, rows: DataFrame, tmp_path: Path) -> None:
    given = {"checkpointLocation": str(tmp_path / "checkpoint"), "path": str(tmp_path / "out")}
    rows.writeStream.format("parquet").partitionBy("v").options(**given).trigger(availableNow=True).start().awaitTermination()
    assert sorted(found.name for found in (tmp_path / "out").glob("v=*")) == ["v=10", "v=20"]
