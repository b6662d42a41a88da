"""Keys of whole numbers, dates and times become numbers: equal keys equal ones, in the order of the keys."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from deltamerge.worker.skipping.numbers import is_new, key_numbers, numbered, places_in
from tests.unit.worker.data import examples

LEAST, GREATEST = -(2**63), 2**63 - 1
ANY = st.one_of(st.none(), st.integers(-3, 3), st.integers(LEAST, GREATEST), st.sampled_from([LEAST, GREATEST]))
Row = tuple[int | None, int | None]


def test_keys_are_numbers_in_their_order() -> None:
    for values, type in (
        (["1969-12-31", None, "1970-01-02"], pa.date32()),
        (["1969-12-31T23:59:59", None, "1970-01-01T00:00:01"], pa.timestamp("us")),
        (["-3", None, "4"], pa.int8()),
    ):
        found, known = key_numbers(pa.chunked_array([pa.array(values, pa.string()).cast(type)]))
        assert known.tolist() == [True, False, True]
        assert found[0] < 0 < found[2]


@examples
@example(known=[(0, 5), (2**61 - 2, 6)], rows=[(0, 6), (2**61 - 2, 5), (-1, 5), (2**61 - 1, 5), (0, 4), (0, 7), (LEAST, 5)])
@example(known=[(LEAST, 0), (LEAST + 9, 0)], rows=[(GREATEST, 0), (LEAST, 0), (LEAST + 10, 0), (0, None), (None, 0)])
@example(known=[(GREATEST, -3), (GREATEST - 9, 3)], rows=[(LEAST, 0), (GREATEST, 3), (GREATEST, 4), (GREATEST - 10, 3)])
@given(known=st.lists(st.tuples(ANY, ANY), min_size=1, max_size=4), rows=st.lists(st.tuples(ANY, ANY), max_size=12))
def test_numbers_are_those_of_keys_within_the_bounds_and_in_their_order(known: list[Row], rows: list[Row]) -> None:
    found = numbered([pa.array(column, pa.int64()) for column in zip(*known, strict=True)])
    values = [[value for value in column if value is not None] for column in zip(*known, strict=True)]
    spans = [max(column, default=0) - min(column, default=0) + 1 for column in values]
    assert (found is not None) == (spans[0] * spans[1] < 2**62)
    if found is None or not rows:
        return
    places, numbers = found.ordered([pa.array(column, pa.int64()) for column in zip(*rows, strict=True)])
    within = [
        at
        for at, row in enumerate(rows)
        if all(v is not None and min(own, default=0) <= v <= max(own, default=0) for v, own in zip(row, values, strict=True))
    ]
    assert sorted(places.tolist()) == within
    for (one, low), (other, high) in pairwise(zip(places.tolist(), numbers.tolist(), strict=True)):
        assert (low == high) == (rows[one] == rows[other])
        assert (low < high) == (rows[one] < rows[other])


def test_each_number_is_found_at_the_first_of_its_places() -> None:
    known = np.array([1, 3, 3, 9])
    places, found = places_in(known, np.array([0, 1, 3, 4, 9, 10]))
    assert found.tolist() == [False, True, True, False, True, False]
    assert places[found].tolist() == [0, 1, 3]
    assert is_new(known).tolist() == [True, True, False, True]
    assert not places_in(np.zeros(0, np.int64), known)[1].any()
    assert is_new(np.zeros(0, np.int64)).tolist() == []
