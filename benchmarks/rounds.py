"""Measuring one point: warm-up, comparison of the results, alternating rounds; for memory a process per engine."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.cases import upsert
from benchmarks.data import Shape
from benchmarks.engines import ENGINES, OURS, OURS_DV, Engine
from benchmarks.host import Host, HostError
from benchmarks.measure import PeakMemory, bytes_written, cpu_seconds, files_of, memory, wait_until_idle
from benchmarks.suites import Point
from benchmarks.tables import LOG, fresh_copy, table_path

MOST_SECONDS = 900
_WARMING = Point("merge", upsert(1 / 16, 0.1, 0.1), Shape(10_000))
_WARMING_ROUNDS = 3
ON_CONNECT = " on Connect"


class OutOfTime(Exception):
    """The time of the run is over."""


class Bench:
    """Measures points in `folder` until the monotonic time `until`; holds the processes that stay from point to point."""

    def __init__(self, folder: Path, rounds: int, longest: float, until: float) -> None:
        self._folder = folder
        self._rounds = rounds
        self._longest = longest
        self._until = until
        self._hosts: dict[str, Host] = {}

    def close(self) -> None:
        """End the processes."""
        for host in self._hosts.values():
            host.stop()
        shutil.rmtree(self._folder / "spark", ignore_errors=True)

    def measured(self, point: Point) -> dict[str, Any]:
        """The record of a point, with what was measured of each engine. Raises OutOfTime."""
        self._in_time()
        began, load = time.time(), os.getloadavg()[0]
        found = {"engines": self._memory(point)} if point.kind == "memory" else self._alternating(point)
        machine = {"cores": os.cpu_count(), "load": round(load, 2), "at": int(began), "took": round(time.time() - began, 1)}
        return {**point.record(), **found, **machine}

    def _in_time(self) -> None:
        if time.monotonic() > self._until:
            raise OutOfTime

    def _host(self, kind: str) -> Host:
        """The running process of a kind, started and warmed when there is none."""
        if kind not in self._hosts:
            self._hosts[kind] = host = Host(kind, self._folder)
            for _ in range(min(_WARMING_ROUNDS, self._rounds)):
                for engine in ENGINES.values() if kind == "delta" else (ENGINES[OURS], ENGINES[OURS_DV]):
                    self._in_time()
                    try:
                        self.merged(host, engine, _WARMING)
                    except HostError as error:  # another one is told when it is the engine's turn
                        if error.gone:
                            raise
        return self._hosts[kind]

    def _competitors(self, kind: str) -> dict[str, tuple[str, Engine]]:
        """The name of each competitor, the kind of host it runs in, and the engine."""
        if kind == "connect":
            ours = [ENGINES[OURS], ENGINES[OURS_DV]]
            places = {"classic": "", "connect": ON_CONNECT}
            return {f"{engine.name}{after}": (place, engine) for engine in ours for place, after in places.items()}
        return {name: ("delta", engine) for name, engine in ENGINES.items()}

    def _alternating(self, point: Point) -> dict[str, Any]:
        """Warm-up and rounds; an engine whose process dies is left out and the others begin anew."""
        failed: dict[str, dict[str, Any]] = {}
        while True:
            name = ""
            try:
                found: dict[str, dict[str, Any]] = {}
                checks: dict[str, list[int]] = {}
                rest = {name: pair for name, pair in self._competitors(point.kind).items() if name not in failed}
                if not rest:
                    return {"engines": failed}
                for name, (kind, engine) in rest.items():
                    found[name] = self._warmed(self._host(kind), engine, point, checks)
                if len({tuple(check) for check in checks.values()}) > 1:
                    return {"engines": {}, "disagree": checks}
                floor = self._host(next(iter(rest.values()))[0]).ask({"do": "floor"}, MOST_SECONDS)["floor"]
                for number in range(self._rounds):
                    for name in in_turn(list(rest), number):
                        kind, engine = rest[name]
                        if "error" not in found[name] and not found[name].get("once"):
                            self._in_time()
                            _add(found[name], self.merged(self._host(kind), engine, point))
            except HostError as error:
                if not name:
                    raise
                failed[name] = {"error": str(error)}
                if error.gone:
                    self._hosts.pop(rest[name][0]).stop()
            else:
                host = self._host(next(iter(rest.values()))[0])
                engines = {name: {**found, **failed}[name] for name in self._competitors(point.kind)}
                return {"engines": engines, "floor": floor, "versions": host.versions}

    def _warmed(self, host: Host, engine: Engine, point: Point, checks: dict[str, list[int]]) -> dict[str, Any]:
        """What the warm-up says of an engine: an error, or the only round when it takes too long; its result is checked."""
        self._in_time()
        try:
            first = self.merged(host, engine, point, checks if point.kind == "merge" else None)
        except HostError as error:
            if error.gone:
                raise
            return {"error": str(error)}
        slow = first["seconds"] > self._longest
        return {**{name: [value] for name, value in first.items()}, "once": True} if slow else {}

    def merged(self, host: Host, engine: Engine, point: Point, checks: dict[str, list[int]] | None = None) -> dict[str, Any]:
        """One merge into a copy of the table: seconds, CPU seconds, bytes written, jobs."""
        case, shape = point.case, point.shape
        folder = Path(tempfile.mkdtemp(dir=self._folder, prefix="round-"))
        try:
            command = self._command(engine, point, folder / "table")
            if case.again:
                host.ask(command, MOST_SECONDS)
            files = files_of(folder)
            wait_until_idle(host.pid)
            before = cpu_seconds(host.pid)
            answer = host.ask(command, MOST_SECONDS)
            found = {
                "seconds": round(answer["seconds"], 4),
                "cpu": round(cpu_seconds(host.pid) - before, 2),
                "bytes": bytes_written(files, files_of(folder)),
                "jobs": answer["jobs"] if engine.needs_spark else None,
            }
            if checks is not None:
                where = case.filled("wr_order_number BETWEEN {low} AND {high}", shape) if shape == LOG else "true"
                checks[engine.name] = host.ask({"do": "check", "table": command["table"], "where": where}, MOST_SECONDS)["check"]
            return found
        finally:
            shutil.rmtree(folder)

    def _command(self, engine: Engine, point: Point, target: Path) -> dict[str, Any]:
        """The command to merge into a fresh copy at `target`."""
        case, shape = point.case, point.shape
        table = table_path(self._folder, shape)
        source = case.batch(self._folder / "batches", shape)
        fresh_copy(table, shape, target, engine.vectors, case.feed)
        names = {"engine": engine.name, "case": case.name, "table": str(target), "source": str(source)}
        return {"do": "merge", **names, "shape": asdict(shape)}

    def _memory(self, point: Point) -> dict[str, dict[str, Any]]:
        """Of each engine, in a process of its own that has merged nothing before: MB before the merge and at most."""
        found: dict[str, dict[str, Any]] = {}
        for name, engine in ENGINES.items():
            self._in_time()
            kind = "bare" if not engine.needs_spark else "delta" if engine.run is not ENGINES[OURS].run else "classic"
            folder = Path(tempfile.mkdtemp(dir=self._folder, prefix="round-"))
            host = Host(kind, self._folder)
            try:
                command = self._command(engine, point, folder / "table")
                wait_until_idle(host.pid)
                before = memory(host.pid)
                with PeakMemory(host.pid) as sampled:
                    answer = host.ask(command, MOST_SECONDS)
                figures = {"before": before, "peak": sampled.peak, "worker": sampled.worker, "seconds": answer["seconds"]}
                found[name] = {what: round(value, 3) for what, value in figures.items()}
            except HostError as error:
                found[name] = {"error": str(error)}
            finally:
                host.stop()
                shutil.rmtree(folder)
        return found


def in_turn(names: Sequence[str], number: int) -> list[str]:
    """The order of a round: in as many rounds as there are names each comes at each place, and after each other once.

    What ran before is felt: one merge took 1.6 times as long after one that wrote 51 MB as after one that wrote 9 MB,
    whichever of two engines came second. An odd number of names is balanced less well (E. J. Williams, Experimental
    designs balanced for the estimation of residual effects of treatments, 1949).
    """
    count = len(names)
    zigzag = [(place + 1) // 2 if place % 2 else -(place // 2) for place in range(count)]
    return [names[(step + number) % count] for step in zigzag]


def _add(found: dict[str, Any], measured: dict[str, Any]) -> None:
    for name, value in measured.items():
        found.setdefault(name, []).append(value)
