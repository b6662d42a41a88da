"""Merges that would bring much to the driver, of 1 GB and taking results of 100 MB; run by test_bounds in a process of its own.

It says a JSON line per case: how it ended, by which strategy, and the most memory that Python had meanwhile, in bytes.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import deltamerge
from deltamerge.budgets import DEFAULTS, using
from deltamerge.errors import DeltaMergeError
from deltamerge.tables import DeltaTable
from tests.faults.processes import small_session

LIMITS = {"spark.driver.maxResultSize": "100m", "spark.driver.memory": "1g"}
# What a share of the size meets a share of.
SCALED = (
    *("trusted_estimate_bytes", "collected_bytes", "match_rows", "match_bytes", "early_bytes", "changed_bytes"),
    *("driver_match_bytes", "driver_write_bytes", "driver_compact_bytes", "source_read_bytes"),
)
WIDE = 4_000  # bytes of a text
_RANDOM = np.random.default_rng(7)
Case = Callable[[SparkSession, Path, float], dict[str, Any]]


def main(folder: Path, share: float) -> None:
    """The cases that are given, each a line: its name, and how many times the driver's limits are to be as high as they are.

    Each with `share` of its size and of these limits.
    """
    spark = small_session(**LIMITS)
    print("ready", flush=True)
    for line in sys.stdin:
        name, times = line.split()
        before = peak_reset()
        try:
            with using(**{limit: int(getattr(DEFAULTS, limit) * share * int(times)) for limit in SCALED}):
                found = CASES[name](spark, folder / f"{name}_{times}", share)
        except DeltaMergeError as error:
            found = {"error": error.condition, "text": str(error)[:400]}
        print(json.dumps({"case": name, **found, "before": before, "peak": peak()}), flush=True)


def partitions(spark: SparkSession, path: Path, share: float) -> dict[str, Any]:
    """A source of 5,000 partitions."""
    deltamerge.write(spark.range(10_000).selectExpr("id", "id AS n"), str(path))
    source = spark.range(0, 20_000, 1, int(5_000 * share)).selectExpr("id", "-id AS n").filter("rand() >= 0")
    return merged(spark, path, source)


def sent_partitions(spark: SparkSession, path: Path, share: float) -> dict[str, Any]:
    """The same by an exchange."""
    spark.conf.set("spark.deltamerge.strategy", "range_exchange")
    try:
        return partitions(spark, path, share)
    finally:
        spark.conf.unset("spark.deltamerge.strategy")


def collected(spark: SparkSession, path: Path, share: float) -> dict[str, Any]:
    """A source of nearly 80 MB, the most that is collected."""
    rows = int(19_000 * share)
    deltamerge.write(spark.range(1_000).selectExpr("id", "'' AS w"), str(path))
    return merged(spark, path, spark.createDataFrame(wide(rows)))


def beyond(spark: SparkSession, path: Path, share: float) -> dict[str, Any]:
    """A source of more than the driver's limit."""
    pq.write_table(wide(int(40_000 * share)), path.with_suffix(".parquet"))
    deltamerge.write(spark.range(1_000).selectExpr("id", "'' AS w"), str(path))
    source = spark.read.parquet(str(path.with_suffix(".parquet"))).filter(F.rand() >= 0)
    return merged(spark, path, source)


def changed(spark: SparkSession, path: Path, share: float) -> dict[str, Any]:
    """Changed rows of more than 96 MB, which Spark evaluates, by a source of a few bytes."""
    rows = int(30_000 * share)
    deltamerge.write(spark.createDataFrame(wide(rows)), str(path))
    source = spark.range(rows).selectExpr("id", "'!' AS w")
    return merged(spark, path, source, {"w": "concat(reverse(t.w), s.w)"})


def matched(spark: SparkSession, path: Path, share: float) -> dict[str, Any]:
    """More than 2 million matched pairs."""
    rows = int(3_000_000 * share)
    deltamerge.write(spark.range(rows).selectExpr("id % 10 AS id", "id AS n"), str(path))
    source = spark.range(10).selectExpr("id", "-id AS n")
    return merged(spark, path, source, {"n": "s.n"})


def previewed(spark: SparkSession, path: Path, share: float) -> dict[str, Any]:
    """A preview of rows of 1 MB each, of several files."""
    rows = 24
    for _ in range(4):
        table = pa.table({"id": pa.array(range(rows)), "w": ["x" * int((1 << 20) * share)] * rows})
        deltamerge.write(spark.createDataFrame(table), str(path), mode="append")
    source = spark.range(rows).selectExpr("id", "'!' AS w")
    preview = merge(spark, path, source, {"w": "concat(t.w, s.w)"}).preview()
    return {"strategy": preview.strategy, "shown": len(repr(preview)), "rows": preview.updated}


