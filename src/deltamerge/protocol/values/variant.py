"""VARIANT values in Arrow: a struct of two binaries, which Spark tells from any other struct by a mark on one of them.

Source: PROTOCOL.md, "Variant Data Type"; the mark is PySpark's (`pyspark.sql.pandas.types.is_variant`).
"""

from __future__ import annotations

import pyarrow as pa

_MARK = {b"variant": b"true"}
# Spark takes the two by their positions, not by their names.
VARIANT = pa.struct([pa.field("value", pa.binary()), pa.field("metadata", pa.binary(), metadata=_MARK)])
# In data files both are required: a null is one of the group.
STORED_VARIANT = pa.struct([field.with_nullable(False).remove_metadata() for field in VARIANT])


def is_variant(type: pa.DataType) -> bool:
    """Whether an Arrow type is one of VARIANT values."""
    return pa.types.is_struct(type) and any((field.metadata or {}).items() >= _MARK.items() for field in type)
