"""Partition values: their text in the log there and back, folder names, and encoded paths."""

from __future__ import annotations

import math
import struct
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltamerge.errors import CorruptTableError, InvalidArgumentError
from deltamerge.protocol.values.partitions import (
    decode_path,
    encode_path,
    float_text,
    parse_partition_values,
    partition_folder,
    partition_text,
)

NTZ, ZONED = pa.timestamp("us"), pa.timestamp("us", tz="UTC")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def naive(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC).replace(tzinfo=None)


moments = st.datetimes(naive(1, 1, 1), naive(9999, 12, 31, 23, 59, 59, 999_999))
VALUES: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int8(): st.integers(-(2**7), 2**7 - 1),
    pa.int16(): st.integers(-(2**15), 2**15 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float32(): st.floats(width=32) | st.sampled_from([-0.0, math.nan, math.inf, -math.inf]),
    pa.float64(): st.floats() | st.sampled_from([-0.0, math.nan, math.inf, -math.inf]),
    pa.bool_(): st.booleans(),
    pa.string(): st.text(st.characters(codec="utf-8"), min_size=1),
    pa.binary(): st.text(st.characters(codec="utf-8"), min_size=1).map(str.encode),
    pa.date32(): st.dates(date(1, 1, 1), date(9999, 12, 31)),
    NTZ: moments,
    ZONED: moments.map(lambda moment: moment.replace(tzinfo=UTC)),
    pa.decimal128(38, 18): st.decimals(-(10**20) + 1, 10**20 - 1, places=18),
    pa.decimal128(5, 0): st.integers(-99_999, 99_999).map(Decimal),
}


def parsed(text: str | None, type: pa.DataType, zone: str = "UTC") -> pa.Scalar:
    return parse_partition_values(pa.array([text], pa.string()), type, zone)[0]


def bits(value: Any) -> Any:
    return struct.pack(">d", value) if isinstance(value, float) and not math.isnan(value) else str(value)


@pytest.mark.parametrize("type", VALUES, ids=str)
def test_a_value_survives_its_text(type: pa.DataType) -> None:
    @settings(max_examples=60, deadline=None)
    @given(VALUES[type])
    def check(value: Any) -> None:
        before = pa.scalar(value, type)
        after = parsed(partition_text(before), type)
        assert after.type == type
        assert bits(after.as_py()) == bits(before.as_py())

    check()


@pytest.mark.parametrize("type", VALUES, ids=str)
def test_null_survives_its_text(type: pa.DataType) -> None:
    assert partition_text(pa.scalar(None, type)) is None
    assert parsed(None, type).as_py() is None


@pytest.mark.parametrize("type", VALUES, ids=str)
def test_the_empty_text_is_null(type: pa.DataType) -> None:
    assert parsed("", type).as_py() is None


@pytest.mark.parametrize("value", ["", b""])
def test_an_empty_value_has_no_text(value: Any) -> None:
    assert partition_text(pa.scalar(value)) is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (False, "false"),
        (-5, "-5"),
        (1.0, "1.0"),
        (-0.0, "-0.0"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (1.5e100, "1.5E100"),
        (math.nan, "NaN"),
        (-math.inf, "-Infinity"),
        (np.float32(0.1), "0.1"),
        (Decimal("1.50"), "1.50"),
        (Decimal("0E-10"), "0.0000000000"),
        (date(1, 2, 3), "0001-02-03"),
        (naive(2020, 1, 2, 3, 4, 5), "2020-01-02 03:04:05"),
        (naive(2020, 1, 2, 3, 4, 5, 60), "2020-01-02 03:04:05.000060"),
        (datetime(2020, 1, 2, 3, 4, 5, tzinfo=UTC), "2020-01-02T03:04:05.000000Z"),
        (datetime(2020, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=2))), "2020-01-02T01:04:05.000000Z"),
        ("ä b", "ä b"),
        (b"\x01a", "\x01a"),
    ],
)
def test_texts_as_the_log_has_them(value: Any, text: str) -> None:
    assert partition_text(pa.scalar(value)) == text


