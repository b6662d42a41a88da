"""The random merge of a seed: tables of every type, odd names, partitions, old deletes, constraints, clauses of every kind."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from pyspark.sql import types as T

from tests.cases.tables import type_of
from tests.cases.values import render
from tests.oracle.cases import Clause, Column, Merge
from tests.oracle.random_texts import NUMBERS, test_of, value_of

PLAIN_TYPES = (
    "tinyint", "smallint", "int", "bigint", "float", "double", "decimal(5,2)", "decimal(20,4)", "string", "date", "timestamp",
    "timestamp_ntz", "boolean", "binary",
)  # fmt: skip
NESTED_TYPES = (
    "array<int>", "map<string, int>", "struct<x: int, y: string>", "array<struct<x: int, y: string>>",
    "struct<x: struct<a: int, b: date>, y: array<string>>", "map<string, struct<x: double, y: int>>", "array<decimal(5,2)>",
)  # fmt: skip
KEY_TYPES = (
    "int", "int", "bigint", "string", "string", "date", "decimal(5,2)", "timestamp", "smallint", "double", "float", "binary",
    "timestamp_ntz", "boolean", "struct<x: int, y: string>",
)  # fmt: skip
PARTITION_TYPES = tuple(name for name in PLAIN_TYPES if name != "binary")
_ODD_NAMES = ("größe", "select", "path", "t", "s", "Value", "_x", "n1", "row_index", "file_id", "a.b", "count")
_MAPPED_NAMES = ("the id", "a,b", "x=y", "(z)", "tab\there", "semi;colon")
_WIDER = {
    "int": "bigint",
    "smallint": "int",
    "tinyint": "int",
    "float": "double",
    "decimal(5,2)": "decimal(8,3)",
    "date": "timestamp",
}
_EVOLVED = {
    "struct<x: int, y: string>": ("struct<z: int, x: int>", "struct<x: int, y: string, z: date>", "struct<y: string, x: int>"),
    "array<struct<x: int, y: string>>": ("array<struct<y: string, z: int, x: int>>", "array<struct<x: int>>"),
    "struct<x: struct<a: int, b: date>, y: array<string>>": ("struct<x: struct<b: date, c: int>>",),
    "map<string, struct<x: double, y: int>>": ("map<string, struct<x: double, z: int>>",),
}
_TEXTS = ("", "a", "b", "c", "aa", "é", "A", "x y", "o'k", '"q"', "z%=/:", "\n", "null", "日本")
_START = datetime(2020, 1, 1, 12)


def make_merge(seed: int) -> Merge:
    """The random merge of a seed."""
    rng = random.Random(f"merge {seed}")
    mapping = rng.choice(("none", "none", "none", "name", "id"))
    columns = _columns(rng, mapping)
    keys = columns[: rng.choice((1, 1, 1, 2))]
    generated = _generated(rng, columns)
    columns = [*columns, *generated]
    properties = [("delta.columnMapping.mode", mapping)] if mapping != "none" else []
    checked = next((c for c in columns if c.type in NUMBERS and "generated" not in c.more), None)
    if checked is not None and rng.random() < 0.12:
        properties.append(("delta.constraints.small", f"{checked.quoted} <= 8 OR {checked.quoted} IS NULL"))
    rows = [_row(rng, columns) for _ in range(rng.choice((0, 3, 10, 40)))]
    if checked is not None and any(name.startswith("delta.constraints") for name, _ in properties):
        at = columns.index(checked)
        rows = [row for row in rows if row[at] is None or row[at] <= 8]
    evolves = rng.random() < 0.25
    properties += [("delta.enableChangeDataFeed", "true")] if rng.random() < 0.2 else []
    properties += [("delta.enableTypeWidening", "true")] if evolves and rng.random() < 0.25 else []
    source_columns = _source_columns(rng, columns, evolves)
    source_rows = [_row(rng, source_columns) for _ in range(rng.choice((0, 1, 4, 15)))]
    source_rows = [_with_generated(row, source_columns, generated, rng) for row in source_rows]
    if rng.random() < 0.75:
        source_rows = _distinct(source_rows, [n for n, c in enumerate(source_columns) if c.name in {k.name for k in keys}])
    # delta-spark can't write by source into a table whose partition column has a dot in its name.
    partitions = [c for c in columns if c.type in PARTITION_TYPES and "." not in c.name]
    chosen = rng.sample(partitions, min(len(partitions), len(columns) - 1, rng.choice((0, 0, 0, 1, 2))))
    vectors = rng.choice((None, "on", "on", "off"))
    return Merge(
        seed,
        tuple(columns),
        tuple(_cells(row, columns) for row in rows),
        rng.randint(1, 4),
        tuple(source_columns),
        tuple(_cells(row, source_columns) for row in source_rows),
        tuple(_search_condition(rng, keys, columns, source_columns)),
        tuple(_clauses(rng, columns, source_columns, evolves)),
        tuple(c.name for c in chosen),
        tuple(properties),
        vectors,
        test_of(rng, rng.choice(columns), "") if vectors and rng.random() < 0.7 else None,
        evolves,
    )


def _columns(rng: random.Random, mapping: str) -> list[Column]:
    odd = list(_ODD_NAMES) + (list(_MAPPED_NAMES) if mapping != "none" else [])
    rng.shuffle(odd)
    found = []
    for number in range(rng.randint(2, 7)):
        type = rng.choice(KEY_TYPES) if number < 2 else rng.choice((*PLAIN_TYPES, *PLAIN_TYPES, *NESTED_TYPES))
        name = odd.pop() if rng.random() < 0.2 else f"{'k' if number < 2 else 'c'}{number}"
        found.append(Column(name, type, " not null" if rng.random() < 0.06 else ""))
    return found


def _generated(rng: random.Random, columns: list[Column]) -> list[Column]:
    base = next((c for c in columns if c.type in ("tinyint", "smallint", "int") and "not null" not in c.more), None)
    if base is None or rng.random() < 0.85:
        return []
    return [Column("gen", "bigint", f" generated (CAST({base.quoted} AS BIGINT) * 2)")]


def _with_generated(row: list[Any], columns: list[Column], generated: list[Column], rng: random.Random) -> list[Any]:
    """The source's row, mostly with the value that the generated column wants."""
    at = next((n for n, c in enumerate(columns) if generated and c.name == generated[0].name), None)
    base = next((n for n, c in enumerate(columns) if generated and f"({c.quoted} AS" in generated[0].more), None)
    if at is not None and base is not None and rng.random() < 0.95:
        row[at] = None if row[base] is None else int(row[base]) * 2
    return row


