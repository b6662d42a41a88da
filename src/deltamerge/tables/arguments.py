"""What users pass to the methods, checked and made into what commands take. Messages are those of `delta.tables`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from pyspark.sql import Column
from pyspark.sql.types import StructType as SparkStruct

from deltamerge.errors import AnalysisError
from deltamerge.merge.statement.clauses import Assignment
from deltamerge.protocol.schema.types import StructType
from deltamerge.spark.expressions.analysis import parsed
from deltamerge.spark.expressions.expression import Expression, from_user
from deltamerge.spark.session.schema import from_spark, schema_of_text

ExpressionOrColumn = str | Column
ColumnMapping = Mapping[str, ExpressionOrColumn]


def expression_of(value: Any, argument: str) -> Expression:
    """An expression that a user gave for `argument`. Raises TypeError for what is neither text nor Column."""
    if not isinstance(value, str | Column):
        raise TypeError(
            f"{argument} must be a Spark SQL Column or a string (expression in SQL syntax), found to be of type {type(value)!s}"
        )
    return parsed(value, from_user)


def names_of(names: str | Sequence[str]) -> tuple[str, ...]:
    """One name or several."""
    return (names,) if isinstance(names, str) else tuple(names)


def assignments_of(values: ColumnMapping | None, argument: str) -> tuple[Assignment, ...]:
    """The rules of an UPDATE or INSERT. Raises ValueError for none, TypeError for what is no dict of texts or Columns."""
    if values is None:
        raise ValueError(f"{argument} cannot be None")
    if not isinstance(values, Mapping):
        raise TypeError(f"{argument} must be a dict, found to be {type(values)!s}")
    found = []
    for column, value in values.items():
        if not isinstance(column, str):
            _refuse(f"Keys of dict in {argument} must contain only strings with column names", column)
        if not isinstance(value, str | Column):
            kinds = "Spark SQL Columns or strings (expressions in SQL syntax)"
            _refuse(f"Values of dict in {argument} must contain only {kinds} as values", value)
        found.append(Assignment(column, expression_of(value, argument)))
    return tuple(found)


def partition_schema(given: str | SparkStruct | None) -> StructType | None:
    """Columns by names and types, as SQL text or as Spark's. Raises TypeError, and ParseError for a text that is no schema."""
    if given is None:
        return None
    if not isinstance(given, str | SparkStruct):
        raise TypeError(
            f"'partitionSchema' in convertToDelta must be a string or a StructType, found to be of type {type(given)!s}"
        )
    return from_spark(schema_of_text(given) if isinstance(given, str) else given)


def check_clone(target: object, is_shallow: object, replace: object, properties: object) -> None:
    """Raise ValueError for arguments of a clone of another type, AnalysisError for a deep one."""
    _check_kind(target, str, "target", "string")
    _check_kind(is_shallow, bool, "isShallow", "boolean")
    _check_kind(replace, bool, "replace", "boolean")
    if properties is not None:
        _check_kind(properties, dict, "properties", "dict")
        assert isinstance(properties, dict)
        for key, value in properties.items():
            _check_kind(key, str, f"All property keys including {key}", "string")
            _check_kind(value, str, f"All property values including {value}", "string")
    if not is_shallow:
        raise AnalysisError(
            "DELTA_UNSUPPORTED_DEEP_CLONE",
            "Deep clone is not supported.",
            hint="isShallow=True; or copy the rows: deltamerge.write(table.toDF(), path).",
        )


def _check_kind(value: object, kind: type, name: str, called: str) -> None:
    if not isinstance(value, kind):
        raise ValueError(f"{name} needs to be a {called} but got '{type(value)}'.")


def refuse_type(message: str, *objects: object) -> NoReturn:
    """Raise the TypeError for arguments of another type, which names them."""
    raise TypeError(message + "".join(f" Found {given!s} with type {type(given)!s}" for given in objects))


def _refuse(message: str, value: object) -> NoReturn:
    raise TypeError(f"{message}, found '{value!s}' of type '{type(value)!s}'")
