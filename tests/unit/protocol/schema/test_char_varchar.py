"""CHAR and VARCHAR are found at every level of a column's type text, and a text that says another type is refused."""

from __future__ import annotations

import pytest

from deltamerge.errors import UnsupportedTableError
from deltamerge.protocol.schema.char_varchar import SIZED_TEXT, CharVarchar, char_varchars
from deltamerge.protocol.schema.types import ArrayType, DataType, MapType, PrimitiveType, StructField, StructType

TEXT, NUMBER, PRICE = PrimitiveType("string"), PrimitiveType("integer"), PrimitiveType("decimal(10,2)")


def struct(**fields: DataType) -> StructType:
    return StructType(tuple(StructField(name, type) for name, type in fields.items()))


def found(type: DataType, text: str) -> list[CharVarchar]:
    return char_varchars(StructType((StructField("c", type, metadata={SIZED_TEXT: text}),)))


def test_a_column_has_one_length() -> None:
    assert found(TEXT, "char(3)") == [CharVarchar(("c",), 3, True)]
    assert found(TEXT, "VARCHAR(40)") == [CharVarchar(("c",), 40, False)]


def test_columns_without_a_length_have_none() -> None:
    assert char_varchars(struct(a=TEXT, b=struct(c=TEXT))) == []


def test_lengths_are_found_at_every_level() -> None:
    type = struct(p=PRICE, m=MapType(TEXT, ArrayType(struct(x=TEXT, y=NUMBER), True), True), q=TEXT)
    text = "struct<p:decimal(10,2),m:map<varchar(2),array<struct<x:char(1),y:int>>>,q:string>"
    assert found(type, text) == [
        CharVarchar(("c", "m", "key"), 2, False),
        CharVarchar(("c", "m", "value", "element", "x"), 1, True),
    ]


@pytest.mark.parametrize("text", ["struct<a,b:c:char(3),d:int>", "struct<`a,b:c`:char(3),d:int>"])
def test_names_are_read_as_the_schema_has_them(text: str) -> None:
    assert found(struct(**{"a,b:c": TEXT, "d": NUMBER}), text) == [CharVarchar(("c", "a,b:c"), 3, True)]


def test_a_field_that_was_added_has_no_length() -> None:
    assert found(struct(a=TEXT, b=TEXT), "struct<a:char(3)>") == [CharVarchar(("c", "a"), 3, True)]


@pytest.mark.parametrize(
    ("type", "text"),
    [(struct(a=TEXT), "struct<b:char(3)>"), (TEXT, "char(3)>"), (TEXT, ""), (ArrayType(TEXT, True), "char(3)")],
    ids=["another field", "more", "nothing", "no array"],
)
def test_a_text_that_says_another_type_is_refused(type: DataType, text: str) -> None:
    with pytest.raises(UnsupportedTableError, match="lengths of the texts in column c"):
        found(type, text)
