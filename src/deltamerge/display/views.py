"""What is shown, as frozen values: pages of tables, pairs, bars and trees. Text, HTML and the command line are made of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# What is shown of a text, and of a table's columns.
MOST_CHARACTERS, MOST_COLUMNS = 160, 30


@dataclass(frozen=True)
class Cell:
    """A text in a table; one that is `marked` has changed."""

    text: str
    marked: bool = False


@dataclass(frozen=True)
class Grid:
    """A table: names of columns, those whose values are numbers, and rows of texts."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    numeric: frozenset[str] = frozenset()
    note: str = ""


@dataclass(frozen=True)
class Pairs:
    """Names and what they have."""

    title: str
    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Bar:
    """A bar: its name, its length as a share of the longest one, and texts beside it."""

    name: str
    share: float
    texts: tuple[str, ...]


@dataclass(frozen=True)
class Bars:
    """Lengths that are compared."""

    title: str
    heads: tuple[str, ...]
    bars: tuple[Bar, ...]


@dataclass(frozen=True)
class Node:
    """A line of a tree, why it is so, and what is below it; one that is not `chosen` was passed over."""

    text: str
    why: str = ""
    below: tuple[Node, ...] = ()
    chosen: bool = True


@dataclass(frozen=True)
class Tree:
    """A tree of lines."""

    title: str
    nodes: tuple[Node, ...]


View = Grid | Pairs | Bars | Tree


@dataclass(frozen=True)
class Page:
    """Views below a heading, and a line that says the most important thing."""

    heading: str
    line: str
    views: tuple[View, ...] = ()


def cut(text: str) -> str:
    """A text as it is shown: on one line, with signs in place of characters that can't be seen, and not too long."""
    few = seen(text[:MOST_CHARACTERS])
    return few if len(text) <= MOST_CHARACTERS else f"{few[:-1]}\N{HORIZONTAL ELLIPSIS}"


def seen(text: str, but: str = "") -> str:
    """A text with signs in place of characters that can't be seen: a terminal might obey them."""
    return "".join(char if char.isprintable() or char in but else "\N{OPEN BOX}" for char in text)


def value_text(value: Any) -> str:
    """A value as it is shown. NULL is none."""
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return cut(value[:MOST_CHARACTERS].hex(" "))
    return cut(value if isinstance(value, str) else str(value))


def grid_of(
    title: str,
    rows: Sequence[Mapping[str, Any]],
    columns: Sequence[str],
    numeric: Sequence[str] = (),
    most_rows: int | None = None,
    thing: str = "row",
) -> Grid:
    """Rows as a table, each of which is a `thing`; of many only the first are shown, and the note says how many are left out."""
    shown = tuple(columns[:MOST_COLUMNS])
    cells = tuple(tuple(Cell(value_text(row.get(name))) for name in shown) for row in rows[:most_rows])
    left = ((len(columns) - len(shown), "column"), (len(rows) - len(cells), thing))
    note = " ".join(f"{counted(number, f'more {thing}')}." for number, thing in left if number)
    return Grid(title, shown, cells, frozenset(numeric) & set(shown), note)


def size_text(size: int) -> str:
    """A number of bytes for people."""
    amount = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:,.0f} {unit}" if unit == "B" else f"{amount:,.1f} {unit}"
        amount /= 1000
    return f"{amount:,.1f} TB"


def time_text(milliseconds: int) -> str:
    """A time for people."""
    return f"{milliseconds:,} ms" if milliseconds < 1000 else f"{milliseconds / 1000:,.1f} s"


def counted(number: int, thing: str) -> str:
    """A number of things: 1 row, 2 rows."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
