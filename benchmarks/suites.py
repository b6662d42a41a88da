"""Which cases run on which tables: the suites, as lists of points. Must not know how a point is measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.cases import BASIC, DELTA, MANY_FILES, MANY_FILES_AGAIN, OTHERS, SHARES, BenchCase, upsert
from benchmarks.data import Shape
from benchmarks.tables import LOG

ROWS = 4_000_000
ALL_ROWS = (ROWS, 400_000, 10_000)
GROWTH_ROWS = 400_000

_ROWS_AXIS = (10_000, 100_000, 400_000, 1_000_000, ROWS)
_FILES_AXIS = (16, 256, 1_024)
_COLUMNS_AXIS = (8, 24, 100, 300)
_BY_SHARE = {share: upsert(1.0, share, 0) for share in SHARES}
_SOME, _HALF, _ONE = upsert(1.0, 0.01, 0.001), upsert(0.5, 0.01, 0.001), upsert(1 / 16, 0.1, 0.1)

CASES: dict[str, BenchCase] = {case.name: case for case in (*DELTA, *OTHERS, *_BY_SHARE.values())}
LAYOUTS = ("clustered", "scattered")
SUITES = ("basic", "full", "growth", "memory", "connect", "all")


@dataclass(frozen=True)
class Point:
    """A case on a table, measured in one way: `kind` is merge, memory or connect."""

    kind: str
    case: BenchCase
    shape: Shape

    @property
    def key(self) -> str:
        """What tells the point from others in the file of results."""
        return f"{self.kind} | {self.case.name} | {self.shape.name}"

    def record(self) -> dict[str, Any]:
        """What a record of the point begins with."""
        return {"key": self.key, "kind": self.kind, "case": self.case.name, "shape": asdict(self.shape)}


def points(suite: str, rows: Sequence[int], layouts: Sequence[str] = ("clustered",)) -> list[Point]:
    """The points of a suite, the most wanted first; `rows` are the table sizes, by default the suite's own.

    `layouts` are those of the basic suite's tables.
    """
    match suite:
        case "basic":
            found = _each("merge", BASIC, rows or (ROWS,), layouts)
        case "memory" | "connect":
            found = _each(suite, BASIC, rows or (ROWS,), ("clustered",))
        case "growth":
            found = (point for series in growth(rows[0] if rows else GROWTH_ROWS).values() for _, point in series)
        case "full":
            found = _each("merge", (*DELTA, *OTHERS), rows or ALL_ROWS, LAYOUTS)
        case _:
            basic = _each("merge", BASIC, rows or ALL_ROWS, ("clustered",))
            others = (point for name in ("memory", "connect", "growth", "full") for point in points(name, rows))
            found = iter((*basic, *others))
    return list({point.key: point for point in found}.values())


def _each(kind: str, cases: Sequence[BenchCase], rows: Sequence[int], layouts: Sequence[str]) -> Iterator[Point]:
    for count in rows:
        for layout in layouts:
            for case in cases:
                if layout in case.layouts:
                    yield Point(kind, case, Shape(count, case.files, layout=layout))
                elif layout == layouts[0] and not {"clustered", "scattered"} & set(case.layouts):
                    yield Point(
                        kind, case, LOG if case in (MANY_FILES, MANY_FILES_AGAIN) else Shape(count, layout=case.layouts[0])
                    )


def growth(rows: int = GROWTH_ROWS) -> dict[str, list[tuple[float, Point]]]:
    """Per axis its points, each with its place on the axis; all axes but the first are at `rows` rows."""
    by_rows = [count for count in _ROWS_AXIS if count <= max(ROWS, rows)] if rows >= GROWTH_ROWS else [rows]
    return {
        "rows": [(count, Point("merge", _SOME, Shape(count))) for count in by_rows],
        "files": [(count, Point("merge", _ONE, Shape(rows, count))) for count in _FILES_AXIS],
        "columns": [(count, Point("merge", _HALF, Shape(rows, 16, count))) for count in _COLUMNS_AXIS],
        "matched rows, percent": [(share * 100, Point("merge", case, Shape(rows))) for share, case in _BY_SHARE.items()],
    }
