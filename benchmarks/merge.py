"""`make bench`: each case by each engine, alternating in one run; medians and ratios.

Every round merges into a fresh copy of the table (hard links: no engine changes a file in place), reading the batch from
Parquet, snapshot and commit included. The engines' results are compared before anything is timed.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

import deltalake
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from benchmarks.cases import BASIC, BenchCase
from benchmarks.data import batch_path, table_path
from benchmarks.engines import ENGINES

ROOT = Path(__file__).parent / "results"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--case", default="", help="only cases whose name holds this text")
    arguments = parser.parse_args()
    table = table_path(ROOT, arguments.rows)
    spark = _session()
    try:
        print(f"{arguments.rows:,} rows, {arguments.rounds} rounds, {os.cpu_count()} cores; median seconds (min-max)")
        for case in BASIC:
            if arguments.case in case.name:
                _print(case, _measure(spark, case, table, arguments.rows, arguments.rounds))
    finally:
        spark.stop()


def _session() -> SparkSession:
    from delta import configure_spark_with_delta_pip

    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings = {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
        "spark.driver.memory": "6g",
        "spark.sql.shuffle.partitions": "4",
    }
    builder = SparkSession.builder.master("local[2]").appName("deltamerge benchmark")
    for key, value in settings.items():
        builder = builder.config(key, value)
    return configure_spark_with_delta_pip(builder).getOrCreate()


def _measure(spark: SparkSession, case: BenchCase, table: Path, rows: int, rounds: int) -> dict[str, list[float]]:
    source = batch_path(ROOT / "batches", f"{rows}-{re.sub('[^a-z0-9]+', '-', case.name)}", case.source(rows))
    times: dict[str, list[float]] = {name: [] for name in ENGINES}
    results = {name: _once(spark, name, case, table, source)[1] for name in ENGINES}
    if len(set(results.values())) != 1:
        raise SystemExit(f"{case.name}: the engines disagree: {results}")
    for _ in range(rounds):
        for name in ENGINES:
            times[name].append(_once(spark, name, case, table, source)[0])
    return times


def _once(spark: SparkSession, engine: str, case: BenchCase, table: Path, source: Path) -> tuple[float, tuple[int, ...]]:
    folder = Path(tempfile.mkdtemp(dir=ROOT))
    try:
        copy = folder / "table"
        shutil.copytree(table, copy, copy_function=os.link)
        began = time.perf_counter()
        ENGINES[engine](spark, copy, source, case.kind)
        seconds = time.perf_counter() - began
        return seconds, _checksum(copy)
    finally:
        shutil.rmtree(folder)


def _checksum(path: Path) -> tuple[int, ...]:
    found = deltalake.DeltaTable(path).to_pyarrow_table(columns=["wr_order_number", "wr_item_sk", "wr_return_quantity"])
    return (found.num_rows, *(pc.sum(found[name]).as_py() for name in found.column_names))


def _print(case: BenchCase, times: dict[str, list[float]]) -> None:
    medians = {name: statistics.median(values) for name, values in times.items()}
    print(f"\n{case.name}")
    for name, values in times.items():
        ratio = medians[name] / medians["deltamerge"]
        print(f"  {name:12} {medians[name]:6.2f} s  ({min(values):.2f}-{max(values):.2f})  {ratio:5.2f} x", flush=True)


if __name__ == "__main__":
    main()
