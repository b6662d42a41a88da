"""Column mapping: the mode in force, the schema that it gives, and the Arrow schemas of rows and files."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from deltamerge.errors import CorruptTableError, UnsupportedTableError
from deltamerge.protocol.schema.types import ArrayType, MapType, PrimitiveType, StructField, StructType, fields_of, schema_json
from deltamerge.protocol.table.actions import Metadata, Protocol
from deltamerge.protocol.table.column_mapping import (
    FIELD_ID,
    ID_KEY,
    NAME_KEY,
    PARQUET_ID,
    PHYSICAL,
    MappingMode,
    assigned,
    logical_schema,
    mapped_schema,
    mapping_mode,
    physical_schema,
    stored_schema,
)

LEGACY = Protocol(2, 5)
LONG, VOID = PrimitiveType("long"), PrimitiveType("void")


def mapped(name: str, type: Any, id: int, physical: str | None = None) -> StructField:
    return StructField(name, type, metadata={ID_KEY: id, NAME_KEY: physical or f"col-{id}"})


def metadata(schema: StructType, mode: str | None = "name") -> Metadata:
    return Metadata("id", schema_json(schema), configuration={} if mode is None else {"delta.columnMapping.mode": mode})


INNER = StructType((mapped("x", LONG, 3),))
SCHEMA = StructType(
    (
        mapped("a b", LONG, 1),
        mapped("s", INNER, 2),
        mapped("l", ArrayType(StructType((mapped("x", LONG, 5),))), 4),
        mapped("m", MapType(StructType((mapped("x", LONG, 7),)), StructType((mapped("x", LONG, 8),))), 6),
    )
)


@pytest.mark.parametrize(
    ("protocol", "mode", "expected"),
    [
        (LEGACY, "name", MappingMode.NAME),
        (LEGACY, "ID", MappingMode.ID),
        (LEGACY, None, MappingMode.NONE),
        (Protocol(2, 7, None, frozenset({"columnMapping"})), "id", MappingMode.ID),
        (Protocol(3, 7, frozenset({"columnMapping"}), frozenset({"columnMapping"})), "name", MappingMode.NAME),
    ],
)
def test_the_mode_is_the_propertys_under_a_protocol_that_maps(
    protocol: Protocol, mode: str | None, expected: MappingMode
) -> None:
    assert mapping_mode(protocol, metadata(SCHEMA, mode)) is expected


@pytest.mark.parametrize("protocol", [Protocol(1, 2), Protocol(1, 5), Protocol(3, 7, frozenset(), frozenset())], ids=repr)
def test_a_protocol_that_does_not_map_is_refused_when_the_names_matter(protocol: Protocol) -> None:
    plain = StructType((StructField("a", LONG),))
    assert mapping_mode(protocol, metadata(plain)) is MappingMode.NONE
    with pytest.raises(
        UnsupportedTableError, match=r"DELTA_UNSUPPORTED_COLUMN_MAPPING_PROTOCOL.*delta\.columnMapping\.mode is 'name'"
    ):
        mapping_mode(protocol, metadata(SCHEMA))


def test_an_unknown_mode_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedTableError, match=r"DELTA_UNSUPPORTED_COLUMN_MAPPING_MODE.*'position'"):
        mapped_schema(LEGACY, metadata(SCHEMA, "position"))


def test_without_mapping_leftover_physical_names_do_not_count() -> None:
    found = mapped_schema(LEGACY, metadata(SCHEMA, "none"))
    assert [field.physical_name for field in fields_of(found)] == [field.name for field in fields_of(SCHEMA)]
    assert found.names == SCHEMA.names
    assert mapped_schema(LEGACY, metadata(SCHEMA)) == SCHEMA


@pytest.mark.parametrize(
    "fields",
    [
        [StructField("a", LONG)],
        [StructField("a", LONG, metadata={ID_KEY: 1})],
        [StructField("a", LONG, metadata={NAME_KEY: "col-1"})],
        [mapped("a", LONG, 1), mapped("b", LONG, 1, "other")],
        [mapped("a", LONG, 1, "same"), mapped("b", LONG, 2, "same")],
        [mapped("a", StructType((mapped("x", LONG, 1, "other"),)), 1)],
        [mapped("a", StructType((mapped("x", LONG, 2, "same"), mapped("y", LONG, 3, "same"))), 1)],
    ],
    ids=lambda fields: " ".join(json.dumps(dict(field.metadata)) for field in fields),
)
def test_a_mapping_that_names_no_column_or_two_is_refused(fields: list[StructField]) -> None:
    for mode in ("name", "id"):
        with pytest.raises(CorruptTableError) as caught:
            mapped_schema(LEGACY, metadata(StructType(tuple(fields)), mode))
        assert caught.value.condition == "DELTAMERGE_CORRUPT_COLUMN_MAPPING"


def test_fields_at_different_places_may_share_a_physical_name() -> None:
    schema = StructType((mapped("a", StructType((mapped("x", LONG, 2, "same"),)), 1, "same"),))
    assert mapped_schema(LEGACY, metadata(schema)) == schema


def leaves(type: pa.DataType | pa.Schema) -> list[pa.Field]:
    """All fields of structs at every level, in depth-first order."""
    if isinstance(type, pa.Schema) or pa.types.is_struct(type):
        return [found for field in type for found in (field, *leaves(field.type))]
    if pa.types.is_list(type):
        return leaves(type.value_type)
    return [*leaves(type.key_type), *leaves(type.item_type)] if pa.types.is_map(type) else []


def test_files_have_physical_names_and_field_ids_on_all_levels() -> None:
    found = leaves(stored_schema(SCHEMA))
    assert [(f.name, f.metadata[PARQUET_ID]) for f in found] == [(f"col-{i}", str(i).encode()) for i in range(1, 9)]
    assert all(field.nullable for field in found)


def test_rows_have_logical_names_and_know_their_place_in_files() -> None:
    by_name, by_id = (leaves(logical_schema(SCHEMA, mode)) for mode in (MappingMode.NAME, MappingMode.ID))
    assert [field.name for field in by_name] == [field.name for field in fields_of(SCHEMA)] == [field.name for field in by_id]
    assert [f.metadata[PHYSICAL] for f in by_name] == [f"col-{i}".encode() for i in range(1, 9)]
    assert [f.metadata[FIELD_ID] for f in by_id] == [str(i).encode() for i in range(1, 9)]
    assert not any(FIELD_ID in f.metadata for f in by_name)


def test_void_is_in_rows_but_in_no_file() -> None:
    schema = StructType((mapped("v", VOID, 1), mapped("s", StructType((mapped("v", VOID, 3), mapped("x", LONG, 4))), 2)))
    assert [field.name for field in leaves(stored_schema(schema))] == ["col-2", "col-4"]
    assert [field.name for field in leaves(logical_schema(schema, MappingMode.NAME))] == ["v", "s", "v", "x"]


def test_physical_names_at_every_level() -> None:
    assert [field.name for field in fields_of(physical_schema(SCHEMA))] == [f"col-{i}" for i in range(1, 9)]


def test_ids_count_on_and_names_are_never_given_twice() -> None:
    bare = StructType((StructField("a", LONG), StructField("s", StructType((StructField("x", LONG),)))))
    first, highest = assigned(bare)
    assert sorted(field.metadata[ID_KEY] for field in fields_of(first)) == [1, 2, 3]
    assert highest == 3
    assert len({field.physical_name for field in fields_of(first)}) == 3
    wider = StructType((*first.fields, StructField("b", LONG)))
    second, highest = assigned(wider, 7)
    assert second.fields[:2] == first.fields
    assert second.fields[2].metadata[ID_KEY] == highest == 8
    assert assigned(second, 8) == (second, 8)


def test_a_partition_column_that_the_schema_lacks_is_named() -> None:
    with pytest.raises(CorruptTableError, match=r"DELTAMERGE_CORRUPT_PARTITION_COLUMNS.*partitioned by p, which"):
        mapped_schema(Protocol(1, 2), Metadata("i", schema_json(StructType((StructField("id", PrimitiveType("long")),))), ("p",)))
