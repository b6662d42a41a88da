"""Delta's types and schemas: the JSON of a `metaData` action, and the Arrow types in which rows travel.

Source: PROTOCOL.md, "Schema Serialization Format". Pure data; must not know tables, files or Spark.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, Union

import pyarrow as pa

from deltamerge.errors import AnalysisError, CorruptTableError, UnsupportedTableError, restore_action
from deltamerge.protocol.values.values import text
from deltamerge.protocol.values.variant import VARIANT

DataType = Union["PrimitiveType", "ArrayType", "MapType", "StructType"]

_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(-?\d+)\s*\)", re.ASCII)
_ARROW = {
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "void": pa.null(),
    "variant": VARIANT,
}


@lru_cache(maxsize=256)
def _precision_and_scale(name: str) -> tuple[int, int] | None:
    found = _DECIMAL.fullmatch(name)
    return (int(found[1]), int(found[2])) if found else None


@dataclass(frozen=True, slots=True)
class PrimitiveType:
    """A type without fields, by its Delta name: `long`, `decimal(10,2)`, `timestamp_ntz`, ..."""

    name: str

    @property
    def decimal(self) -> tuple[int, int] | None:
        """(precision, scale) of a decimal, None for any other type."""
        return _precision_and_scale(self.name)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class ArrayType:
    """A list of elements of one type."""

    element: DataType
    contains_null: bool = True

    def __str__(self) -> str:
        return f"array<{self.element}>"


@dataclass(frozen=True, slots=True)
class MapType:
    """A map; keys are never null."""

    key: DataType
    value: DataType
    value_contains_null: bool = True

    def __str__(self) -> str:
        return f"map<{self.key},{self.value}>"


@dataclass(frozen=True, slots=True)
class StructField:
    """A named, typed place in a struct; `metadata` is the field's JSON metadata as it is in the log."""

    name: str
    type: DataType
    nullable: bool = True
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)

    @property
    def physical_name(self) -> str:
        """The name in Parquet files and in partition values: column mapping's, else the name itself."""
        return str(self.metadata.get("delta.columnMapping.physicalName", self.name))

    def with_type(self, type: DataType) -> StructField:
        """The same field with another type."""
        return replace(self, type=type)


@dataclass(frozen=True)
class StructType:
    """Named fields in order; a table's schema is one of these."""

    fields: tuple[StructField, ...]

    def __iter__(self) -> Iterator[StructField]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    @property
    def names(self) -> list[str]:
        """Field names in order."""
        return [field.name for field in self.fields]

    def find(self, name: str, case_sensitive: bool = False) -> StructField | None:
        """The field of this name, or None."""
        return self._exact.get(name) if case_sensitive else self._folded.get(name.lower())

    @cached_property
    def _exact(self) -> Mapping[str, StructField]:
        return {field.name: field for field in reversed(self.fields)}

    @cached_property
    def _folded(self) -> Mapping[str, StructField]:
        return {field.name.lower(): field for field in reversed(self.fields)}

    def select(self, names: list[str]) -> StructType:
        """The fields of these exact names, in the schema's own order."""
        wanted = set(names)
        return StructType(tuple(f for f in self.fields if f.name in wanted))

    def __str__(self) -> str:
        return "struct<" + ",".join(f"{f.name}:{f.type}" for f in self.fields) + ">"


def fields_of(type: DataType) -> Iterator[StructField]:
    """Every field at every level of a type, outer ones first."""
    if isinstance(type, StructType):
        for field in type:
            yield field
            yield from fields_of(field.type)
    elif isinstance(type, ArrayType):
        yield from fields_of(type.element)
    elif isinstance(type, MapType):
        yield from fields_of(type.key)
        yield from fields_of(type.value)


def primitives_of(type: DataType) -> Iterator[PrimitiveType]:
    """Every type without fields that occurs in a type."""
    if isinstance(type, StructType):
        for field in type:
            yield from primitives_of(field.type)
    elif isinstance(type, ArrayType):
        yield from primitives_of(type.element)
    elif isinstance(type, MapType):
        yield from primitives_of(type.key)
        yield from primitives_of(type.value)
    else:
        yield type


