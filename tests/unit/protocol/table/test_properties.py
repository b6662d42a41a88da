"""Table properties: types, defaults, and values that are none."""

from __future__ import annotations

import pytest

from deltamerge.errors import InvalidArgumentError
from deltamerge.protocol.table.known_properties import checked
from deltamerge.protocol.table.properties import Properties

DAY = 86_400_000


def test_defaults_are_delta_sparks() -> None:
    properties = Properties({})
    assert not properties.append_only
    assert properties.checkpoint_interval == 10
    assert properties.tombstone_retention == 7 * DAY
    assert properties.indexed_columns == 32
    assert properties.stats_columns is None
    assert properties.compression is None


def test_values_are_typed() -> None:
    properties = Properties(
        {
            "delta.appendOnly": "true",
            "delta.checkpointInterval": "3",
            "delta.deletedFileRetentionDuration": "interval 2 days",
            "delta.dataSkippingNumIndexedCols": "-1",
            "delta.dataSkippingStatsColumns": "a,b.c",
            "delta.parquet.compression.codec": "ZSTD",
            "delta.isolationLevel": "Serializable",
        }
    )
    assert properties.append_only
    assert properties.checkpoint_interval == 3
    assert properties.tombstone_retention == 2 * DAY
    assert properties.indexed_columns == -1
    assert properties.stats_columns == "a,b.c"
    assert properties.compression == "zstd"


@pytest.mark.parametrize(("text", "expected"), [("true", True), (" TRUE ", True), ("false", False), ("yes", False), ("", False)])
def test_flags(text: str, expected: bool) -> None:
    assert Properties({"k": text}).flag("k", default=not expected) is expected


@pytest.mark.parametrize(("text", "expected"), [("5", 5), (" -1 ", -1), ("many", 7), ("", 7), ("1.5", 7)])
def test_numbers(text: str, expected: int) -> None:
    assert Properties({"k": text}).number("k", 7) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("interval 30 days", 30 * DAY),
        ("INTERVAL 1 WEEK", 7 * DAY),
        ("1 day 2 hours 3 minutes 4 seconds", DAY + 2 * 3_600_000 + 3 * 60_000 + 4_000),
        ("interval 5 milliseconds", 5),
        ("interval 3000 microseconds", 3),
        ("interval 0 seconds", 0),
        (" Interval\t1 day  -  1 hours ", DAY - 3_600_000),
        ("1.5 seconds", 1_500),
        (".0025 second 1 microsecond", 2),
    ],
)
def test_intervals_in_milliseconds(text: str, expected: int) -> None:
    assert Properties({"k": text}).interval("k", 42) == expected
    assert Properties({}).interval("k", 42) == 42


@pytest.mark.parametrize(
    "text",
    [
        "soon",
        "",
        "interval",
        "10.5 days",
        "interval 30.25 days",
        "0.5 weeks",
        "1 month",
        "1 day and more",
        "or 1 day",
        "- 1 day",
        "10days",
        "1 day2 hours",
        "1. days",
        ". seconds",
        "interval1 day",
        "9999999999999999 weeks",
        "9" * 5_000 + " days",
        "٣ days",
    ],
)
def test_what_is_no_interval_is_never_taken_for_another_one(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="DELTA_INVALID_INTERVAL"):
        Properties({"k": text}).interval("k", 42)
    with pytest.raises(InvalidArgumentError, match="DELTAMERGE_INVALID_PROPERTY"):
        checked({"delta.deletedFileRetentionDuration": text, "delta.logRetentionDuration": "1000000 days"})


@pytest.mark.parametrize("text", ["0", "-5"])
def test_a_checkpoint_interval_is_at_least_one(text: str) -> None:
    assert Properties({"delta.checkpointInterval": text}).checkpoint_interval == 1


MB = 1 << 20
SIZES = [
    ("1048576", MB),
    ("64mb", 64 * MB),
    ("2 kb", 128 * MB),
    ("3K", 3_072),
    ("1GB", 1_024 * MB),
    ("0", 128 * MB),
    ("?", 128 * MB),
    ("9" * 5_000, 128 * MB),
    ("\u0663", 128 * MB),
]


@pytest.mark.parametrize(("text", "size"), SIZES)
def test_the_target_size_of_files(text: str, size: int) -> None:
    assert Properties({"delta.targetFileSize": text}).target_file_size == size
    assert Properties({}).target_file_size == 128 << 20
