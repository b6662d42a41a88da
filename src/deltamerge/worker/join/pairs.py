"""From ranked target rows to pairs: each row that has the rank of a key beside each source row of that key."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Indices = npt.NDArray[np.int64]
# A row that is hit twice is hit too often, and more often makes no difference.
OFTEN = 2


class Hits:
    """How often each row has been hit, by its position."""

    def __init__(self) -> None:
        self._times: npt.NDArray[np.uint8] = np.zeros(0, np.uint8)

    def add(self, positions: Indices) -> npt.NDArray[np.bool_]:
        """Which of these hits, ordered by position, are the first or the second of their row."""
        if not len(positions):
            return np.zeros(0, np.bool_)
        times = self._up_to(int(positions[-1]))
        nth = times[positions] + np.arange(len(positions)) - np.searchsorted(positions, positions)
        times[positions] = np.minimum(nth + 1, OFTEN)
        self._times = times
        return np.asarray(nth < OFTEN)

    def without(self, positions: Indices) -> Indices:
        """The positions that were never hit."""
        return np.asarray(positions[self._up_to(int(positions.max(initial=-1)))[positions] == 0])

    def _up_to(self, last: int) -> npt.NDArray[np.uint8]:
        return np.pad(self._times, (0, max(0, last + 1 - len(self._times))))


def left_out(count: int, used: Indices) -> Indices:
    """Of the numbers below `count` those that are not `used`."""
    alone = np.ones(count, np.bool_)
    alone[used] = False
    return np.flatnonzero(alone)


def pairs_of(found: Any, ranks: pa.Array, most: int | None = None) -> tuple[Indices, Indices] | None:
    """The rows of each pair: those with the ranks `found`, -1 or null for none, and those of the source, whose ranks are `ranks`.

    Ordered by the former; None when there are more than `most`.
    """
    order, starts, counts = _by_rank(ranks)
    rank = pc.fill_null(found, -1).to_numpy()
    placed = np.flatnonzero(rank >= 0)
    rank = rank[placed]
    repeats = counts[rank] if len(counts) else np.zeros(0, np.int64)
    total = int(repeats.sum())
    if most is not None and total > most:
        return None
    pair = np.repeat(np.arange(len(repeats)), repeats)
    ends = np.cumsum(repeats)
    within = np.arange(total) - np.repeat(ends - repeats, repeats)
    return placed[pair], order[starts[rank[pair]] + within]


def few_of_each(ranks: pa.Array, most: int) -> pa.Array:
    """The ranks, those of all but the first `most` rows of each rank made null."""
    order, starts, counts = _by_rank(ranks)
    if not len(counts) or counts.max() <= most:
        return ranks
    nth = np.arange(len(order)) - np.repeat(starts, counts)
    often = np.zeros(len(ranks), np.bool_)
    often[order[nth >= most]] = True
    return pc.if_else(pa.array(often), pa.scalar(None, ranks.type), ranks)


def _by_rank(ranks: pa.Array) -> tuple[Indices, Indices, Indices]:
    """Source rows ordered by rank, and for each rank where its rows start and how many there are."""
    valid = np.flatnonzero(ranks.is_valid().to_numpy(zero_copy_only=False))
    values: np.ndarray[Any, Any] = ranks.drop_null().to_numpy(zero_copy_only=False)
    counts = np.bincount(values).astype(np.int64) if len(values) else np.zeros(0, np.int64)
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int64) if len(counts) else counts
    return valid[np.argsort(values, kind="stable")], starts, counts
