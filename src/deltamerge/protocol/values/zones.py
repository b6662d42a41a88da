"""Time zones by the names that Spark knows: those of the tz database, offsets, and the short names of Java.

Source: Spark's DateTimeUtils.getZoneId; java.time.ZoneId.of with ZoneId.SHORT_IDS.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from deltamerge.errors import InvalidArgumentError

_SHORT = {
    "ACT": "Australia/Darwin", "AET": "Australia/Sydney", "AGT": "America/Argentina/Buenos_Aires", "ART": "Africa/Cairo",
    "AST": "America/Anchorage", "BET": "America/Sao_Paulo", "BST": "Asia/Dhaka", "CAT": "Africa/Harare",
    "CNT": "America/St_Johns", "CST": "America/Chicago", "CTT": "Asia/Shanghai", "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris", "IET": "America/Indiana/Indianapolis", "IST": "Asia/Kolkata", "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia", "NET": "Asia/Yerevan", "NST": "Pacific/Auckland", "PLT": "Asia/Karachi", "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico", "PST": "America/Los_Angeles", "SST": "Pacific/Guadalcanal", "VST": "Asia/Ho_Chi_Minh",
    "EST": "-05:00", "MST": "-07:00", "HST": "-10:00",
}  # fmt: skip
_PREFIXED = re.compile(r"(?:UTC|GMT|UT)([+-].*)?", re.ASCII)
_OFFSET = re.compile(r"([+-])(\d{1,2})(?::?(\d\d)(?::?(\d\d))?)?", re.ASCII)
_MOST_SECONDS = 18 * 3600
_DAY = 86_400
# The weekdays of the Gregorian calendar, and with them the rules of a zone, come again after so many days.
_CYCLE_DAYS = 146_097
_FIRST_DAY, _LAST_DAY = datetime(2, 1, 1, tzinfo=UTC).toordinal(), datetime(9998, 12, 31, tzinfo=UTC).toordinal()
_EPOCH_DAY = datetime(1970, 1, 1, tzinfo=UTC).toordinal()


def zone_of(name: str) -> tzinfo:
    """The time zone of a name. Raises InvalidArgumentError for one that is not known."""
    text = re.sub(r"([+-])(\d):", r"\g<1>0\2:", name, count=1)
    text = re.sub(r"([+-]\d\d):(\d)$", r"\1:0\2", text, count=1)
    text = _SHORT.get(text, text)
    if text == "Z":
        return UTC
    prefixed = _PREFIXED.fullmatch(text)
    offset = (prefixed[1] or "+0") if prefixed else text
    if offset[:1] in ("+", "-"):
        seconds = _seconds(offset)
        if seconds is None:
            raise _unknown(name)
        return timezone(timedelta(seconds=seconds))
    try:
        return ZoneInfo(text)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise _unknown(name) from error


def _seconds(text: str) -> int | None:
    """An offset from UTC in seconds, None for a text that is none."""
    found = _OFFSET.fullmatch(text)
    if found is None or (len(found[2]) == 1 and found[3] is not None):
        return None
    minutes, seconds = int(found[3] or 0), int(found[4] or 0)
    total = int(found[2]) * 3600 + minutes * 60 + seconds
    if minutes > 59 or seconds > 59 or total > _MOST_SECONDS:
        return None
    return -total if found[1] == "-" else total


def local_to_utc(day: int, microsecond: int, zone: tzinfo) -> int:
    """Microseconds since 1970 of a local time: a day counted from 1970-01-01 and the microsecond in it.

    A time that clocks skip is as late as it would have been by the offset before; of one that they show twice it is the first.
    """
    ordinal = day + _EPOCH_DAY
    # Python's days end with the year 9999; beyond it, as before the first rule, a zone does what it did a cycle nearer.
    known = ordinal
    if ordinal < _FIRST_DAY:
        known += -(-(_FIRST_DAY - ordinal) // _CYCLE_DAYS) * _CYCLE_DAYS
    elif ordinal > _LAST_DAY:
        known -= -(-(ordinal - _LAST_DAY) // _CYCLE_DAYS) * _CYCLE_DAYS
    local = datetime.fromordinal(known) + timedelta(microseconds=microsecond)
    offset = zone.utcoffset(local)
    assert offset is not None
    return day * _DAY * 1_000_000 + microsecond - offset // timedelta(microseconds=1)


def _unknown(name: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        "DELTAMERGE_UNKNOWN_TIME_ZONE",
        f"The time zone {name!r} is not known to Python.",
        parameters={"zone": name},
        hint="Install the package tzdata, or set spark.sql.session.timeZone to an offset such as '+02:00'.",
    )
