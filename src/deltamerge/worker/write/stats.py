"""Statistics of a data file while it is written: the JSON of an add action's `stats`.

Numbers, dates and timestamps come from the Parquet footer, which the writer fills anyway; strings, null counts of
nested columns and NaN are counted from the rows. Source: PROTOCOL.md, "Per-file Statistics"; delta-spark's StatsCollection.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Path = tuple[str, ...]

_PREFIX = 32
_LAST_CHAR = "\U0010ffff"
_ASCII_LAST = "\x7f"
_NAN = '"NaN"'
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class StatsColumn:
    """A column with statistics: its path of physical names, its Arrow type, and whether it has bounds or only a null count."""

    path: Path
    type: pa.DataType
    bounded: bool


class FileStats:
    """Counts of one data file, fed with the tables that are written to it."""

    def __init__(self, columns: Sequence[StatsColumn]) -> None:
        self._columns = self.counted = columns
        self._rows = 0
        self._nulls = dict.fromkeys((c.path for c in columns), 0)
        self._strings: dict[Path, tuple[Any, Any] | None] = {}
        self._nan: set[Path] = set()

    @property
    def rows(self) -> int:
        """Rows seen so far."""
        return self._rows

    @property
    def nan_free(self) -> list[Path]:
        """The columns of floating numbers with bounds that have no NaN so far."""
        return [c.path for c in self._columns if c.bounded and pa.types.is_floating(c.type) and c.path not in self._nan]

    def add(self, table: pa.Table) -> None:
        """Count the rows of a table of physical names."""
        self.add_rows(table.num_rows)
        self.count(table, self.counted)

    def count(self, table: pa.Table, columns: Sequence[StatsColumn]) -> None:
        """Count the values of some columns in rows that are counted already."""
        for column in columns:
            if pa.types.is_null(column.type):
                self._nulls[column.path] += table.num_rows
                continue
            values = values_at(table, column.path)
            self._nulls[column.path] += values.null_count
            if not column.bounded:
                continue
            if pa.types.is_string(column.type):
                self._add_strings(column.path, values)
            elif pa.types.is_floating(column.type) and pc.any(pc.is_nan(values)).as_py():
                self._nan.add(column.path)
            self._seen(column, values)

    def add_rows(self, rows: int) -> None:
        """Count rows of which no column is looked at."""
        self._rows += rows

    def add_known(self, column: StatsColumn, nulls: int, has_nan: bool = False, texts: tuple[bytes, bytes] | None = None) -> None:
        """Count values of which only that is known: their nulls, NaN, and the least and the greatest of texts."""
        self._nulls[column.path] += nulls
        if has_nan:
            self._nan.add(column.path)
        if texts is not None:
            self._add_bounds(column.path, *(pa.scalar(text, pa.binary()).cast(pa.string(), safe=False) for text in texts))

    def _seen(self, column: StatsColumn, values: Any) -> None:
        """What else is to be kept of values: the footer has the bounds of numbers."""

    def _numbers(self, column: StatsColumn, footer: Any, at_path: dict[str, int]) -> list[Any] | None:
        """The smallest and the largest number of a column as Parquet stores them; [] when there is none but null and NaN, None
        when it is not known.
        """
        return _footer_bounds(footer, at_path.get(".".join(column.path)))

    def _add_strings(self, path: Path, values: Any) -> None:
        found = pc.min_max(values)
        self._add_bounds(path, found["min"], found["max"])

    def _add_bounds(self, path: Path, low: Any, high: Any) -> None:
        if not low.is_valid or (path in self._strings and self._strings[path] is None):
            return
        try:
            low, high = low.as_py(), high.as_py()
        except UnicodeDecodeError:
            self._strings[path] = None
            return
        before = self._strings.get(path)
        self._strings[path] = (low, high) if before is None else (_smaller(before[0], low), _larger(before[1], high))

    def finish(self, footer: Any) -> str:
        """The statistics as JSON text, given the footer of the file that was written."""
        lows: dict[str, Any] = {}
        highs: dict[str, Any] = {}
        nulls: dict[str, Any] = {}
        at_path = _leaves(footer)
        for column in self._columns:
            _put(nulls, column.path, str(self._nulls[column.path]))
            if not column.bounded:
                continue
            bounds = self._bounds_of(column, footer, at_path)
            if bounds is not None:
                _put(lows, column.path, bounds[0])
                if bounds[1] is not None:
                    _put(highs, column.path, bounds[1])
        parts = {"numRecords": str(self._rows), "minValues": lows, "maxValues": highs, "nullCount": nulls}
        return _object(parts)

    def _bounds_of(self, column: StatsColumn, footer: Any, at_path: dict[str, int]) -> tuple[str, str | None] | None:
        """The JSON texts of the column's bounds; None when all rows are null, nothing is known, or a year has no four digits.

        The upper one alone is None when no short text is above all values.
        """
        if pa.types.is_string(column.type):
            found = self._strings.get(column.path)
            if found is None:
                return None
            high = _upper(found[1])
            return _quoted(found[0][:_PREFIX]), None if high is None else _quoted(high)
        bounds = self._numbers(column, footer, at_path)
        if bounds is None:
            return None
        try:
            texts = [_text(limit, column.type) for limit in bounds]
        except OverflowError:
            return None
        if column.path in self._nan:
            return texts[0] if texts else _NAN, _NAN
        return (texts[0], texts[1]) if texts else None


def values_at(table: pa.Table, path: Path) -> Any:
    """The values at a path of names."""
    values = table.column(path[0])
    for name in path[1:]:
        values = pc.struct_field(values, [values.type.get_field_index(name)])
    return values


def _smaller(a: str, b: str) -> str:
    return a if a.encode() <= b.encode() else b


def _larger(a: str, b: str) -> str:
    return a if a.encode() >= b.encode() else b


def _upper(value: str) -> str | None:
    """A short text that no value with the same start exceeds, None when there is none; lengths are in UTF-16 units, as Java's."""
    end = units = 0
    while end < len(value) and (units < _PREFIX or value[end] == _LAST_CHAR):
        units += 1 if value[end] <= "\uffff" else 2
        end += 1
    if end == len(value):
        return value
    if units > 2 * _PREFIX:
        return None
    return value[:end] + (_ASCII_LAST if value[end] < _ASCII_LAST else _LAST_CHAR)


