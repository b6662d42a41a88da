"""Streaming queries, side by side, until they have seen all that is there or the process is killed; run by test_kill_streams.

One merges and appends each micro-batch by `foreachBatch`, one writes from a Delta table into another one. Each merge adds to the
counter of every row how many files the batch has, so that the content tells how often each was merged. Says when a batch begins.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import deltamerge
from deltamerge import streaming
from deltamerge.activation import stream_writer
from deltamerge.activation.stream_sink import Sink
from deltamerge.spark.pyspark.older import IS_OLDER
from deltamerge.tables import DeltaMergeBuilder
from tests.faults.counting import slow_down
from tests.faults.dying import die_at
from tests.faults.processes import READY, small_session


class Announced(Sink):
    """A sink that says what it begins."""

    def __call__(self, batch: DataFrame, number: int) -> None:
        print(READY, flush=True)
        super().__call__(batch, number)


def counting(builder: DeltaMergeBuilder) -> DeltaMergeBuilder:
    return builder.whenMatchedUpdate(set={"counter": "t.counter + s.count"})


def by_batch(spark: SparkSession, place: Path) -> Any:
    """A query over the files that are there, one a batch; two where Spark was killed before it wrote the offset."""
    merge = streaming.upsert(str(place / "counted"), "id", "counts", clauses=counting)
    add = streaming.append(str(place / "appended"), "rows")

    def both(batch: DataFrame, number: int) -> None:
        print(READY, flush=True)
        merge(batch.groupBy("id").count(), number)
        add(batch, number)

    rows = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).parquet(str(place / "files"))
    return rows.writeStream.foreachBatch(both).option("checkpointLocation", str(place / "batches")).start()


def by_sink(spark: SparkSession, place: Path) -> Any:
    """A query over the commits that are there, one a batch. The trigger availableNow has no limits before Spark 4.2."""
    rows = spark.readStream.format("delta").option("maxFilesPerTrigger", 1).load(str(place / "commits"))
    writer = rows.writeStream.format("delta").option("checkpointLocation", str(place / "checkpoint"))
    return writer.start(str(place / "sink"))


def main(folder: str, call: int) -> None:
    """Run the queries; what touches the disk takes 10 ms longer, and before such a `call`, for 0 never, all is killed."""
    spark, place = small_session(), Path(folder)
    slow_down(0.005)
    deltamerge.activate(spark)
    stream_writer.Sink = Announced  # type: ignore[misc]
    calls = die_at(call, folder)
    # PySpark 3.5 has no table as the source of a stream.
    queries = [begin(spark, place) for begin in ((by_batch,) if IS_OLDER else (by_batch, by_sink))]
    for query in queries:
        query.processAllAvailable()
        query.stop()
    print(f"done after {calls()} calls", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
