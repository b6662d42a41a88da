"""A Bloom filter: which rows of the target may match a source that is too large to be collected, by hashes of its keys.

It never drops a row that could match. Keys are columns whose equal values are equal 64-bit integers, as `hashable` says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Hashes = npt.NDArray[np.uint32]

_PROBES = 4
_BITS_A_KEY = 8
_FEWEST_BITS = 1 << 10
_GAMMA, _FIRST, _SECOND = (np.uint64(n) for n in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))


@dataclass(frozen=True)
class BloomFilter:
    """The hashes of a source's keys over some target columns, as `bits`: a power of two of them, packed.

    `null_safe` says per column whether null is a value that matches null; `column_bounds` has an array of the least and the
    greatest value of a column, in its own type, where they are known.
    """

    columns: tuple[str, ...]
    null_safe: tuple[bool, ...]
    bits: npt.NDArray[np.uint8] = field(repr=False)
    column_bounds: tuple[pa.Array | None, ...] = ()

    def mask(self, columns: Sequence[Any]) -> np.ndarray[Any, Any]:
        """Whether each row's key may occur in the source; `columns` are the key columns in order."""
        hashes, found = key_hashes(columns, self.null_safe)
        rows = np.flatnonzero(found)
        first, step = _start(hashes[rows])
        for probe in range(_PROBES):
            places = _place(first, step, probe, 8 * len(self.bits))
            there = (self.bits[places >> 3] >> (places & 7).astype(np.uint8)) & 1 != 0
            found[rows[~there]] = False
            rows, first, step = rows[there], first[there], step[there]
        return found

    def bounds(self, at: int) -> tuple[pa.Scalar, pa.Scalar] | None:
        """The least and the greatest value of one key column; None when nothing can be said by them."""
        bounds = None if self.null_safe[at] or at >= len(self.column_bounds) else self.column_bounds[at]
        return None if bounds is None else (bounds[0], bounds[1])


def hashable(type: pa.DataType) -> bool:
    """Whether equal values of a type are equal integers."""
    return bool(pa.types.is_signed_integer(type) or pa.types.is_date32(type) or pa.types.is_timestamp(type))


def key_hashes(columns: Sequence[Any], null_safe: Sequence[bool]) -> tuple[Hashes, npt.NDArray[np.bool_]]:
    """A hash of each row's key, and whether the key can match at all: a null matches nothing unless its column is null-safe."""
    rows = len(columns[0])
    total, possible = np.zeros(rows, np.uint64), np.ones(rows, np.bool_)
    for column, safe in zip(columns, null_safe, strict=True):
        values, nulls = _integers(column)
        total = _mixed(total ^ _mixed(values))
        if nulls is not None and safe:
            total[nulls] = _mixed(total[nulls])
        elif nulls is not None:
            possible &= ~nulls
    return (total >> np.uint64(32)).astype(np.uint32), possible


def bloom_bits(hashes: Hashes) -> npt.NDArray[np.uint8]:
    """The packed bits that a filter of these hashes has set."""
    count = max(_FEWEST_BITS, 1 << (max(1, _BITS_A_KEY * len(hashes)) - 1).bit_length())
    marks = np.zeros(count, np.bool_)
    for places in _places(hashes, count):
        marks[places] = True
    return np.packbits(marks, bitorder="little")


def _places(hashes: Hashes, count: int) -> Iterator[npt.NDArray[np.int64]]:
    first, step = _start(hashes)
    for probe in range(_PROBES):
        yield _place(first, step, probe, count)


def _start(hashes: Hashes) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Where the probes of each hash begin, and how far apart they are."""
    mixed = _mixed(hashes.astype(np.uint64))
    return mixed >> np.uint64(32), mixed | np.uint64(1)


def _place(first: npt.NDArray[np.uint64], step: npt.NDArray[np.uint64], probe: int, count: int) -> npt.NDArray[np.int64]:
    return ((first + np.uint64(probe) * step) & np.uint64(count - 1)).astype(np.int64)


def _mixed(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The values with each bit depending on all of theirs (the finalizer of SplitMix64; Steele, Lea, Flood 2014)."""
    values = values + _GAMMA
    values = (values ^ (values >> np.uint64(30))) * _FIRST
    values = (values ^ (values >> np.uint64(27))) * _SECOND
    return values ^ (values >> np.uint64(31))


def _integers(column: Any) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.bool_] | None]:
    """A column's values as 64-bit integers, and which of them are null; None when none is."""
    values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    elif pa.types.is_timestamp(values.type):
        values = values.cast(pa.timestamp("us", values.type.tz))
    nulls = values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None
    whole = values.cast(pa.int64())
    found = (whole if nulls is None else whole.fill_null(0)).to_numpy(zero_copy_only=False)
    return found.astype(np.int64, copy=False).view(np.uint64), nulls
