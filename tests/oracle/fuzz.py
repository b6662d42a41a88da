"""Long runs of random merges: `python -m tests.oracle.fuzz --seeds 0:2000 --log FILE`, and one again: `--seed 17 --shrink`.

A run goes on after a failure. The log has each failing merge in the notation of `tests/cases`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import TextIO

from pyspark.sql import SparkSession

from tests.oracle.cases import Merge
from tests.oracle.conftest import oracle_session
from tests.oracle.difference import difference
from tests.oracle.random_merges import make_merge
from tests.oracle.shrink import shrunk


def main() -> None:
    """Run the seeds of the command line; the exit code says whether all were alike."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:100", help="first:end")
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--shrink", action="store_true", help="make failing merges small before they are logged")
    parser.add_argument("--log", type=Path, help="also write here")
    arguments = parser.parse_args()
    first, end = map(int, arguments.seeds.split(":"))
    seeds = range(first, end) if arguments.seed is None else range(arguments.seed, arguments.seed + 1)
    with tempfile.TemporaryDirectory() as folder:
        spark = oracle_session(Path(folder) / "warehouse")
        log = arguments.log.open("a", encoding="utf-8") if arguments.log else sys.stdout
        failures = run(spark, seeds, Path(folder), arguments.shrink, log)
        spark.stop()
    sys.exit(1 if failures else 0)


def run(spark: SparkSession, seeds: range, folder: Path, shrink: bool, log: TextIO) -> int:
    """Run seeds and log what differs; the number of failures."""
    failures, started = 0, time.monotonic()
    for done, seed in enumerate(seeds, 1):
        merge = make_merge(seed)
        problem = checked(spark, merge, folder)
        if problem is not None:
            failures += 1
            if shrink:
                merge, problem = shrunk(merge, lambda smaller: checked(spark, smaller, folder))
            log.write(f"{merge}\n{problem}\n\n")
        if problem is not None or done % 10 == 0 or done == len(seeds):
            log.write(f"-- {done} merges, {failures} differ, {time.monotonic() - started:.0f} s\n")
            log.flush()
    return failures


def checked(spark: SparkSession, merge: Merge, folder: Path) -> str | None:
    """The difference, or what broke the comparison itself."""
    try:
        return difference(spark, merge, folder)
    except Exception:
        return f"broken {traceback.format_exc()[-1500:]}"


if __name__ == "__main__":
    main()
