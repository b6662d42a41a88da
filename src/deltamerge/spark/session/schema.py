"""Between Delta's schemas and Spark's."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import cast

from pyspark.errors import ParseException, PySparkException
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.types import DataType as SparkType
from pyspark.sql.types import StructType as SparkStruct
from pyspark.sql.types import _parse_datatype_json_value

from deltamerge.errors import ParseError, UnsupportedTableError
from deltamerge.protocol.schema.char_varchar import SIZED_TEXT
from deltamerge.protocol.schema.types import (
    DataType,
    PrimitiveType,
    StructField,
    StructType,
    changed_fields,
    parse_schema,
    type_value,
)
from deltamerge.spark.plans.attributes import quoted
from deltamerge.spark.pyspark.older import condition_of, refuse_older, struct_of
from deltamerge.spark.pyspark.quiet import quietly
from deltamerge.spark.session.frames import Frame

_DEFAULTS = ("CURRENT_DEFAULT", "EXISTS_DEFAULT")


def to_spark(schema: StructType) -> SparkStruct:
    """The Spark schema of a Delta schema."""
    with _known_types():
        return SparkStruct.fromJson(type_value(schema))


@contextlib.contextmanager
def _known_types() -> Iterator[None]:
    """Raise InvalidArgumentError for the one type of Delta that PySpark 3.5 lacks."""
    try:
        yield
    except PySparkException:
        refuse_older("The type VARIANT")
        raise


def from_spark(schema: SparkStruct) -> StructType:
    """The Delta schema of a Spark schema."""
    return parse_schema(json.dumps(schema.jsonValue()))


def table_schema(schema: SparkStruct) -> StructType:
    """The Delta schema of these columns: texts of a length are strings, and a column's metadata have its whole type."""
    fields = []
    for field in schema.fields:
        plain, metadata = _without_lengths(field.dataType), dict(field.metadata or {})
        if plain != field.dataType:
            metadata[SIZED_TEXT] = field.dataType.simpleString()
        fields.append(T.StructField(field.name, plain, field.nullable, metadata))
    return from_spark(SparkStruct(fields))


def column_types(texts: Mapping[str, str]) -> SparkStruct:
    """Columns of these names and types, the latter as SQL text. Raises ParseError for what is no type."""
    ddl = ", ".join(f"{quoted(name)} {text}" for name, text in texts.items())
    return _parsed(ddl, f"{', '.join(texts.values())!r} is no data type", "Name a type of Spark SQL, as INT or ARRAY<STRING>.")


def schema_of_text(text: str) -> SparkStruct:
    """Columns as SQL text has them. Raises ParseError."""
    return _parsed(text, f"{text!r} is no list of columns", "Write columns as: year INT, day DATE.")


def _parsed(ddl: str, said: str, hint: str) -> SparkStruct:
    try:
        with quietly():
            return struct_of(ddl)
    except ParseException as error:
        message = str(error).strip().splitlines()
        if '"VARIANT"' in str(error):
            refuse_older("The type VARIANT")
        raise ParseError(
            condition_of(error) or "PARSE_SYNTAX_ERROR",
            f"{said}: {message[0] if message else ''}",
            parameters={"text": ddl},
            hint=hint,
        ) from error


def check_identity(type: SparkType) -> None:
    """Raise UnsupportedTableError for an identity column of another type than BIGINT."""
    if not isinstance(type, T.LongType):
        raise UnsupportedTableError(
            "DELTA_IDENTITY_COLUMNS_UNSUPPORTED_DATA_TYPE",
            f"DataType {type.simpleString()} is not supported for IDENTITY columns.",
            parameters={"dataType": type.simpleString()},
            hint="Make the column a BIGINT.",
        )


def _without_lengths(type: SparkType) -> SparkType:
    if isinstance(type, T.CharType | T.VarcharType):
        return T.StringType()
    if isinstance(type, SparkStruct):
        return SparkStruct([T.StructField(f.name, _without_lengths(f.dataType), f.nullable, f.metadata) for f in type.fields])
    if isinstance(type, T.ArrayType):
        return T.ArrayType(_without_lengths(type.elementType), type.containsNull)
    if isinstance(type, T.MapType):
        return T.MapType(_without_lengths(type.keyType), _without_lengths(type.valueType), type.valueContainsNull)
    return type


def shown_schema(schema: StructType) -> StructType:
    """The schema that a user sees: without what the log notes about columns for its writers.

    Spark would fill missing columns with defaults that it finds, which PROTOCOL.md ("Default Columns") keeps from readers.
    """

    def shown(field: StructField) -> StructField:
        kept = {k: v for k, v in field.metadata.items() if not k.startswith("delta.") and k not in _DEFAULTS}
        return replace(field, metadata=kept)

    return changed_fields(schema, shown)


def nullable_frame(frame: Frame, schema: SparkStruct | None = None) -> Frame:
    """The frame with every nested field, element and value nullable: Arrow can't hold a null struct of fields that are not.

    Spark need not be asked for a `schema` that is known.
    """
    fields = (frame.schema if schema is None else schema).fields
    types = {field.name: (field.dataType, nullable_type(field.dataType)) for field in fields}
    if all(given == wanted for given, wanted in types.values()):
        return frame
    columns = []
    for name, (given, wanted) in types.items():
        column = F.col(quoted(name))
        columns.append(column if given == wanted else column.cast(wanted).alias(name))
    return frame.select(*columns)


def nullable_schema(schema: StructType) -> SparkStruct:
    """The Spark schema of a Delta schema with null allowed everywhere: Spark takes a null where none may be for some value."""
    return cast("SparkStruct", nullable_type(to_spark(schema)))


def nullable_type(type: SparkType) -> SparkType:
    """The same type with null allowed wherever a type can forbid it."""
    if isinstance(type, SparkStruct):
        return SparkStruct([T.StructField(f.name, nullable_type(f.dataType), True, f.metadata) for f in type.fields])
    if isinstance(type, T.ArrayType):
        return T.ArrayType(nullable_type(type.elementType))
    return T.MapType(nullable_type(type.keyType), nullable_type(type.valueType)) if isinstance(type, T.MapType) else type


def spark_type(type: DataType) -> SparkType:
    """The Spark type of a Delta type."""
    return _primitive(type) if isinstance(type, PrimitiveType) else _of_any(type)


def _of_any(type: DataType) -> SparkType:
    with _known_types():
        found: SparkType = _parse_datatype_json_value(type_value(type))
    return found


# A merge of a thousand columns asks some ten thousand times.
_primitive = lru_cache(maxsize=256)(_of_any)
