"""Column mapping: under which names and ids the columns of a table stand in its data files and its log.

Source: PROTOCOL.md, "Column Mapping". Pure data; must not know files or Spark.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any

import pyarrow as pa

from deltamerge.errors import CorruptTableError, UnsupportedTableError, restore_action
from deltamerge.protocol.schema.type_widening import check_type_changes
from deltamerge.protocol.schema.types import (
    ArrayType,
    DataType,
    MapType,
    StructField,
    StructType,
    arrow_type,
    changed_fields,
    check_supported,
    fields_of,
    parse_schema,
    without_void,
)
from deltamerge.protocol.table.actions import Metadata, Protocol
from deltamerge.protocol.values.variant import STORED_VARIANT, VARIANT

MODE = "delta.columnMapping.mode"
MAX_ID = "delta.columnMapping.maxColumnId"
ID_KEY = "delta.columnMapping.id"
NAME_KEY = "delta.columnMapping.physicalName"
_KEYS = (ID_KEY, NAME_KEY, "delta.columnMapping.nested.ids", "parquet.field.id", "parquet.field.nested.ids")

PHYSICAL = b"deltamerge:physical"
FIELD_ID = b"deltamerge:field_id"
PARQUET_ID = b"PARQUET:field_id"


class MappingMode(Enum):
    """By what a column is found in a data file: its display name, its physical name, or its Parquet field id."""

    NONE = "none"
    NAME = "name"
    ID = "id"


def mode_of(metadata: Metadata) -> MappingMode:
    """The mode that the table property asks for. Raises UnsupportedTableError for one that the protocol does not name."""
    text = metadata.configuration.get(MODE, MappingMode.NONE.value)
    try:
        return MappingMode(text.strip().lower())
    except ValueError as error:
        raise UnsupportedTableError(
            "DELTA_UNSUPPORTED_COLUMN_MAPPING_MODE",
            f"The column mapping mode {text!r} is not supported.",
            parameters={"mode": text},
            hint="Known are none, name and id.",
        ) from error


def mapping_mode(protocol: Protocol, metadata: Metadata) -> MappingMode:
    """The mode in force: the property's, provided that the protocol has column mapping.

    Raises UnsupportedTableError when the property and the protocol contradict each other so that the names matter.
    """
    mode = mode_of(metadata)
    if mode is MappingMode.NONE or _maps_columns(protocol):
        return mode
    if any(field.physical_name != field.name for field in fields_of(parse_schema(metadata.schema_string))):
        raise UnsupportedTableError(
            "DELTA_UNSUPPORTED_COLUMN_MAPPING_PROTOCOL",
            f"The table property {MODE} is {mode.value!r}, but the protocol (reader version {protocol.min_reader_version}, "
            f"writer version {protocol.min_writer_version}) has no column mapping.",
            parameters={"mode": mode.value, "minReaderVersion": protocol.min_reader_version},
            hint="Upgrade the table's protocol with the tool that set the property.",
        )
    return MappingMode.NONE


def _maps_columns(protocol: Protocol) -> bool:
    if protocol.reader_features is not None:
        return "columnMapping" in protocol.reader_features
    return protocol.min_reader_version >= 2


def mapped_schema(protocol: Protocol, metadata: Metadata) -> StructType:
    """The table's schema whose physical names are the ones in force; without column mapping those are the names themselves.

    Raises CorruptTableError for a partition column that the schema lacks, and for a field that the mode can't find or that
    shares its id or path with another, and
    UnsupportedTableError for a type, or a change of type, that data files can't be read with.
    """
    schema = parse_schema(metadata.schema_string)
    check_supported(schema)
    check_type_changes(schema)
    _check_partitions(schema, metadata.partition_columns)
    if mapping_mode(protocol, metadata) is MappingMode.NONE:
        return without_mapping(schema)
    ids: set[Any] = set()
    for level in (schema, *(field.type for field in fields_of(schema))):
        names: set[str] = set()
        for field in level if isinstance(level, StructType) else ():
            found = field.metadata.get(ID_KEY), field.metadata.get(NAME_KEY)
            if not isinstance(found[0], int) or not isinstance(found[1], str) or found[0] in ids or found[1] in names:
                raise _corrupt(field)
            ids.add(found[0])
            names.add(field.physical_name)
    return schema


def _check_partitions(schema: StructType, columns: Sequence[str]) -> None:
    missing = [name for name in columns if schema.find(name, case_sensitive=True) is None]
    if missing:
        raise CorruptTableError(
            "DELTAMERGE_CORRUPT_PARTITION_COLUMNS",
            f"The table is partitioned by {', '.join(missing)}, which its schema does not have.",
            parameters={"partitionColumns": missing, "columns": schema.names},
            hint=restore_action("metaData"),
        )


def _corrupt(field: StructField) -> CorruptTableError:
    return CorruptTableError(
        "DELTAMERGE_CORRUPT_COLUMN_MAPPING",
        f"The column or field {field.name!r} has no column mapping id or physical name, or shares it with another.",
        parameters={"fieldName": field.name, "metadata": dict(field.metadata)},
        hint=restore_action("metaData"),
    )


def without_mapping(schema: StructType) -> StructType:
    """The schema without a trace of column mapping."""
    return changed_fields(schema, lambda f: replace(f, metadata={k: v for k, v in f.metadata.items() if k not in _KEYS}))


def physical_schema(schema: StructType) -> StructType:
    """The schema by physical names on all levels."""
    return changed_fields(schema, lambda field: replace(field, name=field.physical_name))


def highest_id(*versions: Metadata) -> int:
    """The highest id that a column of these versions of a table has, or is noted to have had; 0 where there was none.

    The noted one alone is not enough: other writers may have lost it, and an id must never come back.
    """
    noted = [int(metadata.configuration.get(MAX_ID, 0)) for metadata in versions]
    fields = [field for metadata in versions for field in fields_of(parse_schema(metadata.schema_string))]
    return max([0, *noted, *(int(field.metadata[ID_KEY]) for field in fields if ID_KEY in field.metadata)])


def assigned(schema: StructType, highest: int = 0) -> tuple[StructType, int]:
    """The schema with an id and a physical name for each field that has none, and the highest id that is used.

    Ids count on from `highest` in depth-first order; physical names are random, so that none ever comes back.
    """
    used = [highest, *(int(field.metadata[ID_KEY]) for field in fields_of(schema) if ID_KEY in field.metadata)]
    last = max(used)

    def assign(field: StructField) -> StructField:
        nonlocal last
        added: dict[str, Any] = {}
        if ID_KEY not in field.metadata:
            last += 1
            added[ID_KEY] = last
        if NAME_KEY not in field.metadata:
            added[NAME_KEY] = f"col-{uuid.uuid4()}"
        return replace(field, metadata={**field.metadata, **added})

    return changed_fields(schema, assign), last


def logical_schema(schema: StructType, mode: MappingMode) -> pa.Schema:
    """The Arrow schema of rows by logical names; each field's metadata says where data files have it."""

    def field_of(field: StructField) -> pa.Field:
        if mode is MappingMode.ID:
            return pa.field(
                field.name,
                _arrow(field.type, field_of),
                metadata={PHYSICAL: field.physical_name.encode(), FIELD_ID: str(field.metadata[ID_KEY]).encode()},
            )
        address = {PHYSICAL: field.physical_name.encode()} if field.physical_name != field.name else None
        return pa.field(field.name, _arrow(field.type, field_of), metadata=address)

    return pa.schema([field_of(field) for field in schema])


def stored_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema of data files: physical names, Parquet field ids, and no void column on any level."""

    def field_of(field: StructField) -> pa.Field:
        ids = {PARQUET_ID: str(field.metadata[ID_KEY]).encode()} if ID_KEY in field.metadata else None
        return pa.field(field.physical_name, _arrow(field.type, field_of, STORED_VARIANT), metadata=ids)

    return pa.schema([field_of(field) for field in without_void(schema)])


def _arrow(type: DataType, field_of: Callable[[StructField], pa.Field], variant: pa.DataType = VARIANT) -> pa.DataType:
    """The Arrow type of a Delta type, its struct fields made by `field_of`, its variants as given."""
    if isinstance(type, StructType):
        return pa.struct([field_of(field) for field in type])
    if isinstance(type, ArrayType):
        return pa.list_(pa.field("element", _arrow(type.element, field_of, variant)))
    if isinstance(type, MapType):
        return pa.map_(_arrow(type.key, field_of, variant), _arrow(type.value, field_of, variant))
    return variant if type.name == "variant" else arrow_type(type)
