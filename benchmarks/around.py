"""What stands around a merge, here and in delta-spark, in turn in one session: `python -m benchmarks.around [--case vacuum]`.

Reading, appending, OPTIMIZE, VACUUM, DELETE and UPDATE, and the micro-batches of a stream. Each round works on fresh copies
of the tables; both engines must leave the same rows. Prints the table of docs/benchmarks.md: medians, lowest and highest.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from benchmarks.data import KEYS, Shape
from benchmarks.host import checked, session
from benchmarks.merge import FOLDER
from benchmarks.tables import fresh_copy, table_path

ROWS = 4_000_000
SMALL_FILES, UNNAMED_FILES, BATCHES, BATCH_ROWS = 1_000, 10_000, 200, 100
OURS, THEIRS = "deltamerge", "delta-spark"
_LARGE, _SMALL, _STREAMED = Shape(ROWS), Shape(1_000_000, SMALL_FILES), Shape(100_000)
_ON = " AND ".join(f"t.{key} = s.{key}" for key in KEYS)


@dataclass(frozen=True)
class Case:
    """A piece of work on a copy of a table; `run` takes the session, the engine's name, the table and the folder of inputs.

    Its seconds are those of the whole divided by `units`. Where `warms_up` is off all rounds count.
    """

    name: str
    shape: Shape
    run: Callable[[Any, str, Path, Path], None]
    vectors: bool = False
    least: float = 1.0
    units: int = 1
    warms_up: bool = True
    ready: Callable[[Path], None] | None = None


def statement(text: str) -> Callable[[Any, str, Path, Path], None]:
    """Runs an SQL statement about {table}."""

    def run(spark: Any, engine: str, table: Path, inputs: Path) -> None:
        _sql(spark, engine)(text.format(table=f"delta.`{table}`")).collect()

    return run


def _sql(spark: Any, engine: str) -> Callable[[str], Any]:
    import deltamerge

    return spark.sql if engine == THEIRS else lambda text: deltamerge.sql(spark, text)


def read(spark: Any, engine: str, table: Path, inputs: Path) -> None:
    """Four sums over the rows of a tenth of the keys."""
    import deltamerge

    frame = spark.read.format("delta").load(str(table)) if engine == THEIRS else deltamerge.read(spark, str(table))
    last = ROWS // 4
    wanted = frame.where(f"{KEYS[0]} BETWEEN {last // 2} AND {last // 2 + last // 10}")
    wanted.selectExpr(*(f"sum({name})" for name in ("wr_sk_0", "wr_sk_3", "wr_amt_0", "wr_amt_5"))).collect()


def append(spark: Any, engine: str, table: Path, inputs: Path) -> None:
    """The rows of a table once more, from Parquet files."""
    import deltamerge

    rows = spark.read.parquet(str(inputs / _LARGE.name))
    if engine == THEIRS:
        rows.write.format("delta").mode("append").save(str(table))
    else:
        deltamerge.write(rows, str(table), mode="append")


def stream(spark: Any, engine: str, table: Path, inputs: Path) -> None:
    """Micro-batches merged by `foreachBatch`, each once."""
    import delta.tables

    import deltamerge.streaming

    def theirs(batch: Any, number: int) -> None:
        spark = batch.sparkSession
        spark.conf.set("spark.databricks.delta.write.txnAppId", "bench")
        spark.conf.set("spark.databricks.delta.write.txnVersion", str(number))
        merge = delta.tables.DeltaTable.forPath(spark, str(table)).alias("t").merge(batch.alias("s"), _ON)
        merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()

    function = theirs if engine == THEIRS else deltamerge.streaming.upsert(str(table), KEYS, "bench")
    folder = inputs / "batches"
    schema = spark.read.parquet(str(folder)).schema
    source = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))
    writer = source.writeStream.foreachBatch(function).option("checkpointLocation", str(table) + "-checkpoint")
    writer.trigger(availableNow=True).start().awaitTermination()


def _unnamed(table: Path) -> None:
    """Files that no version names, old enough to go."""
    old = time.time() - 30 * 86_400
    for number in range(UNNAMED_FILES):
        file = table / f"part-{number:05d}-unnamed.c000.snappy.parquet"
        file.write_bytes(b"PAR1" * 250)
        os.utime(file, (old, old))


_LAST = ROWS // 4
_HUNDREDTH = f"{KEYS[0]} % 100 = 7"
CASES = (
    Case("read with a filter, a tenth of 4,000,000 rows", _LARGE, read),
    Case("append 4,000,000 rows", Shape(4_000, 1), append),
    Case("OPTIMIZE 1,000 files", _SMALL, statement("OPTIMIZE {table}"), least=2),
    Case("VACUUM 10,000 files", Shape(4_000, 1), statement("VACUUM {table}"), least=2, ready=_unnamed),
    Case("DELETE 1% of 4,000,000 rows, vectors", _LARGE, statement(f"DELETE FROM {{table}} WHERE {_HUNDREDTH}"), True, 4),
    Case(
        "UPDATE 1% of 4,000,000 rows, vectors",
        _LARGE,
        statement(f"UPDATE {{table}} SET wr_amt_0 = wr_amt_0 + 1 WHERE {_HUNDREDTH}"),
        True,
        4,
    ),
    Case("200 micro-batches merged, seconds a batch", _STREAMED, stream, least=4, units=BATCHES, warms_up=False),
)


def inputs_in(folder: Path) -> Path:
    """What is read: the rows to append, the batches of a stream; made once."""
    inputs = folder / "around"
    if not (inputs / "ready").exists():
        shutil.rmtree(inputs, ignore_errors=True)
        (inputs / "batches").mkdir(parents=True)
        large = table_path(folder, _LARGE)
        (inputs / _LARGE.name).mkdir()
        for file in large.glob("*.parquet"):
            os.link(file, inputs / _LARGE.name / file.name)
        rng = np.random.default_rng(3)
        for number in range(BATCHES):
            ids = np.sort(rng.choice(_STREAMED.rows + BATCHES * BATCH_ROWS, BATCH_ROWS, replace=False))
            pq.write_table(_STREAMED.table(ids), inputs / "batches" / f"{number:05d}.parquet")
        (inputs / "ready").touch()
    return inputs


def measured(spark: Any, case: Case, folder: Path, rounds: int) -> dict[str, Any]:
    """The seconds of both engines. A round that warms up is one more. Raises ValueError where the first one's tables differ."""
    inputs, table = inputs_in(folder), table_path(folder, case.shape)
    seconds: dict[str, list[float]] = {OURS: [], THEIRS: []}
    for number in range(rounds + case.warms_up):
        sums = []
        for engine in (OURS, THEIRS) if number % 2 else (THEIRS, OURS):
            place = Path(tempfile.mkdtemp(dir=folder, prefix="around-"))
            try:
                fresh_copy(table, case.shape, place / "table", case.vectors, feed=False)
                if case.ready is not None:
                    case.ready(place / "table")
                started = time.perf_counter()
                case.run(spark, engine, place / "table", inputs)
                taken = time.perf_counter() - started
                if number or not case.warms_up:
                    seconds[engine].append(taken / case.units)
                if not number:
                    sums.append(list(checked(spark, str(place / "table"), "true")))
            finally:
                shutil.rmtree(place)
        if sums and sums[0] != sums[1]:
            raise ValueError(f"{case.name}: the engines disagree, {sums}")
    return {"case": case.name, "least": case.least, **seconds}


def line(found: dict[str, Any]) -> str:
    """A row of the table."""
    ours, theirs = statistics.median(found[OURS]), statistics.median(found[THEIRS])
    spread = " | ".join(f"{statistics.median(v):.2f} s ({min(v):.2f} to {max(v):.2f})" for v in (found[OURS], found[THEIRS]))
    return f"| {found['case']} | {spread} | {theirs / ours:.1f} | {found['least']:g} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--case", default="", help="only cases whose name holds this text")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="for tables")
    given = parser.parse_args()
    folder = given.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    spark = session("delta")
    print(f"| | {OURS} | {THEIRS} | ratio | bar |\n|---|---|---|---|---|", flush=True)
    for case in CASES:
        if given.case in case.name:
            found = measured(spark, case, folder, given.rounds)
            with open(folder / "around.jsonl", "a", encoding="utf-8") as file:
                file.write(json.dumps({**found, "cores": os.cpu_count(), "at": int(time.time())}) + "\n")
            print(line(found), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
