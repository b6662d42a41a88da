"""A streaming query from one Delta table into another one, until it has seen all rows or is killed.

It is run by test_kill_streams, and says when a batch begins.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import DataFrame

import deltamerge
from deltamerge.activation import stream_writer
from deltamerge.activation.stream_sink import Sink
from tests.faults.counting import slow_down
from tests.faults.processes import READY, small_session


class Announced(Sink):
    """A sink that says what it begins."""

    def __call__(self, batch: DataFrame, number: int) -> None:
        print(READY, flush=True)
        super().__call__(batch, number)


def main(folder: str) -> None:
    """Run the query over the commits that are there, one a batch; what touches the disk takes 10 ms longer.

    Not by the trigger availableNow, which before Spark 4.2 has no limits.
    """
    slow_down(0.005)
    stream_writer.Sink = Announced  # type: ignore[misc]
    spark, place = small_session(), Path(folder)
    deltamerge.activate(spark)
    rows = spark.readStream.format("delta").option("maxFilesPerTrigger", 1).load(str(place / "in"))
    writer = rows.writeStream.format("delta").option("checkpointLocation", str(place / "checkpoint"))
    query = writer.start(str(place / "sink"))
    query.processAllAvailable()
    query.stop()
    print("done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
