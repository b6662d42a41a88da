"""Pairs of target rows and source rows with equal keys, by the ids of their keys: numbers from 0 on, one for each different
key.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Indices = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
# A target row that two source rows match is ambiguous, and more of them make no difference.
_MOST_MATCHES = 2


@dataclass(frozen=True)
class Matches:
    """Pairs of a `target` row and a `source` row, both by their index, ordered by target row; of the source rows of one key two
    at most are paired, whichever, unless all are asked for. `matched` says which source rows have a match, paired or not.
    """

    target: Indices = field(repr=False)
    source: Indices = field(repr=False)
    matched: Flags = field(repr=False)


class MatchCounts:
    """How often each target row has been matched, by its position."""

    def __init__(self) -> None:
        self._counts: npt.NDArray[np.uint8] = np.zeros(0, np.uint8)

    def add(self, positions: Indices) -> Flags:
        """Which of these matches, ordered by position, are the first or the second of their row."""
        if not len(positions):
            return np.zeros(0, np.bool_)
        counts = self._up_to(int(positions[-1]))
        nth: npt.NDArray[Any] = counts[positions]
        if (positions[1:] == positions[:-1]).any():  # else each match is the next one of its row
            nth = nth + np.arange(len(positions)) - np.searchsorted(positions, positions)
        counts[positions] = np.minimum(nth + 1, _MOST_MATCHES)
        self._counts = counts
        return np.asarray(nth < _MOST_MATCHES)

    def without_match(self, positions: Indices) -> Indices:
        """The positions that were never matched."""
        return np.asarray(positions[self._up_to(int(positions.max(initial=-1)))[positions] == 0])

    def _up_to(self, last: int) -> npt.NDArray[np.uint8]:
        return np.pad(self._counts, (0, max(0, last + 1 - len(self._counts))))


def left_out(count: int, used: Indices) -> Indices:
    """Of the numbers below `count` those that are not `used`."""
    alone = np.ones(count, np.bool_)
    alone[used] = False
    return np.flatnonzero(alone)


def matches_of(target_ids: Any, source_ids: pa.Array, most_pairs: int | None = None) -> Matches | None:
    """The matches of rows with these key ids, null for keys that can't match.

    With `most_pairs` all pairs are given, None where there are more.
    """
    pairs = pairs_of(target_ids, _first_of_each(source_ids) if most_pairs is None else source_ids, most_pairs)
    if pairs is None:
        return None
    return Matches(*pairs, _occur(_known_ids(source_ids), _known_ids(target_ids)))


def pairs_of(target_ids: Any, source_ids: pa.Array, most: int | None = None) -> tuple[Indices, Indices] | None:
    """All pairs of a target row and a source row with the same key id, ordered by target row; None when there are more than
    `most`.

    A target row's id may also be -1 for a key that the source does not have.
    """
    ids = _known_ids(target_ids)
    target = np.flatnonzero(ids >= 0)
    ids = ids[target]
    if (only := _only_of_each(source_ids)) is not None and (most is None or len(ids) <= most):
        source = only[ids]
        return (target, source) if (source >= 0).all() else (target[source >= 0], source[source >= 0])
    order, starts, counts = _by_id(source_ids)
    repeats = counts[ids] if len(counts) else np.zeros(0, np.int64)
    total = int(repeats.sum())
    if most is not None and total > most:
        return None
    pair = np.repeat(np.arange(len(repeats)), repeats)
    ends = np.cumsum(repeats)
    within = np.arange(total) - np.repeat(ends - repeats, repeats)
    return target[pair], order[starts[ids[pair]] + within]


def _known_ids(ids: Any) -> Indices:
    """Key ids as numbers, -1 for those that can't match."""
    return np.asarray(pc.fill_null(ids, -1).to_numpy())


def _occur(ids: Indices, among: Indices) -> Flags:
    """Which of some ids are among others; -1, which marks the last place, never is."""
    marks = np.zeros(2 + max(ids.max(initial=-1), among.max(initial=-1)), np.bool_)
    marks[among] = True
    marks[-1] = False
    return np.asarray(marks[ids])


def is_repeated(sorted_keys: Indices) -> Flags:
    """Which of some sorted keys come after as many equal ones as are paired."""
    repeated = np.zeros(len(sorted_keys), np.bool_)
    repeated[_MOST_MATCHES:] = sorted_keys[_MOST_MATCHES:] == sorted_keys[:-_MOST_MATCHES]
    return repeated


def _only_of_each(ids: pa.Array) -> Indices | None:
    """The one source row of each key id, -1 for an id without one; None where some id has several, or there is none."""
    valid = np.flatnonzero(ids.is_valid().to_numpy(zero_copy_only=False))
    values: np.ndarray[Any, Any] = ids.drop_null().to_numpy(zero_copy_only=False)
    if not len(values):
        return None
    only = np.full(int(values.max()) + 1, -1, np.int64)
    only[values] = valid
    return only if len(values) == np.count_nonzero(only >= 0) else None


def _first_of_each(ids: pa.Array) -> pa.Array:
    """The key ids, those of rows that are not paired made null."""
    order, starts, counts = _by_id(ids)
    if not len(counts) or counts.max() <= _MOST_MATCHES:
        return ids
    nth = np.arange(len(order)) - np.repeat(starts, counts)
    often = np.zeros(len(ids), np.bool_)
    often[order[nth >= _MOST_MATCHES]] = True
    return pc.if_else(pa.array(often), pa.scalar(None, ids.type), ids)


def _by_id(ids: pa.Array) -> tuple[Indices, Indices, Indices]:
    """Source rows ordered by key id, and for each id where its rows start and how many there are."""
    valid = np.flatnonzero(ids.is_valid().to_numpy(zero_copy_only=False))
    values: np.ndarray[Any, Any] = ids.drop_null().to_numpy(zero_copy_only=False)
    counts = np.bincount(values).astype(np.int64) if len(values) else np.zeros(0, np.int64)
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int64) if len(counts) else counts
    return valid[np.argsort(values, kind="stable")], starts, counts
