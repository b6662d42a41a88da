"""The bytes of rows: by the types of their columns where nobody has counted, by their values where they are at hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

# What a row takes in a data file; a text, or something nested, in Arrow; an offset.
STORED_ROW_BYTES = 32
_VARYING_BYTES = 32
_OFFSET_BYTES = 4
# A row in memory takes so many times what it takes in a data file, and a value no less than so much.
_UNPACKED, _VALUE_BYTES = 4, 16


def width(type: pa.DataType) -> int:
    """About the bytes of a value in Arrow."""
    return max(1, type.bit_width // 8) if is_fixed(type) else _VARYING_BYTES


def is_fixed(type: pa.DataType) -> bool:
    """Whether all values of a type take the same bytes."""
    return bool(pt.is_primitive(type) or pt.is_decimal(type))


def least_width(schema: pa.Schema) -> float:
    """The bytes of a row in Arrow if texts and what is nested are empty."""
    return sum(field.type.bit_width / 8 if is_fixed(field.type) else _OFFSET_BYTES for field in schema)


def row_width(schema: pa.Schema) -> int:
    """About the bytes of a row in Arrow."""
    return sum(width(field.type) for field in schema)


def counted_width(decimals: Iterable[bool]) -> int:
    """About the bytes of a row in Arrow, to which the lengths of its texts come, by which of its columns are decimals."""
    return sum(16 if is_decimal else 8 for is_decimal in decimals)


def unpacked_width(stored: int, columns: int) -> int:
    """About the bytes in memory of a row that takes `stored` bytes in a data file."""
    return max(_UNPACKED * stored, _VALUE_BYTES * columns)


def row_bytes(table: pa.Table) -> npt.NDArray[np.int64]:
    """The bytes of each row, bit maps aside."""
    fixed = [column for column in table.columns if is_fixed(column.type)]
    each = sum(max(1, column.type.bit_width // 8) for column in fixed)
    others = (_value_bytes(column.combine_chunks()) for column in table.columns if not is_fixed(column.type))
    return sum(others, np.full(table.num_rows, each, np.int64))


def repeated_bytes(table: pa.Table, rows: npt.NDArray[np.int64]) -> int:
    """The bytes of `table.take(rows)`, bit maps aside, without making it."""
    return int(row_bytes(table) @ np.bincount(rows, minlength=table.num_rows))


def are_within(sides: Sequence[tuple[pa.Table, npt.NDArray[np.int64]]], most: int) -> bool:
    """Whether all `table.take(rows)` together take so many bytes at most; rows are only looked at where it isn't plain."""
    if sum(table.nbytes * int(np.bincount(rows).max(initial=0)) for table, rows in sides if table.num_columns) <= most:
        return True
    return sum(repeated_bytes(table, rows) for table, rows in sides) <= most


def _value_bytes(array: Any) -> npt.NDArray[np.int64]:
    type = array.type
    if pt.is_struct(type):
        return sum((_value_bytes(field) for field in array.flatten()), np.zeros(len(array), np.int64))
    if pt.is_map(type):
        return _per_list(array, _value_bytes(array.keys) + _value_bytes(array.items))
    if pt.is_list(type) or pt.is_large_list(type):
        return _per_list(array, _value_bytes(array.values))
    if pt.is_string(type) or pt.is_binary(type) or pt.is_large_string(type) or pt.is_large_binary(type):
        lengths: npt.NDArray[np.int64] = pc.fill_null(pc.binary_length(array), 0).to_numpy(zero_copy_only=False)
        return lengths.astype(np.int64) + _OFFSET_BYTES
    return np.full(len(array), -(-array.nbytes // max(1, len(array))), np.int64)


def _per_list(array: Any, values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    ends = np.concatenate([[0], np.cumsum(values)])
    offsets = array.offsets.to_numpy()
    return np.asarray(np.diff(ends[offsets]) + _OFFSET_BYTES, np.int64)
