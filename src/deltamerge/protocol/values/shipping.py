"""Arrow scalars on their way to a worker: pickled as they are they would become Python's values, which are not all there.

A date beyond the year 9999 has no Python value, nor has a timestamp there. What has such scalars says by `__reduce__` how it is
pickled: Python 3.11.0 to 3.11.3 replace the `__getstate__` of a dataclass with slots.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class _Number:
    """A date or timestamp as the number that Arrow holds."""

    type: pa.DataType
    number: int


def packed(value: pa.Scalar) -> Any:
    """A scalar as something to be pickled."""
    temporal = pa.types.is_date(value.type) or pa.types.is_timestamp(value.type)
    return _Number(value.type, value.value) if temporal and value.is_valid else value


def unpacked(value: Any) -> pa.Scalar:
    """The scalar that was packed."""
    if not isinstance(value, _Number):
        return value
    width = pa.int32() if value.type.bit_width == 32 else pa.int64()
    return pa.array([value.number], width).cast(value.type)[0]
