"""The order of engines in the rounds of a benchmark."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from benchmarks.rounds import in_turn


@pytest.mark.parametrize("count", [1, 2, 3, 4, 6])
def test_each_engine_is_measured_once_a_round_and_at_each_place_once(count: int) -> None:
    names = [str(number) for number in range(count)]
    orders = [in_turn(names, number) for number in range(count)]
    assert all(sorted(order) == names for order in orders)
    assert all(sorted(place) == names for place in zip(*orders, strict=True))


@pytest.mark.parametrize("count", [2, 4, 6])
def test_each_engine_follows_each_other_as_often(count: int) -> None:
    orders = [in_turn([str(name) for name in range(count)], number) for number in range(count)]
    after = Counter(pair for order in orders for pair in pairwise(order))
    assert len(after) == count * (count - 1)
    assert set(after.values()) == {1}


def test_the_order_goes_on_after_as_many_rounds_as_engines() -> None:
    assert in_turn(["a", "b", "c"], 3) == in_turn(["a", "b", "c"], 0) == ["a", "b", "c"]
