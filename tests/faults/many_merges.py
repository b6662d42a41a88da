"""Merges in a row in one session into one table; run by test_many_merges in a process of its own, says a JSON line now and then.

Each line has the memory of the driver and of its workers, in bytes, what is live in Java's heap, and the files of the table.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import deltamerge
from deltamerge.budgets import using
from deltamerge.tables import DeltaTable
from tests.faults.processes import small_session

ROWS, EACH = 20_000, 50
STRATEGIES = ("auto", "broadcast", "range_exchange", "spark_join")
# Spark keeps what it knows of so many jobs; where it keeps none from the start, its memory is that of the merges.
KEPT = {
    f"spark.{name}": "20"
    for name in (
        "ui.retainedJobs",
        "ui.retainedStages",
        "ui.retainedTasks",
        "sql.ui.retainedExecutions",
        "ui.retainedDeadExecutors",
    )
}


def main(folder: Path, merges: int, said: int) -> None:
    """A merge after the other, each in another way; a line after each `said` of them."""
    spark = small_session(**KEPT)
    table = folder / "table"
    deltamerge.write(spark.range(ROWS).selectExpr("id", "id AS n", "'some text' AS w"), str(table))
    asked = ("delta.enableDeletionVectors", "delta.autoOptimize.autoCompact")
    _set(spark, table, {**dict.fromkeys(asked, "true"), "delta.deletedFileRetentionDuration": "interval 0 seconds"})
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    for number in range(1, merges + 1):
        _merge(spark, table, folder / "changes.parquet", number)
        if number % said == 0:
            if number % (said * 5) == 0:
                DeltaTable.forPath(spark, str(table)).vacuum(0)
            print(json.dumps({"merges": number, **measured(spark, table)}), flush=True)
    rows = deltamerge.read(spark, str(table))
    right = rows.selectExpr("count(*) AS rows", "sum(n) AS total").collect()[0]
    print(json.dumps({"rows": right["rows"], "total": right["total"], "expected": list(expected(merges))}), flush=True)


def changes(number: int) -> pa.Table:
    """What a merge changes: rows anywhere get its number; a new row comes in the third of ten merges, and goes in the fourth."""
    first = number * 7_919 % ROWS
    ids = [(first + at * 397) % ROWS for at in range(EACH)]
    gone = [ROWS] if number % 10 in (3, 4) else []
    return pa.table({"id": [*ids, *gone], "n": [number] * (len(ids) + len(gone))})


def expected(merges: int) -> tuple[int, int]:
    """The rows of the table after so many merges, and the sum of their numbers."""
    held = {number: number for number in range(ROWS)}
    for number in range(1, merges + 1):
        for id in changes(number)["id"].to_pylist():
            if id in held and id >= ROWS:
                del held[id]
            else:
                held[id] = number
    return len(held), sum(held.values())


def _merge(spark: SparkSession, table: Path, place: Path, number: int) -> None:
    """In turn by each strategy, of a source that is a file or a frame, in the driver or by Spark's jobs."""
    rows = changes(number)
    source: DataFrame
    if number % 2:
        pq.write_table(rows, place)
        source = spark.read.parquet(str(place))
    else:
        source = spark.createDataFrame(rows)
    spark.conf.set("spark.deltamerge.strategy", STRATEGIES[number // 2 % len(STRATEGIES)])
    limits: dict[str, Any] = {} if number % 3 else {"driver_match_bytes": -1, "driver_write_bytes": -1}
    with using(**limits):
        target = DeltaTable.forPath(spark, str(table)).alias("t").merge(source.alias("s"), "t.id = s.id")
        target = target.whenMatchedDelete(f"t.id >= {ROWS}").whenMatchedUpdate(set={"n": "s.n"})
        target.whenNotMatchedInsert(values={"id": "s.id", "n": "s.n"}).execute()


def measured(spark: SparkSession, table: Path) -> dict[str, int]:
    """The memory that is held after collections of garbage, and the table's files."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    runtime = spark.sparkContext._jvm.java.lang.Runtime.getRuntime()
    for _ in range(3):
        runtime.gc()
    log = list((table / "_delta_log").iterdir())
    detail = DeltaTable.forPath(spark, str(table)).detail().collect()[0]
    return {
        "driver": resident(os.getpid()),
        "heap": runtime.totalMemory() - runtime.freeMemory(),
        "java": sum(resident(pid) for pid, name in children() if name == "java"),
        "workers": sum(resident(pid) for pid, name in children() if name.startswith("python")),
        "files": detail["numFiles"],
        "on disk": sum(1 for _ in table.glob("*.parquet")),
        "log": len(log),
        "threads": len(os.listdir("/proc/self/task")),
        "open": len(os.listdir("/proc/self/fd")),
    }


def resident(pid: int) -> int:
    """The bytes of a process that are in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def children() -> list[tuple[int, str]]:
    """The processes that this one has started, and those that they have, by number and name."""
    parents: dict[int, tuple[int, str]] = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            head, _, rest = place.read_text().rpartition(") ")
        except OSError:
            continue  # it has ended
        number, _, name = head.partition(" (")
        parents[int(number)] = (int(rest.split()[1]), name)
    own = {os.getpid()}
    while found := {pid for pid, (parent, _) in parents.items() if parent in own and pid not in own}:
        own |= found
    return [(pid, parents[pid][1]) for pid in own - {os.getpid()}]


def _set(spark: SparkSession, table: Path, properties: dict[str, str]) -> None:
    given = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
    deltamerge.activate(spark)
    spark.sql(f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES ({given})")
    deltamerge.deactivate(spark)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
