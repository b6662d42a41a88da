"""A process that holds a Spark session and merges when told to, so that what a merge costs can be measured from outside.

Run as a module it reads commands as JSON lines and answers each with one. `Host` is the other end.
"""

from __future__ import annotations

import json
import os
import select
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from benchmarks.data import Shape
from benchmarks.engines import ENGINES
from benchmarks.suites import CASES

ROOT = Path(__file__).resolve().parents[1]
DRIVER_MEMORY = "4g"
_FLOOR_ROUNDS = 20
_STARTING_SECONDS, _ENDING_SECONDS = 300, 15
_FATAL = ("OutOfMemory", "Py4JNetworkError", "ConnectionRefused")
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.driver.memory": DRIVER_MEMORY,
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
}
_DELTA = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "4",
}


class HostError(Exception):
    """A command failed; when `gone`, the host died of it or was ended for taking too long."""

    def __init__(self, message: str, gone: bool = False) -> None:
        super().__init__(message)
        self.gone = gone


class Host:
    """A host of one kind: delta (classic Spark with delta-spark), classic or connect (without it), or bare (no Spark).

    `source` is the folder that this library is imported from.
    """

    def __init__(self, kind: str, folder: Path, source: Path = ROOT / "src") -> None:
        (folder / "spark").mkdir(parents=True, exist_ok=True)
        paths = [str(ROOT), str(source), os.environ.get("PYTHONPATH", "")]
        given = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(folder / "spark"),
        }
        self._log = folder / f"host-{kind}.log"
        with open(self._log, "ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "benchmarks.host", kind],
                cwd=folder,
                env=given,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        self._buffer = b""
        self.asked = 0
        self.versions: dict[str, str] = self._answer(_STARTING_SECONDS)

    @property
    def pid(self) -> int:
        """The process whose tree is measured."""
        return self._process.pid

    def ask(self, command: dict[str, Any], seconds: float) -> dict[str, Any]:
        """The answer to a command. Raises HostError, also after `seconds` without one."""
        stdin = _there(self._process.stdin)
        self.asked += 1
        try:
            stdin.write(json.dumps(command).encode() + b"\n")
            stdin.flush()
        except BrokenPipeError as error:
            raise HostError("the process had ended", gone=True) from error
        return self._answer(seconds)

    def _answer(self, seconds: float) -> dict[str, Any]:
        stdout = _there(self._process.stdout)
        until = time.monotonic() + seconds
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([stdout], [], [], max(0, until - time.monotonic()))
            piece = os.read(stdout.fileno(), 1 << 16) if ready else b""
            if not piece:
                self.stop()
                raise HostError("the process died" if ready else f"no answer in {seconds:.0f} s", gone=True)
            self._buffer += piece
        line, _, self._buffer = self._buffer.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            if answer["gone"]:
                self.stop()
            raise HostError(answer["error"], answer["gone"])
        return answer

    def stop(self) -> None:
        """End the process and all that it started, kindly if it listens."""
        _there(self._process.stdin).close()
        try:
            self._process.wait(_ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


def _there(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe


def main(kind: str) -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what Spark and its launcher print goes to the log
    spark = session(kind)
    answers.write(json.dumps(_versions(spark)) + "\n")
    for line in sys.stdin:
        try:
            answer = _done(spark, kind, json.loads(line))
        except Exception as error:
            lines = str(error).strip().splitlines() or [""]
            answer = {"error": f"{type(error).__name__}: {lines[0][:300]}", "gone": any(mark in repr(error) for mark in _FATAL)}
        answers.write(json.dumps(answer) + "\n")
    if spark is not None:
        spark.stop()


def _done(spark: Any, kind: str, command: dict[str, Any]) -> dict[str, Any]:
    shape = Shape(**command["shape"]) if "shape" in command else None
    match command["do"]:
        case "merge":
            assert shape is not None
            engine, case = ENGINES[command["engine"]], CASES[command["case"]]
            table, source = Path(command["table"]), Path(command["source"])
            jobs, began = _jobs(spark, kind), time.perf_counter()
            engine.run(spark, table, source, case, shape)
            seconds, after = time.perf_counter() - began, _jobs(spark, kind)
            return {"seconds": seconds, "jobs": None if jobs is None or after is None else after - jobs}
        case "check":
            return {"check": list(checked(spark, command["table"], command["where"]))}
        case "floor":
            return {"floor": statistics.median(_floors(spark))}
    raise ValueError(command["do"])


def session(kind: str) -> Any:
    """The Spark session of a host of this kind; None for one without Spark."""
    if kind == "bare":
        return None
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable  # else workers run the first Python of the path, which may lack pyarrow
    builder: Any = SparkSession.builder.appName("deltamerge benchmark")
    builder = builder.remote("local[2]") if kind == "connect" else builder.master("local[2]")
    for key, value in {**_SETTINGS, **(_DELTA if kind == "delta" else {})}.items():
        builder = builder.config(key, value)
    if kind == "delta":
        from delta import configure_spark_with_delta_pip

        builder = configure_spark_with_delta_pip(builder)
    return builder.getOrCreate()


def _versions(spark: Any) -> dict[str, str]:
    from importlib.metadata import version

    found = {name: version(name) for name in ("deltalake", "pyarrow")}
    return found if spark is None else {**found, "pyspark": spark.version}


def _jobs(spark: Any, kind: str) -> int | None:
    """The Spark jobs submitted so far, by whichever thread; None where that can't be seen."""
    if spark is None or kind == "connect":
        return None
    return int(spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())


def checked(spark: Any, table: str, where: str) -> Iterator[int]:
    """The number of rows of a table, the sum of the hashes of its rows, and the sums of its keys, as delta-spark reads them."""
    from pyspark.sql import functions as F

    from benchmarks.data import KEYS

    frame = spark.read.format("delta").load(table).where(where)
    columns = [F.col(name) for name in sorted(frame.columns)]
    sums = [F.sum(F.xxhash64(*columns).cast("decimal(20,0)")), *(F.sum(key) for key in KEYS)]
    for value in frame.agg(F.count("*"), *sums).first():
        yield int(value or 0)


def _floors(spark: Any) -> Iterator[float]:
    """Seconds of an empty mapInArrow job, again and again."""
    for _ in range(_FLOOR_ROUNDS):
        began = time.perf_counter()
        spark.range(0, 1, 1, 1).mapInArrow(_nothing, "id long").toArrow()
        yield time.perf_counter() - began


def _nothing(batches: Iterator[Any]) -> Iterator[Any]:
    for batch in batches:
        yield batch.slice(0, 0)


if __name__ == "__main__":
    main(sys.argv[1])
