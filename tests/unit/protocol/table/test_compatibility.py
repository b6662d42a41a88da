"""Which changes of a schema leave older rows readable."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deltamerge.protocol.schema.types import ArrayType, MapType, PrimitiveType, StructField, StructType
from deltamerge.protocol.table.compatibility import reads

INT, LONG, VOID = PrimitiveType("integer"), PrimitiveType("long"), PrimitiveType("void")
A, B = StructField("a", INT), StructField("b", LONG)
STRICT = StructField("a", INT, nullable=False)


def struct(*fields: StructField) -> StructType:
    return StructType(fields)


def mapped(field: StructField, physical: str) -> StructField:
    return replace(field, metadata={"delta.columnMapping.physicalName": physical})


@pytest.mark.parametrize(
    ("later", "earlier"),
    [
        (struct(A, B), struct(A)),
        (struct(B, A), struct(A, B)),
        (struct(A), struct(STRICT)),
        (struct(mapped(A, "a")), struct(A)),
        (struct(A), struct(StructField("a", VOID))),
        (struct(StructField("s", struct(A, B))), struct(StructField("s", struct(A)))),
        (struct(StructField("l", ArrayType(struct(A, B)))), struct(StructField("l", ArrayType(struct(A), False)))),
        (struct(StructField("m", MapType(INT, struct(A, B)))), struct(StructField("m", MapType(INT, struct(A))))),
    ],
)
def test_rows_are_read(later: StructType, earlier: StructType) -> None:
    assert reads(later, earlier)


@pytest.mark.parametrize(
    ("later", "earlier"),
    [
        (struct(A), struct(A, B)),
        (struct(STRICT), struct(A)),
        (struct(StructField("A", INT)), struct(A)),
        (struct(StructField("a", LONG)), struct(A)),
        (struct(mapped(A, "x")), struct(mapped(A, "y"))),
        (struct(mapped(B, "x")), struct(mapped(A, "x"))),
        (struct(StructField("s", struct(A))), struct(StructField("s", struct(A, B)))),
        (struct(StructField("l", ArrayType(INT, False))), struct(StructField("l", ArrayType(INT)))),
        (struct(StructField("l", ArrayType(LONG))), struct(StructField("l", ArrayType(INT)))),
        (struct(StructField("m", MapType(INT, INT, False))), struct(StructField("m", MapType(INT, INT)))),
        (struct(StructField("m", MapType(LONG, INT))), struct(StructField("m", MapType(INT, INT)))),
    ],
)
def test_rows_are_not_read(later: StructType, earlier: StructType) -> None:
    assert not reads(later, earlier)
