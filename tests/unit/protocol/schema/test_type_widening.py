"""Which type changes files can be read through: the protocol's list, and nothing else."""

from __future__ import annotations

import pytest

from deltamerge.errors import CorruptTableError, UnsupportedTableError
from deltamerge.protocol.schema.type_widening import check_type_changes, widens
from deltamerge.protocol.schema.types import ArrayType, PrimitiveType, StructField, StructType

SUPPORTED = """byte short; byte integer; short integer; integer long; byte long; float double; byte double; short double;
    integer double; date timestamp_ntz; decimal(5,2) decimal(7,2); decimal(5,2) decimal(7,4); byte decimal(10,0);
    integer decimal(12,2); long decimal(20,0); long decimal(23,3); long long"""
UNSUPPORTED = """long integer; long double; double float; integer float; date timestamp; string integer;
    decimal(5,2) decimal(6,4); decimal(5,2) decimal(5,1); decimal(5,2) decimal(4,2);
    integer decimal(9,0); integer decimal(11,2); long decimal(19,0);
    decimal(5,0) long; integer string; timestamp timestamp_ntz"""


def pairs(text: str) -> list[tuple[str, str]]:
    return [(old, new) for old, new in (line.split() for line in text.split(";"))]


@pytest.mark.parametrize(("old", "new"), pairs(SUPPORTED))
def test_the_protocols_changes_are_supported(old: str, new: str) -> None:
    assert widens(PrimitiveType(old), PrimitiveType(new))


@pytest.mark.parametrize(("old", "new"), pairs(UNSUPPORTED))
def test_other_changes_are_not(old: str, new: str) -> None:
    assert not widens(PrimitiveType(old), PrimitiveType(new))


def test_a_change_that_is_not_supported_is_refused_with_its_place() -> None:
    changes = [{"fromType": "short", "toType": "long"}, {"fromType": "long", "toType": "double", "fieldPath": "element"}]
    inner = StructField("f", ArrayType(PrimitiveType("double")), metadata={"delta.typeChanges": changes})
    schema = StructType((StructField("s", StructType((inner,))),))
    with pytest.raises(UnsupportedTableError) as caught:
        check_type_changes(schema)
    assert caught.value.condition == "DELTA_UNSUPPORTED_TYPE_CHANGE_IN_SCHEMA"
    assert caught.value.parameters == {"fieldName": "f.element", "fromType": "long", "toType": "double"}
    inner.metadata["delta.typeChanges"].pop()
    check_type_changes(schema)


@pytest.mark.parametrize("changes", ["x", {"fromType": "byte"}, ["x"], 1, True])
def test_changes_that_are_none_are_named(changes: object) -> None:
    with pytest.raises(CorruptTableError, match=r"DELTAMERGE_CORRUPT_TYPE_CHANGES.*of c can't be read"):
        check_type_changes(StructType((StructField("c", PrimitiveType("long"), metadata={"delta.typeChanges": changes}),)))
