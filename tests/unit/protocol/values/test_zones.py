"""Time zones by Spark's names, and local times of all years in them."""

from __future__ import annotations

from datetime import UTC, date, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from deltamerge.errors import InvalidArgumentError
from deltamerge.protocol.values.zones import local_to_utc, zone_of

EPOCH = date(1970, 1, 1).toordinal()
HOUR = 3_600_000_000
DAY = 24 * HOUR


def offset(hours: int, minutes: int = 0, seconds: int = 0) -> timezone:
    return timezone(timedelta(hours=hours, minutes=minutes, seconds=seconds))


@pytest.mark.parametrize(
    ("name", "zone"),
    [
        ("Z", UTC),
        ("UTC", offset(0)),
        ("GMT", offset(0)),
        ("UT", offset(0)),
        ("+05:30", offset(5, 30)),
        ("+5:30", offset(5, 30)),
        ("+5:3", offset(5, 3)),
        ("-05:30", offset(-5, -30)),
        ("+7", offset(7)),
        ("+07", offset(7)),
        ("-0730", offset(-7, -30)),
        ("+01:30:15", offset(1, 30, 15)),
        ("+013015", offset(1, 30, 15)),
        ("-18:00", offset(-18)),
        ("GMT+2", offset(2)),
        ("UTC+01:00", offset(1)),
        ("UT-3", offset(-3)),
        ("PST", ZoneInfo("America/Los_Angeles")),
        ("IST", ZoneInfo("Asia/Kolkata")),
        ("EST", offset(-5)),
        ("GMT0", ZoneInfo("GMT0")),
        ("EST5EDT", ZoneInfo("EST5EDT")),
        ("Europe/Berlin", ZoneInfo("Europe/Berlin")),
    ],
)
def test_a_zone_by_each_kind_of_name(name: str, zone: timezone | ZoneInfo) -> None:
    assert zone_of(name) == zone


@pytest.mark.parametrize(
    "name", ["", "+", "+19", "-18:01", "+5:60", "+123", "UTC+", "UTC+19", "gmt+2", "Nowhere/City", "../UTC", "\0", "UTC+1x"]
)
def test_a_zone_that_is_not_known_is_named(name: str) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        zone_of(name)
    assert caught.value.condition == "DELTAMERGE_UNKNOWN_TIME_ZONE"
    assert caught.value.parameters == {"zone": name}


@pytest.mark.parametrize(
    ("day", "hour", "ahead"),
    [
        (date(2020, 7, 1), 12, -7),
        (date(2020, 1, 1), 12, -8),
        (date(2020, 11, 1), 1, -7),  # shown twice: the first of them
        (date(2020, 3, 8), 2, -8),  # skipped: as late as by the offset before
        (date(9999, 12, 31), 23, -8),
    ],
)
def test_a_local_time_in_a_zone_with_rules(day: date, hour: int, ahead: int) -> None:
    since = day.toordinal() - EPOCH
    assert local_to_utc(since, hour * HOUR, zone_of("PST")) == since * DAY + (hour - ahead) * HOUR


@pytest.mark.parametrize("cycles", [1, 20, 700])
def test_years_that_python_does_not_have(cycles: int) -> None:
    summer, winter = (date(2100, month, 5).toordinal() - EPOCH + cycles * 146_097 for month in (7, 12))
    zone = zone_of("America/Los_Angeles")
    assert local_to_utc(summer, 0, zone) == summer * DAY + 7 * HOUR
    assert local_to_utc(winter, 0, zone) == winter * DAY + 8 * HOUR
    early = date(1500, 7, 5).toordinal() - EPOCH - cycles * 146_097
    assert local_to_utc(early, 0, zone) == early * DAY + 7 * HOUR + 3178 * 1_000_000  # 7:52:58 before there were zones
