"""The same streams written by delta-spark's sink and by this library's: the same rows, history and metrics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from deltamerge.activation.stream_writer import WritingStream
from deltamerge.activation.writer import with_delta
from tests.oracle.readers import by_delta_spark

METRICS = ("numAddedFiles", "numRemovedFiles", "numOutputRows")
KINDS: dict[str, dict[str, Any]] = {
    "append": {"partitionBy": "v", "userMetadata": "x"},
    "complete": {"outputMode": "complete"},
    "another type": {},
    "unknown column": {},
    "added column": {"mergeSchema": "true"},
    "update": {"outputMode": "update"},
}


def stream(spark: SparkSession, tmp_path: Path, kind: str) -> DataFrame:
    rows = spark.readStream.schema("id int, v int").option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    if kind in ("complete", "update"):
        return rows.groupBy("v").agg(F.count("*").alias("id"))
    if kind == "another type":
        return rows.select(F.col("id").cast("string"), "v")
    return rows.withColumn("w", F.lit(1)) if kind.endswith("column") else rows


def run(writer: Any, path: Path, given: dict[str, Any]) -> str | None:
    """Run a query to its end; what it is refused for."""
    try:
        found = writer.format("delta").option("checkpointLocation", f"{path}_checkpoint").trigger(availableNow=True)
        found.start(str(path), **given).awaitTermination()
    except Exception as error:
        names = ("DELTA_METADATA_MISMATCH", "schema mismatch", "does not support Update output mode")
        return next((name for name in names if name in str(error)), str(error))
    return None


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_stream(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    (tmp_path / "in").mkdir()
    for number in range(2):
        pq.write_table(
            pa.table({"id": pa.array([number, 7], pa.int32()), "v": pa.array([1, 1], pa.int32())}),
            tmp_path / "in" / f"{number}.parquet",
        )
    outcomes, tables = [], [tmp_path / "theirs", tmp_path / "ours"]
    for path in tables:
        if kind not in ("append", "update"):
            spark.sql(f"CREATE TABLE delta.`{path}` (id {'long' if kind == 'complete' else 'int'}, v int) USING delta")
        frame = stream(spark, tmp_path, kind)
        writer = frame.writeStream
        outcomes.append(run(writer if path.name == "theirs" else with_delta(frame, writer, WritingStream), path, KINDS[kind]))
    assert (outcomes[0] is None) is (outcomes[1] is None), outcomes
    if kind == "update":
        assert outcomes[0] == outcomes[1]
        return
    theirs, ours = ([by_delta_spark(spark, path), history(spark, path)] for path in tables)
    assert ours == theirs


def history(spark: SparkSession, path: Path) -> list[Any]:
    """What history says of the stream's commits; ids are each query's own."""
    found = []
    for entry in DeltaTable.forPath(spark, str(path)).history().collect():
        if entry.operation == "STREAMING UPDATE":
            said = {**entry.operationParameters, "queryId": len(entry.operationParameters["queryId"])}
            metrics = {name: entry.operationMetrics[name] for name in METRICS}
            found.append((entry.version, said, metrics, entry.isolationLevel, entry.isBlindAppend, entry.userMetadata))
    return found
