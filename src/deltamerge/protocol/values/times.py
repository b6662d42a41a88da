"""Dates and timestamps as texts, of all years that Spark has: Python's own types end with the year 9999.

Source: Spark's SparkDateTimeUtils (parseTimestampString, stringToDate) and its formatters.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo

import numpy as np

from deltamerge.errors import InvalidArgumentError
from deltamerge.protocol.values.zones import local_to_utc, zone_of

_DATE = r"([+-]?\d{4,%d})(?:-(\d{1,2})(?:-(\d{1,2})%s)?)?"
_TIME = r"(?:[ T](\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?(?: *([A-Za-z+-].*))?)?)?)?"
_DAY_TEXT = re.compile(_DATE % (7, r"(?:[ T].*)?"), re.ASCII | re.DOTALL)
_MOMENT_TEXT = re.compile(_DATE % (6, _TIME), re.ASCII | re.DOTALL)
# What Spark cuts off at both ends of a text.
_BLANKS = "".join(map(chr, range(33))) + "\x7f"
_SECOND = 1_000_000
_DAY = 86_400 * _SECOND
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parse_day(text: str) -> int:
    """The days since 1970-01-01 of a date's text, which ends at a blank or a T. Raises ValueError."""
    found = _DAY_TEXT.fullmatch(text.strip(_BLANKS))
    if found is None:
        raise ValueError(f"{text!r} is no date")
    return _checked(_days(*found.groups()), 31, text)


def parse_moment(text: str, zone: str | None) -> int:
    """As `spark_moment`, but the forms of ISO 8601 are taken, too. Raises as it, and ValueError for one that has no such form."""
    if _MOMENT_TEXT.fullmatch(text.strip(_BLANKS)) is None:
        return _of_iso(datetime.fromisoformat(text.strip(_BLANKS)), zone)
    return spark_moment(text, zone)


def spark_moment(text: str, zone: str | None) -> int:
    """The microseconds since 1970 of a timestamp's text, in the time zone named `zone` where the text tells none.

    For None it is a timestamp without time zone: what the text says of a zone does not count. Raises ValueError for what Spark's
    cast doesn't take, such as a zone of its own that is not known, and InvalidArgumentError for a `zone` that is needed and not
    known.
    """
    found = _MOMENT_TEXT.fullmatch(text.strip(_BLANKS))
    if found is None:
        raise ValueError(f"{text!r} is no timestamp")
    year, month, day, hour, minute, second, fraction, told = found.groups()
    time = _microsecond(hour, minute, second, fraction, text)
    days = _days(year, month, day)
    own = None if told is None else _own_zone(told.strip(_BLANKS), text)
    if zone is None:
        return _checked(days * _DAY + time, 63, text)
    return _checked(local_to_utc(days, time, own or zone_of(zone)), 63, text)


def _own_zone(name: str, text: str) -> tzinfo:
    try:
        return zone_of(name)
    except InvalidArgumentError as error:
        raise ValueError(f"{text!r} names a time zone that Python does not know") from error


def _of_iso(moment: datetime, zone: str | None) -> int:
    since = moment.replace(tzinfo=None) - _EPOCH.replace(tzinfo=None)
    time = since // timedelta(microseconds=1)
    if zone is None:
        return time
    return local_to_utc(*divmod(time, _DAY), moment.tzinfo or zone_of(zone))


def day_text(days: int) -> str:
    """A date, given as days since 1970-01-01: `2020-01-31`, `-0044-03-15`, `+10000-01-01`."""
    return _signed(str(np.datetime64(days, "D")))


def moment_text(micros: int, separator: str = "T") -> str:
    """The UTC time of microseconds since 1970, with six decimals."""
    days, rest = divmod(micros, _DAY)
    seconds, fraction = divmod(rest, _SECOND)
    return f"{day_text(days)}{separator}{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{fraction:06d}"


def _signed(text: str) -> str:
    """An ISO text with at least four digits of the year, and a sign where there are more or the year is negative."""
    sign, digits = ("-", text[1:]) if text.startswith("-") else ("", text)
    year, _, rest = digits.partition("-")
    return f"{sign or ('+' if len(year) > 4 else '')}{year.zfill(4)}-{rest}"


def _days(year: str, month: str | None, day: str | None) -> int:
    number = int(year)
    text = f"{'-' if number < 0 else ''}{abs(number):04d}-{int(month or 1):02d}-{int(day or 1):02d}"
    return int(np.datetime64(text, "D").astype(np.int64))


def _microsecond(hour: str | None, minute: str | None, second: str | None, fraction: str | None, text: str) -> int:
    """The microsecond of a day; digits of a fraction beyond six are dropped."""
    hours, minutes, seconds = (int(part or 0) for part in (hour, minute, second))
    if hours > 23 or minutes > 59 or seconds > 59:
        raise ValueError(f"{text!r} is no time of day")
    return ((hours * 60 + minutes) * 60 + seconds) * _SECOND + int((fraction or "")[:6].ljust(6, "0"))


def _checked(value: int, bits: int, text: str) -> int:
    if not -(1 << bits) <= value < 1 << bits:
        raise ValueError(f"{text!r} is out of range")
    return value
