"""Source rows find the rows of the table with their keys, whichever way they are looked up."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltamerge.budgets import current_budgets
from deltamerge.worker.join.partitioning import NO_RANGES
from deltamerge.worker.join.range_join import JoinSpec
from deltamerge.worker.join.target_keys import HashedKeys, SortedKeys, target_keys
from deltamerge.worker.scan.scan import ScanSpec
from deltamerge.worker.scan.store import DataStore

Key = tuple[Any, ...]
LEAST, GREATEST = -(2**63), 2**63 - 1
WHOLE = st.one_of(st.none(), st.integers(-3, 3), st.sampled_from([LEAST, GREATEST, 2**40, -(2**40)]))
SMALL = st.one_of(st.none(), st.integers(-3, 3))
DAYS = st.one_of(st.none(), st.dates(date(2024, 1, 1), date(2024, 1, 3)))
TIMES = st.one_of(st.none(), st.integers(0, 3).map(lambda n: datetime(2024, 1, 1, 0, 0, n, tzinfo=UTC)))
WORDS = st.one_of(st.none(), st.sampled_from("ab"))
KINDS = {
    "whole": ((WHOLE, pa.int64(), pa.int64()),),
    "narrower": ((SMALL, pa.int64(), pa.int8()),),
    "two": ((SMALL, pa.int64(), pa.int64()), (SMALL, pa.int32(), pa.int16())),
    "wide": ((WHOLE, pa.int64(), pa.int64()), (WHOLE, pa.int64(), pa.int64())),
    "times": ((DAYS, pa.date32(), pa.date32()), (TIMES, pa.timestamp("us", "UTC"), pa.timestamp("us", "UTC"))),
    "words": ((SMALL, pa.int64(), pa.int64()), (WORDS, pa.string(), pa.string())),
}


def spec_of(kind: str) -> JoinSpec:
    columns = KINDS[kind]
    schema = pa.schema([(f"t{n}", table) for n, (_, table, _) in enumerate(columns)])
    pairs = tuple((f"t{n}", f"s{n}") for n in range(len(columns)))
    return JoinSpec(ScanSpec(DataStore("", ""), schema), pairs, "s0", NO_RANGES, pa.schema([]), budgets=current_budgets())


def rows_of(kind: str, side: str, keys: list[Key]) -> pa.Table:
    columns = KINDS[kind]
    types = [table if side == "t" else source for _, table, source in columns]
    return pa.table({f"{side}{n}": pa.array([key[n] for key in keys], type) for n, type in enumerate(types)})


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_pairs_are_those_of_equal_keys(kind: str, data: st.DataObject) -> None:
    keys = st.lists(st.tuples(*(values for values, _, _ in KINDS[kind])), max_size=25)
    held, own = data.draw(keys), data.draw(keys)
    lookup = target_keys(spec_of(kind), rows_of(kind, "t", held))
    for _ in range(2):  # a second chunk finds the same
        found = lookup.match(rows_of(kind, "s", own))
        assert (np.diff(found.target) >= 0).all()
        pairs = list(zip(found.target.tolist(), found.source.tolist(), strict=True))
        assert len(set(pairs)) == len(pairs)
        assert all(held[place] == own[partner] and None not in held[place] for place, partner in pairs)
        partners = Counter(key for key in own if None not in key)
        expected = {place: min(2, partners[key]) for place, key in enumerate(held) if partners[key]}
        assert Counter(found.target.tolist()) == expected
        assert found.matched.tolist() == [None not in key and key in held for key in own]


def test_numbers_are_sorted_and_other_keys_hashed() -> None:
    one, far = [(1, 1), (2, 2)], [(LEAST, 1), (GREATEST, 1)]
    found = [type(target_keys(spec_of(kind), rows_of(kind, "t", keys))) for kind, keys in (("two", one), ("wide", far))]
    assert found == [SortedKeys, HashedKeys]
    assert isinstance(target_keys(spec_of("words"), rows_of("words", "t", [(1, "a")])), HashedKeys)
    assert isinstance(target_keys(spec_of("whole"), rows_of("whole", "t", [(5,), (None,)])), SortedKeys)
    assert isinstance(target_keys(spec_of("whole"), rows_of("whole", "t", [])), SortedKeys)


def test_more_pairs_than_may_be_made_are_not_made() -> None:
    for held, most in (([(1,), (2,), (3,)], 4), ([(1,), (2,), (2,)], 6)):
        lookup, own = target_keys(spec_of("whole"), rows_of("whole", "t", held)), [(2,), (1,), (2,), (1,)]
        found = lookup.match(rows_of("whole", "s", own), most)
        assert found is not None
        assert len(found.target) == most
        assert lookup.match(rows_of("whole", "s", own), most - 1) is None
