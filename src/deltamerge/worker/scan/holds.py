"""For which rows a condition is true: evaluated in Arrow, three-valued as in SQL."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.protocol.values.condition import (
    Among,
    Column,
    Comparison,
    Condition,
    Constant,
    Every,
    Missing,
    Negation,
    Operand,
    Remainder,
    Some,
)
from deltamerge.protocol.values.roaring import Mask
from deltamerge.worker.scan.narrow import COMPARED


def holds(condition: Condition, rows: pa.Table) -> Mask:
    """True for the rows for which a condition is true, neither false nor null."""
    found = _evaluated(condition, rows)
    if isinstance(found, pa.Scalar):
        return np.full(rows.num_rows, bool(found.as_py()), np.bool_)
    return np.asarray(pc.fill_null(found, False).to_numpy(zero_copy_only=False))


def _evaluated(condition: Condition, rows: pa.Table) -> Any:
    match condition:
        case Every(parts):
            return reduce(pc.and_kleene, [_evaluated(part, rows) for part in parts], pa.scalar(True))
        case Some(parts):
            return reduce(pc.or_kleene, [_evaluated(part, rows) for part in parts], pa.scalar(False))
        case Negation(inner):
            return pc.invert(_evaluated(inner, rows))
        case Missing(operand):
            return pc.is_null(_operand(operand, rows))
        case Among(operand, values):
            known = _operand(operand, rows)
            return pc.if_else(pc.is_valid(known), pc.is_in(known, value_set=values), pa.scalar(None, pa.bool_()))
        case Comparison(left, op, right):
            return _compared(_operand(left, rows), op, _operand(right, rows))


def _compared(left: Any, op: str, right: Any) -> Any:
    if op != "<=>":
        return COMPARED[op](left, right)
    both = pc.and_(pc.is_null(left), pc.is_null(right))
    return pc.or_(both, pc.fill_null(pc.equal(left, right), False))


def _operand(operand: Operand, rows: pa.Table) -> Any:
    match operand:
        case Constant(value):
            return value
        case Column(name):
            column = rows.column(name)
            return column.cast(pa.int64()) if pa.types.is_integer(column.type) else column
        case Remainder(column, divisor):
            known = _operand(column, rows)
            rest = np.fmod(pc.fill_null(known, 0).to_numpy(zero_copy_only=False), divisor)
            return pa.array(rest, pa.int64(), mask=pc.is_null(known).to_numpy(zero_copy_only=False))
