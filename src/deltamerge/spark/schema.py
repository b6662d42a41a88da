"""Between Delta's schemas and Spark's."""

from __future__ import annotations

import json

from pyspark.sql.types import ArrayType, MapType, StructField, _parse_datatype_json_value
from pyspark.sql.types import DataType as SparkType
from pyspark.sql.types import StructType as SparkStruct

from deltamerge.protocol.schema import DataType, StructType, parse_schema, type_value


def to_spark(schema: StructType) -> SparkStruct:
    """The Spark schema of a Delta schema."""
    return SparkStruct.fromJson(type_value(schema))


def nullable(type: SparkType) -> SparkType:
    """The type with every nested field, element and value nullable."""
    if isinstance(type, SparkStruct):
        return SparkStruct([StructField(f.name, nullable(f.dataType), True, f.metadata) for f in type.fields])
    if isinstance(type, ArrayType):
        return ArrayType(nullable(type.elementType))
    if isinstance(type, MapType):
        return MapType(nullable(type.keyType), nullable(type.valueType))
    return type


def from_spark(schema: SparkStruct) -> StructType:
    """The Delta schema of a Spark schema."""
    return parse_schema(json.dumps(schema.jsonValue()))


def spark_type(type: DataType) -> SparkType:
    """The Spark type of a Delta type."""
    found: SparkType = _parse_datatype_json_value(type_value(type))
    return found
