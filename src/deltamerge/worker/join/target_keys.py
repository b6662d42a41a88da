"""The keys of target rows at one task, in which source rows find their matches: by sorting numbers, else by hashing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from deltamerge.worker.join.matching import Indices, Matches, is_repeated, matches_of
from deltamerge.worker.join.partitioning import key_numbers
from deltamerge.worker.join.range_join import JoinSpec, source_keys


class TargetKeys(Protocol):
    """The keys of target rows."""

    def match(self, source: pa.Table, most_pairs: int | None = None) -> Matches | None:
        """The matches of some source rows, as `matches_of` gives them."""


def target_keys(spec: JoinSpec, target: pa.Table) -> TargetKeys:
    """The keys of target rows: as numbers if they are, all columns together, numbers of 64 bits."""
    columns = [target.column(name) for name, _ in spec.pairs]
    if not target.num_rows or not all(_is_whole(column.type) for column in columns):
        return HashedKeys(spec, target)
    bounds = [_bounds(column) for column in columns]
    room = 1
    for low, high in bounds:
        room *= high - low + 1
    return SortedKeys(spec, columns, bounds) if room < 1 << 62 else HashedKeys(spec, target)


class HashedKeys:
    """Keys of any types."""

    def __init__(self, spec: JoinSpec, target: pa.Table) -> None:
        self._spec, self._target = spec, target

    def match(self, source: pa.Table, most_pairs: int | None = None) -> Matches | None:
        """The matches of some source rows."""
        keys, ids = source_keys(self._spec, source)
        return matches_of(keys.ids_of([self._target.column(name) for name in keys.columns]), ids, most_pairs)


class SortedKeys:
    """Keys that are whole numbers, dates or times, each number of all columns together: what lies beyond the target's bounds has
    no match there.
    """

    def __init__(self, spec: JoinSpec, columns: Sequence[pa.ChunkedArray], bounds: Sequence[tuple[int, int]]) -> None:
        self._names = [name for _, name in spec.pairs]
        self._bounds = bounds
        self._rows = len(columns[0])
        self._order, self._keys = self._sorted(columns)

    def match(self, source: pa.Table, most_pairs: int | None = None) -> Matches | None:
        """The matches of some source rows."""
        order, keys = self._sorted([source.column(name) for name in self._names])
        at = np.searchsorted(self._keys, keys)
        is_matched = at < len(self._keys)
        is_matched[is_matched] = self._keys[at[is_matched]] == keys[is_matched]
        matched = np.zeros(source.num_rows, np.bool_)
        matched[order[is_matched]] = True
        chosen = is_matched if most_pairs is not None else is_matched & ~is_repeated(keys)
        pairs = self._pairs(order[chosen], keys[chosen], most_pairs)
        return None if pairs is None else Matches(*pairs, matched)

    def _pairs(self, order: Indices, keys: Indices, most: int | None) -> tuple[Indices, Indices] | None:
        """Each target row beside each source row of its key, in the order of the target rows; None if there are over `most`."""
        first, last = (np.searchsorted(keys, self._keys, side) for side in ("left", "right"))
        starts, counts = np.zeros(self._rows, np.int64), np.zeros(self._rows, np.int64)
        starts[self._order], counts[self._order] = first, last - first
        target = np.flatnonzero(counts)
        counts = counts[target]
        if most is not None and counts.sum() > most:
            return None
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        return np.repeat(target, counts), order[np.repeat(starts[target], counts) + within]

    def _sorted(self, columns: Sequence[pa.ChunkedArray]) -> tuple[Indices, Indices]:
        """The rows that have keys within the bounds, in the order of these, and their numbers."""
        total, within = np.zeros(len(columns[0]), np.int64), np.ones(len(columns[0]), np.bool_)
        for column, (low, high) in zip(columns, self._bounds, strict=True):
            values, known = key_numbers(column)
            within &= known & (values >= low) & (values <= high)
            total = total * np.int64(high - low + 1) + np.where(within, values, low) - low
        rows = np.flatnonzero(within)
        keys = total[rows]
        order = np.argsort(keys, kind="stable")
        return rows[order], keys[order]


def _bounds(column: pa.ChunkedArray) -> tuple[int, int]:
    values, known = key_numbers(column)
    some = values[known]
    return (int(some.min()), int(some.max())) if len(some) else (0, 0)


def _is_whole(type: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type) or pa.types.is_date32(type) or pa.types.is_timestamp(type))
