"""Values of a row that Arrow evaluates exactly as Spark does, as plain data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Union

from deltamerge.protocol.values.condition import Column, Constant

Operator = Literal["+", "-", "*"]
Value = Union[Column, Constant, "Arithmetic"]


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`left operator right` of numbers of one type, in which it is evaluated; whole numbers that exceed it are an error."""

    left: Value
    operator: Operator
    right: Value
