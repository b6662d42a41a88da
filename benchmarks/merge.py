"""`make bench`: each case by each engine, alternating in one run. `python -m benchmarks.merge --help`.

Every round merges into a fresh copy of the table (hard links: no engine changes a file in place), reading the batch from
Parquet, snapshot and commit included. The engines' results are compared before anything is timed. Each finished case is
appended to a file of JSON lines at once; a run that is started again goes on where it was.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.lines import described
from benchmarks.rounds import Bench, OutOfTime
from benchmarks.suites import LAYOUTS, SUITES, Point, points

FOLDER = Path(__file__).parent / "results"
RESULTS = "merge.jsonl"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", choices=SUITES, default="basic", help="all: basic at all sizes, memory, connect, growth, full")
    parser.add_argument("--rows", type=int, action="append", help="rows of the table instead of the suite's own; may be repeated")
    parser.add_argument("--layout", choices=LAYOUTS, default=LAYOUTS[0], help="of the tables of the basic suite")
    parser.add_argument("--rounds", type=int, default=5, help="0: only compare the engines' results, record nothing")
    parser.add_argument("--case", default="", help="only cases whose name holds this text")
    parser.add_argument("--minutes", type=float, default=1e9, help="end after that time; the rest is measured by the next run")
    parser.add_argument("--longest", type=float, default=60, help="a merge that takes more seconds is measured once")
    parser.add_argument("--again", action="store_true", help="measure what is in the file of results once more")
    parser.add_argument("--folder", type=Path, default=FOLDER, help=f"for tables, batches and {RESULTS}")
    given = parser.parse_args()
    folder = given.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    results = folder / RESULTS
    wanted = [point for point in points(given.suite, given.rows or (), (given.layout,)) if given.case in point.case.name]
    known = {} if given.again else read(results)
    bench = Bench(folder, given.rounds, given.longest, time.monotonic() + given.minutes * 60)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    wrong = 0
    try:
        for point in wanted:
            if point.key in known:
                print(f"\n(measured before, --again measures it once more)\n{described(known[point.key])}", flush=True)
                continue
            record = bench.measured(point)
            wrong += "disagree" in record
            if given.rounds:
                with open(results, "a", encoding="utf-8") as file:
                    file.write(json.dumps(record) + "\n")
            print(f"\n{described(record)}", flush=True)
    except OutOfTime:
        print(f"\nout of time: {left(wanted, read(results))} of {len(wanted)} points are left for another run")
    finally:
        bench.close()
    if wrong:
        raise SystemExit(f"the engines disagree on {wrong} merges")


def read(results: Path) -> dict[str, dict[str, Any]]:
    """The newest record of each point."""
    lines = results.read_text(encoding="utf-8").splitlines() if results.exists() else []
    return {record["key"]: record for record in map(json.loads, lines)}


def left(wanted: Iterable[Point], known: dict[str, dict[str, Any]]) -> int:
    """How many points have no record."""
    return sum(point.key not in known for point in wanted)


if __name__ == "__main__":
    main()
