"""What users pass to the methods, checked and made into what commands take. Messages are those of `delta.tables`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from pyspark.sql import Column

from deltamerge.merge.statement.clauses import Assignment
from deltamerge.spark.expressions.analysis import parsed
from deltamerge.spark.expressions.expression import Expression, from_user

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


def refuse_type(message: str, *objects: object) -> NoReturn:
    """Raise the TypeError for arguments of another type, which names them."""
    raise TypeError(message + "".join(f" Found {given!s} with type {type(given)!s}" for given in objects))


def _refuse(message: str, value: object) -> NoReturn:
    raise TypeError(f"{message}, found '{value!s}' of type '{type(value)!s}'")
