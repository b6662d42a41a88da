"""Whether rows that were written with one schema can be read with a later one.

Source: delta-spark's SchemaUtils.isReadCompatible and DeltaColumnMapping.hasNoColumnMappingSchemaChanges.
"""

from __future__ import annotations

from deltamerge.protocol.schema.types import ArrayType, DataType, MapType, StructField, StructType, is_void


def reads(later: StructType, earlier: StructType) -> bool:
    """Whether columns were only added on the way to `later`: none dropped, renamed, retyped, or forbidden to be null."""
    return all(_reads_field(later.find(field.name), field) for field in earlier)


def _reads_field(later: StructField | None, earlier: StructField) -> bool:
    if later is None or (later.name, later.physical_name) != (earlier.name, earlier.physical_name):
        return False
    return later.nullable >= earlier.nullable and _reads_type(later.type, earlier.type)


def _reads_type(later: DataType, earlier: DataType) -> bool:
    if isinstance(later, StructType) and isinstance(earlier, StructType):
        return reads(later, earlier)
    if isinstance(later, ArrayType) and isinstance(earlier, ArrayType):
        return later.contains_null >= earlier.contains_null and _reads_type(later.element, earlier.element)
    if isinstance(later, MapType) and isinstance(earlier, MapType):
        nullable = later.value_contains_null >= earlier.value_contains_null
        return nullable and _reads_type(later.key, earlier.key) and _reads_type(later.value, earlier.value)
    return is_void(earlier) or later == earlier
