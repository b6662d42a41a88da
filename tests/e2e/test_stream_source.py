"""`readStream.format("delta")` in an active session: each row of a table comes once, also where a query starts again."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException, StreamingQueryException, UnsupportedOperationException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import deltamerge
from deltamerge import streaming
from deltamerge.tables import DeltaTable
from tests.e2e.tables import conf, content, make, version
from tests.e2e.test_streaming import forget_last_batch
from tests.unit.log.building import create, schema_text

pytestmark = pytest.mark.local(reason="the checkpoint is on a local disk")


@pytest.fixture(autouse=True)
def active(spark: SparkSession) -> Iterator[None]:
    """The session is active for the time of the test."""
    deltamerge.activate(spark)
    yield
    deltamerge.deactivate(spark)


@pytest.fixture
def path(spark: SparkSession, tmp_path: Path) -> Path:
    """Rows 1 and 2 in a file each since version 1, row 3 since version 2."""
    for row in ((1, 10), (2, 20), (3, 30)):
        make(spark, tmp_path / "t", "id int, v int", [row], properties={"delta.enableChangeDataFeed": "true"})
    return tmp_path / "t"


def drained(frame: DataFrame, tmp_path: Path, name: str = "out") -> Any:
    """Run a query into a table of its own until all rows are there, and return it."""
    writer = frame.writeStream.format("delta").option("checkpointLocation", str(tmp_path / f"checkpoint_{name}"))
    query = writer.trigger(availableNow=True).start(str(tmp_path / name))
    query.awaitTermination()
    return query


EXCEEDS = "spark.databricks.delta.changeDataFeed.timestampOutOfRange.enabled"


@pytest.mark.parametrize(("start", "rows"), [({"startingVersion": 4}, [5]), ({"startingTimestamp": "2999-01-01"}, [4, 5])])
@pytest.mark.parametrize("feed", [True, False])
def test_a_start_after_the_newest_version_is_waited_for(
    spark: SparkSession, path: Path, tmp_path: Path, start: dict[str, Any], rows: list[int], feed: bool
) -> None:
    def drain(options: dict[str, Any]) -> None:
        drained(spark.readStream.format("delta").options(readChangeFeed=feed, **options).load(str(path)), tmp_path)

    with pytest.raises((AnalysisException, StreamingQueryException)):
        drain(start)
    with conf(spark, {EXCEEDS: "true"}):
        drain(start)
    assert not (tmp_path / "out").exists() or content(spark, tmp_path / "out") == []
    make(spark, path, "id int, v int", [(4, 40)])  # version 3
    make(spark, path, "id int, v int", [(5, 50)])
    with conf(spark, {EXCEEDS: "true"}):
        drain({"startingVersion": 4})
    assert [row[0] for row in content(spark, tmp_path / "out")] == rows  # a time becomes the version after the newest one


def is_limited(spark: SparkSession) -> bool:
    """Whether Spark asks a source of limited batches more than once in a query that ends."""
    return spark.version >= "4.2"


@pytest.mark.connect
def test_rows_come_once_in_batches(spark: SparkSession, path: Path, tmp_path: Path) -> None:
    limit: dict[str, Any] = {"maxFilesPerTrigger": 2} if is_limited(spark) else {}
    rows = spark.readStream.format("delta").options(**limit).load(str(path))
    assert rows.isStreaming
    assert rows.schema == spark.read.format("delta").load(str(path)).schema
    drained(rows, tmp_path)
    assert content(spark, tmp_path / "out") == [(1, 10), (2, 20), (3, 30)]
    assert version(tmp_path / "out") == (1 if limit else 0)
    make(spark, path, "id int, v int", [(4, 40)])
    DeltaTable.forPath(spark, str(path)).optimize().executeCompaction()
    drained(rows, tmp_path)
    assert content(spark, tmp_path / "out") == [(1, 10), (2, 20), (3, 30), (4, 40)]
    assert version(tmp_path / "out") == (2 if limit else 1)


@pytest.mark.connect
def test_the_job_that_the_guide_of_delta_teaches(spark: SparkSession, path: Path, tmp_path: Path) -> None:
    """Counts by key from one table into another one, and changes merged into a third, over several runs."""
    make(spark, tmp_path / "latest", "id int, v int", [(1, 0)])
    upsert = streaming.upsert(str(tmp_path / "latest"), "id", "latest", latest_by="v")

    def run() -> None:
        rows = spark.readStream.table(f"delta.`{path}`")
        counts = rows.groupBy("id").agg(F.count("*").alias("n"), F.max("v").alias("v"))
        with conf(spark, {"spark.sql.shuffle.partitions": "1"}):
            writer = counts.writeStream.format("delta").outputMode("complete").trigger(availableNow=True)
            writer.option("checkpointLocation", str(tmp_path / "checkpoint_counts")).start(
                str(tmp_path / "counts")
            ).awaitTermination()
        merging = rows.writeStream.foreachBatch(upsert).trigger(availableNow=True)
        merging.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()

    run()
    make(spark, path, "id int, v int", [(1, 11), (4, 40)])
    run()
    forget_last_batch(tmp_path)
    run()
    assert content(spark, tmp_path / "counts") == [(1, 2, 11), (2, 1, 20), (3, 1, 30), (4, 1, 40)]
    assert content(spark, tmp_path / "latest") == [(1, 11), (2, 20), (3, 30), (4, 40)]


@pytest.mark.connect
def test_changes_come_with_their_versions(spark: SparkSession, path: Path, tmp_path: Path) -> None:
    table = DeltaTable.forPath(spark, str(path))
    table.update("id = 2", {"v": "21"})
    table.delete("id = 3")
    changes = spark.readStream.format("delta").option("readChangeFeed", "true").option("startingVersion", 2)
    drained(changes.load(str(path)).where("_commit_timestamp IS NOT NULL").drop("_commit_timestamp"), tmp_path)
    expected = [(2, 20, "update_preimage", 3), (2, 21, "update_postimage", 3), (3, 30, "delete", 4), (3, 30, "insert", 2)]
    assert content(spark, tmp_path / "out") == expected
    with pytest.raises(StreamingQueryException, match="DELTA_SOURCE_TABLE_IGNORE_CHANGES"):
        drained(spark.readStream.format("delta").option("startingVersion", 2).load(str(path)), tmp_path, "refused")
    allowed = spark.readStream.format("delta").options(startingVersion=2, skipChangeCommits=True, path=str(path)).load()
    drained(allowed, tmp_path, "allowed")
    assert content(spark, tmp_path / "allowed") == [(3, 30)]


def test_what_files_hold_in_other_forms(spark: SparkSession, tmp_path: Path) -> None:
    """Deletion vectors, partition values and columns that were renamed before the stream."""
    properties = {"delta.columnMapping.mode": "name", "delta.enableDeletionVectors": "true"}
    rows = [(1, "a", None), (2, "b", 2.5), (3, None, 3.5), (4, "a b/ü", None)]
    path = tmp_path / "t"
    make(spark, path, "id long, part string, x double", rows, partition_by=["part"], properties=properties)
    spark.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN x TO y")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (5, 'a', 5.5), (6, 'a', 6.5)")
    DeltaTable.forPath(spark, str(path)).delete("id = 6")
    drained(spark.readStream.format("delta").load(str(path)), tmp_path)
    assert content(spark, tmp_path / "out") == [*rows, (5, "a", 5.5)]
    assert spark.read.format("delta").load(str(tmp_path / "out")).columns == ["id", "part", "y"]


def test_what_cannot_be_is_refused_before_the_query_starts(spark: SparkSession, path: Path, tmp_path: Path) -> None:
    reader = spark.readStream.format("delta")
    for option, condition in (("endingVersion", "DELTAMERGE_UNKNOWN_OPTION"), ("maxFilesPerTrigger", "DELTA_ILLEGAL_OPTION")):
        with pytest.raises(IllegalArgumentException, match=rf"(?i){condition}.*{option}"):
            spark.readStream.format("delta").option(option, "x").load(str(path))
    with pytest.raises(AnalysisException, match="DELTA_UNSUPPORTED_TIME_TRAVEL_VIEWS"):
        reader.load(f"{path}@v1")
    with pytest.raises(UnsupportedOperationException, match="DELTA_UNSUPPORTED_SCHEMA_DURING_READ"):
        spark.readStream.format("delta").schema("id int").load(str(path))
    with pytest.raises(IllegalArgumentException, match="DELTAMERGE_NO_PATH"):
        reader.load()
    with pytest.raises(AnalysisException, match="DELTA_MISSING_DELTA_TABLE"):
        reader.load(str(tmp_path / "nothing"))
    create(tmp_path / "empty", schema=schema_text())
    with pytest.raises(AnalysisException, match="DELTA_SCHEMA_NOT_SET"):
        reader.load(str(tmp_path / "empty"))
    limited = spark.readStream.format("delta").option("maxBytesPerTrigger", "1k").load(str(path))
    if not is_limited(spark):
        with pytest.raises(IllegalArgumentException, match="DELTAMERGE_LIMITED_STREAM"):
            drained(limited, tmp_path)


def test_another_table_in_the_place_of_the_one_that_was_read(spark: SparkSession, path: Path, tmp_path: Path) -> None:
    drained(spark.readStream.format("delta").load(str(path)), tmp_path)
    os.rename(path, tmp_path / "old")
    make(spark, path, "id int, v int", [(9, 90)])
    with pytest.raises(StreamingQueryException, match="DIFFERENT_DELTA_TABLE_READ_BY_STREAMING_SOURCE"):
        drained(spark.readStream.format("delta").load(str(path)), tmp_path)
