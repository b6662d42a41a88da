"""Values of rows that are at hand, evaluated in Arrow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.protocol.values.arithmetic import Arithmetic, Value
from deltamerge.protocol.values.condition import Column, Constant

_FUNCTIONS = {"+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked}


def known_values(values: Mapping[str, Value], rows: pa.Table) -> pa.Table | None:
    """A column for each name; None where a number exceeds its type: what then is, Spark's settings say."""
    try:
        columns = {name: _whole(_evaluated(value, rows), rows.num_rows) for name, value in values.items()}
    except pa.ArrowInvalid:
        return None
    return pa.table(columns)


def _evaluated(value: Value, rows: pa.Table) -> Any:
    match value:
        case Constant(known):
            return known
        case Column(name):
            return rows.column(name)
        case Arithmetic(left, operator, right):
            return _FUNCTIONS[operator](_evaluated(left, rows), _evaluated(right, rows))


def _whole(found: Any, count: int) -> Any:
    return pa.repeat(found, count) if isinstance(found, pa.Scalar) else found
