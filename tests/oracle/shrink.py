"""A failing merge made small: whatever can be left out while it still fails is left out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from tests.oracle.cases import Clause, Merge

_T = TypeVar("_T")
Failing = Callable[[Merge], str | None]


def shrunk(merge: Merge, failing: Failing, seconds: float = 240) -> tuple[Merge, str]:
    """The smallest merge found within some seconds for which `failing` says what is wrong, and what it says."""
    problem = failing(merge)
    assert problem is not None, "it does not fail"
    deadline = time.monotonic() + seconds
    progress = True
    while progress:
        progress = False
        for smaller in candidates(merge):
            if time.monotonic() > deadline:
                return merge, problem
            found = failing(smaller)
            if found is not None and _kind(found) == _kind(problem):
                merge, problem, progress = smaller, found, True
                break
    return merge, problem


def _kind(problem: str) -> str:
    """What sort of problem it is, so that a merge does not shrink to one that is wrong for another reason."""
    words = problem.splitlines()[0].split()
    return " ".join(words) if words[0] == "error" else words[0]


def candidates(merge: Merge) -> Iterator[Merge]:
    """Merges with something left out, large parts first."""
    for part in (2, 4):
        yield from (replace(merge, source_rows=rows) for rows in _without_parts(merge.source_rows, part))
        yield from (replace(merge, rows=rows) for rows in _without_parts(merge.rows, part))
    for clause in range(len(merge.clauses)):
        if len(merge.clauses) > 1:
            yield replace(merge, clauses=_without(merge.clauses, clause))
    yield from (replace(merge, **change) for change in _plainer(merge))
    for name in [column.name for column in merge.columns]:
        found = without_column(merge, name)
        if found is not None:
            yield found
    for number, clause in enumerate(merge.clauses):
        for simpler in _simpler(clause):
            yield replace(merge, clauses=(*merge.clauses[:number], simpler, *merge.clauses[number + 1 :]))
    for at in range(len(merge.on)):
        if len(merge.on) > 1:
            yield replace(merge, on=_without(merge.on, at))
    yield from (replace(merge, source_rows=_without(merge.source_rows, at)) for at in range(len(merge.source_rows)))
    yield from (replace(merge, rows=_without(merge.rows, at)) for at in range(len(merge.rows)))


def _without(items: tuple[_T, ...], at: int) -> tuple[_T, ...]:
    return (*items[:at], *items[at + 1 :])


def _without_parts(items: tuple[_T, ...], parts: int) -> Iterator[tuple[_T, ...]]:
    step = len(items) // parts
    if step > 1:
        for start in range(0, len(items), step):
            yield (*items[:start], *items[start + step :])


def _plainer(merge: Merge) -> Iterator[dict[str, object]]:
    if merge.deleted is not None:
        yield {"deleted": None}
    if merge.vectors is not None:
        yield {"vectors": None, "deleted": None}
    if merge.partition_by:
        yield {"partition_by": ()}
    if merge.files > 1:
        yield {"files": 1}
    for at in range(len(merge.properties)):
        yield {"properties": _without(merge.properties, at)}


def _simpler(clause: Clause) -> Iterator[Clause]:
    if clause.condition is not None:
        yield replace(clause, condition=None)
    for at in range(len(clause.values or ())):
        if len(clause.values or ()) > 1:
            yield replace(clause, values=_without(clause.values or (), at))


def without_column(merge: Merge, name: str) -> Merge | None:
    """The merge without a column on either side; None when something names it, or it is the last."""
    column = next(c for c in merge.columns if c.name == name)
    texts = [merge.condition, merge.deleted or "", *(value for _, value in merge.properties), *merge.partition_by]
    texts += [other.more for other in merge.columns]
    for clause in merge.clauses:
        texts += [clause.condition or "", *(text for pair in clause.values or () for text in pair)]
    if len(merge.columns) < 3 or any(column.quoted in text or name in text for text in texts):
        return None
    at = merge.columns.index(column)
    source = next((n for n, c in enumerate(merge.source_columns) if c.name == name), None)
    found = replace(merge, columns=_without(merge.columns, at), rows=tuple(_without(row, at) for row in merge.rows))
    if source is None:
        return found
    rows = tuple(_without(row, source) for row in merge.source_rows)
    return replace(found, source_columns=_without(merge.source_columns, source), source_rows=rows)
