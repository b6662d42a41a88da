"""Texts of dates and timestamps, as Spark reads and writes them, of all its years."""

from __future__ import annotations

from datetime import UTC, date, datetime

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltamerge.errors import InvalidArgumentError
from deltamerge.protocol.values.times import day_text, moment_text, parse_day, parse_moment
from deltamerge.protocol.values.zones import zone_of

LONG = st.integers(-(2**63), 2**63 - 1)
INT = st.integers(-(2**31), 2**31 - 1)
NOON = 1_593_604_800_000_000  # 2020-07-01 12:00 UTC
HOUR = 3_600_000_000


@settings(max_examples=200, deadline=None)
@given(LONG, st.sampled_from(["T", " "]))
def test_every_timestamp_survives_its_text(micros: int, separator: str) -> None:
    text = moment_text(micros, separator)
    assert parse_moment(text, None) == micros
    assert parse_moment(text + "Z", "PST") == micros


@settings(max_examples=200, deadline=None)
@given(INT)
def test_every_date_survives_its_text(days: int) -> None:
    assert parse_day(day_text(days)) == days


@pytest.mark.parametrize(
    ("days", "text"),
    [
        ("2020-01-31", "2020-01-31"),
        ("0999-01-01", "0999-01-01"),
        ("9999-12-31", "9999-12-31"),
        ("10000-01-01", "+10000-01-01"),
        ("0000-12-31", "0000-12-31"),
        ("-0044-03-15", "-0044-03-15"),
        ("-12345-01-01", "-12345-01-01"),
    ],
)
def test_dates_as_spark_shows_them(days: str, text: str) -> None:
    assert day_text(int(np.datetime64(days, "D").astype(np.int64))) == text


def test_timestamps_as_spark_shows_them() -> None:
    assert moment_text(NOON + 1) == "2020-07-01T12:00:00.000001"
    assert moment_text(253_402_300_800_000_000, " ") == "+10000-01-01 00:00:00.000000"
    assert moment_text(-(2**63)) == "-290308-12-21T19:59:05.224192"
    assert moment_text(-62_135_596_800_000_001) == "0000-12-31T23:59:59.999999"


@pytest.mark.parametrize(
    ("text", "zone", "expected"),
    [
        ("2020-07-01 12:00:00", "UTC", NOON),
        ("2020-07-01T12:00:00.000000Z", "PST", NOON),
        (" 2020-7-1 12 ", "UTC", NOON),
        ("2020-07-01 12:00", "+05:30", NOON - 5 * HOUR - HOUR // 2),
        ("2020-07-01 12:00:00.1234567", "UTC", NOON + 123_456),
        ("2020-07-01 12:00:00.", "UTC", NOON),
        ("2020-07-01", "GMT+2", NOON - 14 * HOUR),
        ("2020", "UTC", 1_577_836_800_000_000),
        ("2020-07-01 12:00:00+5:30", "UTC", NOON - 5 * HOUR - HOUR // 2),
        ("2020-07-01 12:00:00 PST", "UTC", NOON + 7 * HOUR),
        ("2020-07-01 12:00:00 America/New_York", "UTC", NOON + 4 * HOUR),
        ("2020-07-01T12:00Z", "PST", NOON),
        ("20200701T12", "GMT+2", NOON - 2 * HOUR),
        ("+10000-01-01 00:00:00", "America/Los_Angeles", 253_402_300_800_000_000 + 8 * HOUR),
        ("9999-12-31 23:59:59.999999", "-18:00", 253_402_300_799_999_999 + 18 * HOUR),
    ],
)
def test_a_timestamps_text_in_a_zone(text: str, zone: str, expected: int) -> None:
    assert parse_moment(text, zone) == expected


def test_what_a_text_says_of_a_zone_does_not_count_for_a_timestamp_without_one() -> None:
    assert parse_moment("2020-07-01 12:00:00+05:30", None) == NOON


@pytest.mark.parametrize("text", ["2020-07-01", "2020-7-1", "2020-07", "2020-07-01T12:00:00Z", "2020-07-01 or so"])
def test_a_date_ends_where_a_time_begins(text: str) -> None:
    assert parse_day(text) == date(2020, 7, 1).toordinal() - date(1970, 1, 1).toordinal()


@pytest.mark.parametrize(
    "text",
    ["", "noon", "20-01-01", "2020-13-01", "2021-02-29", "2020-07-01 24:00", "2020-07-01 12:60", "2020-07-01 12:00:60",
     "2020-07-01x", "300000-01-01", "1000000-01-01", "2020-07-01 12:00:00x?", "٢٠٢٠-01-01"],
)  # fmt: skip
def test_a_text_that_is_no_timestamp(text: str) -> None:
    with pytest.raises((ValueError, InvalidArgumentError)):
        parse_moment(text, "UTC")


@pytest.mark.parametrize("text", ["", "noon", "20-01-01", "2020-13-01", "2021-02-29", "2020-07-01x", "9999999-01-01"])
def test_a_text_that_is_no_date(text: str) -> None:
    with pytest.raises(ValueError, match=r"date|range|month|day|year"):
        parse_day(text)


@settings(max_examples=100, deadline=None)
@given(st.datetimes(datetime(2, 1, 1, tzinfo=UTC).replace(tzinfo=None), datetime(9998, 1, 1, tzinfo=UTC).replace(tzinfo=None)))
def test_pythons_texts_are_read_as_python_reads_them(moment: datetime) -> None:
    expected = moment.replace(tzinfo=zone_of("Europe/Berlin"), fold=0)
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    since = expected - epoch
    micros = (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
    assert parse_moment(moment.isoformat(" "), "Europe/Berlin") == micros
