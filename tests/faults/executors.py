"""Merges on a cluster whose workers go wrong; run by test_executors in a process of its own, a JSON line about each."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import deltamerge
from deltamerge.budgets import using
from deltamerge.errors import DeltaMergeError
from deltamerge.tables import DeltaTable
from deltamerge.worker.scan.store import DataStore
from tests.e2e.clustered import frame, stored
from tests.e2e.commits import live_files
from tests.faults.processes import small_session
from tests.java import QUICK_JAVA
from tests.live import ship_live_code

SETTINGS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1g",
    "spark.executor.extraJavaOptions": QUICK_JAVA,
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.5",
    "spark.speculation.efficiency.enabled": "false",
    "spark.speculation.task.duration.threshold": "1s",
    "spark.python.task.killTimeout": "60s",  # the losing attempt goes on writing
    "spark.databricks.delta.retentionDurationCheck.enabled": "false",
}
LATE = 50.0  # seconds for which a slow attempt waits at most: below the time that its worker is given to end
GO = "go"  # the file that tells it to go on
_CREATE, _SYNC = DataStore.create, DataStore.sync


def main(folder: Path) -> None:
    """Reads lines of what goes wrong: a name, where, how often, the strategy and the vectors, as JSON."""
    spark = small_session(**SETTINGS)
    ship_live_code()
    print("ready", flush=True)
    with using(driver_match_bytes=-1, driver_write_bytes=-1):
        for number, line in enumerate(sys.stdin):
            told = merged(spark, folder / str(number), **json.loads(line))
            print(json.dumps(told), flush=True)


def merged(spark: SparkSession, folder: Path, fault: str, at: str, always: bool, strategy: str, vectors: bool) -> dict[str, Any]:
    """What a merge does while something goes wrong, and what its table is afterwards."""
    spark.conf.set("spark.deltamerge.strategy", strategy)
    properties = {"delta.enableDeletionVectors": str(vectors).lower()}
    path = str(folder / "t")
    put_right()
    for part in range(2):
        rows = frame(spark, range(part * 10, part * 10 + 10), "old").coalesce(1)
        deltamerge.write(rows, path, mode="append", **({} if part else {"properties": properties}))
    make = partial(stored, spark, str(folder / "s")) if "exchange" in strategy else partial(frame, spark)
    source = make(range(8, 24), "new")
    merge = DeltaTable.forPath(spark, path).alias("t").merge(source, "t.id = s.id")
    merge = merge.whenMatchedUpdateAll().whenNotMatchedInsertAll()
    before = names(path)
    go_wrong(FAULTS[fault], at, always, str(folder))
    error = None
    try:
        merge.run()
    except DeltaMergeError as caught:
        error = [caught.condition, caught.detail]
    finally:
        put_right()
    happened = len(list(folder.glob("fault-*")))
    waits = fault == "late" and not list(folder.glob("end-*"))
    (folder / GO).touch()
    rows = table_rows(spark, path)
    until(lambda: fault not in ("executor", "late") or len(list(folder.glob("end-*"))) == happened)
    written, known = names(path), live_files(Path(path))
    told = {
        "error": error,
        "happened": happened,
        "waits": waits,
        "made": len(list(folder.glob("made-*"))),
        "rows": rows,
        "later": table_rows(spark, path),
        "version": DeltaTable.forPath(spark, path).history(1).first().version,
        "orphans": len(written - before - known),
        "lost": len(known - written),
    }

    def is_clean() -> bool:
        """Another attempt, which Spark began as this one was slow, may still write a file."""
        DeltaTable.forPath(spark, path).vacuum(0)
        return names(path) <= known

    until(is_clean)
    return told | {"left": len(names(path) - known), "vacuumed": table_rows(spark, path)}


def table_rows(spark: SparkSession, path: str) -> list[list[Any]]:
    return sorted(list(row) for row in deltamerge.read(spark, path).collect())


def names(path: str) -> set[str]:
    """Data files on the disk."""
    return {file.name for file in Path(path).glob("*.parquet")}


def until(is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not is_so() and time.monotonic() < end:
        time.sleep(0.1)


def put_right() -> None:
    DataStore.create, DataStore.sync = _CREATE, _SYNC  # type: ignore[method-assign]


def go_wrong(fault: Callable[[str], None], at: str, always: bool, folder: str) -> None:
    """From now on the first file that a worker creates or syncs, or each of them, meets a fault."""
    original, driver = getattr(DataStore, at), os.getpid()

    def touched(store: DataStore, *given: Any) -> Any:
        done = original(store, *given)
        if os.getpid() != driver and store.root.startswith(folder):
            os.close(os.open(f"{folder}/made-{uuid.uuid4().hex}", os.O_CREAT))
            try:
                mark = f"{folder}/fault-{os.getpid() if always else 'once'}"
                os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return done
            fault(mark.replace("fault-", "end-"))
        return done

    setattr(DataStore, at, touched)


def kill(end: str) -> None:
    """The worker's process is killed."""
    os.kill(os.getpid(), signal.SIGKILL)


def kill_executor(end: str) -> None:
    """The executor is killed; the worker, which does not know, goes on writing for a while."""
    parent = os.getppid()
    found = subprocess.run(["ps", "-o", "ppid=,command=", "-p", str(parent)], capture_output=True, text=True, check=True).stdout
    executor = int(found.split()[0]) if "daemon" in found else parent
    os.kill(executor, signal.SIGKILL)
    time.sleep(1)
    open(end, "x").close()


def be_late(end: str) -> None:
    """Another attempt begins meanwhile, and ends first; the merge ends, too."""
    go, latest = Path(end).with_name(GO), time.monotonic() + LATE
    while not go.exists() and time.monotonic() < latest:
        time.sleep(0.1)
    open(end, "x").close()


def run_out_of_memory(end: str) -> None:
    raise MemoryError


def fill_disk(end: str) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


FAULTS: dict[str, Callable[[str], None]] = {
    "kill": kill,
    "executor": kill_executor,
    "late": be_late,
    "memory": run_out_of_memory,
    "full": fill_disk,
}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
