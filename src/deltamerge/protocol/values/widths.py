"""About how many bytes values take, where nobody has counted: by their types."""

from __future__ import annotations

import pyarrow as pa

# What a text takes, or something nested.
_VARYING_BYTES = 32
_OFFSET_BYTES = 4


def width(type: pa.DataType) -> int:
    """About the bytes of a value in Arrow."""
    return max(1, type.bit_width // 8) if is_fixed(type) else _VARYING_BYTES


def is_fixed(type: pa.DataType) -> bool:
    """Whether all values of a type take the same bytes."""
    return bool(pa.types.is_primitive(type) or pa.types.is_decimal(type))


def least_width(schema: pa.Schema) -> float:
    """The bytes of a row in Arrow if texts and what is nested are empty."""
    return sum(field.type.bit_width / 8 if is_fixed(field.type) else _OFFSET_BYTES for field in schema)


def row_width(schema: pa.Schema) -> int:
    """About the bytes of a row in Arrow."""
    return sum(width(field.type) for field in schema)
