"""Schemas: the JSON of the log there and back, names, and the Arrow types of rows."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltamerge.errors import CorruptTableError, UnsupportedTableError
from deltamerge.protocol.schema.types import (
    ArrayType,
    DataType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    arrow_schema,
    arrow_type,
    check_storable,
    check_supported,
    parse_schema,
    schema_json,
    type_value,
    without_void,
)

PRIMITIVES = [
    "byte",
    "short",
    "integer",
    "long",
    "float",
    "double",
    "boolean",
    "string",
    "binary",
    "date",
    "timestamp",
    "timestamp_ntz",
    "void",
]

decimals = st.integers(1, 38).flatmap(lambda p: st.integers(0, p).map(lambda s: f"decimal({p},{s})"))
primitives = (st.sampled_from(PRIMITIVES) | decimals).map(PrimitiveType)
json_values = st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="utf-8"), max_size=5)
metadata = st.dictionaries(st.sampled_from(["comment", "delta.columnMapping.id", "x"]), json_values, max_size=2)
field_names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=6)


def structs(inner: st.SearchStrategy[DataType], least: int = 0) -> st.SearchStrategy[StructType]:
    fields = st.builds(StructField, field_names, inner, st.booleans(), metadata)
    return st.lists(fields, min_size=least, max_size=4, unique_by=lambda f: f.name).map(lambda found: StructType(tuple(found)))


types = st.recursive(
    primitives,
    lambda inner: (
        st.builds(ArrayType, inner, st.booleans())
        | st.builds(MapType, inner.filter(lambda key: key != PrimitiveType("void")), inner, st.booleans())
        | structs(inner, least=1)
    ),
    max_leaves=6,
)


def schema_of(type: DataType) -> StructType:
    return StructType((StructField("c", type),))


@settings(max_examples=60, deadline=None)
@given(structs(types))
def test_a_schema_survives_its_json(schema: StructType) -> None:
    assert parse_schema(schema_json(schema)) == schema


@settings(max_examples=60, deadline=None)
@given(structs(types))
def test_every_schema_has_an_arrow_schema_of_the_same_names(schema: StructType) -> None:
    assert arrow_schema(schema).names == schema.names


@pytest.mark.parametrize(
    ("type", "value"),
    [
        (PrimitiveType("long"), "long"),
        (PrimitiveType("decimal(10,2)"), "decimal(10,2)"),
        (
            ArrayType(PrimitiveType("string"), contains_null=False),
            {"type": "array", "elementType": "string", "containsNull": False},
        ),
        (
            MapType(PrimitiveType("string"), PrimitiveType("date")),
            {"type": "map", "keyType": "string", "valueType": "date", "valueContainsNull": True},
        ),
        (
            StructType((StructField("x", PrimitiveType("short"), nullable=False),)),
            {"type": "struct", "fields": [{"name": "x", "type": "short", "nullable": False, "metadata": {}}]},
        ),
    ],
)
def test_the_json_of_each_kind_of_type(type: DataType, value: object) -> None:
    (field,) = json.loads(schema_json(schema_of(type)))["fields"]
    assert field == {"name": "c", "type": value, "nullable": True, "metadata": {}}


def test_json_is_compact_and_keeps_non_ascii_names() -> None:
    text = schema_json(StructType((StructField("ä", PrimitiveType("long"), metadata={"comment": "ö"}),)))
    assert text == '{"type":"struct","fields":[{"name":"ä","type":"long","nullable":true,"metadata":{"comment":"ö"}}]}'


@pytest.mark.parametrize(
    ("written", "canonical"),
    [("decimal", "decimal(10,0)"), ("decimal(10, 2)", "decimal(10,2)"), ("decimal( 38,08)", "decimal(38,8)"), ("long", "long")],
)
def test_decimals_are_canonical(written: str, canonical: str) -> None:
    text = json.dumps({"type": "struct", "fields": [{"name": "c", "type": written}]})
    assert parse_schema(text) == schema_of(PrimitiveType(canonical))


def test_what_a_field_leaves_out_has_its_default() -> None:
    text = json.dumps(
        {
            "type": "struct",
            "fields": [
                {"name": "a", "type": {"type": "array", "elementType": "long"}},
                {"name": "m", "type": {"type": "map", "keyType": "long", "valueType": "long"}, "metadata": None},
            ],
        }
    )
    long = PrimitiveType("long")
    assert parse_schema(text) == StructType((StructField("a", ArrayType(long)), StructField("m", MapType(long, long))))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "5",
        '"long"',
        "[]",
        "{}",
        '{"type":"array","elementType":"long"}',
        '{"type":"struct"}',
        '{"type":"struct","fields":null}',
        '{"type":"struct","fields":["a"]}',
        '{"type":"struct","fields":[{"type":"long"}]}',
        '{"type":"struct","fields":[{"name":"a"}]}',
        '{"type":"struct","fields":[{"name":"a","type":null}]}',
        '{"type":"struct","fields":[{"name":1,"type":"long"}]}',
        '{"type":"struct","fields":[{"name":"\\ud800","type":"long"}]}',
        '{"type":"struct","fields":[{"name":"a","type":"long","metadata":[1]}]}',
        '{"type":"struct","fields":[{"name":"a","type":"long","metadata":{"delta.columnMapping.physicalName":"\\ud800"}}]}',
        '{"type":"struct","fields":[{"name":"a","type":{"type":"union"}}]}',
    ],
)
def test_a_malformed_schema_is_a_corrupt_table(text: str) -> None:
    with pytest.raises(CorruptTableError) as caught:
        parse_schema(text)
    assert caught.value.condition == "DELTAMERGE_CORRUPT_SCHEMA"
    assert caught.value.parameters == {"schemaString": text}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("byte", pa.int8()),
        ("short", pa.int16()),
        ("integer", pa.int32()),
        ("long", pa.int64()),
        ("float", pa.float32()),
        ("double", pa.float64()),
        ("boolean", pa.bool_()),
        ("string", pa.string()),
        ("binary", pa.binary()),
        ("date", pa.date32()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestamp_ntz", pa.timestamp("us")),
        ("void", pa.null()),
        ("decimal(38,18)", pa.decimal128(38, 18)),
    ],
)
def test_the_arrow_type_of_each_primitive(name: str, expected: pa.DataType) -> None:
    assert arrow_type(PrimitiveType(name)) == expected


def test_the_arrow_types_of_nested_types() -> None:
    long, string = PrimitiveType("long"), PrimitiveType("string")
    struct = StructType((StructField("a", long), StructField("b", string)))
    assert arrow_type(ArrayType(struct)) == pa.list_(
        pa.field("element", pa.struct([pa.field("a", pa.int64()), pa.field("b", pa.string())]))
    )
    assert arrow_type(MapType(string, long)) == pa.map_(pa.string(), pa.int64())


@pytest.mark.parametrize("name", ["interval", "decimal(39,0)", "decimal(0,0)", ""])
def test_a_type_without_arrow_form_is_refused_by_name(name: str) -> None:
    with pytest.raises(UnsupportedTableError) as caught:
        arrow_type(PrimitiveType(name))
    assert caught.value.condition == "DELTA_UNSUPPORTED_DATA_TYPES"
    assert caught.value.parameters == {"dataType": name}


@pytest.mark.parametrize(("name", "expected"), [("decimal(10,2)", (10, 2)), ("decimal(5,-1)", (5, -1)), ("long", None)])
def test_precision_and_scale(name: str, expected: tuple[int, int] | None) -> None:
    assert PrimitiveType(name).decimal == expected


def test_the_physical_name_is_column_mappings_or_the_name() -> None:
    long = PrimitiveType("long")
    assert StructField("a", long).physical_name == "a"
    assert StructField("a", long, metadata={"delta.columnMapping.physicalName": "col-1"}).physical_name == "col-1"


def test_fields_are_found_with_and_without_case() -> None:
    schema = StructType((StructField("Key", PrimitiveType("long")), StructField("value", PrimitiveType("long"))))
    assert schema.find("kEY") is schema.fields[0]
    assert schema.find("kEY", case_sensitive=True) is None
    assert schema.find("Key", case_sensitive=True) is schema.fields[0]
    assert schema.find("other") is None


def test_a_selection_keeps_the_schemas_order() -> None:
    schema = StructType(tuple(StructField(name, PrimitiveType("long")) for name in "abc"))
    assert schema.select(["c", "a", "z"]).names == ["a", "c"]


def test_types_print_as_spark_prints_them() -> None:
    schema = schema_of(MapType(PrimitiveType("string"), ArrayType(PrimitiveType("decimal(10,2)"))))
    assert str(schema) == "struct<c:map<string,array<decimal(10,2)>>>"


def one(type: DataType) -> StructType:
    return StructType((StructField("c", type),))


VOID, LONG = PrimitiveType("void"), PrimitiveType("long")


@pytest.mark.parametrize("name", ["interval year to month", "geometry(OGC:CRS84)", "decimal(39,0)", "decimal(5,6)"])
def test_a_table_with_an_unsupported_type_at_any_depth_is_refused_by_name(name: str) -> None:
    for type in (PrimitiveType(name), ArrayType(one(PrimitiveType(name))), MapType(LONG, PrimitiveType(name))):
        with pytest.raises(UnsupportedTableError, match="'c'") as caught:
            check_supported(one(type))
        assert caught.value.parameters["dataType"] == name


def test_a_map_with_void_keys_is_refused() -> None:
    for type in (MapType(VOID, LONG), ArrayType(one(MapType(VOID, VOID)))):
        with pytest.raises(UnsupportedTableError, match="map<void"):
            check_supported(one(type))


@pytest.mark.parametrize(
    "type", [VOID, ArrayType(VOID), MapType(LONG, VOID), one(VOID), ArrayType(StructType((*one(VOID), StructField("x", LONG))))]
)
def test_what_no_file_can_hold_can_be_read_but_not_written(type: DataType) -> None:
    check_supported(one(type))
    with pytest.raises(UnsupportedTableError):
        check_storable(one(type))


def test_void_beside_other_columns_and_fields_is_stored_by_leaving_it_out() -> None:
    schema = StructType((StructField("v", VOID), StructField("s", StructType((*one(VOID), StructField("x", LONG))))))
    check_storable(schema)
    assert str(without_void(schema)) == "struct<s:struct<x:long>>"


def test_a_schema_that_is_nested_too_deeply_is_named() -> None:
    text = '{"type":"array","elementType":' * 50_000
    with pytest.raises(CorruptTableError, match="nested too deeply"):
        parse_schema(text)


def test_the_json_value_of_a_type_shares_nothing_with_it() -> None:
    """PySpark changes the collations that it reads: a schema that was given to it twice failed."""
    field = StructField("s", PrimitiveType("string"), metadata={"__COLLATIONS": {"s": "icu.UNICODE_CI"}, "x": [{"y": 1}]})
    value = type_value(StructType((field,)))
    value["fields"][0]["metadata"]["__COLLATIONS"]["s"] = value["fields"][0]["metadata"]["x"][0]["y"] = "other"
    assert field.metadata == {"__COLLATIONS": {"s": "icu.UNICODE_CI"}, "x": [{"y": 1}]}
