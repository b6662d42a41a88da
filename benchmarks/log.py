"""Reading and writing the log of large tables: `python -m benchmarks.log [files ...] [--figures FILE] [--picture FILE]`.

Each measurement runs in a process of its own, so that it is cold and its memory is its own; engines alternate, medians
count. Times are in seconds or milliseconds as named, memory is the peak above an empty process with the same imports, in
MB. pyarrow imports pandas, where it is installed, with the first Python value that it is given: this counts as an import.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.curves import Figures, draw

SIZES = (1_000, 10_000, 100_000, 1_000_000)
SLOW = {"delta-spark": 100_000}
COMMITS = 10
WIDTH = 1_000
SCHEMA = {
    "type": "struct",
    "fields": [
        {"name": name, "type": type, "nullable": True, "metadata": {}}
        for name, type in (("id", "long"), ("word", "string"), ("price", "double"), ("day", "date"), ("p", "integer"))
    ],
}


def add_line(number: int, version: int) -> str:
    """An add action with statistics of four columns."""
    low, high = number * WIDTH, number * WIDTH + WIDTH - 1
    minimum = {"id": low, "word": f"word-{low:012d}", "price": low / 4, "day": "2024-01-01"}
    maximum = {"id": high, "word": f"word-{high:012d}", "price": high / 4, "day": "2024-12-31"}
    counts = dict.fromkeys(minimum, 0)
    stats = {"numRecords": WIDTH, "minValues": minimum, "maxValues": maximum, "nullCount": counts}
    path = f"p={number % 100}/part-{version:05d}-{number:032x}.c000.snappy.parquet"
    add = {
        "path": path,
        "partitionValues": {"p": str(number % 100)},
        "size": 1_000_000 + number,
        "modificationTime": 1_700_000_000_000,
        "dataChange": True,
        "stats": json.dumps(stats, separators=(",", ":")),
    }
    return json.dumps({"add": add}, separators=(",", ":"))


def write_commit(log: Path, version: int, lines: list[str]) -> None:
    """One commit file."""
    info = json.dumps({"commitInfo": {"timestamp": 1_700_000_000_000 + version, "operation": "WRITE"}})
    (log / f"{version:020d}.json").write_text("\n".join([info, *lines]) + "\n")


def make_table(root: Path, files: int) -> None:
    """A checkpoint of all files but those of the ten commits after it, written by us."""
    from deltamerge.log.commit.upkeep import checkpoint
    from deltamerge.log.replay.load import load
    from deltamerge.storage.local import LocalStore

    log = root / "_delta_log"
    log.mkdir(parents=True)
    metadata = {
        "id": "4a8b1ff0-8f0a-4bd0-93b7-5b0f0a1ee8a4",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps(SCHEMA),
        "partitionColumns": ["p"],
        "configuration": {},
    }
    head = [json.dumps({"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}), json.dumps({"metaData": metadata})]
    later = min(100, files // 20)
    base = files - COMMITS * later
    write_commit(log, 0, head + [add_line(number, 0) for number in range(base)])
    checkpoint(load(LocalStore(str(root))))
    for version in range(1, COMMITS + 1):
        start = base + (version - 1) * later
        write_commit(log, version, [add_line(number, version) for number in range(start, start + later)])


def ours(root: Path) -> dict[str, float]:
    """Cold load, catching up, skipping, checkpoint."""
    import pyarrow as pa

    from deltamerge.log.commit.upkeep import checkpoint
    from deltamerge.log.replay.table import DeltaLog
    from deltamerge.log.skipping.skipping import could_match
    from deltamerge.protocol.values.predicate import And, Compare
    from deltamerge.storage.local import LocalStore

    pa.array([0])
    empty = memory()
    log = DeltaLog(LocalStore(str(root)))
    found: dict[str, float] = {}
    started = time.process_time()
    found["cold s"], snapshot = timed(log.snapshot)
    found["cold CPU s"] = time.process_time() - started
    found["cold MB"] = memory() - empty
    files = len(snapshot.files)
    bounds = [Compare(("id",), op, pa.scalar(value)) for op, value in ((">=", 5_000), ("<=", 9_999))]

    def skip() -> int:
        return int(could_match(snapshot.files, And(tuple(bounds)), snapshot.schema, snapshot.partition_columns).sum())

    found["first skip ms"], kept = milliseconds(skip)
    assert kept == 5, kept
    found["skip ms"], _ = milliseconds(skip)
    write_commit(root / "_delta_log", snapshot.version + 1, [add_line(files + number, 99) for number in range(20)])
    found["catch up ms"], snapshot = milliseconds(log.snapshot)
    assert len(snapshot.files) == files + 20
    found["checkpoint s"], _ = timed(lambda: checkpoint(snapshot))
    found["peak MB"] = memory() - empty
    (root / "_delta_log" / f"{snapshot.version:020d}.json").unlink()
    (root / "_delta_log" / f"{snapshot.version:020d}.checkpoint.parquet").unlink()
    (root / "_delta_log" / "_last_checkpoint").unlink()
    return found


def delta_rs(root: Path) -> dict[str, float]:
    """delta-rs: cold load with the list of files, catching up one commit, skipping by a key range."""
    from deltalake import DeltaTable

    empty = memory()
    found: dict[str, float] = {}

    def cold() -> DeltaTable:
        table = DeltaTable(str(root))
        table.file_uris()
        return table

    found["cold s"], table = timed(cold)
    found["cold MB"] = memory() - empty
    count = len(table.file_uris())
    version = table.version() + 1
    write_commit(root / "_delta_log", version, [add_line(count + number, 99) for number in range(20)])
    found["catch up ms"], _ = milliseconds(table.update_incremental)
    (root / "_delta_log" / f"{version:020d}.json").unlink()
    return found


def delta_spark(root: Path) -> dict[str, float]:
    """delta-spark: first load with its list of files, catching up one commit, a checkpoint."""
    import delta
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    for key, value in {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.shuffle.partitions": "2",
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.driver.memory": "4g",
        "spark.log.level": "OFF",
    }.items():
        builder = builder.config(key, value)
    spark = delta.configure_spark_with_delta_pip(builder).getOrCreate()
    found: dict[str, float] = {}
    load = spark._jvm.org.apache.spark.sql.delta.DeltaLog.forTable
    warm = root.parent / "warm"
    spark.range(1).write.format("delta").mode("overwrite").save(str(warm))
    spark.read.format("delta").load(str(warm)).count()
    found["cold s"], log = timed(lambda: opened(load(spark._jsparkSession, str(root))))
    version = log.update(False, spark._jvm.scala.Option.empty(), spark._jvm.scala.Option.empty()).version() + 1
    write_commit(root / "_delta_log", version, [add_line(10**8 + number, 99) for number in range(20)])
    none = spark._jvm.scala.Option.empty
    found["catch up ms"], _ = milliseconds(lambda: log.update(False, none(), none()).numOfFiles())
    (root / "_delta_log" / f"{version:020d}.json").unlink()
    spark.stop()
    return found


def opened(log: object) -> object:
    """A log whose newest snapshot's state has been worked out."""
    log.unsafeVolatileSnapshot().numOfFiles()  # type: ignore[attr-defined]
    return log


