"""What is shown, as frozen values: pages of tables, pairs, bars and trees. Text, HTML and the command line are made of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# What is shown of a value, of a table's columns, and of its rows.
MOST_CHARACTERS, MOST_COLUMNS, MOST_ROWS = 120, 30, 200


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


def value_text(value: Any) -> str:
    """A value as it is shown: on one line, and cut where it is long. NULL is none."""
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        text = value[:MOST_CHARACTERS].hex(" ")
    else:
        text = value[: 4 * MOST_CHARACTERS] if isinstance(value, str) else str(value)
    text = "".join(char if char.isprintable() else "\N{OPEN BOX}" for char in text)
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 1]}\N{HORIZONTAL ELLIPSIS}"


def grid_of(title: str, rows: Sequence[Mapping[str, Any]], columns: Sequence[str], numeric: Sequence[str] = ()) -> Grid:
    """Rows as a table; of many columns and rows only the first are shown, and the note says how many there are."""
    shown, few = tuple(columns[:MOST_COLUMNS]), rows[:MOST_ROWS]
    cells = tuple(tuple(Cell(value_text(row.get(name))) for name in shown) for row in few)
    return Grid(title, shown, cells, frozenset(numeric) & set(shown), " ".join(_left_out(len(rows), len(columns))))


def _left_out(rows: int, columns: int) -> Iterator[str]:
    if columns > MOST_COLUMNS:
        yield f"{columns - MOST_COLUMNS:,} more columns."
    if rows > MOST_ROWS:
        yield f"{rows - MOST_ROWS:,} more rows."


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
