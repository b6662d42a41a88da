"""Which types of a data file's columns are read as which types of a table's, and their values as these. Must not know of nesting.

What is read is what PROTOCOL.md allows ("Type Widening") or Spark's Parquet readers do (ParquetVectorUpdaterFactory,
ParquetRowConverter), as long as no value is lost. Arrow alone casts more: texts to numbers, and doubles to floats.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.protocol.formats.texts import holds_text


def converted(values: Any, type: pa.DataType) -> Any:
    """An array of a file's column as one of the table's type.

    Raises pa.ArrowTypeError for types of which one is not read as the other, pa.ArrowInvalid and pa.ArrowNotImplementedError for
    values that the type can't hold.
    """
    if not is_read_as(values.type, type):
        raise pa.ArrowTypeError("values may be lost, or Spark does not read it so")
    if pa.types.is_timestamp(type) and pa.types.is_timestamp(values.type):
        return microseconds(values, type.tz)
    return cast(values, type)


def is_read_as(stored: pa.DataType, type: pa.DataType) -> bool:
    """Whether a column that a file holds as one type, which is not nested, is read as another."""
    return stored.equals(type) or pa.types.is_null(stored) or any(holds(stored) and wants(type) for holds, wants in _READ_AS)


def microseconds(values: Any, zone: str | None) -> Any:
    """Timestamps of any unit as ones of microseconds, with the label of a zone; an instant between two is the earlier one.

    Raises pa.ArrowInvalid for one that is out of range.
    """
    unit = values.type.unit
    labelled = pc.cast(values, pa.timestamp(unit, zone))
    if unit != "ns":
        return labelled.cast(pa.timestamp("us", zone))
    nanos = labelled.cast(pa.int64())
    # Arrow divides towards zero; Spark reads the nanoseconds of the old Parquet type as this does.
    micros = pc.divide(nanos, 1000)
    is_later = pc.less(nanos, pc.multiply(micros, 1000))
    return pc.subtract(micros, is_later.cast(pa.int64())).cast(pa.timestamp("us", zone))


def cast(values: Any, type: pa.DataType) -> Any:
    """Values of another type. Bytes that become a text are taken as they are, UTF-8 or not, as Spark takes them."""
    return pc.cast(values, options=pc.CastOptions(target_type=type, allow_invalid_utf8=True))


def _is_narrow_integer(type: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type) and type.bit_width <= 32)


def _is_whole_decimal(type: pa.DataType) -> bool:
    return bool(pa.types.is_decimal(type) and type.scale == 0)


def _is_number_of_64_bits(type: pa.DataType) -> bool:
    """Whether the Parquet type is INT64, of which Spark takes the number as it is for a BIGINT, whatever it says of a time."""
    times = pa.types.is_timestamp(type) or pa.types.is_time64(type) or pa.types.is_duration(type)
    return bool(times or pa.types.is_integer(type))


def _is_number_of_32_bits(type: pa.DataType) -> bool:
    return bool(type.equals(pa.int32()) or pa.types.is_date32(type) or pa.types.is_time32(type))


def _is_text(type: pa.DataType) -> bool:
    return holds_text(type) or bool(pa.types.is_fixed_size_binary(type))


def _is_moment_without_zone(type: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(type) and type.tz is None)


_READ_AS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType], bool]], ...] = (
    (_is_narrow_integer, pa.types.is_integer),
    (_is_narrow_integer, pa.types.is_float64),
    (pa.types.is_integer, pa.types.is_decimal),
    (_is_whole_decimal, pa.types.is_integer),
    (_is_number_of_64_bits, pa.types.is_int64),
    (_is_number_of_32_bits, pa.types.is_int32),
    (pa.types.is_int32, pa.types.is_date32),
    (pa.types.is_float32, pa.types.is_float64),
    (pa.types.is_decimal, pa.types.is_decimal),
    (pa.types.is_date32, _is_moment_without_zone),
    (pa.types.is_timestamp, pa.types.is_timestamp),
    (_is_text, pa.types.is_string),
    (_is_text, pa.types.is_binary),
)
