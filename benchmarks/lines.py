"""Records of the benchmark in lines of text, and the medians and ratios in them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from typing import Any

from benchmarks.engines import OURS, OURS_DV, SPARK_DV

Record = dict[str, Any]


def median(record: Record, engine: str, what: str = "seconds") -> float | None:
    """The median of an engine's rounds; None where there is none."""
    values = record.get("engines", {}).get(engine, {}).get(what)
    return None if not values or None in values else statistics.median(values)


def partner(engine: str) -> str:
    """Our engine of the same kind: with deletion vectors or without."""
    return OURS_DV if engine in (OURS_DV, SPARK_DV) else OURS


def ratio(record: Record, engine: str, what: str = "seconds", against: str | None = None) -> float | None:
    """How many times what our engine of the same kind takes an engine takes."""
    theirs, ours = median(record, engine, what), median(record, against or partner(engine), what)
    return None if theirs is None or not ours else theirs / ours


def geometric_mean(values: Iterable[float]) -> float | None:
    """The geometric mean; None of nothing."""
    logarithms = [math.log(value) for value in values]
    return math.exp(statistics.fmean(logarithms)) if logarithms else None


def table_line(record: Record) -> str:
    """The table of a record in words."""
    shape = record["shape"]
    if shape["layout"] == "log":
        return f"a log of {shape['files']:,} files"
    return f"{shape['rows']:,} rows, {shape['files']} files, {shape['columns']} columns, {shape['layout']}"


def described(record: Record) -> str:
    """A record as it is printed: a line per engine, with the ratio to ours of the same kind."""
    lines = [f"{record['case']} ({table_line(record)})"]
    if "disagree" in record:
        return "\n".join([*lines, f"  THE ENGINES DISAGREE: {record['disagree']}"])
    if "floor" in record:
        lines.append(f"  {'one empty mapInArrow job':30} {record['floor']:7.3f} s")
    for name, found in record["engines"].items():
        if "error" in found:
            lines.append(f"  {name:30} failed: {found['error']}")
        elif record["kind"] == "memory":
            memory = f"{found['peak']:7.0f} MB at most, {found['before']:5.0f} before, the largest worker {found['worker']:4.0f}"
            lines.append(f"  {name:30} {memory}, {found['seconds']:.2f} s")
        elif "seconds" in found:
            lines.append(f"  {name:30} {_measures(record, name)}")
        else:
            lines.append(f"  {name:30} agrees")
    return "\n".join(lines)


def _measures(record: Record, name: str) -> str:
    seconds = record["engines"][name]["seconds"]
    times = ratio(record, name, against=OURS if record["kind"] == "connect" and name.startswith(OURS) else None)
    parts = [f"{statistics.median(seconds):7.3f} s ({min(seconds):.3f}-{max(seconds):.3f})"]
    parts.append(f"{times:6.2f} x" if times is not None else " " * 8)
    parts.append(f"CPU {median(record, name, 'cpu'):6.2f} s")
    parts.append(f"{(median(record, name, 'bytes') or 0) / 2**20:8.1f} MB written")
    jobs = median(record, name, "jobs")
    parts.append("" if jobs is None else f"{jobs:3.0f} jobs")
    return "  ".join(parts).rstrip()