def _source_columns(rng: random.Random, columns: list[Column], evolves: bool) -> list[Column]:
    found = []
    for column in columns:
        kept = column.type if rng.random() < 0.85 else _WIDER.get(column.type, column.type)
        if evolves and rng.random() < 0.6:
            kept = rng.choice(_EVOLVED.get(column.type, (kept,)))
        found.append(replace(column, type=kept, more=""))
    if len(found) > 2 and rng.random() < (0.3 if evolves else 0.04):
        found.pop(rng.randrange(0 if rng.random() < 0.1 else 2, len(found)))
    more = rng.choice((0, 1, 2)) if evolves else int(rng.random() < 0.15)
    found += [Column(f"x{number}", rng.choice((*PLAIN_TYPES, *NESTED_TYPES))) for number in range(more)]
    rng.shuffle(found)
    return found


def _row(rng: random.Random, columns: list[Column]) -> list[Any]:
    row = [_value(rng, type_of(c.type), "not null" in c.more) for c in columns]
    for at, column in enumerate(columns):
        if "generated" in column.more:
            base = next(n for n, c in enumerate(columns) if f"({c.quoted} AS" in column.more)
            row[at] = None if row[base] is None else row[base] * 2
    return row


def _cells(row: list[Any], columns: list[Column]) -> tuple[str, ...]:
    return tuple(render(value, type_of(c.type)) for value, c in zip(row, columns, strict=True))


def _value(rng: random.Random, type: T.DataType, required: bool = False) -> Any:
    if not required and rng.random() < 0.1:
        return None
    small = rng.randint(0, 9)
    if isinstance(type, T.StructType):
        return {field.name: _value(rng, field.dataType) for field in type.fields}
    if isinstance(type, T.ArrayType):
        return [_value(rng, type.elementType) for _ in range(rng.randint(0, 3))]
    if isinstance(type, T.MapType):
        return [(key, _value(rng, type.valueType)) for key in rng.sample(("a", "b", "é", ""), rng.randint(0, 2))]
    if isinstance(type, T.IntegralType):
        return small
    if isinstance(type, T.FloatType | T.DoubleType):
        return rng.choice((float(small), small / 2, -0.0, 0.0, float("nan"), float("inf")))
    if isinstance(type, T.DecimalType):
        return (Decimal(small * 25) / 100).quantize(Decimal(1).scaleb(-type.scale))
    if isinstance(type, T.BinaryType):
        return rng.choice((b"", b"\x00", b"\xff\x00", b"ab"))
    if isinstance(type, T.DateType):
        return date(2020, 1, 1) + timedelta(days=small)
    if isinstance(type, T.TimestampType | T.TimestampNTZType):
        moment = _START + timedelta(hours=small, microseconds=small * 111)
        return moment.replace(tzinfo=UTC) if isinstance(type, T.TimestampType) else moment
    return rng.choice(_TEXTS) if isinstance(type, T.StringType) else rng.random() < 0.5


def _distinct(rows: list[list[Any]], keys: list[int]) -> list[list[Any]]:
    seen: dict[str, list[Any]] = {}
    for row in rows:
        seen.setdefault(repr([row[i] for i in keys]).replace("-0.0", "0.0"), row)
    return list(seen.values())


