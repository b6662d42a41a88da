"""A process that runs OPTIMIZE, RESTORE, VACUUM and what has rows tracked in children of its own, which begin at once and may be
killed.

It is told a line for each: the statement, the table's path, and when to kill the child: `7` before its seventh call that touches
the table, `0.02s` after so many seconds, `0` never. It answers `killed`, or the number of calls and the seconds.

Needs no Spark: these commands ask a session for settings only, where the calling process writes the files.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from types import SimpleNamespace
from typing import Any

from deltamerge.commands.layout.optimize import Optimize, optimize_table
from deltamerge.commands.layout.restore import restore_table
from deltamerge.commands.layout.vacuum import VacuumRequest, vacuum_table
from deltamerge.commands.table.properties import set_properties
from deltamerge.log.replay.table import DeltaLog
from deltamerge.storage.local import LocalStore
from tests.faults.dying import die_at
from tests.older import install

RESTORED = 3
STATEMENTS = {
    "OPTIMIZE": lambda spark, log: optimize_table(spark, log, Optimize()),
    "RESTORE": lambda spark, log: restore_table(spark, log, version=RESTORED),
    "VACUUM": lambda spark, log: vacuum_table(spark, log, VacuumRequest(0)),
    "TRACKING": lambda spark, log: set_properties(spark, log, {"delta.enableRowTracking": "true"}),
}


def session() -> Any:
    """What the commands need of a session."""
    values = {
        "spark.databricks.delta.retentionDurationCheck.enabled": "false",
        "spark.databricks.delta.backfill.maxNumFiles": "3",
        "spark.sql.session.timeZone": "UTC",
    }
    return SimpleNamespace(
        conf=SimpleNamespace(get=values.get, getAll=values), version="4.3", createDataFrame=lambda table: table
    )


def main() -> None:
    """Do what the lines say, one after the other, until there are none."""
    install()
    for line in sys.stdin:
        statement, path, moment = line.split()
        child = os.fork()
        if not child:
            run(statement, path, 0 if moment.endswith("s") else int(moment))
        if moment.endswith("s"):
            time.sleep(float(moment[:-1]))
            os.kill(child, signal.SIGKILL)
        if os.waitpid(child, 0)[1]:
            print("killed", flush=True)


def run(statement: str, path: str, call: int) -> None:
    """Run a statement, say what it took, and end."""
    started, calls = time.perf_counter(), die_at(call, path)
    STATEMENTS[statement](session(), DeltaLog(LocalStore(path)))
    print(calls(), time.perf_counter() - started, flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
