"""Per-file bounds of columns as typed Arrow arrays, from the statistics and partition values of add actions.

Source: PROTOCOL.md, "Per-file Statistics". What is missing, damaged or of doubtful use becomes null: unknown.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from deltamerge.log.files import FileChunk
from deltamerge.log.stats_struct import as_type, child
from deltamerge.protocol.partitions import parse_partition_values
from deltamerge.protocol.predicate import Path
from deltamerge.protocol.schema import PrimitiveType, StructField, StructType, arrow_type
from deltamerge.protocol.type_widening import type_changes

_MILLISECOND = 1_000
_OFFSET = r":\d\d(\.\d+)?(Z|[+-]\d\d(:?\d\d)?)$"


@dataclass(frozen=True)
class Bounds:
    """Bounds of one column in each file of a chunk: a null says that nothing is known.

    `low` and `high` hold for all non-null, non-NaN values; `nulls` and `rows` count rows.
    """

    low: pa.Array
    high: pa.Array
    nulls: pa.Array
    rows: pa.Array


def leaf(schema: StructType, path: Path) -> StructField | None:
    """The field at a path of logical names, None when there is none or it is not of a primitive type."""
    fields, found = schema, None
    for name in path:
        found = fields.find(name, case_sensitive=True) if isinstance(fields, StructType) else None
        if found is None:
            return None
        fields = found.type  # type: ignore[assignment]
    return found if found is not None and isinstance(found.type, PrimitiveType) else None


def bounds_of(
    chunk: FileChunk, schema: StructType, partition_columns: Iterable[str], paths: Iterable[Path]
) -> dict[Path, Bounds]:
    """Bounds of the columns at `paths`, which name primitive columns of `schema`; parsed once for a chunk."""
    partitions = set(partition_columns)
    fields = {path: leaf(schema, path) for path in paths}
    known = {path: field for path, field in fields.items() if field is not None}
    # Chunks are shared by versions between which a column may have been renamed: only physical names stay what they are.
    keys = {path: (_physical(schema, path), str(field.type), path[0] in partitions) for path, field in known.items()}
    missing = {path: field for path, field in known.items() if keys[path] not in chunk.cache}
    from_stats = {path: field for path, field in missing.items() if path[0] not in partitions}
    if from_stats:
        _parse_stats(chunk, schema, from_stats)
    for path, field in missing.items():
        if path not in from_stats:
            chunk.cache[keys[path]] = _partition_bounds(chunk, field)
    return {path: chunk.cache[key] for path, key in keys.items()}


def row_counts(chunk: FileChunk) -> pa.Array:
    """`numRecords` of each file; null where the statistics don't say."""
    if "rows" not in chunk.cache:
        _parse_stats(chunk, StructType(()), {})
    rows: pa.Array = chunk.cache["rows"]
    return rows


def _partition_bounds(chunk: FileChunk, field: StructField) -> Bounds:
    values = chunk.table["partitionValues"].combine_chunks()
    texts = pc.map_lookup(values, pa.scalar(field.physical_name), "first")
    distinct = texts.dictionary_encode()
    type = arrow_type(field.type)
    values = parse_partition_values(distinct.dictionary, type)
    null = pc.is_null(values.take(distinct.indices))
    if pa.types.is_timestamp(type) and type.tz:
        # Without an offset it is a moment in the zone of whoever reads, which the log does not know.
        values = pc.if_else(pc.match_substring_regex(distinct.dictionary, _OFFSET), values, pa.scalar(None, type))
    bound = values.take(distinct.indices)
    rows = row_counts(chunk)
    nulls = pc.if_else(null, pc.coalesce(rows, pa.scalar(1, pa.int64())), pa.scalar(0, pa.int64()))
    return Bounds(bound, bound, nulls, pc.if_else(null, nulls, rows))


def _parse_stats(chunk: FileChunk, schema: StructType, fields: Mapping[Path, StructField]) -> None:
    """The statistics of a chunk for all of `fields`, into the chunk's cache; JSON is parsed once for all of them."""
    physical = {path: _physical(schema, path) for path in fields}
    found = stats_leaves(chunk, {physical[path]: arrow_type(field.type) for path, field in fields.items()})
    chunk.cache["rows"] = rows = found["numRecords",]
    for path, field in fields.items():
        low, high, nulls = (found[kind, *physical[path]] for kind in ("minValues", "maxValues", "nullCount"))
        if pa.types.is_float64(low.type) and any(change.get("fromType") == "float" for change in type_changes(field)):
            low, high = _around(low, np.minimum), _around(high, np.maximum)
        chunk.cache[physical[path], str(field.type), False] = _bounds(low, high, nulls, rows)


