"""The process of a session whose merges are stopped by Ctrl-C, as a script's and as a notebook's are."""

from __future__ import annotations

import os
import signal
import sys
import time

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import deltamerge
from deltamerge.progress import Progress
from deltamerge.tables import DeltaTable
from tests.faults.processes import small_session


def late(value: int) -> int:
    """The value, after a while."""
    time.sleep(1)
    return value


def stopped(merge: deltamerge.tables.DeltaMergeBuilder, step: str) -> None:
    """Run a merge that is to be stopped in a step; say when its jobs run, and how it ended."""
    said = []

    def tell(progress: Progress) -> None:
        if progress.step == step and progress.all_tasks and not said:
            said.append(progress)
            print(step, flush=True)

    try:
        merge.run(progress=tell)
    except KeyboardInterrupt as error:
        print(f"stopped: {error}", flush=True)
    else:
        print("not stopped", flush=True)


def main(path: str, kind: str) -> None:
    """Stop a merge while it reads its source, where PySpark has a handler, one while it writes, and run a last one."""
    spark = small_session() if kind == "classic" else SparkSession.builder.remote("local[2]").getOrCreate()
    slow = F.udf(late, "long")
    deltamerge.write(spark.range(100).selectExpr("id", "id AS v"), path)
    source = spark.range(60, 160).selectExpr("id", "-id AS v")
    table = DeltaTable.forPath(spark, path).alias("t")

    def merge_of(rows: object, value: object) -> deltamerge.tables.DeltaMergeBuilder:
        found = table.merge(rows.alias("s"), "t.id = s.id")  # type: ignore[attr-defined]
        return found.whenMatchedUpdate(set={"v": value}).whenNotMatchedInsertAll()  # type: ignore[dict-item]

    if kind == "classic":
        stopped(merge_of(source.select("id", slow("v").alias("v")), "s.v"), "reading the source")
    signal.signal(signal.SIGINT, signal.default_int_handler)  # as a notebook has it
    spark.conf.set("spark.deltamerge.strategy", "spark_join")
    stopped(merge_of(source, slow(F.col("s.v"))), "joining and writing")
    print(len(table.history().collect()), table.toDF().where("v < 0").count(), flush=True)
    report = merge_of(source, "s.v").run()
    print(report.version, report.updated, report.inserted, flush=True)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    spark.stop()


if __name__ == "__main__":
    if sys.argv[2] == "connect":
        os.environ["SPARK_TESTING"] = "1"
    main(*sys.argv[1:])
