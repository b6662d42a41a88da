"""Types that a file's column is read as, as Spark's Parquet readers do, and those that are refused where Arrow would cast."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltamerge.worker.scan.columns import conform
from deltamerge.worker.scan.conversions import converted
from deltamerge.worker.scan.row_errors import Refused
from deltamerge.worker.scan.scan import FileTask, ScanSpec, scan_file
from tests.unit.worker.data import UTC_TIME, store_at

NTZ = pa.timestamp("us")
DAY = date(1970, 1, 4)


def array(values: list[int], type: pa.DataType) -> pa.Array:
    return pa.array(values, pa.int64()).cast(type)


@pytest.mark.parametrize(
    ("stored", "wanted", "expected"),
    [
        (pa.array([7], pa.int32()), pa.int8(), 7),
        (pa.array([255], pa.uint8()), pa.int16(), 255),
        (pa.array([2**32 - 1], pa.uint32()), pa.int64(), 2**32 - 1),
        (pa.array([2**64 - 1], pa.uint64()), pa.decimal128(20, 0), Decimal(2**64 - 1)),
        (pa.array([7], pa.uint64()), pa.int64(), 7),
        (pa.array([7], pa.int64()), pa.decimal128(38, 2), Decimal("7.00")),
        (pa.array([7], pa.int32()), pa.float64(), 7.0),
        (pa.array([3], pa.int32()), pa.date32(), DAY),
        (pa.array([DAY]), pa.int32(), 3),
        (pa.array([DAY]), NTZ, datetime.combine(DAY, datetime.min.time())),
        (array([5], pa.timestamp("ns")), pa.int64(), 5),
        (array([5], pa.time64("us")), pa.int64(), 5),
        (array([5], pa.duration("us")), pa.int64(), 5),
        (pa.array([5], pa.time32("ms")), pa.int32(), 5),
        (pa.array([Decimal(7)], pa.decimal128(9, 0)), pa.int32(), 7),
        (pa.array([Decimal(-7)], pa.decimal128(18, 0)), pa.int64(), -7),
        (pa.array([Decimal("1.50")], pa.decimal128(5, 2)), pa.decimal128(12, 4), Decimal("1.5000")),
        (pa.array([Decimal("1.50")], pa.decimal256(50, 2)), pa.decimal128(9, 2), Decimal("1.50")),
        (pa.array([b"a"], pa.large_binary()), pa.string(), "a"),
        (pa.array(["a"], pa.string_view()), pa.string(), "a"),
        (pa.array([b"a"], pa.binary_view()), pa.string(), "a"),
        (pa.array(["a"]), pa.binary(), b"a"),
        (pa.array([b"abcd"], pa.binary(4)), pa.binary(), b"abcd"),
        (pa.nulls(1), pa.decimal128(9, 2), None),
    ],
    ids=str,
)
def test_what_spark_reads_is_read(stored: pa.Array, wanted: pa.DataType, expected: Any) -> None:
    found = converted(stored, wanted)
    assert found.type == wanted
    assert found.to_pylist() == [expected]


@pytest.mark.parametrize(
    ("stored", "wanted"),
    [
        (pa.array([7], pa.int32()), pa.bool_()),
        (pa.array([7], pa.int64()), pa.int32()),
        (pa.array([7], pa.int64()), pa.float64()),
        (pa.array([7], pa.int32()), pa.float32()),
        (pa.array([7], pa.int64()), UTC_TIME),
        (pa.array([7], pa.int64()), NTZ),
        (pa.array([True]), pa.int32()),
        (pa.array([0.125]), pa.decimal128(9, 2)),
        (pa.array([1e300]), pa.float32()),
        (pa.array([1.0]), pa.int64()),
        (pa.array(["0x1F"]), pa.int32()),
        (pa.array(["1"]), pa.float64()),
        (pa.array(["2020-01-01"]), pa.date32()),
        (pa.array(["true"]), pa.bool_()),
        (pa.array([7]), pa.string()),
        (pa.array([DAY]), pa.string()),
        (pa.array([Decimal("1.50")]), pa.string()),
        (pa.array([Decimal("1.00")]), pa.int32()),
        (pa.array([Decimal("1.50")]), pa.float64()),
        (pa.array([DAY]), UTC_TIME),
        (array([0], NTZ), pa.date32()),
        (array([5], pa.duration("us")), UTC_TIME),
        (array([5], pa.time64("us")), NTZ),
        (
            pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
            pa.list_(pa.struct({"key": pa.string(), "value": pa.int64()})),
        ),
        (pa.array([[7]], pa.list_(pa.int32())), pa.list_(pa.bool_())),
        (pa.array([{"a": 0.125}]), pa.struct({"a": pa.float32()})),
        (pa.array(["31"]).dictionary_encode(), pa.int32()),
    ],
    ids=str,
)
def test_what_spark_refuses_is_refused(stored: pa.Array, wanted: pa.DataType) -> None:
    with pytest.raises(pa.ArrowTypeError, match="values may be lost"):
        conform(stored, wanted)


@pytest.mark.parametrize(
    ("stored", "wanted"),
    [
        (pa.array([128], pa.uint8()), pa.int8()),
        (pa.array([2**31], pa.uint32()), pa.int32()),
        (pa.array([2**63], pa.uint64()), pa.int64()),
        (pa.array([Decimal("1.55")]), pa.decimal128(9, 1)),
        (pa.array([Decimal("1234567890.55")]), pa.decimal128(9, 2)),
        (array([2**62], pa.timestamp("ms")), NTZ),
        (array([-(2**62)], pa.timestamp("ms", "UTC")), UTC_TIME),
        (array([2**62], pa.timestamp("s")), UTC_TIME),
    ],
    ids=str,
)
def test_a_value_that_does_not_fit_is_never_wrapped_or_rounded(stored: pa.Array, wanted: pa.DataType) -> None:
    with pytest.raises(pa.ArrowInvalid):
        converted(stored, wanted)


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
@pytest.mark.parametrize("wanted", [UTC_TIME, NTZ], ids=str)
def test_nanoseconds_are_cut_to_the_microsecond_before(zone: str | None, wanted: pa.DataType) -> None:
    nanos = [1_583_000_000_000_001_999, 1999, -1, -1000, -1999, -(2**63), 2**63 - 1, None]
    found = converted(pa.array(nanos, pa.int64()).cast(pa.timestamp("ns", zone)), wanted)
    assert found.type == wanted
    assert found.cast(pa.int64()).to_pylist() == [None if value is None else value // 1000 for value in nanos]


def test_the_old_parquet_type_is_cut_alike(tmp_path: Path) -> None:
    rows = pa.table({"t": array([1999, -1, -1999], pa.timestamp("ns"))})
    pq.write_table(rows, tmp_path / "f.parquet", use_deprecated_int96_timestamps=True)
    spec = ScanSpec(store_at(tmp_path), pa.schema([("t", UTC_TIME)]))
    (batch,) = scan_file(spec, FileTask(0, "f.parquet", {}))
    assert batch.column(0).cast(pa.int64()).to_pylist() == [1, -1, -2]


def test_the_error_of_a_scan_names_the_column_and_the_file(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": pa.array([7, 0], pa.int32())}), tmp_path / "f.parquet")
    spec = ScanSpec(store_at(tmp_path), pa.schema([("x", pa.bool_())]))
    with pytest.raises(Refused, match=r"'x' of the data file, which holds int32, is not read as bool.*f\.parquet") as caught:
        list(scan_file(spec, FileTask(0, "f.parquet", {})))
    assert caught.value.condition == "DELTAMERGE_CORRUPT_DATA_FILE"
