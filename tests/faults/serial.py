"""What a table holds after transactions that ran one after the other: rows in Python, and what each statement makes of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

PARTS = (0, 1)
ALL_PARTS = frozenset(PARTS)


@dataclass(frozen=True, slots=True)
class Row:
    """A row (id, part, n); `born` is the version of the blind append that it is still as it was made by, else None."""

    id: int
    part: int
    n: int
    born: int | None = None


Rows = tuple[Row, ...]


@dataclass(frozen=True)
class Step:
    """A statement: its SQL text for a `{table}`, and what it makes of the rows that it sees.

    `parts` are the partitions that its conditions name, None where they name none. `blind` says that it reads nothing, `moves`
    that it changes no row, `rules` that it changes what the table demands of writers.
    """

    text: str
    apply: Callable[[Rows], Rows]
    parts: frozenset[int] | None = None
    blind: bool = False
    moves: bool = False
    rules: bool = False
    restores: int | None = None


def merge(source: Mapping[int, int], part: int | None) -> Step:
    """Upsert by key, of one partition or of all: adds `n` to each row with the key, and inserts keys that are not there."""

    def apply(rows: Rows) -> Rows:
        hit = {row.id for row in rows if row.id in source and part in (None, row.part)}
        kept = [_changed(row, source[row.id]) if row.id in hit and part in (None, row.part) else row for row in rows]
        return (*kept, *(Row(id, part or 0, n) for id, n in source.items() if id not in hit))

    values = " UNION ALL ".join(f"SELECT {id} id, {part or 0} part, {n} n" for id, n in source.items())
    on = "t.id = s.id" if part is None else f"t.id = s.id AND t.part = s.part AND t.part = {part}"
    text = (
        f"MERGE INTO {{table}} t USING ({values}) s ON {on} WHEN MATCHED THEN UPDATE SET n = t.n + s.n "
        "WHEN NOT MATCHED THEN INSERT (id, part, n) VALUES (s.id, s.part, s.n)"
    )
    return Step(text, apply, None if part is None else frozenset({part}))


def merge_delete(ids: Iterable[int]) -> Step:
    """Delete the rows with some keys, by a merge."""
    gone = frozenset(ids)
    values = " UNION ALL ".join(f"SELECT {id} id" for id in sorted(gone))
    text = f"MERGE INTO {{table}} t USING ({values}) s ON t.id = s.id WHEN MATCHED THEN DELETE"
    return Step(text, lambda rows: tuple(row for row in rows if row.id not in gone))


def delete(id: int | None, part: int) -> Step:
    """Delete the rows of a partition, of all keys or of one."""
    text = f"DELETE FROM {{table}} WHERE part = {part}" + ("" if id is None else f" AND id = {id}")
    return Step(text, lambda rows: tuple(row for row in rows if row.part != part or id not in (None, row.id)), frozenset({part}))


def update(id: int, n: int) -> Step:
    """Add to the rows with a key."""
    text = f"UPDATE {{table}} SET n = n + {n} WHERE id = {id}"
    return Step(text, lambda rows: tuple(_changed(row, n) if row.id == id else row for row in rows))


def append(id: int, part: int, n: int) -> Step:
    """Add a row, whatever is there."""
    text = f"INSERT INTO {{table}} (id, part, n) VALUES ({id}, {part}, {n})"
    return Step(text, lambda rows: (*rows, Row(id, part, n)), frozenset({part}), blind=True)


def overwrite(id: int, part: int, n: int) -> Step:
    """A row in the place of all rows."""
    return Step(f"INSERT OVERWRITE {{table}} (id, part, n) VALUES ({id}, {part}, {n})", lambda rows: (Row(id, part, n),))


def optimize() -> Step:
    """Put files together."""
    return Step("OPTIMIZE {table}", lambda rows: rows, moves=True)


def add_column(number: int) -> Step:
    """Add a column, which is null in all rows."""
    return Step(f"ALTER TABLE {{table}} ADD COLUMNS (c{number} INT)", lambda rows: rows, moves=True, rules=True)


def upgrade(feature: str) -> Step:
    """Have the protocol ask for a feature."""
    text = f"ALTER TABLE {{table}} SET TBLPROPERTIES ('delta.feature.{feature}' = 'supported')"
    return Step(text, lambda rows: rows, moves=True, rules=True)


def restore(version: int, then: Rows) -> Step:
    """Make the newest version as another one was."""
    return Step(f"RESTORE TABLE {{table}} TO VERSION AS OF {version}", lambda rows: then, rules=True, restores=version)


class Serial:
    """A table's versions: after each, its rows; and the statement that made it."""

    def __init__(self, first: Rows, follows_appends: bool) -> None:
        self.versions: list[Rows] = [first]
        self.steps: list[Step | None] = [None]
        self._follows_appends = follows_appends

    def after(self, step: Step, read: int) -> Rows:
        """The rows if a statement that has read a version is committed now: placed last, or before appends that it missed."""
        rows = self.versions[-1]
        if self._follows_appends and not step.blind and not step.moves:
            missed = tuple(row for row in rows if row.born is not None and row.born > read)
            seen = tuple(row for row in rows if row not in missed)
            return (*step.apply(seen), *missed)
        return step.apply(rows)

    def commit(self, step: Step, read: int) -> None:
        """A statement made the next version."""
        rows, version = self.after(step, read), len(self.versions)
        if step.blind:
            rows = (*rows[:-1], replace(rows[-1], born=version))
        self.versions.append(rows)
        self.steps.append(step)

    def must_succeed(self, step: Step, read: int) -> bool:
        """Whether none of the commits since a version can stand in the way of a statement."""
        return all(winner is not None and _apart(step, winner) for winner in self.steps[read + 1 :])


def bag(rows: Rows) -> Counter[tuple[int, int, int]]:
    """The rows without an order."""
    return Counter((row.id, row.part, row.n) for row in rows)


def _apart(step: Step, winner: Step) -> bool:
    if step.rules or winner.rules:
        return False
    if step.blind:
        return True
    return step.parts is not None and winner.parts is not None and not step.parts & winner.parts


def _changed(row: Row, n: int) -> Row:
    return replace(row, n=row.n + n, born=None)
