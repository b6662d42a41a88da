"""The Bloom filter: no key of the source is ever left out, and few others are let through."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamerge.worker.skipping.bloom import BloomFilter, bloom_bits, hashable, key_hashes

TYPES = [pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC")]


def filter_of(keys: list[Any], null_safe: tuple[bool, ...]) -> BloomFilter:
    hashes, possible = key_hashes(keys, null_safe)
    return BloomFilter(tuple(f"k{n}" for n in range(len(keys))), null_safe, bloom_bits(hashes[possible]))


SMALL = st.none() | st.integers(-100, 100)


@given(
    st.lists(st.tuples(SMALL, SMALL), max_size=200),
    st.lists(st.tuples(SMALL, SMALL), max_size=50),
    st.tuples(*[st.booleans()] * 2),
)
def test_a_row_with_a_partner_is_never_left_out(
    source: list[tuple[int | None, int | None]], target: list[tuple[int | None, int | None]], null_safe: tuple[bool, bool]
) -> None:
    def matches(one: tuple[int | None, ...], other: tuple[int | None, ...]) -> bool:
        return all(a == b and (a is not None or safe) for a, b, safe in zip(one, other, null_safe, strict=True))

    rows = [*target, *source]
    made = filter_of([pa.array([row[n] for row in source], pa.int64()) for n in range(2)], null_safe)
    found = made.mask([pa.chunked_array([pa.array([row[n] for row in rows], pa.int16())]) for n in range(2)])
    for row, kept in zip(rows, found.tolist(), strict=True):
        assert kept or not any(matches(row, other) for other in source)


@pytest.mark.parametrize("type", TYPES, ids=str)
def test_every_type_that_can_be_hashed(type: pa.DataType) -> None:
    assert hashable(type)
    values = pa.array([-3, 0, 5, None], pa.int8()).cast(pa.int32() if pa.types.is_date32(type) else pa.int64()).cast(type)
    assert filter_of([values], (False,)).mask([values]).tolist() == [True, True, True, False]
    assert filter_of([values], (True,)).mask([values]).tolist() == [True] * 4


@pytest.mark.parametrize("type", [pa.string(), pa.float64(), pa.decimal128(9, 2), pa.bool_(), pa.binary(), pa.null()], ids=str)
def test_other_types_can_not(type: pa.DataType) -> None:
    assert not hashable(type)


def test_the_width_of_an_integer_and_the_zone_of_a_moment_do_not_matter() -> None:
    assert filter_of([pa.array([7, -1], pa.int8())], (False,)).mask([pa.array([7, -1], pa.int64())]).all()
    moment = datetime(2020, 1, 2, 3, 4, 5, 6, UTC)
    made = filter_of([pa.array([moment], pa.timestamp("us", "Asia/Tokyo"))], (False,))
    assert made.mask([pa.array([moment], pa.timestamp("us", "UTC"))]).all()
    assert filter_of([pa.array([date(2020, 1, 1)])], (False,)).mask([pa.array([date(2020, 1, 1)])]).all()


def test_an_empty_source_lets_nothing_through() -> None:
    made = filter_of([pa.array([], pa.int64())], (True,))
    assert not made.mask([pa.array([1, None, 3])]).any()


@pytest.mark.parametrize("columns", [1, 2])
def test_few_others_are_let_through(columns: int) -> None:
    rng = np.random.default_rng(1)
    keys = [rng.permutation(200_000) for _ in range(columns)]
    made = filter_of([pa.array(column[:100_000]) for column in keys], (False,) * columns)
    assert made.mask([pa.array(column[:100_000]) for column in keys]).all()
    share = made.mask([pa.array(column[100_000:]) for column in keys]).mean()
    assert share < 0.03, f"{share:.1%} of other rows come through"
    assert len(made.bits) == 1 << 17


def test_bounds_are_given_where_null_is_no_value() -> None:
    limits = (pa.array([1, 9]), None, pa.array([1, 2]))
    made = BloomFilter(("a", "b", "c"), (False, False, True), bloom_bits(np.zeros(0, np.uint32)), limits)
    assert [made.bounds(n) for n in range(3)] == [(pa.scalar(1), pa.scalar(9)), None, None]
