"""A schema with a field added, dropped or changed, at any depth. Pure data; must not know tables.

A path names fields of structs; `element`, `key` and `value` lead into arrays and maps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from deltamerge.errors import AnalysisError
from deltamerge.protocol.schema.types import ArrayType, DataType, MapType, StructField, StructType

Path = tuple[str, ...]
Fields = tuple[StructField, ...]
FIRST: Path = ()
"""A place before all other fields; ('a',) is the one behind the field a, None the last one, or the same as before."""


def field_at(schema: StructType, path: Path) -> StructField:
    """The field of a struct that a path leads to, names compared without case. Raises AnalysisError."""
    found: list[StructField] = []

    def note(fields: Fields) -> Fields:
        found.append(_named(fields, path))
        return fields

    _within(schema, path[:-1], path, note)
    return found[0]


def has_field(schema: StructType, path: Path) -> bool:
    """Whether a path leads to a field. Raises AnalysisError for one that leads into what has no fields."""
    type: DataType = schema
    for part in path:
        if isinstance(type, StructType):
            field = type.find(part)
            if field is None:
                return False
            type = field.type
        elif isinstance(type, ArrayType) and part.lower() == "element":
            type = type.element
        elif isinstance(type, MapType) and part.lower() in ("key", "value"):
            type = type.key if part.lower() == "key" else type.value
        else:
            raise _not_there(path, f"there is no struct in {type}")
    return True


def added(schema: StructType, parent: Path, field: StructField, place: Path | None = None) -> StructType:
    """The schema with a field in the struct that `parent` leads to. Raises AnalysisError for no struct, and a taken name."""

    def add(fields: Fields) -> Fields:
        if any(other.name.lower() == field.name.lower() for other in fields):
            raise AnalysisError(
                "FIELD_ALREADY_EXISTS",
                f"Cannot add column, because {'.'.join((*parent, field.name))} already exists in {schema}.",
                parameters={"op": "add", "fieldNames": ".".join((*parent, field.name))},
                hint="Choose another name.",
            )
        return _placed(fields, field, place, len(fields))

    return _within(schema, parent, (*parent, field.name), add)


def dropped(schema: StructType, path: Path) -> StructType:
    """The schema without a field. Raises AnalysisError for one that is not there, and for the only one of its struct."""

    def drop(fields: Fields) -> Fields:
        gone = _named(fields, path)
        if len(fields) == 1:
            raise AnalysisError(
                "DELTA_DROP_COLUMN_ON_SINGLE_FIELD_SCHEMA",
                f"Cannot drop column {'.'.join(path)} from a schema with a single column.",
                parameters={"schema": str(schema)},
            )
        return tuple(field for field in fields if field is not gone)

    return _within(schema, path[:-1], path, drop)


def changed(
    schema: StructType, path: Path, change: Callable[[StructField], StructField], place: Path | None = None
) -> StructType:
    """The schema with a field changed, and moved to a place in its struct. Raises AnalysisError."""

    def edit(fields: Fields) -> Fields:
        old = _named(fields, path)
        new, at = change(old), fields.index(old)
        if any(other is not old and other.name.lower() == new.name.lower() for other in fields):
            raise AnalysisError(
                "FIELD_ALREADY_EXISTS",
                f"Cannot rename column, because {new.name} already exists in {schema}.",
                parameters={"op": "rename", "fieldNames": new.name},
                hint="Choose another name.",
            )
        others = tuple(field for field in fields if field is not old)
        return _placed(others, new, place, at)

    return _within(schema, path[:-1], path, edit)


def _within(schema: StructType, parent: Path, path: Path, edit: Callable[[Fields], Fields]) -> StructType:
    """The schema with the fields of the struct at `parent` edited."""

    def of(type: DataType, rest: Path) -> DataType:
        if not rest and isinstance(type, StructType):
            return StructType(edit(type.fields))
        if isinstance(type, StructType):
            field = _named(type.fields, path, rest[0])
            return StructType(tuple(f.with_type(of(f.type, rest[1:])) if f is field else f for f in type.fields))
        part = rest[0].lower() if rest else ""
        if isinstance(type, ArrayType) and part == "element":
            return replace(type, element=of(type.element, rest[1:]))
        if isinstance(type, MapType) and part == "key":
            return replace(type, key=of(type.key, rest[1:]))
        if isinstance(type, MapType) and part == "value":
            return replace(type, value=of(type.value, rest[1:]))
        raise _not_there(path, f"there is no struct in {type}")

    found = of(schema, parent)
    assert isinstance(found, StructType)
    return found


def _placed(others: Fields, field: StructField, place: Path | None, at: int) -> Fields:
    if place == FIRST and place is not None:
        at = 0
    elif place is not None:
        at = others.index(_named(others, place)) + 1 if place[0].lower() != field.name.lower() else at
    return (*others[:at], field, *others[at:])


def _named(fields: Fields, path: Path, name: str | None = None) -> StructField:
    wanted = path[-1] if name is None else name
    found = next((field for field in fields if field.name.lower() == wanted.lower()), None)
    if found is None:
        raise _not_there(path, f"{wanted} is none of {', '.join(field.name for field in fields)}")
    return found


def _not_there(path: Path, why: str) -> AnalysisError:
    return AnalysisError(
        "DELTA_COLUMN_NOT_FOUND_IN_SCHEMA",
        f"Unable to find the column {'.'.join(path)}: {why}.",
        parameters={"columnName": ".".join(path)},
    )
