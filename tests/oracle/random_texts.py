"""Random SQL about a column: conditions, and values for it. Nothing here can fail on a row, but for what a cast can't hold."""

from __future__ import annotations

import random

from tests.oracle.cases import Column

NUMBERS = ("tinyint", "smallint", "int", "bigint")
_COMPARISONS = ("<", "<=", ">", ">=", "=", "<>", "<=>")


def test_of(rng: random.Random, column: Column, alias: str) -> str:
    """A condition about one column."""
    name = f"{alias}.{column.quoted}" if alias else column.quoted
    text = _test(rng, name, column.type)
    return f"NOT ({text})" if rng.random() < 0.08 else text


test_of.__test__ = False  # type: ignore[attr-defined]  # not for pytest


def _test(rng: random.Random, name: str, kind: str) -> str:
    if rng.random() < 0.15:
        return f"{name} IS {rng.choice(('', 'NOT '))}NULL"
    op, number = rng.choice(_COMPARISONS), rng.randint(0, 9)
    if kind in NUMBERS:
        return rng.choice(
            (
                f"{name} {op} {number}",
                f"{name} IN ({number}, {number + 1})",
                f"{name} BETWEEN 2 AND {number}",
                f"{name} % 2 = 0",
                f"{number} {op} {name}",
                f"{name} {op} {number}.5",
                f"coalesce({name}, 0) {op} {number}",
            )
        )
    if kind in ("float", "double") or kind.startswith("decimal"):
        return rng.choice((f"{name} {op} {number}", f"{name} {op} {number / 2}", f"{name} IN ({number}, 0.5)"))
    if kind == "string":
        return rng.choice(
            (f"{name} {op} 'b'", f"{name} LIKE 'a%'", f"{name} IN ('a', 'é')", f"length({name}) {op} 1", f"upper({name}) = 'A'")
        )
    if kind == "date":
        return rng.choice(
            (f"{name} {op} DATE'2020-01-0{max(1, number)}'", f"{name} {op} '2020-01-05'", f"day({name}) {op} {number}")
        )
    if kind.startswith("timestamp"):
        word = kind.upper()
        return rng.choice((f"{name} {op} {word}'2020-01-01 1{number}:00:00'", f"hour({name}) {op} 1{number}"))
    if kind == "binary":
        return f"{name} {op} X'00'"
    if kind.startswith("array"):
        return f"size({name}) {op} {number % 3}"
    if kind.startswith("map"):
        return f"size(map_keys({name})) {op} {number % 3}"
    if kind.startswith("struct<x: int"):
        return f"{name}.x {op} {number}"
    if kind.startswith("struct<x: struct"):
        return f"{name}.x.a {op} {number}"
    return name if kind == "boolean" else f"{name} IS NOT NULL"


def value_of(rng: random.Random, side: str, column: Column, source: Column | None) -> str:
    """An expression to be assigned to a column by a clause of this side."""
    target = f"t.{column.quoted}"
    if side == "NOT MATCHED BY SOURCE":
        return rng.choice((target, column.quoted, "NULL", f"nullif({target}, {target})" if "map<" not in column.type else target))
    given = "NULL" if source is None else f"s.{source.quoted}"
    if side == "NOT MATCHED":
        options = [given, given, given, "NULL"]
        options += [column.quoted] if source is not None else []
        options += [f"coalesce({given}, 3)"] if source is not None and column.type in NUMBERS else []
        return rng.choice(options)
    options = [given, given, target, "NULL"]
    if source is not None and ("<" not in column.type or source.type == column.type):
        options += [f"coalesce({given}, {target})"]
    if column.type in NUMBERS:
        options += [f"{target} + 1", f"greatest({given}, {target})"]
    if column.type == "string":
        options += [f"concat({target}, '+')", f"upper({given})"]
    if column.type.startswith("array<int"):
        options += [f"array_distinct(concat({target}, {target}))"]
    return rng.choice(options)
