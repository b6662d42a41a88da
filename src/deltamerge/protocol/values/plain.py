"""Arrow values as Python's own, to be shown: also those for which Python has no type, or no time zone."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa

from deltamerge.errors import InvalidArgumentError
from deltamerge.protocol.values.times import day_text, moment_text
from deltamerge.protocol.values.zones import zone_of

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def plain_rows(table: pa.Table) -> list[dict[str, Any]]:
    """The rows of a table, as `to_pylist` gives them.

    Dates and timestamps beyond the years 1 to 9999 come as texts; bytes of a text that are no UTF-8 are replaced.
    """
    try:
        return table.to_pylist()  # type: ignore[no-any-return]
    except (ValueError, OverflowError, LookupError):
        columns = [[plain(value) for value in column] for column in table.columns]
        return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]


def plain(value: pa.Scalar) -> Any:
    """One value, as `plain_rows` gives it."""
    type = value.type
    if not value.is_valid:
        return None
    if pa.types.is_struct(type):
        return {field.name: plain(value[at]) for at, field in enumerate(type)}
    if pa.types.is_map(type):
        entries = [plain(entry) for entry in value.values]
        return [tuple(entry.values()) for entry in entries]
    if pa.types.is_list(type):
        return [plain(item) for item in value.values]
    if pa.types.is_date(type):
        return _day(value.cast(pa.date32()).value)
    if pa.types.is_timestamp(type):
        return _moment(value.cast(pa.timestamp("us", type.tz)).value, type.tz)
    if pa.types.is_string(type) or pa.types.is_large_string(type):
        return value.as_buffer().to_pybytes().decode(errors="replace")
    return value.as_py()


def _day(days: int) -> date | str:
    try:
        return _EPOCH.date() + timedelta(days=days)
    except OverflowError:
        return day_text(days)


def _moment(micros: int, zone: str | None) -> datetime | str:
    try:
        moment = _EPOCH + timedelta(microseconds=micros)
        return moment.replace(tzinfo=None) if zone is None else moment.astimezone(zone_of(zone))
    except InvalidArgumentError:
        return moment
    except OverflowError:
        return moment_text(micros, " ") if zone is None else moment_text(micros) + "Z"