def _search_condition(rng: random.Random, keys: list[Column], columns: list[Column], source_columns: list[Column]) -> list[str]:
    shape = rng.random()
    if shape < 0.03:
        return [rng.choice(("true", "false", "CAST(NULL AS BOOLEAN)"))]
    parts = [f"t.{k.quoted} {rng.choice(('=', '=', '=', '<=>'))} s.{k.quoted}" for k in keys]
    if shape < 0.1 and keys[0].type in NUMBERS:
        name = keys[0].quoted
        parts[0] = rng.choice((f"t.{name} BETWEEN s.{name} - 1 AND s.{name}", f"t.{name} < s.{name}", f"t.{name} + 1 = s.{name}"))
    if rng.random() < 0.3:
        parts.append(test_of(rng, rng.choice(columns), "t"))
    if rng.random() < 0.15:
        parts.append(test_of(rng, rng.choice(source_columns), "s"))
    if rng.random() < 0.1:
        parts[0] = f"({parts[0]} OR ({parts[0]} AND {test_of(rng, rng.choice(columns), 't')}))"
    if rng.random() < 0.06:
        other = next((c for c in columns[1:] if any(s.name == c.name and s.type == c.type for s in source_columns)), keys[0])
        parts[0] = f"({parts[0]} OR t.{other.quoted} = s.{other.quoted})" if "map<" not in other.type else parts[0]
    rng.shuffle(parts)
    return parts


_SHAPES = {
    "upsert": ("MATCHED", "NOT MATCHED"),
    "update": ("MATCHED",),
    "insert": ("NOT MATCHED",),
    "sync": ("MATCHED", "NOT MATCHED", "NOT MATCHED BY SOURCE"),
    "by source": ("NOT MATCHED BY SOURCE",),
    "no insert": ("MATCHED", "NOT MATCHED BY SOURCE"),
    "no match": ("NOT MATCHED", "NOT MATCHED BY SOURCE"),
}


def _clauses(rng: random.Random, columns: list[Column], source_columns: list[Column], evolves: bool) -> list[Clause]:
    shape = rng.choice(
        ("delete", "update", "insert", "upsert", "upsert", "upsert", "sync", "sync", "by source", "no insert", "no match")
    )
    if shape == "delete":
        return _side(rng, "MATCHED", columns, source_columns, ("DELETE",), evolves)
    found = []
    for side in _SHAPES[shape]:
        actions = ("INSERT",) if side == "NOT MATCHED" else ("UPDATE", "UPDATE", "DELETE")
        found += _side(rng, side, columns, source_columns, actions, evolves)
    if rng.random() < 0.1:
        sides = rng.sample(_SHAPES[shape], len(_SHAPES[shape]))
        return [clause for side in sides for clause in found if clause.side == side]
    return found


def _side(
    rng: random.Random, side: str, columns: list[Column], source_columns: list[Column], actions: tuple[str, ...], evolves: bool
) -> list[Clause]:
    count = rng.choice((1, 1, 1, 2, 3))
    clauses = []
    for position in range(count):
        bare = position == count - 1 and rng.random() < 0.6
        action = rng.choice(actions)
        star = action != "DELETE" and side != "NOT MATCHED BY SOURCE" and rng.random() < 0.5
        values = None if star or action == "DELETE" else _values(rng, side, action, columns, source_columns, evolves)
        clauses.append(Clause(side, action, None if bare else _clause_condition(rng, side, columns, source_columns), values))
    return clauses


def _clause_condition(rng: random.Random, side: str, columns: list[Column], source_columns: list[Column]) -> str:
    alias = {"MATCHED": rng.choice("ts"), "NOT MATCHED": "s", "NOT MATCHED BY SOURCE": "t"}[side]
    tests = [test_of(rng, rng.choice(columns if alias == "t" else source_columns), alias) for _ in range(rng.choice((1, 1, 2)))]
    text = rng.choice((" AND ", " OR ")).join(tests)
    return f"({text})" if len(tests) > 1 else text


def _values(
    rng: random.Random, side: str, action: str, columns: list[Column], source_columns: list[Column], evolves: bool
) -> tuple[tuple[str, str], ...]:
    whole = action == "INSERT" and rng.random() < 0.7
    chosen = columns if whole else rng.sample(columns, rng.randint(1, len(columns)))
    chosen = [c for c in chosen if "generated" not in c.more or rng.random() < 0.2] or [columns[0]]
    known = {c.name: c for c in source_columns}
    pairs = [(c.quoted, value_of(rng, side, c, known.get(c.name))) for c in chosen]
    extra = known.get("x0")
    if evolves and extra is not None and side != "NOT MATCHED BY SOURCE" and rng.random() < 0.3:
        pairs.append((extra.quoted, f"s.{extra.quoted}"))
    return tuple(pairs)
