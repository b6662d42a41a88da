"""Schemas that take in another's columns and fields: order, types, metadata."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamerge.errors import AnalysisError, UnsupportedTableError
from deltamerge.protocol.schema.types import (
    ArrayType,
    DataType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    fields_of,
    parse_schema,
    schema_json,
)
from deltamerge.protocol.table.actions import Metadata, Protocol
from deltamerge.protocol.table.evolution import evolved_metadata, merged, narrowed, retyped
from deltamerge.protocol.table.features import evolved_protocol

WIDENING = {"delta.enableTypeWidening": "true"}


def struct(**types: str | DataType) -> StructType:
    return StructType(tuple(StructField(n, PrimitiveType(t) if isinstance(t, str) else t) for n, t in types.items()))


def never(old: PrimitiveType, new: PrimitiveType) -> bool:
    return False


def evolved(table: StructType, data: StructType, configuration: dict[str, str] | None = None, *features: str) -> Metadata:
    protocol = Protocol(3, 7, frozenset(features), frozenset(features))
    return evolved_metadata(protocol, Metadata("id", schema_json(table), configuration=configuration or {}), data)


def evolved_schema(table: StructType, data: StructType, **more: Any) -> StructType:
    return parse_schema(evolved(table, data, more.get("configuration"), *more.get("features", ())).schema_string)


def test_only_what_paths_name_lead_to_or_lie_within_is_left() -> None:
    source = struct(id="long", st=struct(a="long", n=struct(p="long", q="long"), c="long"), Extra="string", other="string")
    found = narrowed(source, [("ID",), ("st", "n", "q"), ("st", "A"), ("extra", "below")], lambda a, b: a.lower() == b.lower())
    assert found == struct(id="long", st=struct(a="long", n=struct(q="long")))
    assert narrowed(source, [("ID",), ("st",)], str.__eq__) == struct(st=source.fields[1].type)


def test_new_fields_stand_at_the_end_of_their_level_in_the_datas_order() -> None:
    table = struct(
        id="long", st=struct(a="long"), ar=ArrayType(struct(a="long")), m=MapType(PrimitiveType("string"), struct(a="long"))
    )
    more = struct(z="long", a="long", b="long")
    data = struct(y="long", M=MapType(PrimitiveType("string"), more), AR=ArrayType(more), x="string", ST=more, ID="long")
    after = struct(a="long", z="long", b="long")
    wanted = struct(id="long", st=after, ar=ArrayType(after), m=MapType(PrimitiveType("string"), after), y="long", x="string")
    assert merged(table, data, never) == wanted


def test_what_is_added_is_nullable_and_keeps_its_metadata_what_is_there_stays_as_it_is() -> None:
    inner = StructType((StructField("v", ArrayType(PrimitiveType("long"), False), False),))
    data = StructType((StructField("id", PrimitiveType("long"), True), StructField("n", inner, False, {"comment": "x"})))
    table = StructType((StructField("id", PrimitiveType("long"), False, {"comment": "key"}),))
    added = StructField("n", StructType((StructField("v", ArrayType(PrimitiveType("long"))),)), True, {"comment": "x"})
    assert merged(table, data, never) == StructType((*table.fields, added))


@pytest.mark.parametrize(
    ("current", "other", "fits"),
    [
        ("integer", "long", True),
        ("decimal(5,2)", "double", True),
        ("integer", "string", True),
        ("string", "binary", True),
        ("string", "boolean", True),
        ("binary", "string", True),
        ("date", "string", True),
        ("timestamp", "date", True),
        ("timestamp_ntz", "timestamp", True),
        ("integer", "void", True),
        ("integer", "boolean", False),
        ("boolean", "string", False),
        ("boolean", "integer", False),
        ("date", "integer", False),
        ("integer", "date", False),
        ("binary", "integer", False),
    ],
)
def test_types_go_together_as_sparks_implicit_casts_do(current: str, other: str, fits: bool) -> None:
    if fits:
        assert merged(struct(a=current), struct(a=other), never) == struct(a=current)
    else:
        with pytest.raises(AnalysisError, match=r"DELTA_FAILED_TO_MERGE_FIELDS.*'a' and 'A'"):
            merged(struct(a=current), struct(A=other), never)


@pytest.mark.parametrize("other", [struct(v="long"), ArrayType(PrimitiveType("long"))], ids=["struct", "array"])
def test_a_nested_type_fits_no_flat_one(other: DataType) -> None:
    for current, data in ((PrimitiveType("string"), other), (other, PrimitiveType("string"))):
        with pytest.raises(AnalysisError, match="DELTA_FAILED_TO_MERGE_FIELDS"):
            merged(struct(a=current), struct(a=data), never)


def test_void_is_refused_for_what_is_new_and_replaced_where_it_is() -> None:
    with pytest.raises(AnalysisError, match="DELTA_MERGE_ADD_VOID_COLUMN"):
        merged(struct(a="long"), struct(n=struct(v="void", w="long")), never)
    assert merged(struct(a="void"), struct(a=struct(v="long")), never) == struct(a=struct(v="long"))


def test_names_that_are_alike_but_for_case_are_refused_at_every_level() -> None:
    twins = StructType((*struct(x="long"), *struct(X="long")))
    for data, name in ((twins, "x"), (struct(b=ArrayType(twins, True)), "b.element.x")):
        with pytest.raises(AnalysisError, match=f"{name}\\. The duplicate") as error:
            evolved(struct(a="long"), data)
        assert error.value.condition == "DELTA_DUPLICATE_COLUMNS_FOUND.DATA"


def test_the_same_metadata_when_nothing_is_new() -> None:
    metadata = Metadata("id", schema_json(struct(a="long")))
    assert evolved_metadata(Protocol(1, 2), metadata, struct(A="integer")) is metadata


def test_types_widen_where_the_table_allows_and_say_so() -> None:
    table = struct(a="short", n=struct(x="float"), ar=ArrayType(ArrayType(PrimitiveType("integer"))), b="long")
    data = struct(a="integer", n=struct(x="double"), ar=ArrayType(ArrayType(PrimitiveType("long"))), b="integer")
    assert evolved_schema(table, data) == table
    assert evolved_schema(table, data, configuration=WIDENING) == table
    found = evolved_schema(table, data, configuration=WIDENING, features=("typeWidening",))
    assert [str(field.type) for field in found] == ["integer", "struct<x:double>", "array<array<long>>", "long"]
    changes = {field.name: field.metadata.get("delta.typeChanges") for field in fields_of(found)}
    nested = {"toType": "long", "fromType": "integer", "fieldPath": "element.element"}
    assert changes == {
        "a": [{"toType": "integer", "fromType": "short"}],
        "n": None,
        "x": [{"toType": "double", "fromType": "float"}],
        "ar": [nested],
        "b": None,
    }
    again = evolved_schema(found, struct(a="long"), configuration=WIDENING, features=("typeWidening",))
    assert [c["toType"] for c in again.fields[0].metadata["delta.typeChanges"]] == ["integer", "long"]


def test_retyped_fields_are_told_by_path() -> None:
    before = struct(a="short", st=struct(b="long", m=MapType(PrimitiveType("integer"), struct(c="date"))))
    after = struct(a="integer", st=struct(b="long", m=MapType(PrimitiveType("long"), struct(c="timestamp_ntz"))), z="long")
    found = [(".".join(path), old.name, new.name) for path, old, new in retyped(before, after)]
    assert found == [("a", "short", "integer"), ("st.m.key", "integer", "long"), ("st.m.value.c", "date", "timestamp_ntz")]


def test_mapped_columns_get_the_next_ids_depth_first() -> None:
    known = {"delta.columnMapping.id": 4, "delta.columnMapping.physicalName": "col-a"}
    table = StructType((StructField("a", PrimitiveType("long"), True, known),))
    configuration = {"delta.columnMapping.mode": "name", "delta.columnMapping.maxColumnId": "7"}
    found = evolved(table, struct(A="long", st=struct(b="long"), c="long"), configuration, "columnMapping")
    fields = list(fields_of(parse_schema(found.schema_string)))
    assert {field.name: field.metadata["delta.columnMapping.id"] for field in fields} == {"a": 4, "st": 8, "b": 9, "c": 10}
    assert len({field.physical_name for field in fields}) == 4
    assert found.configuration["delta.columnMapping.maxColumnId"] == "10"


def test_a_source_brings_no_mapping_of_its_own() -> None:
    foreign = StructField(
        "n", PrimitiveType("long"), True, {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "x"}
    )
    found = parse_schema(evolved(struct(a="long"), StructType((foreign,))).schema_string)
    assert found == struct(a="long", n="long")


def test_what_a_new_column_needs_must_be_there() -> None:
    with pytest.raises(AnalysisError, match="DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES"):
        evolved(struct(a="long"), StructType((StructField("b c", PrimitiveType("long")),)))
    before = Metadata("id", schema_json(struct(a="long")))
    after = evolved(struct(a="long"), struct(n="timestamp_ntz"))
    assert "timestamp_ntz" in after.schema_string
    with pytest.raises(UnsupportedTableError, match=r"DELTA_FEATURES_REQUIRE_MANUAL_ENABLEMENT.*timestampNtz"):
        evolved_protocol(Protocol(1, 2), before, after)
    known = Protocol(1, 7, None, frozenset({"timestampNtz"}))
    assert evolved_protocol(known, before, after) is known


def test_a_new_variant_enables_its_feature() -> None:
    before, after = (Metadata("id", schema_json(struct(a=name))) for name in ("long", "variant"))
    names = frozenset({"appendOnly", "invariants", "variantType"})
    assert evolved_protocol(Protocol(1, 2), before, after) == Protocol(3, 7, frozenset({"variantType"}), names)
    preview = Protocol(3, 7, frozenset({"variantType-preview"}), frozenset({"variantType-preview"}))
    assert evolved_protocol(preview, before, after) is preview
    both = Metadata("id", schema_json(struct(a="variant", n="timestamp_ntz")))
    with pytest.raises(UnsupportedTableError, match=r"table feature\(s\) timestampNtz,"):
        evolved_protocol(Protocol(1, 2), before, both)


TYPES = st.recursive(
    st.sampled_from(["integer", "long", "string"]).map(PrimitiveType),
    lambda inner: st.one_of(
        inner.map(ArrayType), st.dictionaries(st.sampled_from("abC"), inner, min_size=1).map(lambda d: struct(**d))
    ),
    max_leaves=6,
)
SCHEMAS = st.dictionaries(st.sampled_from(["a", "b", "C", "d"]), TYPES, max_size=4).map(lambda types: struct(**types))


@given(SCHEMAS, SCHEMAS)
def test_a_merged_schema_begins_with_the_tables_and_takes_the_same_data_again(table: StructType, data: StructType) -> None:
    try:
        found = merged(table, data, never)
    except AnalysisError:
        return
    assert found.names[: len(table)] == table.names
    assert {name.lower() for name in found.names} == {name.lower() for name in (*table.names, *data.names)}
    assert merged(found, data, never) == found
    assert not list(retyped(table, found))
