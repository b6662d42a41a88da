"""For which rows a condition is true: evaluated in Arrow, three-valued as in SQL."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.protocol.formats.roaring import Mask
from deltamerge.protocol.values.condition import (
    Among,
    Column,
    Comparison,
    Condition,
    Constant,
    Every,
    First,
    Missing,
    Negation,
    Operand,
    Remainder,
    Some,
)
from deltamerge.worker.skipping.narrow import COMPARED


@dataclass(frozen=True)
class Sides:
    """Some `count` rows of one side, or pairs of rows of both: the columns that are needed of each side."""

    count: int
    target: pa.Table | None = field(default=None, repr=False)
    source: pa.Table | None = field(default=None, repr=False)

    def column(self, column: Column) -> Any:
        """The values of a column, one for each row."""
        rows = self.target if column.side == "target" else self.source
        assert rows is not None
        return rows.column(column.name)

    def take(self, chosen: npt.NDArray[np.int64]) -> Sides:
        """Some of these rows."""
        indices = pa.array(chosen)
        target, source = (None if rows is None else rows.take(indices) for rows in (self.target, self.source))
        return Sides(len(chosen), target, source)


def holds(condition: Condition, rows: Sides) -> Mask:
    """True for the rows for which a condition is true, neither false nor null."""
    found = evaluated(condition, rows)
    if isinstance(found, pa.Scalar):
        return np.full(rows.count, bool(found.as_py()), np.bool_)
    return np.asarray(pc.fill_null(found, False).to_numpy(zero_copy_only=False))


def evaluated(condition: Condition, rows: Sides) -> Any:
    """The values of a condition, three-valued: an array, or a scalar for all rows."""
    match condition:
        case Every(parts):
            return reduce(pc.and_kleene, [evaluated(part, rows) for part in parts], pa.scalar(True))
        case Some(parts):
            return reduce(pc.or_kleene, [evaluated(part, rows) for part in parts], pa.scalar(False))
        case Negation(inner):
            return pc.invert(evaluated(inner, rows))
        case Missing(operand):
            return pc.is_null(_operand(operand, rows))
        case Among(operand, values):
            known = _operand(operand, rows)
            return pc.if_else(pc.is_valid(known), pc.is_in(known, value_set=values), pa.scalar(None, pa.bool_()))
        case Comparison(left, op, right):
            return _compared(_operand(left, rows), op, _operand(right, rows))


def _compared(left: Any, op: str, right: Any) -> Any:
    if op == "<=>":
        both = pc.and_(pc.is_null(left), pc.is_null(right))
        return pc.or_(both, pc.fill_null(_compared(left, "=", right), False))
    if pa.types.is_floating(left.type):
        return _compared_floats(left, op, right)
    return COMPARED[op](left, right)


def _compared_floats(left: Any, op: str, right: Any) -> Any:
    """As Spark compares them: NaN is equal to itself, and greater than all others."""
    match op:
        case "=":
            return pc.or_(pc.equal(left, right), pc.and_(pc.is_nan(left), pc.is_nan(right)))
        case ">":
            return pc.or_(pc.greater(left, right), pc.and_(pc.is_nan(left), pc.invert(pc.is_nan(right))))
        case "<":
            return _compared_floats(right, ">", left)
        case ">=":
            return pc.invert(_compared_floats(left, "<", right))
        case _:
            return pc.invert(_compared_floats(left, ">", right))


def _operand(operand: Operand, rows: Sides) -> Any:
    match operand:
        case Constant(value):
            return value
        case Column():
            return _comparable(rows.column(operand))
        case First(parts):
            return pc.coalesce(*(_operand(part, rows) for part in parts))
        case Remainder(column, divisor):
            known = _operand(column, rows)
            rest = np.fmod(pc.fill_null(known, 0).to_numpy(zero_copy_only=False), divisor)
            return pa.array(rest, pa.int64(), mask=pc.is_null(known).to_numpy(zero_copy_only=False))


def _comparable(column: Any) -> Any:
    """Values of one type for those that are compared: whole numbers of 64 bits, times in UTC."""
    if pa.types.is_integer(column.type):
        return column.cast(pa.int64())
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("us", None if column.type.tz is None else "UTC"))
    return column
