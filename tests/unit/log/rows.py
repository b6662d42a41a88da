"""Rows in files with the statistics that writers give them, and what a predicate means for a row: a model of skipping."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from deltamerge.protocol.values.predicate import And, Compare, IsNotNull, IsNull, OneOf, Or, Path, Predicate, StartsWith
from tests.unit.log.building import naive

LAST = "\U0010ffff"
EPOCH = naive(1970, 1, 1)


def _string(text: str) -> str:
    return json.dumps(text)


def _float(value: float) -> str:
    if math.isnan(value):
        return '"NaN"'
    if math.isinf(value):
        return '"Infinity"' if value > 0 else '"-Infinity"'
    return repr(value)


def _float32(value: float) -> str:
    return str(np.float32(value)) if math.isfinite(value) else _float(value)


def _cut_high(text: str) -> str:
    """A long text cut as delta-spark cuts an upper bound, behind a character that no value exceeds there."""
    if len(text) <= 32:
        return text
    end = 32
    while end < len(text) and text[end] == LAST:
        end += 1
    if end == len(text):
        return text
    return text[:end] + ("\x7f" if text[end] < "\x7f" else LAST)


def _milliseconds(moment: datetime, zone: str = "") -> str:
    cut = EPOCH + timedelta(milliseconds=(moment.replace(tzinfo=None) - EPOCH) // timedelta(milliseconds=1))
    return json.dumps(cut.isoformat(timespec="milliseconds") + zone)


@dataclass(frozen=True)
class Kind:
    """A column type: its Delta name, values that meet one another often, and the JSON of its bounds."""

    name: str
    type: pa.DataType
    values: st.SearchStrategy[Any]
    low: Callable[[Any], str] | None
    high: Callable[[Any], str] | None
    key: Callable[[Any], Any] = lambda value: value

    def __repr__(self) -> str:
        return self.name


def _number_key(value: float) -> tuple[bool, float]:
    """Spark's order of floats: -0.0 is 0.0, NaN is itself and above all else."""
    return (True, 0.0) if math.isnan(value) else (False, value + 0.0)


def _decimals(*texts: str) -> st.SearchStrategy[Decimal]:
    return st.sampled_from([Decimal(text) for text in texts])


_integers = st.integers(-3, 3)
_wide = st.sampled_from([-(2**63), -(2**53) - 1, 2**53, 2**53 + 1, 2**63 - 2, 2**63 - 1])
_floats = st.sampled_from([-math.inf, -1.5, -0.0, 0.0, 0.1, 1.0, 2.5, 1e38, math.inf, math.nan])
_doubles = _floats | st.sampled_from([1e-300, 1.7976931348623157e308, 0.1 + 0.2])
_characters = st.sampled_from(["a", "b", "~", "\x7f", "ä", "\uffff", "\U0001f600", LAST])
_strings = st.lists(_characters, max_size=3).map("".join) | st.builds(
    lambda char, length, tail: char * length + tail,
    _characters,
    st.sampled_from([30, 31, 32, 33, 40]),
    st.lists(_characters, max_size=2).map("".join),
)
_dates = st.sampled_from(
    [date(1, 1, 1), date(1582, 10, 4), date(1969, 12, 31), date(1970, 1, 1), date(2020, 2, 29), date(9999, 12, 31)]
)
_moments = st.builds(
    lambda base, micros: base + timedelta(microseconds=micros),
    st.sampled_from([naive(1, 1, 2), naive(1969, 12, 31, 23, 59, 59), naive(2020, 1, 1), naive(9999, 12, 31)]),
    st.sampled_from([0, 1, 999, 1_000, 1_001, 999_999]),
)
_zoned = _moments.map(lambda moment: moment.replace(tzinfo=UTC))

