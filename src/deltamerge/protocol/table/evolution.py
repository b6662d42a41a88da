"""Schema evolution: what of a source's schema a merge adds to a table's, and the metadata that results.

Source of the rules: delta-spark's SchemaMergingUtils and ResolveDeltaMergeInto. Pure data; must not know Spark or clauses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from deltamerge.errors import AnalysisError
from deltamerge.protocol.schema.type_widening import CHANGES, WIDENING, widens
from deltamerge.protocol.schema.types import (
    ArrayType,
    DataType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    check_names,
    is_void,
    parse_schema,
    primitives_of,
    schema_json,
)
from deltamerge.protocol.table.actions import Metadata, Protocol
from deltamerge.protocol.table.column_mapping import MAX_ID, MappingMode, assigned, highest_id, mapping_mode, without_mapping
from deltamerge.protocol.table.features import named_features

Path = tuple[str, ...]
Widens = Callable[[PrimitiveType, PrimitiveType], bool]

_TIMES = ("date", "timestamp", "timestamp_ntz")
_NUMBERS = ("byte", "short", "integer", "long", "float", "double")


def evolved_metadata(protocol: Protocol, metadata: Metadata, data: StructType) -> Metadata:
    """The table's metadata with the columns and fields of `data` that it lacks, and types widened where the table allows.

    The very same object when nothing changes. Raises AnalysisError for types that don't go together, void columns, names that
    several columns have, and names that no column can have. Types may need a table feature which the table does not have.
    """
    check_distinct(data)
    before = parse_schema(metadata.schema_string)
    widening = _property(metadata, WIDENING) and "typeWidening" in named_features(protocol)
    schema = merged(before, without_mapping(data), widens if widening else lambda old, new: False)
    if schema == before:
        return metadata
    schema = with_type_changes(schema, before)
    configuration = dict(metadata.configuration)
    if mapping_mode(protocol, metadata) is MappingMode.NONE:
        check_names(schema)
    else:
        schema, highest = assigned(schema, highest_id(metadata))
        configuration[MAX_ID] = str(highest)
    return replace(metadata, schema_string=schema_json(schema), configuration=configuration)


def check_distinct(data: StructType) -> None:
    """Raise AnalysisError for a name that several columns, or fields of one struct, have in any case."""
    repeated = sorted(set(_repeated(data)))
    if repeated:
        raise AnalysisError(
            "DELTA_DUPLICATE_COLUMNS_FOUND.DATA",
            f"Found duplicate column(s): {', '.join(repeated)}. The duplicate was found in the data being saved.",
            parameters={"duplicateCols": repeated},
            hint="A table's names are the same whatever their case: rename or drop columns of the source.",
        )


def _repeated(type: DataType, path: str = "") -> Iterator[str]:
    if isinstance(type, StructType):
        counts = Counter(field.name.lower() for field in type)
        yield from (path + name for name, count in counts.items() if count > 1)
        for field in type:
            yield from _repeated(field.type, f"{path}{field.name.lower()}.")
    elif isinstance(type, ArrayType):
        yield from _repeated(type.element, f"{path}element.")
    elif isinstance(type, MapType):
        yield from _repeated(type.key, f"{path}key.")
        yield from _repeated(type.value, f"{path}value.")


def _property(metadata: Metadata, key: str) -> bool:
    return metadata.configuration.get(key, "false").strip().lower() == "true"


def narrowed(source: StructType, paths: Iterable[Path], same: Callable[[str, str], bool], base: Path = ()) -> StructType:
    """The fields of a source's schema that some of the `paths` name, lie within, or lead through."""
    paths = list(paths)

    def leads(path: Path, other: Path) -> bool:
        return len(path) <= len(other) and all(map(same, path, other))

    fields = []
    for field in source:
        path = (*base, field.name)
        below = [other for other in paths if leads(path, other)]
        if any(len(other) == len(path) for other in below):
            fields.append(field)
        elif below and isinstance(field.type, StructType):
            fields.append(field.with_type(narrowed(field.type, below, same, path)))
    return StructType(tuple(fields))


def merged(table: StructType, data: StructType, widens: Widens) -> StructType:
    """The table's schema with what `data` has in addition, nullable, at the end of each level; fields are matched without case.

    A field of both keeps its type, unless `widens` says that it takes the other's. Raises AnalysisError.
    """
    given = {field.name.lower(): field for field in data}
    known = {field.name.lower() for field in table}
    fields = [_merged_field(field, given.get(field.name.lower()), widens) for field in table]
    return StructType((*fields, *(_added(field) for field in data if field.name.lower() not in known)))


def _merged_field(field: StructField, other: StructField | None, widens: Widens) -> StructField:
    if other is None:
        return field
    found = _merged_type(field.type, other.type, widens)
    if found is None:
        raise AnalysisError(
            "DELTA_FAILED_TO_MERGE_FIELDS",
            f"Failed to merge fields '{field.name}' and '{other.name}': {other.type} is no {field.type}.",
            parameters={"currentField": field.name, "updateField": other.name},
            hint="Cast or drop the source's column, or rename it.",
        )
    return field.with_type(found)


