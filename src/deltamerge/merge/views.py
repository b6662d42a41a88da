"""What is shown of a merge: the pruning funnel, the plan, what clauses do, the time of each step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from deltamerge.display.views import Bar, Bars, Cell, Grid, Node, Tree, counted, size_text, time_text, value_text
from deltamerge.merge.plan.prune import FunnelStep

# Changed columns of a sample row that are shown.
_MOST_CHANGES = 12
Row = Mapping[str, Any]


def funnel_view(funnel: Sequence[FunnelStep]) -> Bars:
    """What each kind of pruning left of the table."""
    most = max((step.files for step in funnel), default=0) or 1
    bars = (Bar(step.name, step.files / most, (f"{step.files:,}", size_text(step.bytes))) for step in funnel)
    return Bars("Files", ("files", "size"), tuple(bars))


def ran_view(attempt: str, reason: str, others: Sequence[str]) -> Tree:
    """How rows were matched, and why not in another way."""
    passed = tuple(Node(text.removeprefix("no "), why, chosen=False) for text, _, why in (o.partition(": ") for o in others))
    return Tree("Plan", (Node(attempt, reason), *passed)) if attempt else Tree("Plan", ())


def time_view(metrics: Mapping[str, int]) -> Bars:
    """The time of each step of a merge that ran."""
    steps = {
        "reading the source": metrics["materializeSourceTimeMs"],
        "finding matches": metrics["scanTimeMs"],
        "writing": metrics["rewriteTimeMs"],
    }
    steps["the rest"] = max(0, metrics["executionTimeMs"] - sum(steps.values()))
    longest = max(steps.values()) or 1
    bars = tuple(Bar(name, took / longest, (time_text(took),)) for name, took in steps.items())
    return Bars(f"Time: {time_text(metrics['executionTimeMs'])}", ("",), bars)


def sample_view(clause: str, rows: int, sample: Sequence[tuple[Row | None, Row | None]]) -> Grid:
    """What a clause would do, in some of its rows: a line before and a line after, changed values marked."""
    names = list(dict.fromkeys(name for pair in sample for row in pair if row is not None for name in row))
    changed = {name for name in names if any(_changes(before, after, name) for before, after in sample)}
    kept = {name for name in names if any(name in (before or {}) and name not in (after or {}) for before, after in sample)}
    wanted = sorted(names, key=lambda name: (name not in kept, name not in changed))[:_MOST_CHANGES]
    shown = [name for name in names if name in wanted]
    lines: list[tuple[Cell, ...]] = []
    for before, after in sample:
        if before is not None:
            lines.append((Cell("before" if after is not None else "deleted"), *(_cell(before, name) for name in shown)))
        if after is not None:
            whole = {**(before or {}), **after}
            cells = (_cell(whole, name, _changes(before, after, name)) for name in shown)
            lines.append((Cell("after" if before is not None else "inserted"), *cells))
    left = len(names) - len(shown)
    note = f"{left:,} more columns." if left else ""
    more = "" if len(sample) == rows else f", {len(sample)} of them shown"
    title = f"{clause}: {counted(rows, 'row')}{more}"
    return Grid(title, ("", *shown) if lines else (), tuple(lines), note=note)


def _cell(row: Row, name: str, marked: bool = False) -> Cell:
    return Cell(value_text(row[name]), marked) if name in row else Cell("")


def _changes(before: Row | None, after: Row | None, name: str) -> bool:
    """Whether an update gives a row another value; all values of an inserted row are new."""
    if before is None or after is None or name not in after:
        return False
    return name not in before or before[name] != after[name]
