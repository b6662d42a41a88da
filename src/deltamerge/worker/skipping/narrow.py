"""For which rows of a table a predicate may hold, as far as Arrow compares values as Spark does: whole numbers, dates, times."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.protocol.values.predicate import And, Compare, IsNotNull, IsNull, OneOf, Or, Predicate

Mask = npt.NDArray[np.bool_]
COMPARED = {"=": pc.equal, "<": pc.less, "<=": pc.less_equal, ">": pc.greater, ">=": pc.greater_equal}


def narrows(predicate: Predicate, schema: pa.Schema) -> bool:
    """Whether rows of `schema` may be left out by the predicate."""
    match predicate:
        case And(parts):
            return any(narrows(part, schema) for part in parts)
        case Or(parts):
            return all(narrows(part, schema) for part in parts)
        case _:
            return _is_decided(predicate, schema)


def may_hold(predicate: Predicate, rows: pa.Table) -> Mask:
    """False for rows for which the predicate is surely not true."""
    match predicate:
        case And(parts):
            found = np.ones(rows.num_rows, np.bool_)
            for part in parts:
                found &= may_hold(part, rows)
            return found
        case Or(parts):
            found = np.zeros(rows.num_rows, np.bool_)
            for part in parts:
                found |= may_hold(part, rows)
            return found
        case _ if not _is_decided(predicate, rows.schema):
            return np.ones(rows.num_rows, np.bool_)
    column = rows.column(predicate.column[0])
    match predicate:
        case Compare(_, op, value):
            found = COMPARED[op](column, value)
        case OneOf(_, values, or_null):
            found = pc.is_in(column, value_set=values.drop_null())
            found = pc.or_(found, pc.is_null(column)) if or_null else found
        case IsNull():
            found = pc.is_null(column)
        case _:
            found = pc.is_valid(column)
    return _mask(found)


def _mask(found: Any) -> Mask:
    return np.asarray(pc.fill_null(found, False).to_numpy())


def _is_decided(predicate: Predicate, schema: pa.Schema) -> bool:
    if isinstance(predicate, And | Or) or len(predicate.column) > 1 or predicate.column[0] not in schema.names:
        return False
    type = schema.field(predicate.column[0]).type
    match predicate:
        case Compare(_, op, value):
            return op in COMPARED and value.is_valid and value.type.equals(type) and _is_compared(type)
        case OneOf(_, values):
            return values.type.equals(type) and _is_compared(type)
        case IsNull() | IsNotNull():
            return _is_compared(type)
    return False


def _is_compared(type: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type) or pa.types.is_date32(type) or pa.types.is_timestamp(type))
