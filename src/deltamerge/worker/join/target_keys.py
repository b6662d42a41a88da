"""The keys of target rows at one task, in which source rows find their matches: by sorting numbers, else by hashing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa

from deltamerge.worker.join.matching import Indices, Matches, is_repeated, matches_of
from deltamerge.worker.join.range_join import JoinSpec, source_keys
from deltamerge.worker.skipping.numbers import KeyNumbers, is_new, numbered, places_in


class TargetKeys(Protocol):
    """The keys of target rows."""

    def match(self, source: pa.Table, most_pairs: int | None = None) -> Matches | None:
        """The matches of some source rows, as `matches_of` gives them."""


def target_keys(spec: JoinSpec, target: pa.Table) -> TargetKeys:
    """The keys of target rows: as numbers if they are, all columns together, numbers of 64 bits."""
    columns = [target.column(name) for name, _ in spec.pairs]
    numbers = numbered(columns)
    return HashedKeys(spec, target) if numbers is None else SortedKeys(spec, columns, numbers)


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

    def __init__(self, spec: JoinSpec, columns: Sequence[pa.ChunkedArray], numbers: KeyNumbers) -> None:
        self._names = [name for _, name in spec.pairs]
        self._numbers = numbers
        self._rows = len(columns[0])
        self._order, self._keys = numbers.ordered(columns)
        self._are_unique = bool(is_new(self._keys).all())

    def match(self, source: pa.Table, most_pairs: int | None = None) -> Matches | None:
        """The matches of some source rows."""
        order, keys = self._numbers.ordered([source.column(name) for name in self._names])
        at, is_matched = places_in(self._keys, keys)
        matched = np.zeros(source.num_rows, np.bool_)
        matched[order[is_matched]] = True
        chosen = is_matched if most_pairs is not None else is_matched & ~is_repeated(keys)
        if self._are_unique:
            if most_pairs is not None and np.count_nonzero(chosen) > most_pairs:
                return None
            target = self._order[at[chosen]]
            by_target = np.argsort(target)
            return Matches(target[by_target], order[chosen][by_target], matched)
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
