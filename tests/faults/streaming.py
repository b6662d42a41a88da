"""A streaming query that merges and appends each micro-batch, until it has seen all files or is killed; run by
test_kill_streams, says what it begins.

Each batch adds one to the counter of every row, so that the content tells how often a batch was merged.
"""

from __future__ import annotations

import sys
from pathlib import Path

from pyspark.sql import DataFrame

from deltamerge import streaming
from deltamerge.tables import DeltaMergeBuilder
from tests.faults.counting import slow_down
from tests.faults.processes import READY, small_session


def counting(builder: DeltaMergeBuilder) -> DeltaMergeBuilder:
    return builder.whenMatchedUpdate(set={"counter": "t.counter + 1"})


def main(folder: str) -> None:
    """Run the query over the files that are there; what touches the disk takes 10 ms longer."""
    slow_down(0.005)
    spark, place = small_session(), Path(folder)
    merge = streaming.upsert(str(place / "counted"), "id", "counts", clauses=counting)
    add = streaming.append(str(place / "appended"), "rows")

    def both(batch: DataFrame, number: int) -> None:
        print(READY, flush=True)
        merge(batch, number)
        add(batch, number)

    rows = spark.readStream.schema("id long").option("maxFilesPerTrigger", 1).parquet(str(place / "in"))
    writer = rows.writeStream.foreachBatch(both).option("checkpointLocation", str(place / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()
    print("done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
