"""Per-file bounds of columns as typed Arrow arrays, from the statistics and partition values of add actions.

Source: PROTOCOL.md, "Per-file Statistics". What is missing, damaged or of doubtful use becomes null: unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.log.replay.files import FileChunk
from deltamerge.log.stats.json_leaves import json_leaves
from deltamerge.log.stats.stored import stored_leaves
from deltamerge.log.stats.struct import as_type, child, whole
from deltamerge.protocol.schema.type_widening import type_changes
from deltamerge.protocol.schema.types import PrimitiveType, StructField, StructType, arrow_type
from deltamerge.protocol.values.partitions import parse_partition_values
from deltamerge.protocol.values.predicate import Path

_MILLISECOND = 1_000
OFFSET = r":\d\d(\.\d+)?(Z|[+-]\d\d(:?\d\d)?)$"


@dataclass(frozen=True)
class Bounds:
    """Bounds of one column in each file of a chunk: a null says that nothing is known.

    `low` and `high` hold for all non-null, non-NaN values; `nulls` and `rows` count rows, of a partition column only the
    one value that stands for all rows.
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
    values = whole(chunk.table["partitionValues"])
    texts = pc.map_lookup(values, pa.scalar(field.physical_name), "first")
    distinct = texts.dictionary_encode()
    type = arrow_type(field.type)
    values = parse_partition_values(distinct.dictionary, type)
    null = pc.is_null(values.take(distinct.indices))
    if pa.types.is_timestamp(type) and type.tz:
        # Without an offset it is a moment in the zone of whoever reads, which the log does not know.
        values = pc.if_else(pc.match_substring_regex(distinct.dictionary, OFFSET), values, pa.scalar(None, type))
    bound = values.take(distinct.indices)
    rows = pa.repeat(pa.scalar(1, pa.int64()), len(bound))
    return Bounds(bound, bound, null.cast(pa.int64()), rows)


def _parse_stats(chunk: FileChunk, schema: StructType, fields: Mapping[Path, StructField]) -> None:
    """The statistics of a chunk for all of `fields`, into the chunk's cache; JSON is parsed once for all of them."""
    physical = {path: _physical(schema, path) for path in fields}
    found = stats_leaves(chunk, {physical[path]: arrow_type(field.type) for path, field in fields.items()})
    chunk.cache["rows"] = rows = found["numRecords",]
    for path, field in fields.items():
        low, high, nulls = (found[kind, *physical[path]] for kind in ("minValues", "maxValues", "nullCount"))
        if pa.types.is_float64(low.type) and any(change.get("fromType") == "float" for change in type_changes(field)):
            low, high = _around(low, np.minimum), _around(high, np.maximum)
        if pa.types.is_string(low.type):
            low, high = _of_utf8(low), _of_utf8(high)
        chunk.cache[physical[path], str(field.type), False] = _bounds(low, high, nulls, rows)


def stats_leaves(chunk: FileChunk, wanted: Mapping[Path, pa.DataType | None], with_tight: bool = False) -> dict[Path, pa.Array]:
    """Leaves of a chunk's statistics by their paths: numRecords, and minValues, maxValues and nullCount of columns.

    `wanted` gives the bounds' type of each column, by its path in the files; None asks for nullCount alone.
    """
    leaves: dict[Path, pa.DataType] = {("numRecords",): pa.int64()}
    leaves |= {("tightBounds",): pa.bool_()} if with_tight else {}
    leaves |= {("nullCount", *path): pa.int64() for path in wanted}
    leaves |= {(kind, *path): type for path, type in wanted.items() if type is not None for kind in ("minValues", "maxValues")}
    if chunk.parsed is not None:
        return {path: _struct_leaf(chunk.parsed, path, type) for path, type in leaves.items()}
    texts = whole(chunk.table["stats"])
    structs = stored_leaves(chunk.stored, leaves) if chunk.stored else None
    if structs is not None and structs["numRecords",].null_count <= texts.null_count:
        return structs
    found = json_leaves(texts, {path: _json_type(path, type) for path, type in leaves.items()})
    return {path: _typed(found[path], type) for path, type in leaves.items()}


def _struct_leaf(parsed: pa.StructArray, path: Path, type: pa.DataType) -> pa.Array:
    leaf = child(parsed, path)
    return pa.nulls(len(parsed), type) if leaf is None else as_type(leaf, type)


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


def _json_type(path: Path, type: pa.DataType) -> pa.DataType:
    """How JSON has values of a type: numbers for numbers, a boolean for what is no bound, text for all else."""
    if path == ("tightBounds",) or pa.types.is_decimal(type):
        return type
    if pa.types.is_floating(type):
        return pa.float64()
    return pa.int64() if pa.types.is_integer(type) else pa.string()


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


def _of_utf8(values: pa.Array) -> pa.Array:
    """Bounds of texts, unknown where bytes that are no UTF-8 seem to be replaced in them: the bytes may lie beyond them."""
    replaced = pc.match_substring(values, "\N{REPLACEMENT CHARACTER}")
    return pc.if_else(replaced, pa.scalar(None, pa.string()), values) if pc.any(replaced).as_py() else values


def _later(values: pa.Array, target: pa.DataType) -> pa.Array:
    """An upper bound from a timestamp that was cut down to milliseconds; unknown where that overflows."""
    numbers = values.cast(pa.int64())
    room = pc.less(numbers, np.iinfo(np.int64).max - _MILLISECOND)
    return pc.if_else(room, pc.add(numbers, _MILLISECOND), pa.scalar(None, pa.int64())).cast(target)
