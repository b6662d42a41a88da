"""Rows laid out by several columns at once: keys that interleave the bits of what rank a row's values have in each column.

Source: delta-spark's MultiDimClustering and InterleaveBits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.worker.scan.columns import within

Z_KEY = "__deltamerge_z_key"
_BITS = 10
_CHUNK_ROWS = 131_072
_SCATTER = np.uint64(2_654_435_761)
Keys = np.ndarray[Any, Any]


@dataclass(frozen=True)
class ZOrder:
    """Columns by their paths of logical names, and for each the values that part its ranks, in order."""

    paths: tuple[tuple[str, ...], ...]
    bounds: tuple[Keys, ...]


def z_order_of(rows: pa.Table, paths: Sequence[tuple[str, ...]]) -> ZOrder:
    """The ranks that parts of equal size of the given rows, which may be a sample, have in each column."""
    bounds = []
    for path in paths:
        values = np.sort(_comparable(_values(rows, path).drop_null()))
        count = min(len(values), (1 << _BITS) - 1)
        bounds.append(np.unique(values[np.arange(count) * len(values) // max(1, count)]))
    return ZOrder(tuple(paths), tuple(bounds))


def z_keys(rows: pa.Table, order: ZOrder) -> Keys:
    """The key of each row, fixed bytes that sort as the curve runs. Nulls come first."""
    parts = [_keys(rows.slice(start, _CHUNK_ROWS), order) for start in range(0, rows.num_rows, _CHUNK_ROWS)]
    return np.concatenate(parts) if parts else np.zeros(0, f"S{_width(order)}")


def distinct_keys(keys: Keys) -> pa.Array:
    """Keys with an end that differs from row to row, the same whenever it is made: rows of one key may go to several tasks."""
    if not len(keys):
        return pa.array([], pa.binary())
    ends = (np.arange(len(keys), dtype=np.uint64) * _SCATTER).astype(">u4").view(np.uint8).reshape(len(keys), 4)
    whole = np.ascontiguousarray(np.hstack([keys.view(np.uint8).reshape(len(keys), keys.dtype.itemsize), ends]))
    return pa.FixedSizeBinaryArray.from_buffers(pa.binary(whole.shape[1]), len(keys), [None, pa.py_buffer(whole)]).cast(
        pa.binary()
    )


def sorted_rows(rows: pa.Table, paths: Sequence[tuple[str, ...]]) -> pa.Table:
    """The rows along the curve through some columns."""
    return rows.take(pa.array(np.argsort(z_keys(rows, z_order_of(rows, paths)), kind="stable")))


def sampled(rows: Iterable[pa.Table], share: float) -> Iterator[pa.Table]:
    """About that share of the rows, chosen by chance."""
    chance = np.random.default_rng()
    for table in rows:
        yield table.filter(pa.array(chance.random(table.num_rows) < share))


def _keys(rows: pa.Table, order: ZOrder) -> Keys:
    ranks = [_ranks(_values(rows, path), bounds) for path, bounds in zip(order.paths, order.bounds, strict=True)]
    bits = [(rank >> bit) & 1 for bit in reversed(range(_BITS)) for rank in ranks]
    packed = np.packbits(np.stack(bits, axis=1).astype(np.uint8), axis=1)
    return np.ascontiguousarray(packed).view(f"S{_width(order)}").ravel()


def _width(order: ZOrder) -> int:
    return -(-_BITS * len(order.paths) // 8)


def _ranks(values: Any, bounds: Keys) -> Keys:
    """The rank of each value, 0 for nulls."""
    found = np.zeros(len(values), np.int64)
    there = pc.is_valid(values).to_numpy(zero_copy_only=False)
    known = np.searchsorted(bounds, _comparable(values.drop_null()), side="right")
    found[there] = np.minimum(known, (1 << _BITS) - 1)
    return found


def _values(rows: pa.Table, path: tuple[str, ...]) -> Any:
    column = rows.column(path[0])
    found = within(column, path[1:])
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def _comparable(values: Any) -> Keys:
    """Values without nulls as numbers, or bytes, that are in the same order."""
    type = values.type
    if pa.types.is_string(type) or pa.types.is_binary(type):
        found = np.empty(len(values), object)
        found[:] = values.cast(pa.binary()).to_pylist()
        return found
    if pa.types.is_date(type):
        values = values.cast(pa.int32())
    elif pa.types.is_timestamp(type):
        values = values.cast(pa.int64())
    elif pa.types.is_boolean(type):
        values = values.cast(pa.int8())
    elif pa.types.is_decimal(type):
        values = values.cast(pa.float64())
    return np.asarray(values.to_numpy(zero_copy_only=False))
