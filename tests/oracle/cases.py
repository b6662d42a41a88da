"""Random merges as data: a table, a source, a statement. The same seed gives the same case."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

TYPES = (
    "tinyint", "smallint", "int", "bigint", "float", "double", "decimal(5,2)", "decimal(20,4)", "string", "date", "timestamp",
    "boolean",
)  # fmt: skip
KEY_TYPES = ("int", "bigint", "string", "date", "decimal(5,2)", "timestamp", "smallint", "double")


@dataclass(frozen=True)
class Column:
    """A column by name and SQL type."""

    name: str
    type: str


@dataclass(frozen=True)
class ClauseCase:
    """A clause in SQL text: `values` are (column, expression) pairs, None for `*`."""

    side: str
    action: str
    condition: str | None = None
    values: tuple[tuple[str, str], ...] | None = None


@dataclass(frozen=True)
class Case:
    """One random merge; rows are tuples in the order of the columns.

    `vectors` is None for a table without deletion vectors, "on" for one that writes them, "off" for one that stopped to do
    so; the rows for which `deleted` is true were deleted before.
    """

    seed: int
    columns: tuple[Column, ...]
    partition_by: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    files: int
    source_columns: tuple[Column, ...]
    source_rows: tuple[tuple[Any, ...], ...]
    condition: str
    clauses: tuple[ClauseCase, ...]
    properties: tuple[tuple[str, str], ...] = field(default=())
    vectors: str | None = None
    deleted: str | None = None

    def __str__(self) -> str:
        """The case as one screen of SQL."""
        target = ", ".join(f"{c.name} {c.type}" for c in self.columns)
        source = ", ".join(f"{c.name} {c.type}" for c in self.source_columns)
        lines = [
            f"seed {self.seed}",
            f"t ({target}) partitioned by {list(self.partition_by)} in {self.files} files {dict(self.properties)}:",
            *(f"  {row}" for row in self.rows[:30]),
            f"deletion vectors {self.vectors}, DELETE FROM t WHERE {self.deleted}",
            f"s ({source}):",
            *(f"  {row}" for row in self.source_rows[:30]),
            f"MERGE INTO t USING s ON {self.condition}",
            *(f"  {_clause_text(clause)}" for clause in self.clauses),
        ]
        return "\n".join(lines)


def _clause_text(clause: ClauseCase) -> str:
    condition = f" AND {clause.condition}" if clause.condition else ""
    values = "*" if clause.values is None else ", ".join(f"{name} = {value}" for name, value in clause.values)
    return f"WHEN {clause.side}{condition} THEN {clause.action} {values if clause.action != 'DELETE' else ''}"


def make_case(seed: int) -> Case:
    """The random merge of a seed."""
    rng = random.Random(seed)
    keys = [Column(f"k{i}", rng.choice(KEY_TYPES)) for i in range(rng.choice((1, 1, 1, 2)))]
    data = [Column(f"c{i}", rng.choice(TYPES)) for i in range(rng.randint(1, 4))]
    columns = [*keys, *data]
    partitions = rng.sample(columns, min(len(columns) - 1, rng.choice((0, 0, 0, 1, 2))))
    source_columns = [Column(c.name, _near(rng, c.type)) for c in columns]
    rng.shuffle(source_columns)
    rows = [tuple(_value(rng, c.type) for c in columns) for _ in range(rng.randint(0, 40))]
    source_rows = [tuple(_value(rng, c.type) for c in source_columns) for _ in range(rng.randint(0, 15))]
    if rng.random() < 0.7:
        source_rows = _distinct(source_rows, [source_columns.index(c) for c in source_columns if c.name.startswith("k")])
    vectors, deleted = _vectors(random.Random(-seed - 1), columns)
    return Case(
        seed,
        tuple(columns),
        tuple(c.name for c in partitions),
        tuple(rows),
        rng.randint(1, 4),
        tuple(source_columns),
        tuple(source_rows),
        _condition(rng, keys, data),
        tuple(_clauses(rng, columns)),
        (("delta.enableDeletionVectors", "true"),) if vectors else (),
        vectors,
        deleted,
    )


def _vectors(rng: random.Random, columns: list[Column]) -> tuple[str | None, str | None]:
    vectors = rng.choice((None, "on", "on", "off"))
    deleted = _test(rng, rng.choice(columns), "t").replace("t.", "", 1) if vectors and rng.random() < 0.7 else None
    return vectors, deleted


def _near(rng: random.Random, type: str) -> str:
    """The same type, or now and then one that is cast on the way."""
    if rng.random() < 0.8:
        return type
    wider = {"int": "bigint", "smallint": "int", "tinyint": "int", "float": "double", "decimal(5,2)": "decimal(8,3)"}
    return wider.get(type, type)


def _value(rng: random.Random, type: str) -> Any:
    if rng.random() < 0.12:
        return None
    small = rng.randint(0, 9)
    if type in ("tinyint", "smallint", "int", "bigint"):
        return small
    if type in ("float", "double"):
        return rng.choice((float(small), small / 2, -0.0, 0.0, float("nan"), float("inf")))
    if type.startswith("decimal"):
        return Decimal(small * 25) / 100
    if type == "string":
        return rng.choice(("", "a", "b", "c", "aa", "é", "A", "x y", "o'k", '"q"', "z%=/:"))
    if type == "date":
        return date(2020, 1, 1) + timedelta(days=small)
    if type == "timestamp":
        return datetime(2020, 1, 1, 12) + timedelta(hours=small, microseconds=small * 111)
    return rng.random() < 0.5


def _distinct(rows: list[tuple[Any, ...]], keys: list[int]) -> list[tuple[Any, ...]]:
    seen: dict[str, tuple[Any, ...]] = {}
    for row in rows:
        seen.setdefault(repr([row[i] for i in keys]).replace("-0.0", "0.0"), row)
    return list(seen.values())


def _condition(rng: random.Random, keys: list[Column], data: list[Column]) -> str:
    parts = [f"t.{k.name} {rng.choice(('=', '=', '=', '<=>'))} s.{k.name}" for k in keys]
    if rng.random() < 0.3:
        parts.append(_test(rng, rng.choice(data), "t"))
    if rng.random() < 0.15:
        parts.append(_test(rng, rng.choice(data), "s"))
    rng.shuffle(parts)
    text = " AND ".join(parts)
    return f"{text} OR ({parts[0]} AND {_test(rng, rng.choice(data), 't')})" if rng.random() < 0.1 else text


def _test(rng: random.Random, column: Column, alias: str) -> str:
    name = f"{alias}.{column.name}"
    kind = column.type
    if rng.random() < 0.2:
        return f"{name} IS {rng.choice(('', 'NOT '))}NULL"
    op = rng.choice(("<", "<=", ">", ">=", "=", "<>"))
    number = rng.randint(0, 9)
    if kind in ("tinyint", "smallint", "int", "bigint"):
        return rng.choice((f"{name} {op} {number}", f"{name} IN ({number}, {number + 1})", f"{name} BETWEEN 2 AND {number}"))
    if kind in ("float", "double") or kind.startswith("decimal"):
        return f"{name} {op} {number}"
    if kind == "string":
        return rng.choice((f"{name} {op} 'b'", f"{name} LIKE 'a%'", f"{name} IN ('a', 'é')"))
    if kind == "date":
        return f"{name} {op} DATE'2020-01-0{max(1, number)}'"
    if kind == "timestamp":
        return f"{name} {op} TIMESTAMP'2020-01-01 1{number}:00:00'"
    return name


def _clauses(rng: random.Random, columns: list[Column]) -> list[ClauseCase]:
    found: list[ClauseCase] = []
    shape = rng.choice(("upsert", "upsert", "update", "delete", "insert", "many", "sync"))
    if shape in ("upsert", "update", "many", "sync"):
        found += _side(rng, "MATCHED", columns, ("UPDATE", "UPDATE", "DELETE"), 1 if shape != "many" else rng.randint(2, 3))
    if shape == "delete":
        found += _side(rng, "MATCHED", columns, ("DELETE",), 1)
    if shape in ("upsert", "insert", "many", "sync"):
        found += _side(rng, "NOT MATCHED", columns, ("INSERT",), 1 if shape != "many" else rng.randint(1, 2))
    if shape == "sync":
        found += _side(rng, "NOT MATCHED BY SOURCE", columns, ("UPDATE", "DELETE"), rng.randint(1, 2))
    return found


def _side(rng: random.Random, side: str, columns: list[Column], actions: tuple[str, ...], count: int) -> list[ClauseCase]:
    clauses = []
    for position in range(count):
        last = position == count - 1
        condition = None if last and rng.random() < 0.6 else _clause_condition(rng, side, columns)
        action = rng.choice(actions)
        values = None
        if action != "DELETE" and (side == "NOT MATCHED BY SOURCE" or rng.random() < 0.5):
            values = _values(rng, side, action, columns)
        clauses.append(ClauseCase(side, action, condition, values))
    return clauses


def _clause_condition(rng: random.Random, side: str, columns: list[Column]) -> str:
    alias = {"MATCHED": rng.choice("ts"), "NOT MATCHED": "s", "NOT MATCHED BY SOURCE": "t"}[side]
    return _test(rng, rng.choice(columns), alias)


def _values(rng: random.Random, side: str, action: str, columns: list[Column]) -> tuple[tuple[str, str], ...]:
    chosen = columns if action == "INSERT" and rng.random() < 0.7 else rng.sample(columns, rng.randint(1, len(columns)))
    pairs = []
    for column in chosen:
        name = column.name
        options = {
            "MATCHED": (f"s.{name}", f"s.{name}", f"coalesce(s.{name}, t.{name})", f"t.{name}", "NULL"),
            "NOT MATCHED": (f"s.{name}", f"s.{name}", name, "NULL"),
            "NOT MATCHED BY SOURCE": (f"t.{name}", name, "NULL", f"nullif(t.{name}, t.{name})"),
        }[side]
        pairs.append((name, rng.choice(options)))
    return tuple(pairs)
