"""Keys of several columns as one number each, where their values are whole numbers, dates or times: numbers are sorted and looked
up several times as fast as values are hashed, column by column.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
_MOST_KEYS = 1 << 62


@dataclass(frozen=True)
class KeyNumbers:
    """How keys become numbers: in the mixed radix of the columns' spans, from the least to the greatest value of each, the
    `bounds`; `values` has both in the column's own type, two nulls of a column without values.
    """

    bounds: tuple[tuple[int, int], ...]
    values: tuple[pa.Array, ...] = field(repr=False)

    def ordered(self, columns: Sequence[Any]) -> tuple[Numbers, Numbers]:
        """The rows whose keys have numbers, in the order of these, and the numbers. Keys with a null or a value beyond the bounds
        have none; equal ones come in any order.
        """
        total, within = np.zeros(len(columns[0]), np.int64), np.ones(len(columns[0]), np.bool_)
        for column, (low, high) in zip(columns, self.bounds, strict=True):
            values, known = key_numbers(column)
            above = values - np.int64(low)
            # Modulo 2^64 only values from low to high come out as high - low at most.
            within &= known & (above.view(np.uint64) <= np.uint64(high - low))
            total = total * np.int64(high - low + 1) + above
        rows = np.flatnonzero(within)
        rows = rows[np.argsort(total[rows])]
        return rows, total[rows]


def numbered(columns: Sequence[Any]) -> KeyNumbers | None:
    """How the keys of these columns become numbers; None where some type is no whole number, date or time, or 64 bits are not
    enough.
    """
    if not all(is_whole(column.type) for column in columns):
        return None
    bounds, values, room = [], [], 1
    for column in columns:
        found = pc.min_max(column)
        values.append(pa.array([found["min"], found["max"]], column.type))
        low, high = key_numbers(values[-1])[0].tolist()  # 0 and 0 of a column without values
        bounds.append((low, high))
        room *= high - low + 1
    return KeyNumbers(tuple(bounds), tuple(values)) if room < _MOST_KEYS else None


def is_whole(type: pa.DataType) -> bool:
    """Whether values of a type are whole numbers, dates or times."""
    return bool(pa.types.is_integer(type) or pa.types.is_date32(type) or pa.types.is_timestamp(type))


def key_numbers(values: Any) -> tuple[Numbers, Flags]:
    """Keys of one column as numbers that are in the same order, and whether they are not null."""
    flat = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if pa.types.is_date32(flat.type):
        flat = flat.cast(pa.int32())
    whole = flat.cast(pa.int64())
    known = np.asarray(whole.is_valid().to_numpy(zero_copy_only=False))
    return np.asarray(whole.fill_null(0).to_numpy(zero_copy_only=False)), known


def is_new(ascending: Numbers) -> Flags:
    """Which numbers are the first of their value."""
    found = np.ones(len(ascending), np.bool_)
    np.not_equal(ascending[1:], ascending[:-1], out=found[1:])
    return found


def places_in(known: Numbers, wanted: Numbers) -> tuple[Numbers, Flags]:
    """The first place of each wanted number among the `known` ones, which ascend, and whether it is there."""
    if not len(known):
        return np.zeros(len(wanted), np.int64), np.zeros(len(wanted), np.bool_)
    places = np.searchsorted(known, wanted)
    places[places == len(known)] = 0
    return places, known[places] == wanted
