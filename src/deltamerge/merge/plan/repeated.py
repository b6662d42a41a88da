"""How many bytes the rows of a table take when some of them are there many times."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

_LENGTH = 4


def repeated_bytes(table: pa.Table, rows: npt.NDArray[np.int64]) -> int:
    """About how many bytes `table.take(rows)` has, bit maps aside, without making it."""
    counts = np.bincount(rows, minlength=table.num_rows)
    return sum(int(_row_bytes(column.combine_chunks()) @ counts) for column in table.columns)


def _row_bytes(array: Any) -> npt.NDArray[np.int64]:
    """The bytes of each value."""
    type = array.type
    if pt.is_struct(type):
        return sum((_row_bytes(field) for field in array.flatten()), np.zeros(len(array), np.int64))
    if pt.is_map(type):
        return _per_list(array, _row_bytes(array.keys) + _row_bytes(array.items))
    if pt.is_list(type) or pt.is_large_list(type):
        return _per_list(array, _row_bytes(array.values))
    if pt.is_string(type) or pt.is_binary(type) or pt.is_large_string(type) or pt.is_large_binary(type):
        lengths: npt.NDArray[np.int64] = pc.fill_null(pc.binary_length(array), 0).to_numpy(zero_copy_only=False)
        return lengths.astype(np.int64) + _LENGTH
    return np.full(len(array), -(-array.nbytes // max(1, len(array))), np.int64)


def _per_list(array: Any, values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    ends = np.concatenate([[0], np.cumsum(values)])
    offsets = array.offsets.to_numpy()
    return np.asarray(np.diff(ends[offsets]) + _LENGTH, np.int64)