def stats_leaves(chunk: FileChunk, wanted: Mapping[Path, pa.DataType | None], with_tight: bool = False) -> dict[Path, pa.Array]:
    """Leaves of a chunk's statistics by their paths: numRecords, and minValues, maxValues and nullCount of columns.

    `wanted` gives the bounds' type of each column, by its path in the files; None asks for nullCount alone.
    """
    if chunk.parsed is not None:
        return _struct_leaves(chunk.parsed, wanted, with_tight)
    texts = pc.coalesce(chunk.table["stats"].combine_chunks(), pa.scalar("{}"))
    words = {path: type for path, type in wanted.items() if type is not None and pa.types.is_string(_json_type(type))}
    numbers = {path: type for path, type in wanted.items() if path not in words}
    found = _json_leaves(texts, words, with_tight) if words else {}
    return found | _json_leaves(texts, numbers, with_tight) if numbers or not words else found


def _json_leaves(texts: pa.Array, wanted: Mapping[Path, pa.DataType | None], with_tight: bool) -> dict[Path, pa.Array]:
    bounds = {path: type for path, type in wanted.items() if type is not None}
    parsed = _read_json(texts, {path: _json_type(type) for path, type in bounds.items()}, set(wanted), with_tight)
    found: dict[Path, pa.Array] = {("numRecords",): _column(parsed, ("numRecords",), pa.int64(), len(texts))}
    if with_tight:
        found["tightBounds",] = _column(parsed, ("tightBounds",), pa.bool_(), len(texts))
    for path in wanted:
        found["nullCount", *path] = _column(parsed, ("nullCount", *path), pa.int64(), len(texts))
    for path, type in bounds.items():
        for kind in ("minValues", "maxValues"):
            found[kind, *path] = _typed(_column(parsed, (kind, *path), _json_type(type), len(texts)), type)
    return found


def _struct_leaves(parsed: pa.StructArray, wanted: Mapping[Path, pa.DataType | None], with_tight: bool) -> dict[Path, pa.Array]:
    types: dict[Path, pa.DataType] = {("numRecords",): pa.int64()}
    types |= {("tightBounds",): pa.bool_()} if with_tight else {}
    types |= {("nullCount", *path): pa.int64() for path in wanted}
    types |= {(kind, *path): type for path, type in wanted.items() if type is not None for kind in ("minValues", "maxValues")}
    leaves = {path: child(parsed, path) for path in types}
    return {p: pa.nulls(len(parsed), types[p]) if leaf is None else as_type(leaf, types[p]) for p, leaf in leaves.items()}


def _bounds(low: pa.Array, high: pa.Array, nulls: pa.Array, rows: pa.Array) -> Bounds:
    if pa.types.is_timestamp(high.type):
        high = _later(high, high.type)
    return Bounds(low, high, nulls, rows)


def _physical(schema: StructType, path: Path) -> Path:
    names = []
    fields: Any = schema
    for name in path:
        field = fields.find(name, case_sensitive=True)
        names.append(field.physical_name)
        fields = field.type
    return tuple(names)


def _json_type(type: pa.DataType) -> pa.DataType:
    if pa.types.is_floating(type):
        return pa.float64()
    if pa.types.is_decimal(type) or pa.types.is_integer(type):
        return type if pa.types.is_decimal(type) else pa.int64()
    return pa.string()


def _read_json(texts: pa.Array, bounds: Mapping[Path, pa.DataType], counted: set[Path], with_tight: bool) -> pa.Table | list[Any]:
    """The statistics as a table of just the wanted columns; a list of dicts where the fast parser gives up."""
    if not len(texts):
        return []
    if not any(pa.types.is_string(type) for type in bounds.values()):
        texts = _without_words(texts)
    try:
        return _parse_fast(texts, _stats_schema(bounds, counted, with_tight))
    except pa.ArrowInvalid:
        return [_loads(text) for text in texts.to_pylist()]


def _parse_fast(texts: pa.Array, schema: pa.Schema) -> pa.Table:
    texts = _only_objects(texts)
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts), "\n")[0]
    data = joined.as_buffer()
    table = pj.read_json(
        pa.BufferReader(data),
        read_options=pj.ReadOptions(block_size=max(1 << 20, min(len(data) + 1, 1 << 23))),
        parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
    )
    if table.num_rows != len(texts):
        raise pa.ArrowInvalid("a statistics text is not one JSON object")
    return table


def _only_objects(texts: pa.Array) -> pa.Array:
    """The texts with `{}` for each that is no object: Arrow's parser skips empty lines and crashes on a bare null."""
    if pc.all(_braced(texts)).as_py():
        return texts
    texts = pc.utf8_trim_whitespace(texts)
    return pc.if_else(_braced(texts), texts, pa.scalar("{}"))


