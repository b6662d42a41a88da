"""The schema of several files that become one table: all of their columns. Source: delta-spark's SchemaMergingUtils."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import reduce

from deltamerge.errors import AnalysisError
from deltamerge.protocol.schema.types import ArrayType, DataType, MapType, PrimitiveType, StructField, StructType

# Parquet stores them alike.
_SMALL = ("byte", "short", "integer")


def schema_of_all(schemas: Iterable[StructType]) -> StructType:
    """The columns of all schemas, in the order in which they come first, matched without case.

    Of whole numbers up to four bytes a column has the widest type. Raises AnalysisError for any other two types of a column.
    """
    return reduce(_merged, schemas, StructType(()))


def _merged(current: StructType, other: StructType) -> StructType:
    fields = []
    for field in current:
        found = other.find(field.name)
        fields.append(field if found is None else _merged_field(field, found))
    return StructType((*fields, *(field for field in other if current.find(field.name) is None)))


def _merged_field(field: StructField, other: StructField) -> StructField:
    type = _merged_type(field.type, other.type)
    if type is None:
        raise AnalysisError(
            "DELTA_FAILED_TO_MERGE_FIELDS",
            f"Failed to merge fields '{field.name}' and '{other.name}': it is {field.type} in one file, {other.type} in another.",
            parameters={"currentField": field.name, "updateField": other.name},
            hint="Write the files again with one type for each column.",
        )
    return field.with_type(type)


def _merged_type(current: DataType, other: DataType) -> DataType | None:
    """The type of a column that two files have; None when they don't go together."""
    if current == other:
        return current
    if isinstance(current, StructType) and isinstance(other, StructType):
        return _merged(current, other)
    if isinstance(current, ArrayType) and isinstance(other, ArrayType):
        element = _merged_type(current.element, other.element)
        return None if element is None else replace(current, element=element)
    if isinstance(current, MapType) and isinstance(other, MapType):
        key, value = _merged_type(current.key, other.key), _merged_type(current.value, other.value)
        return None if key is None or value is None else replace(current, key=key, value=value)
    if not (isinstance(current, PrimitiveType) and isinstance(other, PrimitiveType)):
        return None
    if current.name in _SMALL and other.name in _SMALL:
        return max(current, other, key=lambda one: _SMALL.index(one.name))
    if current.name == "void":
        return other
    return current if other.name == "void" else None
