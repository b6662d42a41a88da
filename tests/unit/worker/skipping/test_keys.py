"""The runtime filter lets exactly the rows through whose key the source has, by Spark's equality, and numbers its keys."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from deltamerge.worker.skipping.keys import ExactFilter, KeyFilter, NumberFilter, build_filter, fits_codes, normalized
from tests.unit.worker.data import DAY, PRICE, chunked, columns_alike, equal_in_spark, examples, types

Row = tuple[int | None, date | None]
NAN_BITS = np.array([0x7FF8000000000000, 0xFFF8000000000000, 0x7FF8000000000001], np.uint64).view(np.float64)


@dataclass(frozen=True)
class Keys:
    """Key columns of a source and a target: their types, their null-safety, and the columns themselves."""

    types: list[pa.DataType]
    null_safe: list[bool]
    source: list[list[Any]]
    target: list[list[Any]]
    numbered_rows: int = 0

    def key(self, row: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """What the row's key is compared by; None when it can't equal any."""
        lost = any(value is None and not safe for value, safe in zip(row, self.null_safe, strict=True))
        return None if lost else tuple(equal_in_spark(value) for value in row)

    def of(self, columns: list[list[Any]]) -> list[tuple[Any, ...] | None]:
        """The key of each row."""
        return [self.key(row) for row in zip(*columns, strict=True)]


@st.composite
def key_columns(draw: st.DrawFn) -> Keys:
    chosen = draw(st.lists(types, min_size=1, max_size=3))
    sizes = (draw(st.integers(0, 12)), draw(st.integers(0, 12)))
    pairs = [draw(columns_alike(type, *sizes)) for type in chosen]
    null_safe = draw(st.lists(st.booleans(), min_size=len(chosen), max_size=len(chosen)))
    return Keys(chosen, null_safe, [pair[0] for pair in pairs], [pair[1] for pair in pairs], draw(st.sampled_from([0, 99])))


def whole_keys(source: list[Row], target: list[Row], numbered_rows: int = 0) -> Keys:
    """Keys of a whole number and a day each, as columns."""
    sides = [[list(column) for column in zip(*rows, strict=True)] for rows in (source, target)]
    return Keys([pa.int64(), pa.date32()], [False, False], *sides, numbered_rows)


def built(keys: Keys) -> tuple[ExactFilter, list[int | None]]:
    arrays = [pa.array(values, type) for values, type in zip(keys.source, keys.types, strict=True)]
    names = [f"k{i}" for i in range(len(arrays))]
    found, ids = build_filter(names, arrays, keys.null_safe, keys.numbered_rows)
    return found, ids.to_pylist()


def columns(values: list[list[Any]], keys: Keys, cut: int) -> list[pa.ChunkedArray]:
    return [chunked(column, type, cut) for column, type in zip(values, keys.types, strict=True)]


SOURCE: list[Row] = [(7, DAY), (None, DAY), (7, DAY + timedelta(1)), (7, DAY), (-(2**40), DAY)]
TARGET: list[Row] = [
    *((7, DAY), (8, DAY), (7, None), (-(2**40), DAY), (-(2**40), DAY + timedelta(1)), (7, DAY + timedelta(1))),
    *((-(2**63), DAY), (2**63 - 1, DAY), (7, DAY - timedelta(1)), (7, DAY + timedelta(2)), (None, None), (7, DAY)),
]


@examples
@example(keys=whole_keys(SOURCE, TARGET), cut=5)
@example(keys=whole_keys(SOURCE, TARGET, 99), cut=5)
@given(keys=key_columns(), cut=st.integers(0, 12))
def test_mask_is_membership_in_the_set_of_source_keys(keys: Keys, cut: int) -> None:
    found, _ = built(keys)
    wanted = {key for key in keys.of(keys.source) if key is not None}
    assert found.mask(columns(keys.target, keys, cut)).tolist() == [key in wanted for key in keys.of(keys.target)]


@examples
@example(keys=whole_keys(SOURCE, TARGET), cut=5)
@example(keys=whole_keys(SOURCE, TARGET, 99), cut=5)
@given(keys=key_columns(), cut=st.integers(0, 12))
def test_equal_keys_have_equal_key_ids_on_both_sides(keys: Keys, cut: int) -> None:
    found, source_ids = built(keys)
    of_key: dict[Any, int | None] = {}
    for key, id in zip(keys.of(keys.source), source_ids, strict=True):
        assert of_key.setdefault(key, id) == id
    of_key[None] = None
    assert found.ids_of(columns(keys.target, keys, cut)).to_pylist() == [of_key.get(key) for key in keys.of(keys.target)]


@examples
@example(keys=whole_keys(SOURCE, TARGET))
@given(keys=key_columns())
def test_key_ids_count_the_distinct_keys_from_zero(keys: Keys) -> None:
    _, ids = built(keys)
    distinct = {key for key in keys.of(keys.source) if key is not None}
    assert {id for id in ids if id is not None} == set(range(len(distinct)))
    assert [id is None for id in ids] == [key is None for key in keys.of(keys.source)]


@pytest.mark.parametrize("type", [pa.float32(), pa.float64()], ids=str)
def test_nan_equals_nan_whatever_its_bits(type: pa.DataType) -> None:
    values = pa.array(NAN_BITS).cast(type)
    found, ids = build_filter(["k"], [values], [False])
    assert ids.to_pylist() == [0, 0, 0]
    assert found.mask([values]).all()


@pytest.mark.parametrize("type", [pa.float32(), pa.float64()], ids=str)
def test_zeros_are_equal_whatever_their_sign(type: pa.DataType) -> None:
    found, ids = build_filter(["k"], [pa.array([-0.0, 0.0], type)], [False])
    assert ids.to_pylist() == [0, 0]
    assert found.mask([pa.array([0.0, -0.0, 1.0], type)]).tolist() == [True, True, False]


def test_normalized_leaves_other_values_and_nulls_as_they_are() -> None:
    floats = pa.array([1.5, -math.inf, None, 5e-324])
    assert normalized(floats).equals(floats)
    words = pa.array(["a", None])
    assert normalized(words) is words


def test_a_pair_of_known_values_that_does_not_occur_together_is_not_let_through() -> None:
    found, _ = build_filter(["a", "b"], [pa.array([1, 2]), pa.array(["x", "y"])], [False, False])
    assert found.mask([pa.array([1, 1, 2]), pa.array(["x", "y", "y"])]).tolist() == [True, False, True]


def test_null_matches_null_only_where_it_is_safe() -> None:
    source = [pa.array([1, None]), pa.array([None, None], pa.int64())]
    target = [pa.array([1, None, 1]), pa.array([None, None, 2], pa.int64())]
    for null_safe, expected in (((False, True), [True, False, False]), ((True, True), [True, True, False])):
        found, _ = build_filter(["a", "b"], source, null_safe)
        assert found.mask(target).tolist() == expected


def test_an_empty_source_lets_nothing_through() -> None:
    found, ids = build_filter(["k"], [pa.array([], pa.int64())], [True])
    assert len(ids) == 0
    assert not found.mask([pa.array([1, None])]).any()


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pa.array([3, None, -1]), (-1, 3)),
        (pa.array(["b", "a", "é"]), ("a", "é")),
        (pa.array([DAY]), (DAY, DAY)),
        (pa.array([PRICE, PRICE + 1]), (PRICE, PRICE + 1)),
        (pa.array([2.5, -math.inf]), (-math.inf, 2.5)),
    ],
)
def test_bounds_are_the_smallest_and_largest_key(values: pa.Array, expected: tuple[Any, Any]) -> None:
    found, _ = build_filter(["k"], [values], [False])
    limits = found.bounds(0)
    assert limits is not None
    assert tuple(limit.as_py() for limit in limits) == expected
    assert limits[0].type == values.type


@pytest.mark.parametrize(
    ("values", "null_safe"),
    [(pa.array([1.0, math.nan]), False), (pa.array([1, None]), True), (pa.array([None], pa.int64()), False)],
    ids=["NaN", "null-safe", "nothing but nulls"],
)
def test_keys_without_an_order_have_no_bounds(values: pa.Array, null_safe: bool) -> None:
    found, _ = build_filter(["k"], [values], [null_safe])
    assert found.bounds(0) is None


def test_keys_of_several_whole_columns_become_numbers_if_they_are_many_and_fit() -> None:
    whole, days = pa.array([1, 2, None]), pa.array([DAY, DAY, None])
    for keys, null_safe, rows, expected in (
        ([whole, days], [False, False], 3, NumberFilter),
        ([whole, days], [False, False], 4, KeyFilter),  # too few
        ([whole, days], [False, True], 0, KeyFilter),
        ([whole], [False], 0, KeyFilter),
        ([whole, pa.array(["a", "b", None])], [False, False], 0, KeyFilter),
        ([whole, pa.nulls(3, pa.int64())], [False, False], 0, NumberFilter),
        ([pa.array([0, 2**61 - 2]), pa.array([0, 1])], [False, False], 0, NumberFilter),
        ([pa.array([0, 2**61 - 1]), pa.array([0, 1])], [False, False], 0, KeyFilter),
        ([pa.array([-(2**63), 2**63 - 1]), pa.array([0, 1])], [False, False], 0, KeyFilter),
    ):
        found, _ = build_filter([f"k{n}" for n in range(len(keys))], keys, null_safe, rows)
        assert type(found) is expected


def test_bounds_of_numbers_are_those_of_each_column() -> None:
    keys = [pa.array([3, None, -1]), pa.array([DAY, DAY, None])]
    found, ids = build_filter(["a", "b"], keys, [False, False], 0)
    assert [tuple(bound.as_py() for bound in found.bounds(at)) for at in (0, 1)] == [(-1, 3), (DAY, DAY)]
    assert [found.bounds(at)[0].type for at in (0, 1)] == [pa.int64(), pa.date32()]
    assert ids.to_pylist() == [0, None, None]
    found, ids = build_filter(["a", "b"], [keys[0], pa.nulls(3, pa.date32())], [False, False], 0)
    assert found.bounds(1) is None
    assert ids.to_pylist() == [None, None, None]
    assert not found.mask([pa.array([3]), pa.array([date(1970, 1, 1)])]).any()


def test_combinations_fit_codes_while_their_number_fits_64_bits() -> None:
    assert fits_codes([pa.nulls((1 << 20) - 2)] * 3)
    assert not fits_codes([pa.nulls((1 << 21) - 2)] * 3)
    assert fits_codes([])
