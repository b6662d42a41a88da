"""Values of a row that Arrow evaluates exactly as Spark does, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Union

import pyarrow as pa

from deltamerge.protocol.values.condition import Column, Condition, Constant, columns_in

Operator = Literal["+", "-", "*"]
Value = Union[Column, Constant, "Null", "Arithmetic", "Choice", "Converted"]


@dataclass(frozen=True, slots=True)
class Null:
    """A null of a type."""

    type: pa.DataType


@dataclass(frozen=True, slots=True)
class Converted:
    """The value as one of a type that has one for each value of its own: a CAST that can't fail."""

    value: Value
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`left operator right` of numbers of one type, in which it is evaluated; whole numbers that exceed it are an error."""

    left: Value
    operator: Operator
    right: Value


@dataclass(frozen=True, slots=True)
class Choice:
    """The value beside the first condition that is true, else `otherwise`, all of one type, as CASE WHEN."""

    branches: tuple[tuple[Condition, Value], ...]
    otherwise: Value


def columns_of_value(value: Value) -> frozenset[Column]:
    """The columns that a value needs."""
    match value:
        case Column():
            return frozenset({value})
        case Constant() | Null():
            return frozenset()
        case Converted(inner):
            return columns_of_value(inner)
        case Arithmetic(left, _, right):
            return columns_of_value(left) | columns_of_value(right)
        case Choice(branches, otherwise):
            parts = [columns_in(condition) | columns_of_value(chosen) for condition, chosen in branches]
            return columns_of_value(otherwise).union(*parts)
