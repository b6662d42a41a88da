"""Data skipping: which files can hold a row for which a predicate is true. Columns at a time, never a loop over files.

A file is kept unless its bounds prove that no row of it can match. Comparison means what it means in Spark:
NaN equals itself and is larger than all else; -0.0 equals 0.0; strings compare by their UTF-8 bytes.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.log.replay.files import FileChunk, FileSet, Mask
from deltamerge.log.skipping.statistics import Bounds, bounds_of
from deltamerge.protocol.schema.types import StructType
from deltamerge.protocol.values.predicate import (
    And,
    Compare,
    IsNotNull,
    IsNull,
    OneOf,
    Or,
    Path,
    Predicate,
    StartsWith,
    columns_of,
)

Lookup = Callable[[Path], Bounds | None]

_FEW = 4


def could_match(files: FileSet, predicate: Predicate, schema: StructType, partition_columns: Sequence[str]) -> Mask:
    """A mask over the live files, in the set's order: False where no row can match `predicate`."""
    masks = []
    for chunk, alive in files.parts():
        mask = _chunk_mask(chunk, predicate, schema, partition_columns)
        masks.append(mask if alive is None else mask[alive])
    return np.concatenate(masks) if masks else np.zeros(0, np.bool_)


def _chunk_mask(chunk: FileChunk, predicate: Predicate, schema: StructType, partition_columns: Sequence[str]) -> Mask:
    """The mask of a chunk. Statistics are parsed of the files alone that partition values leave, when those are few."""
    of_partitions, others = _by_partition(predicate, frozenset(partition_columns))
    if not of_partitions.parts or not others.parts:
        return _mask(chunk, predicate, schema, partition_columns)
    mask = _mask(chunk, of_partitions, schema, partition_columns)
    rows = np.flatnonzero(mask)
    if len(rows) * _FEW < len(chunk):
        mask[rows] = _mask(chunk.take(pa.array(rows)), others, schema, partition_columns)
        return mask
    return mask & _mask(chunk, others, schema, partition_columns)


def _by_partition(predicate: Predicate, partition_columns: frozenset[str]) -> tuple[And, And]:
    """The conjuncts on partition columns alone, and the others."""
    parts = list(_conjuncts(predicate))
    alone = [all(path[0] in partition_columns for path in columns_of(part)) for part in parts]
    return And(tuple(itertools.compress(parts, alone))), And(tuple(p for p, only in zip(parts, alone, strict=True) if not only))


def _conjuncts(predicate: Predicate) -> Iterator[Predicate]:
    if not isinstance(predicate, And):
        yield predicate
        return
    for part in predicate.parts:
        yield from _conjuncts(part)


def _mask(chunk: FileChunk, predicate: Predicate, schema: StructType, partition_columns: Sequence[str]) -> Mask:
    known = bounds_of(chunk, schema, partition_columns, columns_of(predicate))
    return _evaluate(predicate, known.get, chunk.table.num_rows)


def _evaluate(predicate: Predicate, lookup: Lookup, count: int) -> Mask:
    if isinstance(predicate, And):
        mask = np.ones(count, np.bool_)
        for part in predicate.parts:
            mask &= _evaluate(part, lookup, count)
        return mask
    if isinstance(predicate, Or):
        mask = np.zeros(count, np.bool_)
        for part in predicate.parts:
            mask |= _evaluate(part, lookup, count)
        return mask
    bounds = lookup(predicate.column)
    if bounds is None:
        return np.ones(count, np.bool_)
    if isinstance(predicate, IsNull):
        return ~_true(pc.equal(bounds.nulls, 0))
    only_nulls = _true(pc.and_(pc.equal(bounds.nulls, bounds.rows), pc.is_valid(bounds.rows)))
    if isinstance(predicate, IsNotNull):
        return ~only_nulls
    if isinstance(predicate, Compare) and predicate.op == "<=>" and not predicate.value.is_valid:
        return ~_true(pc.equal(bounds.nulls, 0))
    if isinstance(predicate, OneOf):
        mask = _one_of(predicate, bounds) & ~only_nulls
        return mask | ~_true(pc.equal(bounds.nulls, 0)) if predicate.or_null else mask
    if isinstance(predicate, StartsWith):
        return _prefix(predicate.prefix, bounds) & ~only_nulls
    return _compare(predicate.op, predicate.value, bounds) & ~only_nulls


