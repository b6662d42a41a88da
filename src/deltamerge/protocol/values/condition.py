"""Conditions that Arrow evaluates exactly as Spark does, as plain data: a row that is looked for is one for which it is true.

Unlike a predicate for data skipping, which is a necessary condition, this is the whole condition. Values that are compared have
one type; whole numbers are compared as 64 bits, whatever their widths, and NaN is equal to itself and greater than all others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Union

import pyarrow as pa

from deltamerge.protocol.values.shipping import packed, unpacked

Side = Literal["target", "source"]
Operator = Literal["=", "<=>", "<", "<=", ">", ">="]
Operand = Union["Column", "Constant", "Remainder", "First"]
Condition = Union["Comparison", "Among", "Missing", "Negation", "Every", "Some"]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of one side by its logical name."""

    name: str
    side: Side = "target"


@dataclass(frozen=True, slots=True)
class Constant:
    """A value of the type that the other operand has; never null."""

    value: pa.Scalar

    def __reduce__(self) -> Any:
        return Constant._unpacked, (packed(self.value),)

    @classmethod
    def _unpacked(cls, value: Any) -> Constant:
        return cls(unpacked(value))


@dataclass(frozen=True, slots=True)
class Remainder:
    """`column % divisor` of whole numbers, with the sign of the column's value; the divisor is at least 1."""

    column: Column
    divisor: int


@dataclass(frozen=True, slots=True)
class First:
    """The first of the operands that is not null, as COALESCE; one at least is no constant."""

    parts: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """`left op right`."""

    left: Operand
    op: Operator
    right: Operand


@dataclass(frozen=True, slots=True)
class Among:
    """The operand is one of `values`, an array without nulls of its type."""

    operand: Operand
    values: pa.Array


@dataclass(frozen=True, slots=True)
class Missing:
    """The operand is null; never null itself."""

    operand: Operand


@dataclass(frozen=True, slots=True)
class Negation:
    """NOT of a condition: null where that is."""

    condition: Condition


@dataclass(frozen=True, slots=True)
class Every:
    """AND of conditions, three-valued."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Some:
    """OR of conditions, three-valued."""

    parts: tuple[Condition, ...]


def columns_in(condition: Condition | Operand) -> frozenset[Column]:
    """The columns that a condition needs."""
    match condition:
        case Column():
            return frozenset({condition})
        case Constant():
            return frozenset()
        case Remainder(column):
            return columns_in(column)
        case Comparison(left, _, right):
            return columns_in(left) | columns_in(right)
        case Among(operand) | Missing(operand):
            return columns_in(operand)
        case Negation(inner):
            return columns_in(inner)
        case Every(parts) | Some(parts) | First(parts):
            return frozenset().union(*map(columns_in, parts))


def names_in(condition: Condition | Operand, side: Side = "target") -> frozenset[str]:
    """The names of the columns of one side that a condition needs."""
    return frozenset(column.name for column in columns_in(condition) if column.side == side)
