"""Statistics as the typed struct of a checkpoint (`stats_parsed`), and that struct as the JSON text of an add action.

Source: PROTOCOL.md, "Per-file Statistics" and "Checkpoint Schema". Must not know snapshots or schemas of tables.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

Names = tuple[str, ...]


def child(struct: pa.Array, path: Names) -> pa.Array | None:
    """The values at a path of field names; null where a struct on the way is null; None when there is no such field."""
    for name in path:
        if not pa.types.is_struct(struct.type) or struct.type.get_field_index(name) < 0:
            return None
        struct = pc.struct_field(struct, name)
    return struct


def as_type(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Values of a statistics struct in a column's type: null, unknown, where the types don't fit or the value is NaN."""
    if pa.types.is_floating(values.type):
        values = pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
    if values.type.equals(target):
        return values
    if not _fits(values.type, target):
        return pa.nulls(len(values), target)
    try:
        if pa.types.is_integer(values.type) and pa.types.is_decimal(target):
            values = values.cast(pa.decimal128(19, 0))
        return values.cast(target)
    except pa.ArrowInvalid:
        return pa.nulls(len(values), target)


def _fits(found: pa.DataType, target: pa.DataType) -> bool:
    """Whether values of one type stand for values of the other, as after a change of the column's type."""
    if _exact(found):
        return _exact(target) or bool(pa.types.is_floating(target))
    if pa.types.is_floating(found):
        return bool(pa.types.is_floating(target))
    if pa.types.is_timestamp(found) and pa.types.is_timestamp(target):
        return (found.tz is None) == (target.tz is None)
    if pa.types.is_date(found):
        return bool(pa.types.is_date(target) or (pa.types.is_timestamp(target) and target.tz is None))
    return _text(found) and _text(target)


def _exact(type: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type) or pa.types.is_decimal(type))


def _text(type: pa.DataType) -> bool:
    return bool(pa.types.is_string(type) or pa.types.is_large_string(type))


def json_texts(struct: pa.StructArray) -> pa.Array:
    """The JSON text of each statistics struct, null for a null one."""
    return pa.array([None if not value.is_valid else _text_of(value) for value in struct], pa.string())


def _text_of(value: pa.StructScalar) -> str:
    try:
        return _object(value.as_py())
    except (ValueError, OverflowError):  # a date that Python has no object for
        rows = value.get("numRecords")
        return "{}" if rows is None or not rows.is_valid else _object({"numRecords": rows.as_py()})


def _object(value: dict[str, Any]) -> str:
    return "{" + ",".join(f"{json.dumps(name, ensure_ascii=False)}:{text}" for name, text in _fields(value)) + "}"


def _fields(value: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name, item in value.items():
        text = _object(item) if isinstance(item, dict) else _scalar(item)
        if text is not None:
            yield name, text


def _scalar(value: Any) -> str | None:
    """A value as statistics have it in JSON; None for one that they can't hold."""
    if isinstance(value, bool | int):
        return json.dumps(value)
    if isinstance(value, float):
        if math.isnan(value):
            return '"NaN"'
        return repr(value) if math.isfinite(value) else f'"{"-" if value < 0 else ""}Infinity"'
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime):
        text = value.replace(tzinfo=None).isoformat(timespec="milliseconds")
        return f'"{text}{"" if value.tzinfo is None else "Z"}"'
    if isinstance(value, date):
        return f'"{value.isoformat()}"'
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else None


def whole(column: pa.ChunkedArray) -> pa.Array:
    """The values of a column as one array; copied only where they are in several chunks."""
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