def removed(spark: SparkSession, path: Path, share: float) -> dict[str, Any]:
    """A million files that leave the table at once."""
    files = int(1_100_000 * share)
    log_of(
        path,
        ({"path": f"p={n % 11}/{n}.parquet", "partitionValues": {"p": str(n % 11)}, "size": 1 << 20} for n in range(files)),
        1_000,
    )
    DeltaTable.forPath(spark, str(path)).delete("p < 10")
    found = DeltaTable.forPath(spark, str(path)).history(1).collect()[0]["operationMetrics"]
    return {"rows": int(found["numRemovedFiles"]), "wanted": files - files // 11}


def marked(spark: SparkSession, path: Path, share: float) -> dict[str, Any]:
    """Deletion vectors of 100,000 files."""
    files = int(100_000 * share)
    path.mkdir(parents=True)
    pq.write_table(pa.table({"id": pa.array([1, 2, 3], pa.int64()), "n": pa.array([1, 2, 3], pa.int64())}), path / "0.parquet")
    original = (path / "0.parquet").read_bytes()
    for number in range(1, files):
        (path / f"{number}.parquet").write_bytes(original)
    log_of(path, ({"path": f"{n}.parquet", "partitionValues": {}, "size": len(original)} for n in range(files)), 3, vectors=True)
    DeltaTable.forPath(spark, str(path)).delete("id = 2")
    rows = deltamerge.read(spark, str(path)).selectExpr("count(*) AS n", "sum(id) AS s").collect()[0]
    return {"rows": rows["n"], "wanted": 2 * files, "total": rows["s"] == 4 * files}


CASES: dict[str, Case] = {
    case.__name__: case
    for case in (partitions, sent_partitions, collected, beyond, changed, matched, previewed, removed, marked)  # type: ignore[attr-defined]
}


def merge(spark: SparkSession, path: Path, source: Any, values: dict[str, str] | None = None) -> Any:
    """An upsert, or an update of some columns."""
    builder = DeltaTable.forPath(spark, str(path)).alias("t").merge(source.alias("s"), "t.id = s.id")
    if values is not None:
        return builder.whenMatchedUpdate(set=values)
    return builder.whenMatchedUpdateAll().whenNotMatchedInsertAll()


def merged(spark: SparkSession, path: Path, source: Any, values: dict[str, str] | None = None) -> dict[str, Any]:
    """How a merge ends: its strategy, and the rows that it has changed."""
    report = merge(spark, path, source, values).run()
    return {"strategy": report.strategy, "rows": report.updated + report.inserted}


def wide(rows: int) -> pa.Table:
    """Rows of random texts, which no encoding makes smaller."""
    texts = _RANDOM.integers(97, 123, rows * WIDE, np.uint8).tobytes().decode()
    return pa.table({"id": pa.array(range(rows)), "w": [texts[at * WIDE : (at + 1) * WIDE] for at in range(rows)]})


def log_of(path: Path, adds: Any, rows: int, vectors: bool = False) -> None:
    """A table of these files, by one commit."""
    log = path / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    names = {"id": "long", "n": "long"} if vectors else {"id": "long", "p": "integer"}
    fields = [{"name": name, "type": type, "nullable": True, "metadata": {}} for name, type in names.items()]
    configuration = {"delta.enableDeletionVectors": "true"} if vectors else {}
    metadata = {
        "id": "4a8b1ff0-8f0a-4bd0-93b7-5b0f0a1ee8a4",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": [] if vectors else ["p"],
        "configuration": configuration,
    }
    protocol: dict[str, Any] = {"minReaderVersion": 1, "minWriterVersion": 2}
    if vectors:
        protocol = {"minReaderVersion": 3, "minWriterVersion": 7}
        protocol |= {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    common = {"modificationTime": 1_700_000_000_000, "dataChange": True, "stats": json.dumps({"numRecords": rows})}
    with open(log / f"{0:020d}.json", "w", encoding="utf-8") as file:
        file.writelines(
            json.dumps(action, separators=(",", ":")) + "\n"
            for action in ({"protocol": protocol}, {"metaData": metadata}, *({"add": {**add, **common}} for add in adds))
        )


def peak_reset() -> int:
    """What Python has in memory now, in bytes; the peak starts anew."""
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def peak() -> int:
    """The most that Python had in memory since, in bytes."""
    return _status("VmHWM")


def _status(name: str) -> int:
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{os.getpid()}/status").read_text().splitlines())
    return int(lines[name].split()[0]) << 10


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
