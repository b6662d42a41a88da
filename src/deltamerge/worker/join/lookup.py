"""How source rows find the rows of the table that have their keys, where both meet: by sorting numbers, else by hashing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.worker.join.owned import OwnedSpec, source_keys
from deltamerge.worker.join.pairs import OFTEN, Indices, few_of_each, pairs_of
from deltamerge.worker.join.route import numbers

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Found:
    """Pairs of a row of the table, at `places`, which ascend, and a source row, one of its `partners`; `hit` says which source
    rows have a partner. Of source rows with one key two are paired: a second one tells that the match is ambiguous.
    """

    places: Indices = field(repr=False)
    partners: Indices = field(repr=False)
    hit: Flags = field(repr=False)


class Lookup(Protocol):
    """The keys of rows of the table, to be looked up."""

    def find(self, source: pa.Table) -> Found:
        """The pairs of some source rows."""


def lookup_of(spec: OwnedSpec, held: pa.Table) -> Lookup:
    """The keys of the rows `held` of the table: as numbers if they are, all together, numbers of 64 bits."""
    columns = [held.column(target) for target, _ in spec.pairs]
    if not held.num_rows or not all(_is_whole(column.type) for column in columns):
        return Hashed(spec, held)
    limits = [_limits(column) for column in columns]
    room = 1
    for low, high in limits:
        room *= high - low + 1
    return Sorted(spec, columns, limits) if room < 1 << 62 else Hashed(spec, held)


class Hashed:
    """Keys of any types."""

    def __init__(self, spec: OwnedSpec, held: pa.Table) -> None:
        self._spec, self._held = spec, held

    def find(self, source: pa.Table) -> Found:
        """The pairs of some source rows."""
        keys, own = source_keys(self._spec, source)
        ranks = keys.rank([self._held.column(name) for name in keys.columns])
        pairs = pairs_of(ranks, few_of_each(own, OFTEN))
        assert pairs is not None
        hit = pc.fill_null(pc.is_in(own, value_set=pc.unique(ranks.drop_null())), False)
        return Found(*pairs, np.asarray(hit.to_numpy(zero_copy_only=False)))


class Sorted:
    """Keys that are whole numbers, dates or times, each number of all columns together: what lies beyond the table's limits has
    no partner there.
    """

    def __init__(self, spec: OwnedSpec, columns: Sequence[pa.ChunkedArray], limits: Sequence[tuple[int, int]]) -> None:
        self._names = [name for _, name in spec.pairs]
        self._limits = limits
        self._rows = len(columns[0])
        self._order, self._keys = self._sorted(columns)

    def find(self, source: pa.Table) -> Found:
        """The pairs of some source rows."""
        order, keys = self._sorted([source.column(name) for name in self._names])
        at = np.searchsorted(self._keys, keys)
        is_hit = at < len(self._keys)
        is_hit[is_hit] = self._keys[at[is_hit]] == keys[is_hit]
        hit = np.zeros(source.num_rows, np.bool_)
        hit[order[is_hit]] = True
        # What equals its neighbour but one is a third.
        chosen = is_hit.copy()
        chosen[OFTEN:] &= keys[OFTEN:] != keys[:-OFTEN]
        return Found(*self._pairs(order[chosen], keys[chosen]), hit)

    def _pairs(self, order: Indices, keys: Indices) -> tuple[Indices, Indices]:
        """Each row of the table beside each source row of its key: their places, in the order of the table's."""
        first, last = (np.searchsorted(keys, self._keys, side) for side in ("left", "right"))
        starts, counts = np.zeros(self._rows, np.int64), np.zeros(self._rows, np.int64)
        starts[self._order], counts[self._order] = first, last - first
        placed = np.flatnonzero(counts)
        counts = counts[placed]
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        return np.repeat(placed, counts), order[np.repeat(starts[placed], counts) + within]

    def _sorted(self, columns: Sequence[pa.ChunkedArray]) -> tuple[Indices, Indices]:
        """The rows that have keys within the limits, in the order of these, and their numbers."""
        total, within = np.zeros(len(columns[0]), np.int64), np.ones(len(columns[0]), np.bool_)
        for column, (low, high) in zip(columns, self._limits, strict=True):
            values, known = numbers(column)
            within &= known & (values >= low) & (values <= high)
            total = total * np.int64(high - low + 1) + np.where(within, values, low) - low
        rows = np.flatnonzero(within)
        keys = total[rows]
        order = np.argsort(keys, kind="stable")
        return rows[order], keys[order]


def _limits(column: pa.ChunkedArray) -> tuple[int, int]:
    values, known = numbers(column)
    some = values[known]
    return (int(some.min()), int(some.max())) if len(some) else (0, 0)


def _is_whole(type: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type) or pa.types.is_date32(type) or pa.types.is_timestamp(type))