def _braced(texts: pa.Array) -> pa.Array:
    return pc.and_(pc.starts_with(texts, "{"), pc.ends_with(texts, "}"))


def _without_words(texts: pa.Array) -> pa.Array:
    """Number statistics with the words that JSON has no numbers for made null. A quoted word behind a colon is a value."""
    data = bytes(texts.buffers()[2] or b"")
    for word in ("NaN", "Infinity", "-Infinity"):
        if f':"{word}"'.encode() in data:
            texts = pc.replace_substring(texts, f':"{word}"', ":null")
    return texts


def _stats_schema(bounds: Mapping[Path, pa.DataType], counted: set[Path], with_tight: bool) -> pa.Schema:
    fields = [pa.field("numRecords", pa.int64())]
    if bounds:
        fields += [pa.field("minValues", nested_type(bounds)), pa.field("maxValues", nested_type(bounds))]
    if counted:
        fields.append(pa.field("nullCount", nested_type(dict.fromkeys(sorted(counted), pa.int64()))))
    if with_tight:
        fields.append(pa.field("tightBounds", pa.bool_()))
    return pa.schema(fields)


def nested_type(leaves: Mapping[Path, pa.DataType]) -> pa.StructType:
    """The struct type in which each leaf has its path."""
    groups: dict[str, dict[Path, pa.DataType]] = {}
    for path, type in leaves.items():
        groups.setdefault(path[0], {})[path[1:]] = type
    return pa.struct([(name, inner[()] if () in inner else nested_type(inner)) for name, inner in groups.items()])


def _loads(text: str) -> Any:
    try:
        return json.loads(text, parse_float=_Number)
    except (ValueError, RecursionError):
        return {}


class _Number(str):
    """The digits of a JSON number, which is no string."""

    __slots__ = ()


def _column(parsed: pa.Table | list[Any], path: Path, type: pa.DataType, length: int) -> pa.Array:
    if isinstance(parsed, pa.Table):
        column = parsed[path[0]].combine_chunks()
        for name in path[1:]:
            column = pc.struct_field(column, [column.type.get_field_index(name)])
        return column.cast(type)
    values = [_dig(value, path) for value in parsed]
    return pa.array([_coerce(value, type) for value in values], type) if values else pa.nulls(length, type)


def _dig(value: Any, path: Path) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _coerce(value: Any, type: pa.DataType) -> Any:
    """A JSON value as one of `type`, None when it is none."""
    try:
        if pa.types.is_boolean(type):
            return value if isinstance(value, bool) else None
        if value is None or isinstance(value, bool | dict | list):
            return None
        if pa.types.is_string(type):
            if isinstance(value, _Number) or not isinstance(value, str):
                return None
            value.encode()  # a lone surrogate is no text for Arrow
            return value
        if pa.types.is_integer(type):
            return pa.scalar(int(value), type).as_py()
        if pa.types.is_decimal(type):
            return pa.scalar(str(value)).cast(type).as_py()
        return float(value) if np.isfinite(float(value)) else None
    except (ValueError, pa.ArrowInvalid, OverflowError):
        return None


def _typed(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Statistics as values of the column's type; a text that is none becomes null."""
    if values.type.equals(target):
        return values
    if pa.types.is_boolean(target) or pa.types.is_binary(target) or pa.types.is_null(target):
        return pa.nulls(len(values), target)
    try:
        return values.cast(target)
    except pa.ArrowInvalid:
        return pa.array([_cast_one(value, target) for value in values], target)


def _cast_one(value: pa.Scalar, target: pa.DataType) -> Any:
    try:
        return value.cast(target)
    except pa.ArrowInvalid:
        return None


def _around(values: pa.Array, outer: Any) -> pa.Array:
    """Bounds of doubles that hold for floats too: a float's text stands for the nearest float, not for the nearest double."""
    numbers = values.fill_null(0).to_numpy(zero_copy_only=False)
    with np.errstate(over="ignore"):
        found = outer(numbers, numbers.astype(np.float32).astype(np.float64))
    return pa.array(found, pa.float64(), mask=np.asarray(values.is_null()))


def _later(values: pa.Array, target: pa.DataType) -> pa.Array:
    """An upper bound from a timestamp that was cut down to milliseconds; unknown where that overflows."""
    numbers = values.cast(pa.int64())
    room = pc.less(numbers, np.iinfo(np.int64).max - _MILLISECOND)
    return pc.if_else(room, pc.add(numbers, _MILLISECOND), pa.scalar(None, pa.int64())).cast(target)