def memory() -> float:
    """Peak resident memory of this process so far, in MB."""
    status = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in status if line.startswith("VmHWM"))) / 1024


def timed(work: Callable[[], object]) -> tuple[float, object]:
    """Seconds, and what came out."""
    start = time.perf_counter()
    value = work()
    return time.perf_counter() - start, value


def milliseconds(work: Callable[[], object]) -> tuple[float, object]:
    """Milliseconds, and what came out."""
    seconds, value = timed(work)
    return seconds * 1000, value


ENGINES = {"deltamerge": ours, "delta-rs": delta_rs, "delta-spark": delta_spark}


def main() -> None:
    """Measure each engine that is installed on tables of each size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=int, default=SIZES)
    parser.add_argument("--engine", choices=ENGINES, help="measure one engine on the table at --table, and print JSON")
    parser.add_argument("--table", type=Path)
    parser.add_argument("--repeat", type=int, default=5, help="runs of each engine")
    parser.add_argument("--skip", nargs="*", default=[], help="engines to leave out")
    parser.add_argument("--figures", type=Path, help="a JSON file for the figures, to which those of other sizes are added")
    parser.add_argument("--picture", type=Path, help="an SVG file for the curves of --figures")
    given = parser.parse_args()
    if given.engine:
        print(json.dumps(ENGINES[given.engine](given.table)))
        return
    figures: Figures = json.loads(given.figures.read_text()) if given.figures and given.figures.exists() else {}
    for files in given.files:
        engines = [name for name in ENGINES if name not in given.skip and files <= SLOW.get(name, files)]
        for engine, found in measured(files, engines, given.repeat).items():
            figures.setdefault(engine, {})[str(files)] = found
            print(f"{files:>9,} {engine:<12} " + "  ".join(f"{name} {value:.2f}" for name, value in found.items()), flush=True)
        if given.figures:
            given.figures.write_text(json.dumps(figures, indent=1) + "\n")
    if given.picture:
        given.picture.write_text(draw(figures))


def measured(files: int, engines: list[str], repeat: int) -> dict[str, dict[str, float]]:
    """Medians of each engine's figures on a table of `files` files; an engine that fails is left out, and told why."""
    runs: dict[str, list[dict[str, float]]] = {}
    with tempfile.TemporaryDirectory(prefix="deltamerge-log-") as folder:
        table = Path(folder) / "t"
        make_table(table, files)
        for engine in engines * repeat:
            command = [sys.executable, "-m", "benchmarks.log", "--engine", engine, "--table", str(table)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                print(f"{files:>9,} {engine:<12} not measured: {(done.stderr.splitlines() or [''])[-1][:100]}")
            else:
                runs.setdefault(engine, []).append(json.loads(done.stdout.splitlines()[-1]))
    return {engine: {name: statistics.median(run[name] for run in found) for name in found[0]} for engine, found in runs.items()}


if __name__ == "__main__":
    main()
