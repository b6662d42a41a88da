"""Values of rows that are at hand, evaluated in Arrow."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.protocol.values.computed import Arithmetic, Choice, Converted, Null, Value
from deltamerge.protocol.values.condition import Column, Constant
from deltamerge.worker.skipping.holds import Sides, evaluated

_FUNCTIONS = {"+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked}


def computed_values(values: Mapping[str, Value], rows: Sides) -> pa.Table | None:
    """A column for each name; None where a number exceeds its type: what then is, Spark's settings say."""
    try:
        columns = {name: _whole(_value(value, rows), rows.count) for name, value in values.items()}
    except pa.ArrowInvalid:
        return None
    return pa.table(columns)


def _value(value: Value, rows: Sides) -> Any:
    match value:
        case Constant(known):
            return known
        case Null(type):
            return pa.scalar(None, type)
        case Column():
            return rows.column(value)
        case Converted(inner, type):
            # Spark, too, takes the nearest double where a whole number has none of its own.
            return _value(inner, rows).cast(type, safe=False)
        case Arithmetic(left, operator, right):
            return _FUNCTIONS[operator](_value(left, rows), _value(right, rows))
        case Choice(branches, otherwise):
            return reduce(lambda rest, branch: _chosen(branch, rest, rows), reversed(branches), _value(otherwise, rows))


def _chosen(branch: Any, otherwise: Any, rows: Sides) -> Any:
    condition, value = branch
    holds = pc.fill_null(evaluated(condition, rows), False)
    return pc.if_else(holds, *_alike([_value(value, rows), otherwise]))


def _alike(values: list[Any]) -> list[Any]:
    """Values of one type as Arrow sees it, too: times may name their zone otherwise."""
    return [value if value.type == values[0].type else value.cast(values[0].type) for value in values]


def _whole(found: Any, count: int) -> Any:
    return pa.repeat(found, count) if isinstance(found, pa.Scalar) else found
