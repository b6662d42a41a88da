"""Ten writers of different keys, each a thread, into one table and into ten: merges a second. `python -m benchmarks.writers`.

The tables have deletion vectors and one file each at the beginning. Each writer has every tenth key, so that all writers change
rows of the same files. Rounds into one table and into ten take turns; no merge may fail, and all rows are checked at the end.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

import deltamerge
from deltamerge.tables import DeltaTable

WRITERS, ROWS, MERGES, UPDATED, NEW, ROUNDS = 10, 100_000, 10, 80, 20, 3
_PROPERTIES = {"delta.enableDeletionVectors": "true"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--merges", type=int, default=MERGES, help="of each writer in a round")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--folder", type=Path, default=None, help="for the tables")
    parser.add_argument("--least", type=float, default=0.5, help="the ratio below which it ends with an error")
    given = parser.parse_args()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    root = Path(tempfile.mkdtemp(dir=given.folder, prefix="writers-"))
    try:
        measured(spark, root / "warm", 1, given.rows, 2)
        rates: dict[int, list[float]] = {1: [], WRITERS: []}
        for number in range(given.rounds):
            for tables in sorted(rates, reverse=bool(number % 2)):
                rates[tables].append(measured(spark, root / f"{number}-{tables}", tables, given.rows, given.merges))
                print(f"round {number + 1}, {tables} tables: {rates[tables][-1]:.2f} merges a second", flush=True)
        one, ten = (median(rates[tables]) for tables in rates)
        ratios = [a / b for a, b in zip(*rates.values(), strict=True)]
        print(f"one table {one:.2f}, ten tables {ten:.2f} merges a second; ratio {median(ratios):.2f} (median of {given.rounds})")
        if median(ratios) < given.least:
            sys.exit(f"The ratio is below {given.least}.")
    finally:
        shutil.rmtree(root)


def measured(spark: SparkSession, root: Path, tables: int, rows: int, merges: int) -> float:
    """Merges a second of all writers together, into so many new tables. Raises ValueError for wrong rows."""
    paths = [str(root / str(number)) for number in range(tables)]
    for path in paths:
        deltamerge.write(spark.createDataFrame(_rows(np.arange(rows), 0)).coalesce(1), path, properties=_PROPERTIES)

    def write(writer: int) -> None:
        for number in range(merges):
            source = spark.createDataFrame(_batch(rows, writer, number)).alias("s")
            table = DeltaTable.forPath(spark, paths[writer % tables]).alias("t")
            table.merge(source, "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()

    started = time.perf_counter()
    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(write, range(WRITERS)))
    seconds = time.perf_counter() - started
    for number, path in enumerate(paths):
        _check(spark, path, rows, merges, range(number, WRITERS, tables))
    return WRITERS * merges / seconds


def _rows(ids: np.ndarray[tuple[int], np.dtype[np.int64]], made: int) -> pa.Table:
    return pa.table({"id": ids, "name": [f"row {id}" for id in ids], "value": ids * 0.5, "made": np.full(len(ids), made)})


def _batch(rows: int, writer: int, number: int) -> pa.Table:
    """Rows of a writer's keys from anywhere in the table, and rows behind it."""
    rng = np.random.default_rng(writer * 1_000 + number)
    known = rng.choice(rows // WRITERS, UPDATED, replace=False) * WRITERS + writer
    new = rows + (number * NEW + np.arange(NEW)) * WRITERS + writer
    return _rows(np.sort(np.concatenate((known, new))), number + 1)


def _check(spark: SparkSession, path: str, rows: int, merges: int, writers: Sequence[int]) -> None:
    """Each row is as the last merge that had its key has left it."""
    expected = dict.fromkeys(range(rows), 0)
    for writer in writers:
        for number in range(merges):
            expected |= dict.fromkeys(_batch(rows, writer, number)["id"].to_pylist(), number + 1)
    found = {row["id"]: row["made"] for row in deltamerge.read(spark, path).select("id", "made").collect()}
    if found != expected or deltamerge.read(spark, path).count() != len(expected):
        raise ValueError(f"{path} has other rows than its writers have written")


if __name__ == "__main__":
    main()
