"""Long runs of random merges by the command line: `--seeds first:end --log FILE`."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn, TypeVar

from pyspark.sql import SparkSession

from tests.oracle.conftest import oracle_session

Case = TypeVar("Case")
Difference = Callable[[SparkSession, Case, Path, Counter[str]], str | None]
"""What differs on a case, which works in a folder and counts how merges end; None when nothing does."""


def run_seeds(
    description: str | None, difference: Callable[[SparkSession, int, Path], str | None], seen: Counter[str] | None = None
) -> int:
    """Run the seeds of the command line and log what differs, and what was `seen`; the number of merges that differ."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seeds", default="0:100", help="first:end")
    parser.add_argument("--log", type=Path, help="write here")
    arguments = parser.parse_args()
    first, end = map(int, arguments.seeds.split(":"))
    failures, started = 0, time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        spark = oracle_session(Path(folder) / "warehouse")
        log = arguments.log.open("a", encoding="utf-8") if arguments.log else sys.stdout
        for seed in range(first, end):
            problem = _guarded(difference, spark, seed, Path(folder))
            failures += problem is not None
            if problem is not None or seed % 10 == 9 or seed == end - 1:
                text = "" if problem is None else f"## seed {seed}\n{problem}\n"
                counts = f" {dict(seen)}" if seen else ""
                log.write(f"{text}-- {seed - first + 1} merges, {failures} differ, {time.monotonic() - started:.0f} s{counts}\n")
                log.flush()
        spark.stop()
    return failures


def run_cases(description: str | None, case_of: Callable[[int], Case], difference: Difference[Case]) -> NoReturn:
    """Run a kind of cases by the command line; the exit code says whether both engines were alike in all of them."""
    seen: Counter[str] = Counter()
    failures = run_seeds(description, lambda spark, seed, folder: difference(spark, case_of(seed), folder, seen), seen)
    sys.exit(1 if failures else 0)


def _guarded(
    difference: Callable[[SparkSession, int, Path], str | None], spark: SparkSession, seed: int, folder: Path
) -> str | None:
    try:
        return difference(spark, seed, folder)
    except Exception:
        return f"broken {traceback.format_exc()[-1500:]}"
