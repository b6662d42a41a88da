"""Variants on their way to the driver."""

from __future__ import annotations

from typing import cast

import pyarrow as pa
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from deltamerge.protocol.values.variant import VARIANT
from deltamerge.spark.pyspark.older import VARIANT_TYPE
from deltamerge.spark.session.frames import Frame
from deltamerge.spark.session.schema import nullable_type
from deltamerge.spark.session.shipping import shipped
from deltamerge.worker.entry import unmarked_map
from deltamerge.worker.scan.columns import required_variants

_PLAIN = T.StructType([T.StructField(field.name, T.BinaryType()) for field in VARIANT])


def has_variant(type: T.DataType) -> bool:
    """Whether a type is, or holds, VARIANT."""
    if isinstance(type, T.StructType):
        return any(has_variant(field.dataType) for field in type.fields)
    if isinstance(type, T.ArrayType):
        return has_variant(type.elementType)
    if isinstance(type, T.MapType):
        return has_variant(type.keyType) or has_variant(type.valueType)
    return isinstance(type, VARIANT_TYPE)


def unmarked(frame: Frame, schema: T.StructType) -> Frame:
    """A frame of `schema`, all nullable, its variants as structs of two binaries: `toArrow` fails at a null among variants."""
    if not has_variant(schema):
        return frame
    plain = cast("T.StructType", _plain(nullable_type(schema)))
    arrow: pa.Schema = to_arrow_schema(plain)
    return frame.mapInArrow(shipped(unmarked_map(arrow)), plain)


def marked(table: pa.Table, schema: T.StructType) -> pa.Table:
    """Rows of `schema` as `createDataFrame` takes them: it fails at a null among variants of which a part is null, too."""
    if not has_variant(schema):
        return table
    wanted: pa.Schema = to_arrow_schema(schema)
    fields = [new if has_variant(f.dataType) else old for old, new, f in zip(table.schema, wanted, schema.fields, strict=True)]
    return required_variants(table, pa.schema(fields))


def _plain(type: T.DataType) -> T.DataType:
    if isinstance(type, T.StructType):
        return T.StructType([T.StructField(f.name, _plain(f.dataType), f.nullable) for f in type.fields])
    if isinstance(type, T.ArrayType):
        return T.ArrayType(_plain(type.elementType), type.containsNull)
    if isinstance(type, T.MapType):
        return T.MapType(_plain(type.keyType), _plain(type.valueType), type.valueContainsNull)
    return _PLAIN if isinstance(type, VARIANT_TYPE) else type