def changed_fields(schema: StructType, change: Callable[[StructField], StructField]) -> StructType:
    """The schema with every field at every level changed, depth first: a field, then those in it."""

    def of(type: DataType) -> DataType:
        if isinstance(type, StructType):
            return changed_fields(type, change)
        if isinstance(type, ArrayType):
            return replace(type, element=of(type.element))
        if isinstance(type, MapType):
            return replace(type, key=of(type.key), value=of(type.value))
        return type

    fields = (change(field) for field in schema)
    return StructType(tuple(field.with_type(of(field.type)) for field in fields))


def is_void(type: DataType) -> bool:
    """Whether a type has no value but null."""
    return isinstance(type, PrimitiveType) and type.name == "void"


def has_variant(type: DataType) -> bool:
    """Whether a type is, or holds, one of values that have no order and no equality."""
    return any(inner.name == "variant" for inner in primitives_of(type))


def without_void(schema: StructType) -> StructType:
    """The schema without its void columns and void fields of structs, which data files never hold."""
    kept = (f for f in schema if not is_void(f.type))
    return StructType(tuple(f.with_type(without_void(f.type)) if isinstance(f.type, StructType) else f for f in kept))


def parse_schema(text: str) -> StructType:
    """The schema that a `schemaString` holds. Raises CorruptTableError when it does not parse."""
    try:
        found = _parse_type(json.loads(text))
        if not isinstance(found, StructType):
            raise ValueError("the outermost type is not a struct")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        cause = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise CorruptTableError(
            "DELTAMERGE_CORRUPT_SCHEMA",
            f"The table's schemaString does not parse: {cause}.",
            parameters={"schemaString": text[:200]},
            hint=restore_action("metaData"),
        ) from error
    return found


def schema_json(schema: StructType) -> str:
    """The `schemaString` of a schema, compact, keys in Spark's order."""
    return json.dumps(type_value(schema), separators=(",", ":"), ensure_ascii=False)


def type_value(type: DataType) -> Any:
    """The JSON value of a type, which shares no object with it: PySpark changes the collations in the metadata that it reads."""
    if isinstance(type, StructType):
        fields = [
            {"name": f.name, "type": type_value(f.type), "nullable": f.nullable, "metadata": _copied(f.metadata)}
            for f in type.fields
        ]
        return {"type": "struct", "fields": fields}
    if isinstance(type, ArrayType):
        return {"type": "array", "elementType": type_value(type.element), "containsNull": type.contains_null}
    if isinstance(type, MapType):
        return {
            "type": "map",
            "keyType": type_value(type.key),
            "valueType": type_value(type.value),
            "valueContainsNull": type.value_contains_null,
        }
    return type.name


def _copied(value: Any) -> Any:
    """A JSON value as one of its own."""
    if isinstance(value, Mapping):
        return {key: _copied(inner) for key, inner in value.items()}
    return [_copied(inner) for inner in value] if isinstance(value, list) else value


def _parse_type(value: Any) -> DataType:
    if isinstance(value, str):
        return PrimitiveType(_canonical(value))
    kind = value["type"]
    if kind == "struct":
        return StructType(tuple(_parse_field(field) for field in value["fields"]))
    if kind == "array":
        return ArrayType(_parse_type(value["elementType"]), bool(value.get("containsNull", True)))
    if kind == "map":
        return MapType(_parse_type(value["keyType"]), _parse_type(value["valueType"]), bool(value.get("valueContainsNull", True)))
    raise ValueError(f"unknown type {kind!r}")


def _parse_field(value: Any) -> StructField:
    name, metadata = text(value["name"]), value.get("metadata") or {}
    if not isinstance(metadata, dict):
        raise ValueError(f"the metadata of the field {name!r} is no object")
    text(metadata.get("delta.columnMapping.physicalName", name))
    return StructField(name, _parse_type(value["type"]), bool(value.get("nullable", True)), metadata)


