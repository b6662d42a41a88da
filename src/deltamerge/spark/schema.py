"""Between Delta's schemas and Spark's."""

from __future__ import annotations

import json
from dataclasses import replace

from pyspark.sql.types import DataType as SparkType
from pyspark.sql.types import StructType as SparkStruct
from pyspark.sql.types import _parse_datatype_json_value

from deltamerge.protocol.schema import DataType, StructField, StructType, changed_fields, parse_schema, type_value

_DEFAULTS = ("CURRENT_DEFAULT", "EXISTS_DEFAULT")


def to_spark(schema: StructType) -> SparkStruct:
    """The Spark schema of a Delta schema."""
    return SparkStruct.fromJson(type_value(schema))


def from_spark(schema: SparkStruct) -> StructType:
    """The Delta schema of a Spark schema."""
    return parse_schema(json.dumps(schema.jsonValue()))


def shown_schema(schema: StructType) -> StructType:
    """The schema that a user sees: without what the log notes about columns for its writers.

    Spark would fill missing columns with defaults that it finds, which PROTOCOL.md ("Default Columns") keeps from readers.
    """

    def shown(field: StructField) -> StructField:
        kept = {k: v for k, v in field.metadata.items() if not k.startswith("delta.") and k not in _DEFAULTS}
        return replace(field, metadata=kept)

    return changed_fields(schema, shown)


def spark_type(type: DataType) -> SparkType:
    """The Spark type of a Delta type."""
    found: SparkType = _parse_datatype_json_value(type_value(type))
    return found