@settings(max_examples=60, deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_floats_text_is_exact_and_reads_as_java_prints(value: float) -> None:
    text = float_text(value)
    assert struct.pack(">d", float(text)) == struct.pack(">d", value)
    mantissa, _, exponent = text.partition("E")
    assert "." in mantissa
    assert (not exponent) == (value == 0 or 1e-3 <= abs(value) < 1e7)


@pytest.mark.parametrize(
    ("text", "zone", "expected"),
    [
        ("2020-07-01 12:00:00", "UTC", datetime(2020, 7, 1, 12, tzinfo=UTC)),
        ("2020-07-01 12:00:00", "America/New_York", datetime(2020, 7, 1, 16, tzinfo=UTC)),
        ("2020-01-01 12:00:00.5", "America/New_York", datetime(2020, 1, 1, 17, 0, 0, 500_000, tzinfo=UTC)),
        ("2020-07-01T12:00:00.000000Z", "America/New_York", datetime(2020, 7, 1, 12, tzinfo=UTC)),
        ("2020-07-01T12:00:00+02:00", "America/New_York", datetime(2020, 7, 1, 10, tzinfo=UTC)),
        ("2020-07-01", "America/New_York", datetime(2020, 7, 1, 4, tzinfo=UTC)),
        ("2020-07-01 12:00:00", "+05:30", datetime(2020, 7, 1, 6, 30, tzinfo=UTC)),
        ("2020-07-01 12:00:00", "GMT+2", datetime(2020, 7, 1, 10, tzinfo=UTC)),
        ("2020-07-01 12:00:00", "PST", datetime(2020, 7, 1, 19, tzinfo=UTC)),
        ("2020-07-01 12:00:00 PST", "Z", datetime(2020, 7, 1, 19, tzinfo=UTC)),
    ],
)
def test_a_timestamp_without_offset_is_of_the_given_zone(text: str, zone: str, expected: datetime) -> None:
    micros = (expected - EPOCH) // timedelta(microseconds=1)
    assert parsed(text, ZONED, zone).cast(pa.int64()).as_py() == micros


@pytest.mark.parametrize(
    ("type", "text", "number"),
    [
        (pa.date32(), "+10000-01-01", 2_932_897),
        (pa.date32(), "-0044-03-15", -735_525),
        (pa.date32(), "2020-7-1", 18_444),
        (ZONED, "+10000-01-01T00:00:00.000001Z", 253_402_300_800_000_001),
        (ZONED, "0000-12-31T23:59:59.999999Z", -62_135_596_800_000_001),
        (ZONED, "-290308-12-21T19:59:05.224192Z", -(2**63)),
        (NTZ, "+294247-01-10 04:00:54.775807", 2**63 - 1),
        (NTZ, "-0001-01-01 00:00:00", -62_198_755_200_000_000),
    ],
)
def test_years_that_python_does_not_have(type: pa.DataType, text: str, number: int) -> None:
    width = pa.int32() if pa.types.is_date(type) else pa.int64()
    value = parsed(text, type, "America/Los_Angeles")
    assert value.type == type
    assert value.cast(width).as_py() == number
    assert parsed(partition_text(value), type) == value
    assert partition_text(value) == (text if text != "2020-7-1" else "2020-07-01")


def test_only_a_text_without_offset_asks_for_the_zone() -> None:
    assert parsed("2020-07-01T12:00:00.000000Z", ZONED, "Nowhere/City").as_py() == datetime(2020, 7, 1, 12, tzinfo=UTC)
    with pytest.raises(InvalidArgumentError):
        parsed("2020-07-01 12:00:00", ZONED, "Nowhere/City")


def test_a_timestamp_of_no_zone_is_of_no_zone() -> None:
    assert parsed("2020-07-01 12:00:00", NTZ, "America/New_York").as_py() == naive(2020, 7, 1, 12)


@pytest.mark.parametrize(
    ("text", "type"),
    [
        ("x", pa.int64()),
        ("128", pa.int8()),
        ("0xFF", pa.int8()),
        ("0x1F", pa.int32()),
        ("0xFFFFFFFFFFFFFFFF", pa.int64()),
        ("1\n", pa.int64()),
        ("nan(1)", pa.float64()),
        ("2020-13-01", pa.date32()),
        ("noon", ZONED),
        ("noon", NTZ),
        ("2020-W01-1", ZONED),
        ("20200101T100000", NTZ),
        ("2020-01-01x10:00:00", ZONED),
        ("2020-01-01 10:00:00 Foo/Bar", ZONED),
        ("2020-01-01 10:00:00 Foo/Bar", NTZ),
        ("2020-01-01 10:00:00+25:00", ZONED),
        ("2020-01-01\N{NO-BREAK SPACE}", pa.date32()),
        ("x", pa.float64()),
        ("1.555", pa.decimal128(5, 2)),
        ("maybe", pa.bool_()),
    ],
)
def test_a_text_that_the_type_cannot_hold_is_a_corrupt_table(text: str, type: pa.DataType) -> None:
    with pytest.raises(CorruptTableError) as caught:
        parsed(text, type)
    assert caught.value.condition == "DELTAMERGE_CORRUPT_PARTITION_VALUE"
    assert caught.value.parameters == {"type": str(type)}


def test_bytes_that_are_no_text_have_none() -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        partition_text(pa.scalar(b"ab\xff"))
    assert caught.value.condition == "DELTAMERGE_UNSUPPORTED_PARTITION_VALUE"
    assert caught.value.parameters == {"value": "6162ff"}


HIVE = {
    **{chr(code): f"%{code:02X}" for code in range(1, 32)},
    '"': "%22",
    "#": "%23",
    "%": "%25",
    "'": "%27",
    "*": "%2A",
    "/": "%2F",
    ":": "%3A",
    "=": "%3D",
    "?": "%3F",
    "\\": "%5C",
    "\x7f": "%7F",
    "{": "%7B",
    "[": "%5B",
    "]": "%5D",
    "^": "%5E",
}


def test_folders_are_escaped_exactly_where_hive_escapes() -> None:
    for char in map(chr, range(1, 0x180)):
        assert partition_folder({"p": char}) == f"p={HIVE.get(char, char)}"


def test_a_folder_has_a_level_per_column_and_a_name_for_null() -> None:
    assert partition_folder({"a": "1", "b/c": None, "d": "x y"}) == "a=1/b%2Fc=__HIVE_DEFAULT_PARTITION__/d=x y"


def test_no_partition_has_no_folder() -> None:
    assert partition_folder({}) == ""


@settings(max_examples=60, deadline=None)
@given(st.text(st.characters(codec="utf-8")))
def test_a_path_survives_its_encoding(name: str) -> None:
    encoded = encode_path(name)
    assert encoded.isascii()
    assert not set(encoded) & set(' #?"<>[]^{}|\\\x7f\n')
    assert decode_path(encoded) == name


@pytest.mark.parametrize(
    ("name", "encoded"),
    [
        ("p=a b/part-0.c000.snappy.parquet", "p=a%20b/part-0.c000.snappy.parquet"),
        ("p=a%3Ab/x", "p=a%253Ab/x"),
        ("ä#?", "%C3%A4%23%3F"),
    ],
)
def test_paths_as_the_log_has_them(name: str, encoded: str) -> None:
    assert encode_path(name) == encoded
