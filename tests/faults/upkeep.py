"""A process that appends to a table, optimizes it, restores versions of it and vacuums it, round by round, until it is killed.

Needs no Spark: these commands ask a session for settings only, where the calling process writes the files.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from deltamerge.commands.layout.optimize import Optimize, optimize_table
from deltamerge.commands.layout.restore import restore_table
from deltamerge.commands.layout.vacuum import VacuumRequest, vacuum_table
from deltamerge.log.replay.table import DeltaLog
from deltamerge.storage.local import LocalStore
from tests.faults.processes import READY

ROWS = 10
UNCHECKED = "spark.databricks.delta.retentionDurationCheck.enabled"


def session() -> Any:
    """What the commands need of a session."""
    get = {UNCHECKED: "false"}.get
    return SimpleNamespace(conf=SimpleNamespace(get=get), version="4.3", createDataFrame=lambda table: table)


def rows_of(number: int) -> pa.Table:
    """The rows of a round."""
    ids = list(range(number * ROWS, number * ROWS + ROWS))
    return pa.table({"id": ids, "part": [id % 2 for id in ids]})


def run(path: Path, number: int) -> None:
    """Rounds from a number on: after each of them the table has the rows of all rounds, in a file a partition."""
    spark, log = session(), DeltaLog(LocalStore(str(path)))
    while True:
        write_deltalake(path, rows_of(number), mode="append")
        newest = log.snapshot().version
        print("restoring", flush=True)
        restore_table(spark, log, version=newest - 1)
        restore_table(spark, log, version=newest)
        print("optimizing", flush=True)
        optimize_table(spark, log, Optimize())
        print("vacuuming", flush=True)
        vacuum_table(spark, log, VacuumRequest(0))
        print(READY, flush=True)
        number += 1


if __name__ == "__main__":
    run(Path(sys.argv[1]), int(sys.argv[2]))
