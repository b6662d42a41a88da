"""The bars that the benchmark is held against: a line each, with what was measured and whether it holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchmarks.cases import BASIC, WHOLE_IF
from benchmarks.engines import OURS, OURS_DV, RUST, RUST_PRUNING, SPARK, SPARK_DV
from benchmarks.lines import Record, geometric_mean, median, ratio
from benchmarks.rounds import ON_CONNECT
from benchmarks.suites import ROWS

_SMALL = (10_000, 400_000)
_FLOORS = 4
_BASIC = frozenset(case.name for case in BASIC)
_TWO_CLAUSES = "insert-only, 1 file of 16, 100% new, two clauses"


def bars_table(records: Sequence[Record]) -> list[str]:
    """The bars in Markdown; one for which nothing was measured says so.

    Means are of the basic cases, into tables whose files have ranges of keys of their own.
    """
    merges = [record for record in records if record["kind"] == "merge" and record["shape"]["layout"] != "log"]
    large = [record for record in merges if record["shape"]["rows"] == ROWS]
    usual = [record for record in merges if record["shape"]["layout"] != "scattered" and record["case"] in _BASIC]
    small = [record for record in merges if record["shape"]["rows"] in _SMALL]
    logs = [record for record in records if record["kind"] == "merge" and record["shape"]["layout"] == "log"]
    memory = [record for record in records if record["kind"] == "memory"]
    connect = [record for record in records if record["kind"] == "connect" and record["shape"]["rows"] == ROWS]
    both = ((SPARK, "seconds"), (SPARK_DV, "seconds"))
    partial, two = ([record for record in large if record["case"].startswith(name)] for name in ("partial update", _TWO_CLAUSES))
    mean, middle = ([record for record in usual if record["shape"]["rows"] == rows] for rows in (ROWS, max(_SMALL)))
    conditions = [record for record in large if record["case"] == WHOLE_IF.name]
    lines = [
        _least("each case against delta-spark with deletion vectors", 4, large, [(SPARK_DV, "seconds")]),
        _mean("geometric mean against delta-spark with deletion vectors", 8, mean, SPARK_DV),
        _least("each case against delta-spark copying on write", 2.5, large, [(SPARK, "seconds")]),
        _mean("geometric mean against delta-spark copying on write", 8, mean, SPARK),
        _mean("geometric mean against delta-rs", 1, mean, RUST),
        _mean("geometric mean against delta-rs pruning", 1.5, mean, RUST_PRUNING),
        _least("each case against delta-rs pruning", 0.9, large, [(RUST_PRUNING, "seconds")]),
        _mean("400,000 rows, geometric mean against delta-rs pruning", 0.8, middle, RUST_PRUNING),
        _least("partial update of half the files against delta-spark", 8, partial, [(SPARK, "seconds")]),
        _least("partial update of half the files against delta-rs pruning", 2.5, partial, [(RUST_PRUNING, "seconds")]),
        _least("insert-only with two clauses against delta-spark", 4, two, [(SPARK, "seconds")]),
        _least("insert-only with two clauses against delta-rs pruning", 1, two, [(RUST_PRUNING, "seconds")]),
        _least("a large source, clauses with conditions, against delta-spark", 4, conditions, both),
        _least("a large source, clauses with conditions, against delta-rs", 1.2, conditions, [(RUST, "seconds")]),
        _least(
            "delta-rs pruning, where half of the table or more is rewritten", 1 / 1.2, _half(large), [(RUST_PRUNING, "seconds")]
        ),
        _least("10,000 and 400,000 rows, each case against delta-spark", 3, small, both),
        _least("CPU time, each case against delta-spark", 3, merges, [(SPARK, "cpu"), (SPARK_DV, "cpu")]),
        _least("a log of 100,000 files against delta-spark", 5, logs, both),
        _least("peak memory, delta-spark's to ours", 1, memory, both, _peak),
        _least("a worker's memory, 1 GB to ours", 1, memory, [(OURS, ""), (OURS_DV, "")], _worker),
        _least("classic to Spark Connect", 1 / 1.5, connect, [(OURS, ""), (OURS_DV, "")], _connect),
        _least(
            "the cheapest merge in empty jobs, at most four", 1 / _FLOORS, _cheapest(merges), [(OURS, ""), (OURS_DV, "")], _floors
        ),
    ]
    return ["| bar | at least | measured | holds |", "|---|---|---|---|", *lines, ""]


Ratio = Callable[[Record, str, str], float | None]


def _least(name: str, bar: float, records: Sequence[Record], pairs: Sequence[tuple[str, str]], of: Ratio = ratio) -> str:
    """The bar that each ratio must reach: the least of them, and how many do not."""
    found = [
        (value, record["case"]) for record in records for engine, what in pairs if (value := of(record, engine, what)) is not None
    ]
    if not found:
        return f"| {name} | {bar:.2g} | not measured | |"
    missing = sum(value < bar for value, _ in found)
    least, case = min(found)
    return f"| {name} | {bar:.2g} | {least:.2f} ({case}) | {'yes' if not missing else f'**no**, in {missing} of {len(found)}'} |"


def _mean(name: str, bar: float, records: Sequence[Record], engine: str) -> str:
    mean = geometric_mean([value for record in records if (value := ratio(record, engine))])
    if mean is None:
        return f"| {name} | {bar:.2g} | not measured | |"
    return f"| {name} | {bar:.2g} | {mean:.2f} | {'yes' if mean >= bar else '**no**'} |"


def _half(records: Sequence[Record]) -> list[Record]:
    """The merges for which delta-rs wrote at least half as much as the most that it wrote for a table of that size."""
    written = {record["key"]: median(record, RUST_PRUNING, "bytes") or 0 for record in records}
    most = max(written.values(), default=0)
    return [record for record in records if most and written[record["key"]] >= most / 2]


def _peak(record: Record, engine: str, _: str) -> float | None:
    theirs = record["engines"].get(engine, {}).get("peak")
    ours = record["engines"].get(OURS_DV if engine == SPARK_DV else OURS, {}).get("peak")
    return theirs / ours if theirs and ours else None


def _worker(record: Record, engine: str, _: str) -> float | None:
    size = record["engines"].get(engine, {}).get("worker")
    return 1024 / size if size else None


def _connect(record: Record, engine: str, _: str) -> float | None:
    return ratio(record, engine, against=f"{engine}{ON_CONNECT}")


def _cheapest(records: Sequence[Record]) -> list[Record]:
    """The merge of least time for each size of table: what it takes is what a merge costs at least.

    Tables larger than those of all cases are left out: each of the merges measured there writes hundreds of MB.
    """
    found: dict[int, Record] = {}
    for record in records:
        rows, seconds = record["shape"]["rows"], median(record, OURS)
        if rows <= ROWS and seconds is not None and (rows not in found or seconds < (median(found[rows], OURS) or seconds)):
            found[rows] = record
    return list(found.values())


def _floors(record: Record, engine: str, _: str) -> float | None:
    seconds = median(record, engine)
    return record["floor"] / seconds if seconds and "floor" in record else None
