"""Merges without end into one table, until the process is killed; run by test_kill, says each step of each merge, and
that it is ready after the first, when all is warm.

Each merge adds one to the counter of every row and inserts one row, so that the content tells how many merges it has seen.
"""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

import deltamerge.storage.local
from deltamerge.tables import DeltaTable
from deltamerge.worker.scan.store import DataStore
from tests.faults.processes import READY, small_session
from tests.live import ship_live_code

FIRST_ROWS = 10
PARTITIONS = 4


def main(path: str, done: int, strategy: str, delay: float, remote: str = "") -> None:
    """Merge on and on, after `done` merges that are in the table; what touches the disk takes `delay` seconds longer."""
    spark = SparkSession.builder.remote(remote).getOrCreate() if remote else small_session()
    spark.conf.set("spark.deltamerge.strategy", strategy)
    if delay:
        slow_down(delay)
    table = DeltaTable.forPath(spark, path).alias("t")
    for merges in itertools.count(done + 1):
        ids = range(FIRST_ROWS + merges)
        rows = {"id": ids, "part": [id % PARTITIONS for id in ids], "counter": [merges] * len(ids)}
        source = spark.createDataFrame(pa.table(rows)).alias("s")
        merge = table.merge(source, "t.id = s.id and t.part = s.part")
        merge.whenMatchedUpdate(set={"counter": "t.counter + 1"}).whenNotMatchedInsertAll().run(
            lambda progress: print(progress.step, flush=True)
        )
        print(READY, flush=True)


def slow_down(seconds: float) -> None:
    """Leave a while between the steps of writing: a file begun, a commit written, synced and linked."""

    def slowed(function: Callable[..., Any]) -> Callable[..., Any]:
        def slow(*args: Any) -> Any:
            time.sleep(seconds)
            result = function(*args)
            time.sleep(seconds)
            return result

        return slow

    ship_live_code()
    DataStore.create = slowed(DataStore.create)  # type: ignore[method-assign]
    for name in ("fsync", "link"):
        setattr(deltamerge.storage.local.os, name, slowed(getattr(os, name)))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], float(sys.argv[4]), *sys.argv[5:])
