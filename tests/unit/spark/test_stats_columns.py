"""Which columns of data files get statistics."""

from __future__ import annotations

import pytest

from deltamerge.protocol.schema.types import ArrayType, PrimitiveType, StructField, StructType
from deltamerge.protocol.table.properties import Properties
from deltamerge.spark.stages.target import stats_columns

LONG, STRING, VOID = PrimitiveType("long"), PrimitiveType("string"), PrimitiveType("void")
INNER = StructType((StructField("X", LONG), StructField("y.z", STRING), StructField("v", VOID)))
SCHEMA = StructType(
    (
        StructField("a", LONG, metadata={"delta.columnMapping.physicalName": "col-a"}),
        StructField("St", INNER),
        StructField("b,c", ArrayType(LONG)),
        StructField("d`e", STRING, metadata={"__COLLATIONS": {"d`e": "icu.UNICODE_CI"}}),
    )
)
ALL = ["col-a", "St.X", "St.y.z", "St.v", "b,c", "d`e"]


def chosen(**properties: str) -> list[str]:
    found = stats_columns(SCHEMA, Properties({f"delta.dataSkipping{key}": value for key, value in properties.items()}))
    return [".".join(column.path) for column in found]


@pytest.mark.parametrize(("count", "expected"), [("-1", ALL), ("0", []), ("3", ALL[:3]), ("99", ALL)])
def test_the_first_leaves_are_chosen(count: str, expected: list[str]) -> None:
    assert chosen(NumIndexedCols=count) == expected


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ("a", ["col-a"]),
        ("ST", ["St.X", "St.y.z", "St.v"]),
        ("st.x, A", ["col-a", "St.X"]),
        ("st.`y.z`,`b,c` , `d``e`", ["St.y.z", "b,c", "d`e"]),
        ("nothing", []),
    ],
)
def test_the_named_columns_are_chosen_whatever_their_case(names: str, expected: list[str]) -> None:
    assert chosen(StatsColumns=names) == expected


def test_bounds_are_for_types_with_an_order_of_bytes_or_numbers() -> None:
    found = stats_columns(SCHEMA, Properties({}))
    assert [".".join(column.path) for column in found if column.bounded] == ["col-a", "St.X", "St.y.z"]


def test_clustering_columns_are_chosen_in_any_case() -> None:
    clustered = [("St", "y.z"), ("col-a",), ("nowhere",)]
    for properties, expected in (({"NumIndexedCols": "0"}, ["col-a", "St.y.z"]), ({"StatsColumns": "st.x"}, ALL[:3])):
        values = {f"delta.dataSkipping{key}": value for key, value in properties.items()}
        assert [".".join(column.path) for column in stats_columns(SCHEMA, Properties(values), clustered)] == expected