def _canonical(name: str) -> str:
    if name == "decimal":
        return "decimal(10,0)"
    found = _DECIMAL.fullmatch(name)
    return f"decimal({int(found[1])},{int(found[2])})" if found else name


def check_supported(schema: StructType) -> None:
    """Raise UnsupportedTableError naming the first column whose type can't be read and written right."""
    for column in schema:
        for type in primitives_of(column.type):
            if not _known(type):
                raise _unsupported_type(str(type), column.name)
        if _void_key(column.type):
            raise _unsupported_type(str(column.type), column.name)


def check_storable(schema: StructType) -> None:
    """Raise UnsupportedTableError for a schema of which no data file can be written (PROTOCOL.md, "Void Type")."""
    check_supported(schema)
    for column in schema:
        if _unstorable(column.type):
            raise _unsupported_type(str(column.type), column.name)
    if not without_void(schema).fields and schema.fields:
        raise _unsupported_type("void", schema.fields[0].name)


def check_names(schema: StructType) -> None:
    """Raise AnalysisError for column and field names that data files can't have, so that only column mapping allows them."""
    odd = [field.name for field in fields_of(schema) if set(field.name) & set(" ,;{}()\n\t=")]
    if odd:
        raise AnalysisError(
            "DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES",
            f"Found invalid character(s) among ' ,;{{}}()\\n\\t=' in the column names {odd}.",
            parameters={"invalidColumnNames": odd},
            hint="Rename the columns, or give the table the property delta.columnMapping.mode = name.",
        )


def _known(type: PrimitiveType) -> bool:
    decimal = type.decimal
    return type.name in _ARROW if decimal is None else 1 <= decimal[0] <= 38 and 0 <= decimal[1] <= decimal[0]


def _void_key(type: DataType) -> bool:
    """Whether there is a map whose keys are void: a key is never null, so that no such map can have an entry."""
    if isinstance(type, StructType):
        return any(_void_key(field.type) for field in type)
    if isinstance(type, ArrayType):
        return _void_key(type.element)
    return isinstance(type, MapType) and (is_void(type.key) or _void_key(type.key) or _void_key(type.value))


def _unstorable(type: DataType) -> bool:
    """Whether a type has void in an array or map, or a struct of nothing else."""
    if isinstance(type, StructType):
        return all(is_void(field.type) for field in type) or any(_unstorable(field.type) for field in type)
    return isinstance(type, ArrayType | MapType) and any(is_void(inner) for inner in primitives_of(type))


def _unsupported_type(type: str, column: str) -> UnsupportedTableError:
    return UnsupportedTableError(
        "DELTA_UNSUPPORTED_DATA_TYPES",
        f"The column {column!r} has the type {type}, which is not supported.",
        parameters={"columnName": column, "dataType": type},
        hint="Cast or drop the column with the tool that wrote the table.",
    )


def arrow_type(type: DataType) -> pa.DataType:
    """The Arrow type in which values of a Delta type travel and are written to Parquet; all of it is nullable.

    Raises UnsupportedTableError for a type that has no Arrow form here.
    """
    if isinstance(type, StructType):
        return pa.struct([arrow_field(f) for f in type.fields])
    if isinstance(type, ArrayType):
        return pa.list_(pa.field("element", arrow_type(type.element)))
    if isinstance(type, MapType):
        return pa.map_(arrow_type(type.key), arrow_type(type.value))
    decimal = type.decimal
    if decimal and 1 <= decimal[0] <= 38:
        return pa.decimal128(*decimal)
    found = _ARROW.get(type.name)
    if found is None:
        raise UnsupportedTableError(
            "DELTA_UNSUPPORTED_DATA_TYPES",
            f"The type {type.name!r} is not supported.",
            parameters={"dataType": type.name},
        )
    return found


def arrow_field(field: StructField) -> pa.Field:
    """The Arrow field of a Delta field, by its logical name."""
    return pa.field(field.name, arrow_type(field.type))


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema of a Delta schema, by logical names."""
    return pa.schema([arrow_field(f) for f in schema.fields])
