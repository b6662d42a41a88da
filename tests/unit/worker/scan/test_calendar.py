"""Files of Spark's hybrid calendar: old dates and timestamps are the ones that were written, or refused."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltamerge.protocol.values.calendar import Calendar, calendars_of
from deltamerge.worker.scan.calendar import gregorian, julian_days
from deltamerge.worker.scan.row_errors import Refused
from deltamerge.worker.scan.scan import FileTask, ScanSpec, scan_file
from tests.unit.worker.data import UTC_TIME, store_at

SPARK = "org.apache.spark."
ROW = {SPARK + "sql.parquet.row.metadata": "{}"}
# Dates, and by how many days the Julian calendar counts them later. The Julian 1500-02-29, a day before its 1500-03-01, is no
# Gregorian date: Spark takes the day after the 28th.
LATER = [
    (date(1582, 10, 15), 0),
    (date(1582, 10, 4), 10),
    (date(1500, 3, 1), 10),
    (date(1500, 3, 1), 9),
    (date(1500, 2, 28), 9),
    (date(1000, 1, 10), 5),
    (date(1, 1, 1), -2),
    (date(2019, 4, 14), 0),
]
DAYS = [(day.toordinal() - 719_163 + later, day) for day, later in LATER]


def file_of(tmp_path: Path, table: pa.Table, metadata: Mapping[str, str | bytes], **options: Any) -> pq.ParquetFile:
    with pq.ParquetWriter(tmp_path / "f.parquet", table.schema, store_schema=False, **options) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata(metadata)
    return pq.ParquetFile(tmp_path / "f.parquet", coerce_int96_timestamp_unit="us")


@pytest.mark.parametrize(
    ("metadata", "dates"),
    [
        ({}, Calendar.GREGORIAN),
        (ROW, Calendar.UNKNOWN),
        ({SPARK + "version": "2.4.8", **ROW}, Calendar.HYBRID),
        ({SPARK + "version": "3.0.0"}, Calendar.GREGORIAN),
        ({SPARK + "version": "10.1.0"}, Calendar.GREGORIAN),
        ({SPARK + "version": "next"}, Calendar.UNKNOWN),
        ({SPARK + "version": "9" * 5000 + ".1"}, Calendar.UNKNOWN),
        ({SPARK + "version": "3.0x"}, Calendar.UNKNOWN),
        ({SPARK + "version": "4.0.0", SPARK + "legacyDateTime": ""}, Calendar.HYBRID),
        ({SPARK + "version": "4.0.0", SPARK + "legacyINT96": ""}, Calendar.GREGORIAN),
    ],
)
def test_the_writer_says_which_calendar_it_used(tmp_path: Path, metadata: dict[str, str], dates: Calendar) -> None:
    assert calendars_of(file_of(tmp_path, pa.table({"d": pa.array([1], pa.date32())}), metadata)).dates is dates


@pytest.mark.parametrize(
    ("version", "timestamps"), [("3.0.1", Calendar.HYBRID), ("3.1.0", Calendar.GREGORIAN), ("2.4.0", Calendar.HYBRID)]
)
def test_int96_became_gregorian_later(tmp_path: Path, version: str, timestamps: Calendar) -> None:
    table = pa.table({"t": pa.array([1], UTC_TIME)})
    file = file_of(tmp_path, table, {SPARK + "version": version}, use_deprecated_int96_timestamps=True)
    assert calendars_of(file).timestamps is timestamps


def test_old_dates_keep_their_names() -> None:
    old = [(days, meant) for days, meant in DAYS if days < -141_427]
    found = julian_days(np.array([days for days, _ in old], np.int32))
    assert [date.fromordinal(719_163 + int(days)) for days in found] == [meant for _, meant in old]


def test_dates_at_every_level_are_moved_and_others_stay(tmp_path: Path) -> None:
    days = pa.array([days for days, _ in DAYS] + [None], pa.int32()).cast(pa.date32())
    meant = [day for _, day in DAYS] + [None]
    struct = pa.StructArray.from_arrays([days, pa.array(range(9))], names=["d", "n"])
    counts = days.cast(pa.int32()).to_pylist()
    lists = pa.array([counts[:3], None, counts[3:], *[None] * 6], pa.list_(pa.int32())).cast(pa.list_(pa.date32()))
    table = pa.table({"d": days, "s": struct, "l": lists, "n": range(9)})
    found = gregorian(table, file_of(tmp_path, table, {SPARK + "version": "2.4.8"}))
    assert found["d"].to_pylist() == meant
    assert found["s"].to_pylist() == [{"d": day, "n": n} for n, day in enumerate(meant)]
    assert found["l"].to_pylist()[:3] == [meant[:3], None, meant[3:]]
    assert found["n"].to_pylist() == list(range(9))
    assert gregorian(table, file_of(tmp_path, table, {})).equals(table)


OLD = datetime(1000, 1, 4, 1, 2, 3, 4, tzinfo=UTC)


@pytest.mark.parametrize("int96", [False, True])
def test_timestamps_written_in_utc_are_moved(tmp_path: Path, int96: bool) -> None:
    table = pa.table({"t": pa.array([OLD, datetime(1850, 1, 1, tzinfo=UTC), None], UTC_TIME)})
    metadata = {SPARK + "version": "2.4.8", SPARK + "timeZone": "UTC"}
    file = file_of(tmp_path, table, metadata, use_deprecated_int96_timestamps=int96)
    found = gregorian(file.read(), file)["t"].cast(UTC_TIME).to_pylist()
    assert found == [OLD.replace(year=999, month=12, day=30), *table["t"].to_pylist()[1:]]


def test_timestamps_of_other_zones_are_refused_when_the_zone_mattered(tmp_path: Path) -> None:
    metadata = {SPARK + "version": "2.4.8", SPARK + "timeZone": "Europe/Paris"}
    recent = pa.table({"t": pa.array([datetime(1900, 1, 1, tzinfo=UTC)], UTC_TIME)})
    assert gregorian(recent, file_of(tmp_path, recent, metadata)).equals(recent)
    old = pa.table({"t": pa.array([datetime(1899, 12, 31, tzinfo=UTC)], UTC_TIME)})
    with pytest.raises(Refused) as caught:
        gregorian(old, file_of(tmp_path, old, metadata))
    assert caught.value.condition == "DELTAMERGE_ANCIENT_DATETIME"


@pytest.mark.parametrize(
    "column",
    [
        pa.array([-(2**62)]).cast(pa.timestamp("ms", "UTC")),
        pa.array([[date(2020, 1, 1)]], pa.large_list(pa.date32())),
    ],
    ids=str,
)
def test_what_cannot_be_counted_anew_is_refused(tmp_path: Path, column: pa.Array) -> None:
    table = pa.table({"t": column})
    with pytest.raises(Refused) as caught:
        gregorian(table, file_of(tmp_path, table, {SPARK + "version": "2.4.8", SPARK + "timeZone": "UTC"}))
    assert caught.value.condition == "DELTAMERGE_CORRUPT_DATA_FILE"


def test_a_zone_that_is_no_text_matters_for_old_timestamps_alone(tmp_path: Path) -> None:
    metadata = {SPARK + "version": "2.4.8", SPARK + "timeZone": b"\xff"}
    for rows in (pa.table({"n": [1]}), pa.table({"t": pa.array([datetime(1900, 1, 1, tzinfo=UTC)], UTC_TIME)})):
        assert gregorian(rows, file_of(tmp_path, rows, metadata)).equals(rows)
    old = pa.table({"t": pa.array([OLD], UTC_TIME)})
    with pytest.raises(Refused) as caught:
        gregorian(old, file_of(tmp_path, old, metadata))
    assert caught.value.condition == "DELTAMERGE_ANCIENT_DATETIME"


def test_an_old_date_in_a_file_that_does_not_tell_is_refused_with_the_files_name(tmp_path: Path) -> None:
    schema = pa.schema([("d", pa.date32())])
    spec, task = ScanSpec(store_at(tmp_path), schema), FileTask(0, "f.parquet", {})
    file_of(tmp_path, pa.table({"d": [date(1582, 10, 15)]}), ROW)
    assert [batch.num_rows for batch in scan_file(spec, task)] == [1]
    file_of(tmp_path, pa.table({"d": [date(1582, 10, 14)]}), ROW)
    with pytest.raises(Refused, match=r"f\.parquet"):
        list(scan_file(spec, task))