KINDS = [
    Kind("byte", pa.int8(), _integers | st.sampled_from([-128, 127]), str, str),
    Kind("integer", pa.int32(), _integers | st.sampled_from([-(2**31), 2**31 - 1]), str, str),
    Kind("long", pa.int64(), _integers | _wide, str, str),
    Kind("double", pa.float64(), _doubles, _float, _float, _number_key),
    Kind("float", pa.float32(), _floats.map(lambda v: float(np.float32(v))), _float32, _float32, _number_key),
    Kind("string", pa.string(), _strings, lambda v: _string(v[:32]), lambda v: _string(_cut_high(v)), str.encode),
    Kind("decimal(5,2)", pa.decimal128(5, 2), _decimals("-999.99", "-0.01", "0.00", "0.01", "1.10", "999.99"), str, str),
    Kind(
        "decimal(38,10)",
        pa.decimal128(38, 10),
        _decimals(f"{'9' * 28}.{'9' * 10}", f"{'9' * 28}.{'9' * 9}8", f"-{'9' * 28}.0000000001", "0E-10", "1.0000000000"),
        lambda v: format(v, "f"),
        lambda v: format(v, "f"),
    ),
    Kind("date", pa.date32(), _dates, lambda v: _string(v.isoformat()), lambda v: _string(v.isoformat())),
    Kind(
        "timestamp",
        pa.timestamp("us", tz="UTC"),
        _zoned,
        lambda v: _milliseconds(v, "Z"),
        lambda v: _milliseconds(v, "+00:00"),
    ),
    Kind("timestamp_ntz", pa.timestamp("us"), _moments, _milliseconds, _milliseconds),
    Kind("boolean", pa.bool_(), st.booleans(), None, None),
    Kind("binary", pa.binary(), st.binary(max_size=2), None, None),
]


def garbage(kind: Kind) -> list[str]:
    """JSON that is no bound of this type."""
    common = ["null", "true", "[]", "{}", '{"x":1}', "1e999", '"\\ud800"']
    if kind.name == "string":
        return common
    # Where these are numbers of the type, they would be bounds, and lies.
    numbers = {"float": [], "double": [], "decimal(38,10)": ["1.5e-300"]}.get(kind.name, ["1.5e-300", str(2**70)])
    return [*common, '"garbage"', '"NaN"', '""', *numbers]


Row = dict[Path, Any]


@dataclass(frozen=True)
class File:
    """The rows of a file that are not deleted, and the statistics that its writer made from all of them."""

    rows: list[Row]
    stats: str | None


def honest_bounds(kind: Kind, values: Sequence[Any], ignore_nan: bool) -> tuple[str, str] | None:
    """The JSON of a column's bounds, None when there are none; a writer may leave NaN out of them or show it above."""
    known = [value for value in values if value is not None]
    if ignore_nan:
        known = [value for value in known if value == value]
    if not known or kind.low is None or kind.high is None:
        return None
    return kind.low(min(known, key=kind.key)), kind.high(max(known, key=kind.key))


def stats_text(columns: dict[Path, dict[str, str]], rows: str | None) -> str:
    """The JSON of a file's statistics from the JSON texts of each column's minValues, maxValues and nullCount."""
    parts = [] if rows is None else [f'"numRecords":{rows}']
    for name in ("minValues", "maxValues", "nullCount"):
        tree: dict[str, Any] = {}
        for path, texts in columns.items():
            if name in texts:
                inner = tree
                for step in path[:-1]:
                    inner = inner.setdefault(step, {})
                inner[path[-1]] = texts[name]
        parts.append(f'"{name}":{_object(tree)}')
    return "{" + ",".join(parts) + "}"


def _object(tree: dict[str, Any]) -> str:
    texts = (f"{json.dumps(key)}:{_object(value) if isinstance(value, dict) else value}" for key, value in tree.items())
    return "{" + ",".join(texts) + "}"


