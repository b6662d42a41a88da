"""Dates and timestamps of data files in the proleptic Gregorian calendar, whichever their writer counted in.

Source: Spark's RebaseDateTime.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from deltamerge.protocol.values.calendar import Calendar, Calendars, calendars_of
from deltamerge.worker.scan.conversions import microseconds
from deltamerge.worker.scan.row_errors import Refused

_UTC = ("UTC", "Etc/UTC", "GMT", "Z")
_DAY = 86_400_000_000
_GREGORIAN_DAY = -141_427
_SWITCH = _GREGORIAN_DAY * _DAY
_ZONES_SETTLED = -2_208_988_800_000_000


def gregorian(table: pa.Table, file: pq.ParquetFile, otherwise: Calendar = Calendar.GREGORIAN) -> pa.Table:
    """Rows of a file with all dates and timestamps in the proleptic Gregorian calendar; `otherwise` as for `calendars_of`.

    Raises Refused for old values of which that can't be said with certainty, and for ones that are out of range.
    """
    calendars = calendars_of(file, otherwise)
    if calendars.dates is calendars.timestamps is Calendar.GREGORIAN:
        return table
    try:
        columns = [_column(column, calendars) for column in table.columns]
    except pa.ArrowException as error:
        message = f"The data file has dates or timestamps that can't be read in the calendar of its writer: {error}."
        raise Refused("DELTAMERGE_CORRUPT_DATA_FILE", message) from error
    return pa.table(columns, schema=table.schema)


def _column(column: pa.ChunkedArray, calendars: Calendars) -> pa.ChunkedArray:
    if not _dated(column.type):
        return column
    return pa.chunked_array([_nested(chunk, calendars) for chunk in column.chunks], column.type)


def _dated(type: pa.DataType) -> bool:
    """Whether there is a date or timestamp in values of a type."""
    if pa.types.is_nested(type):
        return any(_dated(type.field(i).type) for i in range(type.num_fields))
    return bool(pa.types.is_date(type) or pa.types.is_timestamp(type))


def _nested(values: Any, calendars: Calendars) -> Any:
    type = values.type
    if not _dated(type):
        return values
    mask = pc.is_null(values) if values.null_count else None
    if pa.types.is_struct(type):
        children = [_nested(values.field(i), calendars) for i in range(type.num_fields)]
        return pa.StructArray.from_arrays(children, fields=list(type), mask=mask)
    if pa.types.is_map(type):
        keys, items = _nested(values.keys, calendars), _nested(values.items, calendars)
        return pa.MapArray.from_arrays(pc.add(values.offsets, 0), keys, items, type=type, mask=mask)
    if pa.types.is_list(type):
        return pa.ListArray.from_arrays(pc.add(values.offsets, 0), _nested(values.values, calendars), type=type, mask=mask)
    if pa.types.is_date(type):
        return _rebased(values, pa.int32(), _GREGORIAN_DAY, calendars.dates, julian_days)
    if not pa.types.is_timestamp(type):
        raise pa.ArrowNotImplementedError(f"they are in {type}")
    if type.tz is None and not calendars.int96:
        return values
    micros = microseconds(values, type.tz)
    if calendars.timestamps is Calendar.HYBRID and calendars.zone in _UTC:
        return _rebased(micros, pa.int64(), _SWITCH, Calendar.HYBRID, julian_micros).cast(type)
    # Between 1582 and 1900 the two calendars' implementations differ by the zone's offset, which only Java's tables know.
    unknown = Calendar.GREGORIAN if calendars.timestamps is Calendar.GREGORIAN else Calendar.UNKNOWN
    return _rebased(micros, pa.int64(), _ZONES_SETTLED, unknown, julian_micros).cast(type)


def _rebased(
    values: Any,
    width: pa.DataType,
    since: int,
    calendar: Calendar,
    rebase: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]],
) -> Any:
    """Values with those before `since` counted anew."""
    if calendar is Calendar.GREGORIAN:
        return values
    numbers = values.cast(width)
    lowest = pc.min(numbers).as_py()
    if lowest is None or lowest >= since:
        return values
    if calendar is Calendar.UNKNOWN:
        message = (
            "The data file has dates or timestamps so old that they depend on the calendar of its writer, which it does not tell."
        )
        raise Refused("DELTAMERGE_ANCIENT_DATETIME", message)
    found = numbers.fill_null(since).to_numpy(zero_copy_only=False)
    moved = np.where(found < since, rebase(found), found)
    return pa.array(moved, width, mask=np.asarray(numbers.is_null())).cast(values.type)


def julian_days(days: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Days since 1970-01-01 of the same dates in the proleptic Gregorian calendar as the given ones in the Julian."""
    count = days.astype(np.int64) + 2_440_588 + 32_082
    year = (4 * count + 3) // 1461
    of_year = count - 1461 * year // 4
    shifted = (5 * of_year + 2) // 153
    day = of_year - (153 * shifted + 2) // 5
    months = (year - 4800 + shifted // 10 - 1970) * 12 + shifted + 2 - 12 * (shifted // 10)
    found: np.ndarray[Any, Any] = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64) + day
    return found.astype(days.dtype)


def julian_micros(micros: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Microseconds since 1970 of the same UTC times in the proleptic Gregorian calendar."""
    found: np.ndarray[Any, Any] = julian_days(micros // _DAY) * _DAY + micros % _DAY
    return found