def _leaves(footer: Any) -> dict[str, int]:
    """The index of each leaf column by its dotted path, without those that dots within names make ambiguous."""
    paths = [footer.schema.column(i).path for i in range(len(footer.schema))]
    counts = Counter(paths)
    return {path: i for i, path in enumerate(paths) if counts[path] == 1}


def _footer_bounds(footer: Any, index: int | None) -> list[Any] | None:
    """The smallest and the largest number over all row groups as Parquet stores them, a decimal's unscaled.

    [] when there is none but null and NaN; None when a group with others doesn't say.
    """
    if index is None:
        return None
    found: list[Any] = []
    for group in range(footer.num_row_groups):
        statistics = footer.row_group(group).column(index).statistics
        if statistics is None:
            return None
        if statistics.has_min_max:
            if _may_be_all_infinite(statistics):
                return None
            found += [_number(statistics.min_raw), _number(statistics.max_raw)]
        elif statistics.num_values and statistics.physical_type not in ("FLOAT", "DOUBLE"):
            return None
    return [min(found), max(found)] if found else []


def _may_be_all_infinite(statistics: Any) -> bool:
    """Whether one bound is infinite and the other the largest finite number of that sign, or its negative.

    Older versions of PyArrow write that for infinite values alone (seen in 18). It looks like values that do reach so far.
    """
    if statistics.physical_type not in ("FLOAT", "DOUBLE"):
        return False
    largest = float(np.finfo(np.float32 if statistics.physical_type == "FLOAT" else np.float64).max)
    return (statistics.min_raw, statistics.max_raw) in ((largest, math.inf), (-math.inf, -largest))


def _number(value: Any) -> Any:
    """A raw value as a number: a long decimal's bytes are one, too."""
    return int.from_bytes(value, "big", signed=True) if isinstance(value, bytes) else value


def _text(value: Any, type: pa.DataType) -> str:
    """A bound as JSON text."""
    if pa.types.is_decimal(type):
        digits = str(abs(value)).rjust(type.scale + 1, "0")
        point = len(digits) - type.scale
        return ("-" if value < 0 else "") + digits[:point] + ("." if type.scale else "") + digits[point:]
    if isinstance(value, float):
        if math.isinf(value):
            return '"Infinity"' if value > 0 else '"-Infinity"'
        return repr(value) if pa.types.is_float64(type) else str(np.float32(value))
    if pa.types.is_timestamp(type):
        moment = (_EPOCH + timedelta(milliseconds=value // 1000)).replace(tzinfo=None)
        return json.dumps(moment.isoformat(timespec="milliseconds") + ("Z" if type.tz else ""))
    if pa.types.is_date(type):
        return json.dumps((_EPOCH + timedelta(days=value)).date().isoformat())
    return str(value)


def _put(tree: dict[str, Any], path: Path, text: str) -> None:
    for name in path[:-1]:
        tree = tree.setdefault(name, {})
    tree[path[-1]] = text


def _object(tree: dict[str, Any]) -> str:
    inner = (f"{_quoted(k)}:{_object(v) if isinstance(v, dict) else v}" for k, v in tree.items())
    return "{" + ",".join(inner) + "}"


def _quoted(text: str) -> str:
    """JSON text of a string, unescaped as delta-spark has it: some readers take escaped surrogates for other characters."""
    return json.dumps(text, ensure_ascii=False)