@st.composite
def files(draw: st.DrawFn, columns: dict[Path, Kind]) -> File:
    """A file of a few rows, some of them deleted; its statistics are right, partly or wholly missing, or garbage."""
    row = st.fixed_dictionaries({path: st.none() | kind.values for path, kind in columns.items()})
    rows = draw(st.lists(row, max_size=4))
    mode = draw(st.sampled_from(["right", "right", "right", "partial", "garbage", "none"]))
    if mode == "none":
        return File(rows, draw(st.sampled_from([None, "", "{", "null", "[]", "5", '"x"', "{}", '{"minValues":5}', " \n "])))
    found: dict[Path, dict[str, str]] = {}
    for path, kind in columns.items():
        values = [row[path] for row in rows]
        texts = {"nullCount": str(sum(value is None for value in values))}
        bounds = honest_bounds(kind, values, draw(st.booleans()))
        if bounds is not None:
            texts |= {"minValues": bounds[0], "maxValues": bounds[1]}
        if mode != "right":
            for name in draw(st.sets(st.sampled_from(["minValues", "maxValues", "nullCount"]))):
                texts.pop(name, None)
                if mode == "garbage":
                    texts[name] = draw(st.sampled_from(garbage(kind) if name != "nullCount" else ["null", '"x"', "{}", "1.5"]))
        found[path] = texts
    count = str(len(rows)) if mode == "right" or draw(st.booleans()) else draw(st.sampled_from([None, "null", '"x"']))
    kept = draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    return File([row for row, keep in zip(rows, kept, strict=True) if keep], stats_text(found, count))


def predicates(columns: dict[Path, Kind]) -> st.SearchStrategy[Predicate]:
    """Predicates of every node over the columns, with values that their rows are likely to meet."""
    leaves = st.one_of([_leaf(path, kind) for path, kind in columns.items()])
    return st.recursive(leaves, lambda inner: st.builds(And, _parts(inner)) | st.builds(Or, _parts(inner)), max_leaves=4)


def _parts(inner: st.SearchStrategy[Predicate]) -> st.SearchStrategy[tuple[Predicate, ...]]:
    return st.lists(inner, max_size=3).map(tuple)


def _leaf(path: Path, kind: Kind) -> st.SearchStrategy[Predicate]:
    column = st.just(path)
    scalars = (st.none() | kind.values).map(lambda value: pa.scalar(value, kind.type))
    found = [
        st.builds(Compare, column, st.sampled_from(["=", "<=>", "<", "<=", ">", ">="]), scalars),
        st.builds(OneOf, column, st.lists(kind.values, max_size=4).map(lambda values: distinct(kind, values)), st.booleans()),
        st.builds(IsNull, column),
        st.builds(IsNotNull, column),
    ]
    if kind.name == "string":
        found.append(st.builds(StartsWith, column, _strings))
    return st.one_of(found)


def distinct(kind: Kind, values: Sequence[Any]) -> pa.Array:
    """The values sorted, each once, in the column's type."""
    by_key = {kind.key(value): value for value in values}
    return pa.array([by_key[key] for key in sorted(by_key)], kind.type)


def holds(predicate: Predicate, row: Row, columns: dict[Path, Kind]) -> bool:
    """Whether Spark finds the predicate true for a row."""
    if isinstance(predicate, And):
        return all(holds(part, row, columns) for part in predicate.parts)
    if isinstance(predicate, Or):
        return any(holds(part, row, columns) for part in predicate.parts)
    value, kind = row[predicate.column], columns[predicate.column]
    if isinstance(predicate, IsNull):
        return value is None
    if isinstance(predicate, IsNotNull):
        return value is not None
    if isinstance(predicate, OneOf):
        if value is None:
            return predicate.or_null
        return kind.key(value) in [kind.key(one) for one in predicate.values.to_pylist()]
    if isinstance(predicate, StartsWith):
        return value is not None and value.startswith(predicate.prefix)
    wanted = predicate.value.as_py()
    if value is None or wanted is None:
        return predicate.op == "<=>" and value is None and wanted is None
    a, b = kind.key(value), kind.key(wanted)
    return {"=": a == b, "<=>": a == b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[predicate.op]
