"""Which search conditions Spark need not be asked about."""

from __future__ import annotations

import pytest

from deltamerge.merge.resolve.scope import Scope
from deltamerge.merge.resolve.sure import is_sure
from deltamerge.protocol.schema.types import ArrayType, PrimitiveType, StructField, StructType
from tests.unit.merge.merges import expression

INNER = StructType((StructField("x", PrimitiveType("long")),))
COLUMNS = {
    "id": PrimitiveType("long"),
    "w": PrimitiveType("string"),
    "d": PrimitiveType("decimal(10,2)"),
    "f": PrimitiveType("double"),
    "v": PrimitiveType("variant"),
    "n": PrimitiveType("void"),
    "s": INNER,
    "l": ArrayType(PrimitiveType("long"), True),
}
TARGET = StructType(tuple(StructField(name, type) for name, type in COLUMNS.items()))
SOURCE = StructType(
    (*TARGET.fields, StructField("small", PrimitiveType("integer")), StructField("wide", PrimitiveType("decimal(12,2)")))
)
REPEATED = StructType((StructField("id", PrimitiveType("long")), StructField("ID", PrimitiveType("long"))))


@pytest.mark.parametrize(
    ("text", "sure"),
    [
        ("t.id = s.id", True),
        ("t.id == S.ID", True),
        ("(t.id <=> s.id)", True),
        ("t.id = s.id AND (t.w = s.w and t.d = s.d)", True),
        ("t.id = t.id", True),
        ("t.`id` = s.id", True),
        ("id = s.id", False),
        ("t.id = s.small", False),
        ("t.d = s.wide", False),
        ("t.f = s.f", False),
        ("t.v = s.v", False),
        ("t.n = s.n", False),
        ("t.s = s.s", False),
        ("t.l = s.l", False),
        ("t.s.x = s.s.x", False),
        ("t.id = s.gone", False),
        ("t.id = u.id", False),
        ("t.id = 1", False),
        ("t.id = s.id OR t.w = s.w", False),
        ("t.id = s.id AND t.w > s.w", False),
        ("NOT t.id = s.id", False),
        ("t.id = s.id AND true", False),
        ("t.id = s.id = true", False),
        ("t.id = s.id AND", False),
        ("t.id", False),
    ],
)
def test_equalities_of_columns_of_one_type_are_sure(text: str, sure: bool) -> None:
    assert is_sure(expression(text), Scope(TARGET, SOURCE, "t", "s")) == sure


def test_what_spark_would_not_find_is_not_sure() -> None:
    condition = expression("t.id = s.id")
    assert not is_sure(condition, Scope(TARGET, REPEATED, "t", "s"))
    assert is_sure(condition, Scope(TARGET, REPEATED, "t", "s", case_sensitive=True))
    assert not is_sure(expression("t.id = s.ID"), Scope(TARGET, SOURCE, "t", "s", case_sensitive=True))


def test_machine_made_conditions_may_be_long() -> None:
    text = " AND ".join(["t.id = s.id"] * 5_000)
    assert is_sure(expression(text), Scope(TARGET, SOURCE, "t", "s"))