def _compare(op: str, value: pa.Scalar, bounds: Bounds) -> Mask:
    count = len(bounds.low)
    if not value.is_valid:
        return np.zeros(count, np.bool_)
    floating = pa.types.is_floating(value.type)
    if floating and math.isnan(value.as_py()):
        return np.ones(count, np.bool_)
    above = _false(pc.less_equal(bounds.low, value)) if op != "<" else _false(pc.less(bounds.low, value))
    below = _false(pc.greater_equal(bounds.high, value)) if op != ">" else _false(pc.greater(bounds.high, value))
    if op in ("<", "<="):
        return ~above
    if op in (">", ">="):
        # NaN is larger than every value, and no writer's upper bound is sure to tell of it.
        return np.ones(count, np.bool_) if floating else ~below
    return ~(above | below)


def _one_of(predicate: OneOf, bounds: Bounds) -> Mask:
    """Whether one of the sorted values lies between the bounds of each file."""
    values = predicate.values
    if not len(values):
        return np.zeros(len(bounds.low), np.bool_)
    if pa.types.is_floating(values.type) and pc.any(pc.is_nan(values)).as_py():
        return np.ones(len(bounds.low), np.bool_)
    sorted_values, low, high = comparable(values), comparable(bounds.low), comparable(bounds.high)
    unknown_low = ~bounds.low.is_valid().to_numpy(zero_copy_only=False)
    unknown_high = ~bounds.high.is_valid().to_numpy(zero_copy_only=False)
    first = np.where(unknown_low, 0, np.searchsorted(sorted_values, low, side="left"))
    behind = np.where(unknown_high, len(values), np.searchsorted(sorted_values, high, side="right"))
    mask: Mask = first < behind
    return mask


def comparable(values: pa.Array) -> np.ndarray[Any, Any]:
    """Values in a NumPy form that sorts and compares as Spark does; nulls become some value."""
    type = values.type
    if pa.types.is_temporal(type):
        width = pa.int32() if pa.types.is_date32(type) else pa.int64()
        values = values.cast(width)
    elif pa.types.is_boolean(type):
        values = values.cast(pa.int8())
    elif pa.types.is_decimal(type):
        return np.array([0 if v is None else int(v.scaleb(type.scale)) for v in values.to_pylist()], object)
    elif pa.types.is_string(type) or pa.types.is_binary(type):
        filled = values.cast(pa.binary()).fill_null(b"")
        return np.array(filled.to_pylist(), object)
    return np.asarray(values.fill_null(0).to_numpy(zero_copy_only=False))


def _prefix(prefix: str, bounds: Bounds) -> Mask:
    if not prefix:
        return np.ones(len(bounds.low), np.bool_)
    # Bounds cut to the prefix's length stay bounds of the values cut so; bytes, because a cut by characters could differ.
    wanted = prefix.encode()
    low = pc.binary_slice(bounds.low.cast(pa.binary()), 0, len(wanted))
    high = pc.binary_slice(bounds.high.cast(pa.binary()), 0, len(wanted))
    scalar = pa.scalar(wanted, pa.binary())
    return ~(_false(pc.less_equal(low, scalar)) | _false(pc.greater_equal(high, scalar)))


def _true(values: pa.Array) -> Mask:
    """True where the value is true; null counts as false."""
    mask: Mask = values.fill_null(False).to_numpy(zero_copy_only=False)
    return mask


def _false(values: pa.Array) -> Mask:
    """True where the value is false; null counts as unknown."""
    return ~_true(values.fill_null(True))
