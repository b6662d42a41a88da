"""This library beside an older checkout of it, alternating in one run. `python -m benchmarks.before --help`.

Answers whether a change made merges slower: the ratio of each case is the older median time by the newer one.
"""

from __future__ import annotations

import argparse
import json
import statistics
from itertools import count
from pathlib import Path

from benchmarks.engines import ENGINES, OURS, OURS_DV
from benchmarks.host import Host
from benchmarks.merge import FOLDER
from benchmarks.rounds import Bench
from benchmarks.suites import LAYOUTS, Point, points

RESULTS = "before.jsonl"
_WARMING_ROUNDS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", type=Path, help="the folder `src` of the older checkout")
    parser.add_argument("--rows", type=int, action="append", help="rows of the table; may be repeated")
    parser.add_argument("--layout", choices=LAYOUTS, default=LAYOUTS[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--case", default="", help="only cases whose name holds this text")
    parser.add_argument("--cpu", action="store_true", help="compare CPU seconds, which other work on the machine changes least")
    parser.add_argument("--folder", type=Path, default=FOLDER, help=f"for tables, batches and {RESULTS}")
    given = parser.parse_args()
    folder = given.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    bench = Bench(folder, given.rounds, 60, float("inf"))
    hosts = {"before": Host("classic", folder, given.source.resolve()), "now": Host("classic", folder)}
    wanted = [point for point in points("basic", given.rows or (), (given.layout,)) if given.case in point.case.name]
    ratios = []
    try:
        for point in wanted:
            for engine in (OURS, OURS_DV):
                times = measured(bench, hosts, engine, point, given.rounds, "cpu" if given.cpu else "seconds")
                medians = {name: statistics.median(seconds) for name, seconds in times.items()}
                ratios.append(medians["before"] / medians["now"])
                with open(folder / RESULTS, "a", encoding="utf-8") as file:
                    file.write(json.dumps({"key": point.key, "engine": engine, "cpu": given.cpu, **times}) + "\n")
                print(f"{ratios[-1]:.2f}  {medians['before']:.2f} s -> {medians['now']:.2f} s  {engine}  {point.key}", flush=True)
    finally:
        for host in hosts.values():
            host.stop()
    print(f"geometric mean {statistics.geometric_mean(ratios):.3f}, least {min(ratios):.2f}, of {len(ratios)}")


def measured(bench: Bench, hosts: dict[str, Host], engine: str, point: Point, rounds: int, figure: str) -> dict[str, list[float]]:
    """Seconds of each round by host, as the figure says; every other round begins with the other host."""
    times: dict[str, list[float]] = {name: [] for name in hosts}
    for number in count(-1 if hosts_are_warm(hosts) else -_WARMING_ROUNDS):
        if number == rounds:
            return times
        for name in list(hosts)[:: 1 if number % 2 else -1]:
            seconds = bench.merged(hosts[name], ENGINES[engine], point)[figure]
            if number >= 0:
                times[name].append(seconds)
    raise AssertionError


def hosts_are_warm(hosts: dict[str, Host]) -> bool:
    """Whether the hosts have merged before."""
    return all(host.asked for host in hosts.values())


if __name__ == "__main__":
    main()
