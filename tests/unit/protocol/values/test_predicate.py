"""Predicates: how they print, and which columns they name."""

from __future__ import annotations

from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest

from deltamerge.protocol.values.predicate import (
    ALWAYS,
    And,
    Compare,
    IsNotNull,
    IsNull,
    OneOf,
    Or,
    Predicate,
    StartsWith,
    columns_of,
)

ONE = Compare(("a",), "=", pa.scalar(1))
TWO = Compare(("b",), "<=>", pa.scalar(None, pa.int64()))


@pytest.mark.parametrize(
    ("predicate", "text"),
    [
        (ONE, "a = 1"),
        (TWO, "b <=> None"),
        (Compare(("a", "b c"), ">=", pa.scalar("it's")), 'a.`b c` >= "it\'s"'),
        (Compare(("d",), "<", pa.scalar(date(2020, 1, 2))), "d < 2020-01-02"),
        (Compare(("d",), "<=", pa.scalar(Decimal("1.50"))), "d <= 1.50"),
        (Compare(("x-y",), ">", pa.scalar(1.5)), "`x-y` > 1.5"),
        (OneOf(("a",), pa.array([1, 2, 3])), "a IN (3 values)"),
        (StartsWith(("a",), "pre"), "a LIKE 'pre%'"),
        (IsNull(("a",)), "a IS NULL"),
        (IsNotNull(("a",)), "a IS NOT NULL"),
        (And((ONE, TWO)), "a = 1 AND b <=> None"),
        (Or((ONE, TWO)), "a = 1 OR b <=> None"),
        (And((Or((ONE, TWO)), ONE)), "(a = 1 OR b <=> None) AND a = 1"),
        (Or((And((ONE, TWO)), ONE)), "a = 1 AND b <=> None OR a = 1"),
        (ALWAYS, "true"),
        (Or(()), "false"),
    ],
)
def test_printing(predicate: Predicate, text: str) -> None:
    assert str(predicate) == text


def test_the_columns_of_a_predicate() -> None:
    predicate = And((Or((ONE, IsNull(("s", "x")))), OneOf(("b",), pa.array([1])), StartsWith(("a",), "p"), ALWAYS))
    assert columns_of(predicate) == {("a",), ("s", "x"), ("b",)}
    assert columns_of(ALWAYS) == set()
