"""Pairs of rows by the ids of their keys: two source rows of a key at most, and how often a target row was matched."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from deltamerge.worker.join.matching import MatchCounts, is_repeated, left_out, matches_of, pairs_of

IDS = st.lists(st.one_of(st.none(), st.integers(0, 4)), max_size=20)


def ids(values: list[int | None]) -> pa.Array:
    return pa.array(values, pa.int64())


def ids_of_source(target: list[int | None], source: list[int | None]) -> pa.Array:
    """The target's ids as the source's numbering gives them: -1 for a key that it has not met."""
    known = max((key for key in source if key is not None), default=-1)
    return ids([-1 if key is not None and key > known else key for key in target])


@example([0, None, 1, 0], [0, 0, None, 0])
@given(IDS, IDS)
def test_all_pairs_of_equal_ids_are_found(target: list[int | None], source: list[int | None]) -> None:
    found = pairs_of(ids_of_source(target, source), ids(source))
    assert found is not None
    pairs = list(zip(found[0].tolist(), found[1].tolist(), strict=True))
    expected = [(t, s) for t, one in enumerate(target) for s, other in enumerate(source) if one == other is not None]
    assert sorted(pairs) == expected
    assert found[0].tolist() == sorted(found[0].tolist())
    if expected:
        assert pairs_of(ids_of_source(target, source), ids(source), len(expected) - 1) is None


@example([0, None, 1, 0], [0, 0, None, 0])
@given(IDS, IDS)
def test_two_source_rows_of_a_key_are_paired_and_all_are_matched(target: list[int | None], source: list[int | None]) -> None:
    found = matches_of(ids_of_source(target, source), ids(source))
    times = Counter(key for key in source if key is not None)
    assert Counter(found.target.tolist()) == {t: min(2, times[key]) for t, key in enumerate(target) if key in times}
    assert all(target[t] == source[s] for t, s in zip(found.target.tolist(), found.source.tolist(), strict=True))
    assert found.matched.tolist() == [key is not None and key in target for key in source]


def test_a_third_of_equal_neighbours_is_repeated() -> None:
    assert is_repeated(np.array([1, 1, 1, 2, 3, 3, 3, 3])).tolist() == [False, False, True, False, False, False, True, True]
    assert is_repeated(np.array([], np.int64)).tolist() == []
    assert left_out(4, np.array([1, 1, 3])).tolist() == [0, 2]


def test_matches_are_counted_twice_at_most() -> None:
    counts = MatchCounts()
    assert counts.add(np.array([0, 2, 2, 2, 5])).tolist() == [True, True, True, False, True]
    assert counts.add(np.array([], np.int64)).tolist() == []
    assert counts.add(np.array([0, 0, 2, 9])).tolist() == [True, False, False, True]
    assert counts.without_match(np.array([0, 1, 2, 3, 5, 9, 40])).tolist() == [1, 3, 40]
