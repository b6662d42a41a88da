"""Leaves of statistics texts as Arrow arrays: JSON, read for the asked leaves alone. Must not know types of columns.

Texts that are alike are cut at their commas, others go through Arrow's JSON reader, and what it does not take through
Python's. What a text does not say, or not as a value of the asked type, is null; so is NaN, which bounds nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from deltamerge.log.stats.alike import alike_leaves
from deltamerge.protocol.formats.json_text import json_value
from deltamerge.protocol.values.predicate import Path

_SLICE = 8_192
_LARGEST_BLOCK = 1 << 30
_WORDS = (b'"NaN"', b'"Infinity"', b'"-Infinity"')


def json_leaves(texts: pa.Array, wanted: Mapping[Path, pa.DataType]) -> dict[Path, pa.Array]:
    """The values at paths of the objects that `texts` are, each of its type: string, bool, int64, float64 or decimal."""
    starts = range(0, len(texts), _SLICE)
    if len(starts) < 2:
        return _leaves(texts, wanted)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = list(pool.map(lambda start: _leaves(texts.slice(start, _SLICE), wanted), starts))
    return {path: pa.concat_arrays([part[path] for part in found]) for path in wanted}


def nested_type(leaves: Mapping[Path, pa.DataType]) -> pa.StructType:
    """The struct type in which each leaf has its path."""
    groups: dict[str, dict[Path, pa.DataType]] = {}
    for path, type in leaves.items():
        groups.setdefault(path[0], {})[path[1:]] = type
    return pa.struct([(name, inner[()] if () in inner else nested_type(inner)) for name, inner in groups.items()])


def _leaves(texts: pa.Array, wanted: Mapping[Path, pa.DataType]) -> dict[Path, pa.Array]:
    if not len(texts):
        return {path: pa.nulls(0, type) for path, type in wanted.items()}
    texts = _only_objects(texts)
    lines = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(texts)], pa.int32()), texts), "\n")[0].as_buffer()
    found = alike_leaves(str(texts[0]), len(texts), lines, wanted)
    if found is not None:
        return found
    try:
        return _parse(lines, len(texts), wanted)
    except pa.ArrowInvalid:
        words = {path: type for path, type in wanted.items() if pa.types.is_string(type)}
        numbers = {path: type for path, type in wanted.items() if path not in words}
        return _carefully(texts, lines, words) | _carefully(texts, _without_words(lines), numbers)


def _carefully(texts: pa.Array, lines: pa.Buffer, wanted: Mapping[Path, pa.DataType]) -> dict[Path, pa.Array]:
    """By Arrow's parser, and where that gives up by Python's, which spares all but the text that is at fault."""
    try:
        return _parse(lines, len(texts), wanted)
    except pa.ArrowInvalid:
        values = [_loads(text) for text in texts.to_pylist()]
        return {path: pa.array([_coerce(_dig(value, path), type) for value in values], type) for path, type in wanted.items()}


def _parse(lines: pa.Buffer, count: int, wanted: Mapping[Path, pa.DataType]) -> dict[Path, pa.Array]:
    if not wanted:
        return {}
    table = pj.read_json(
        pa.BufferReader(lines),
        read_options=pj.ReadOptions(block_size=min(len(lines) + 1, _LARGEST_BLOCK), use_threads=False),
        parse_options=pj.ParseOptions(explicit_schema=pa.schema(list(nested_type(wanted))), unexpected_field_behavior="ignore"),
    )
    if table.num_rows != count:
        raise pa.ArrowInvalid("a statistics text is not one JSON object")
    return {path: _known(_child(table, path).cast(type)) for path, type in wanted.items()}


def _known(values: pa.Array) -> pa.Array:
    return pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values) if pa.types.is_floating(values.type) else values


def _child(table: pa.Table, path: Path) -> pa.Array:
    column = table[path[0]].combine_chunks()
    for name in path[1:]:
        column = pc.struct_field(column, [column.type.get_field_index(name)])
    return column


def _only_objects(texts: pa.Array) -> pa.Array:
    """The texts with `{}` for each that is no object: Arrow's parser skips empty lines and crashes on a bare null."""
    if pc.all(_braced(texts), skip_nulls=False).as_py():
        return texts
    texts = pc.utf8_trim_whitespace(pc.coalesce(texts, pa.scalar("{}")))
    return pc.if_else(_braced(texts), texts, pa.scalar("{}"))


def _braced(texts: pa.Array) -> pa.Array:
    return pc.and_(pc.starts_with(texts, "{"), pc.ends_with(texts, "}"))


def _without_words(lines: pa.Buffer) -> pa.Buffer:
    """Statistics with the words that JSON has no numbers for made null. A quoted word behind a colon is a value."""
    data = lines.to_pybytes()
    for word in _WORDS:
        data = data.replace(b":" + word, b":null")
    return pa.py_buffer(data)


def _loads(text: str) -> Any:
    try:
        return json_value(text, parse_float=_Number)
    except ValueError:
        return {}


class _Number(str):
    """The digits of a JSON number, which is no string."""

    __slots__ = ()


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
