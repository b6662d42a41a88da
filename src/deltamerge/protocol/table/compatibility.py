"""Whether rows that were written with one schema can be read with a later one.

Source: delta-spark's SchemaUtils.isReadCompatible and DeltaColumnMapping.hasNoColumnMappingSchemaChanges.
"""

from __future__ import annotations

from deltamerge.protocol.schema.type_widening import widens
from deltamerge.protocol.schema.types import ArrayType, DataType, MapType, PrimitiveType, StructField, StructType, is_void


def reads(later: StructType, earlier: StructType, widened: bool = False) -> bool:
    """Whether columns were only added on the way to `later`: none dropped, renamed, retyped, or forbidden to be null.

    Types may be `widened`.
    """
    return all(_reads_field(later.find(field.name), field, widened) for field in earlier)


def _reads_field(later: StructField | None, earlier: StructField, widened: bool) -> bool:
    if later is None or (later.name, later.physical_name) != (earlier.name, earlier.physical_name):
        return False
    return later.nullable >= earlier.nullable and _reads_type(later.type, earlier.type, widened)


def _reads_type(later: DataType, earlier: DataType, widened: bool) -> bool:
    if isinstance(later, StructType) and isinstance(earlier, StructType):
        return reads(later, earlier, widened)
    if isinstance(later, ArrayType) and isinstance(earlier, ArrayType):
        return later.contains_null >= earlier.contains_null and _reads_type(later.element, earlier.element, widened)
    if isinstance(later, MapType) and isinstance(earlier, MapType):
        nullable = later.value_contains_null >= earlier.value_contains_null
        parts = ((later.key, earlier.key), (later.value, earlier.value))
        return nullable and all(_reads_type(new, old, widened) for new, old in parts)
    if widened and isinstance(later, PrimitiveType) and isinstance(earlier, PrimitiveType) and widens(earlier, later):
        return True
    return is_void(earlier) or later == earlier