def _merged_type(current: DataType, other: DataType, widens: Widens) -> DataType | None:
    """The type of a field that the table has as `current` and the data as `other`; None when they don't go together."""
    if isinstance(current, StructType) and isinstance(other, StructType):
        return merged(current, other, widens)
    if isinstance(current, ArrayType) and isinstance(other, ArrayType):
        element = _merged_type(current.element, other.element, widens)
        return None if element is None else replace(current, element=element)
    if isinstance(current, MapType) and isinstance(other, MapType):
        key, value = _merged_type(current.key, other.key, widens), _merged_type(current.value, other.value, widens)
        return None if key is None or value is None else replace(current, key=key, value=value)
    if is_void(current):
        return current if is_void(other) else _nullable(other)
    if is_void(other):
        return current
    if not (isinstance(current, PrimitiveType) and isinstance(other, PrimitiveType)):
        return None
    if widens(current, other):
        return other
    return current if _converts(other, current) else None


def _converts(source: PrimitiveType, target: PrimitiveType) -> bool:
    """Whether Spark casts one type to the other without being asked."""
    if source == target or target.name == "string":
        return True
    if _is_number(target):
        return _is_number(source) or source.name == "string"
    return source.name in (*_TIMES, "string") if target.name in _TIMES else (source.name, target.name) == ("string", "binary")


def _is_number(type: PrimitiveType) -> bool:
    return type.name in _NUMBERS or type.decimal is not None


def _added(field: StructField) -> StructField:
    if any(map(is_void, primitives_of(field.type))):
        raise AnalysisError(
            "DELTA_MERGE_ADD_VOID_COLUMN",
            f"Cannot add column {field.name} with type VOID.",
            parameters={"newColumn": field.name},
            hint="Give the source's column a type, for example CAST(NULL AS STRING).",
        )
    return StructField(field.name, _nullable(field.type), True, field.metadata)


def _nullable(type: DataType) -> DataType:
    if isinstance(type, StructType):
        return nullable(type)
    if isinstance(type, ArrayType):
        return ArrayType(_nullable(type.element))
    return MapType(_nullable(type.key), _nullable(type.value)) if isinstance(type, MapType) else type


def nullable(schema: StructType) -> StructType:
    """The schema with every column, field, element and value nullable."""
    return StructType(tuple(StructField(f.name, _nullable(f.type), True, f.metadata) for f in schema))


def with_type_changes(schema: StructType, before: StructType) -> StructType:
    """The schema with each primitive type's change noted where PROTOCOL.md ("Type Change Metadata") wants it."""
    old = {field.name: field for field in before}
    return StructType(tuple(_noted(field, old[field.name]) if field.name in old else field for field in schema))


def _noted(field: StructField, before: StructField) -> StructField:
    changes = [_change(*change) for change in retyped(before.type, field.type, into_structs=False)]
    metadata = dict(field.metadata)
    if changes:
        metadata[CHANGES] = [*metadata.get(CHANGES, ()), *changes]
    return replace(field, type=_noted_within(field.type, before.type), metadata=metadata)


def _noted_within(type: DataType, before: DataType) -> DataType:
    """The type with changes noted at the fields of the structs in it."""
    if isinstance(type, StructType) and isinstance(before, StructType):
        return with_type_changes(type, before)
    if isinstance(type, ArrayType) and isinstance(before, ArrayType):
        return replace(type, element=_noted_within(type.element, before.element))
    if isinstance(type, MapType) and isinstance(before, MapType):
        return replace(type, key=_noted_within(type.key, before.key), value=_noted_within(type.value, before.value))
    return type


def _change(path: Path, before: PrimitiveType, type: PrimitiveType) -> Mapping[str, Any]:
    place = {"fieldPath": ".".join(path)} if path else {}
    return {"toType": type.name, "fromType": before.name, **place}


def retyped(
    before: DataType, type: DataType, path: Path = (), into_structs: bool = True
) -> Iterator[tuple[Path, PrimitiveType, PrimitiveType]]:
    """Each primitive type in `before` that is another one in `type`, with its path by PROTOCOL.md's `fieldPath`."""
    if isinstance(before, StructType) and isinstance(type, StructType):
        now = {field.name: field.type for field in type}
        for field in before if into_structs else ():
            yield from retyped(field.type, now[field.name], (*path, field.name), into_structs)
    elif isinstance(before, ArrayType) and isinstance(type, ArrayType):
        yield from retyped(before.element, type.element, (*path, "element"), into_structs)
    elif isinstance(before, MapType) and isinstance(type, MapType):
        yield from retyped(before.key, type.key, (*path, "key"), into_structs)
        yield from retyped(before.value, type.value, (*path, "value"), into_structs)
    elif isinstance(before, PrimitiveType) and isinstance(type, PrimitiveType) and before != type and not is_void(before):
        yield path, before, type
