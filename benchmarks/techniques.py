"""What each technique is worth: a merge with it and without, alternating in one session. `python -m benchmarks.techniques`.

A technique is switched off by a setting, or by putting the plain way in its place in this process; functions of workers are
sent by value, so that they go by the same. The figures are for docs/internals.md, whose tables this prints.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

from benchmarks.cases import BASIC, INSERT, MANY_FILES_AGAIN, ONE, PARTIAL, SYNC, WHOLE, BenchCase, Clause, upsert
from benchmarks.data import QUANTITY, Shape
from benchmarks.engines import deltamerge
from benchmarks.merge import FOLDER
from benchmarks.tables import LOG, fresh_copy, table_path
from deltamerge.budgets import using

Off = Callable[[Any], contextlib.AbstractContextManager[Any]]
SHARES = (0.1, 0.3, 0.5, 0.7, 0.9)
_DELETE = next(case for case in BASIC if case.name.startswith("delete-only"))
_UPSERT = upsert(ONE, 0.1, 0.1)
_HALF = upsert(0.5, 0.01, 0.001)
_ALL = upsert(1.0, 0.01, 0.001)
_LARGE = replace(
    upsert(1.0, 0.15, 0.001),
    clauses=(Clause("update", f"s.{QUANTITY} >= 0"), INSERT),
    name="upsert with a condition, all files, 15% matched + 0.1% new",
)
_RANGE = next(case for case in BASIC if case.name.startswith("update in a range"))
_MOST = upsert(ONE, 0.99, 0.001)
_SYNC = next(case for case in BASIC if case.name.startswith("sync of a range"))


@dataclass(frozen=True)
class Technique:
    """A technique, what it does instead when it is `off`, and the merges that show it; with deletion vectors if `vectors`."""

    name: str
    instead: str
    off: Off
    cases: tuple[BenchCase, ...]
    vectors: bool = False


def conf(name: str, value: str) -> Off:
    """A session setting for a while."""

    @contextlib.contextmanager
    def off(spark: Any) -> Iterator[None]:
        spark.conf.set(name, value)
        try:
            yield
        finally:
            spark.conf.unset(name)

    return off


def patched(**values: Any) -> Off:
    """Names of modules put in place of others for a while; a double underscore stands for a dot."""

    @contextlib.contextmanager
    def off(spark: Any) -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for name, value in values.items():
                stack.enter_context(patch(f"deltamerge.{name.replace('__', '.')}", value))
            yield

    return off


def limited(**budgets: float) -> Off:
    """Other budgets for a while."""

    @contextlib.contextmanager
    def off(spark: Any) -> Iterator[None]:
        with using(**budgets):
            yield

    return off


@contextlib.contextmanager
def _forgetful(spark: Any) -> Iterator[None]:
    from deltamerge.log.replay import table

    table._logs.clear()
    yield


def _all_columns(logical: Any) -> Any:
    return logical.resolved.scope.target


def _nothing(*_: Any) -> list[Any]:
    return []


def _by_one(change: Any, pieces: int) -> Any:
    return change


def techniques() -> list[Technique]:
    """All that can be switched off."""
    return [
        Technique(
            "matching in Arrow",
            "Spark joins",
            conf("spark.deltamerge.strategy", "join"),
            (_UPSERT, _HALF, _DELETE),
        ),
        Technique(
            "small merges done in the driver",
            "Spark jobs",
            limited(driver_match_bytes=-1, driver_write_bytes=-1),
            (_UPSERT, _DELETE),
            vectors=True,
        ),
        Technique(
            "files pruned by the source's keys",
            "every file is read",
            patched(merge__plan__prune___key_predicates=_nothing, merge__plan__prune___range_predicates=_nothing),
            (_UPSERT, _DELETE, _RANGE),
        ),
        Technique(
            "files pruned under NOT MATCHED BY SOURCE",
            "every file is rewritten or read",
            patched(merge__plan__prune___touchable=_everything),
            (_SYNC,),
        ),
        Technique(
            "only the needed columns are read to match",
            "all columns",
            patched(merge__execute__broadcast___needed_target=_all_columns),
            (_DELETE, _HALF),
        ),
        Technique(
            "a large source's rows sent to the tasks that write the files",
            "Spark joins",
            conf("spark.deltamerge.strategy", "join"),
            (WHOLE, SYNC),
        ),
        Technique(
            "a source's Parquet files read by workers",
            "Spark reads them",
            patched(spark__source__inspect__source_files=_nothing),
            (WHOLE, SYNC),
        ),
        Technique(
            "rows dropped by a Bloom filter of a large source",
            "all rows reach Spark's join",
            limited(bloom_keys=0),
            (_LARGE,),
        ),
        Technique(
            "rows marked in deletion vectors",
            "files rewritten",
            conf("spark.deltamerge.rewriteShare", "0"),
            (_HALF, _DELETE),
            vectors=True,
        ),
        Technique(
            "what does not change of a file copied as bytes",
            "decoded and encoded",
            limited(splices=False),
            (PARTIAL, _UPSERT, _HALF, _DELETE, _ALL),
        ),
        Technique(
            "pages copied within changed column chunks",
            "the chunks are decoded and encoded",
            limited(page_share=0),
            (_HALF, _DELETE, _ALL),
        ),
        Technique(
            "columns of few files decoded and encoded by several threads",
            "one thread",
            patched(merge__execute__sink___threaded=_by_one),
            (_MOST, _UPSERT, _SYNC, _DELETE),
        ),
        Technique("snapshots kept in memory", "the log is read anew", _forgetful, (MANY_FILES_AGAIN, _UPSERT)),
    ]


def _everything(plan: Any, matching: Any) -> Any:
    from deltamerge.protocol.values.predicate import ALWAYS

    return matching if plan.by_source is None else ALWAYS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--only", default="", help="only techniques whose name holds this text; `shares` for the shares")
    given = parser.parse_args()
    folder = given.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    spark = _session(folder)
    bench = Bench(spark, folder, given.rows, given.rounds)
    bench.seconds(_UPSERT, False)
    print("| technique | instead | merge | with it | without | times |\n|---|---|---|---|---|---|")
    for technique in techniques():
        if given.only in technique.name:
            for case in technique.cases:
                print(bench.line(technique, case), flush=True)
    if given.only in "shares":
        print("\n| rows of each file hit | marked | rewritten | read afterwards: marked | rewritten |\n|---|---|---|---|---|")
        for share in SHARES:
            print(bench.share_line(share), flush=True)
    spark.stop()


@dataclass
class Bench:
    """Merges into fresh copies of a table, timed."""

    spark: Any
    folder: Path
    rows: int
    rounds: int

    def line(self, technique: Technique, case: BenchCase) -> str:
        """A row of the table of techniques."""
        with_it, without = [], []
        for _ in range(self.rounds + 1):
            with_it.append(self.seconds(case, technique.vectors)[0])
            without.append(self.seconds(case, technique.vectors, technique.off)[0])
        on, off = median(with_it[1:]), median(without[1:])
        return f"| {technique.name} | {technique.instead} | {case.name} | {on:.2f} s | {off:.2f} s | {off / on:.1f} |"

    def share_line(self, share: float) -> str:
        """A row of the table of shares: all files hit, marked or rewritten, and a whole read of the table afterwards."""
        case = replace(upsert(1.0, share, 0), name=f"update, all files, {share:.0%} of the rows")
        found: dict[str, list[tuple[float, float]]] = {"1": [], "0": []}
        for _ in range(self.rounds + 1):
            for value, times in found.items():
                times.append(self.seconds(case, True, conf("spark.deltamerge.rewriteShare", value), read=True))
        cells = [median(times[i] for times in found[value][1:]) for i in (0, 1) for value in found]
        return f"| {share:.0%} | " + " | ".join(f"{cell:.2f} s" for cell in cells) + " |"

    def seconds(self, case: BenchCase, vectors: bool, off: Off | None = None, read: bool = False) -> tuple[float, float]:
        """How long the merge takes, and a whole read of the table after it."""
        import deltamerge as library

        shape = LOG if case.layouts == ("log",) else Shape(self.rows, case.files)
        target = self.folder / "technique"
        shutil.rmtree(target, ignore_errors=True)
        fresh_copy(table_path(self.folder, shape), shape, target, vectors, case.feed)
        batch = case.batch(self.folder, shape)
        if case.again:
            deltamerge(self.spark, target, batch, case, shape)
        with (off or contextlib.nullcontext)(self.spark):
            started = time.perf_counter()
            deltamerge(self.spark, target, batch, case, shape)
            merged = time.perf_counter() - started
        started = time.perf_counter()
        if read:
            library.read(self.spark, str(target)).write.format("noop").mode("overwrite").save()
        return merged, time.perf_counter() - started


def _session(folder: Path) -> Any:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.driver.memory", "4g")
    builder = builder.config("spark.ui.showConsoleProgress", "false").config("spark.local.dir", str(folder))
    spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


if __name__ == "__main__":
    main()
