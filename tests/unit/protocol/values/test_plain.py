"""Arrow values as Python's own, also those that Python has no type or zone for."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from deltamerge.protocol.values.plain import plain_rows
from deltamerge.protocol.values.predicate import Compare

FAR_DAY = pa.array([2_932_897], pa.int32()).cast(pa.date32())  # 10000-01-01
FAR = pa.array([253_402_300_800_000_001], pa.int64())
NOON = pa.array([1_593_604_800_000_000], pa.int64())
BROKEN = pa.StringArray.from_buffers(1, pa.array([0, 3], pa.int32()).buffers()[1], pa.py_buffer(b"a\xffb"))


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (FAR_DAY, "+10000-01-01"),
        (FAR.cast(pa.timestamp("us", "UTC")), "+10000-01-01T00:00:00.000001Z"),
        (FAR.cast(pa.timestamp("us", "PST")), "+10000-01-01T00:00:00.000001Z"),
        (FAR.cast(pa.timestamp("us")), "+10000-01-01 00:00:00.000001"),
        (NOON.cast(pa.timestamp("us", "GMT+2")), datetime(2020, 7, 1, 14, tzinfo=timezone(timedelta(hours=2)))),
        (NOON.cast(pa.timestamp("us", "Nowhere/City")), datetime(2020, 7, 1, 12, tzinfo=UTC)),
        (BROKEN, "a\N{REPLACEMENT CHARACTER}b"),
        (pa.StructArray.from_arrays([FAR_DAY, pa.array([1])], ["d", "n"]), {"d": "+10000-01-01", "n": 1}),
        (pa.ListArray.from_arrays([0, 1], FAR_DAY), ["+10000-01-01"]),
        (pa.MapArray.from_arrays([0, 1], pa.array(["k"]), FAR_DAY), [("k", "+10000-01-01")]),
    ],
)
def test_what_python_cannot_hold_is_shown_as_text(values: Any, expected: Any) -> None:
    others = pa.table({"v": values, "d": [Decimal("1.5")], "day": [date(2020, 1, 1)], "n": pa.nulls(1)})
    assert plain_rows(others) == [{"v": expected, "d": Decimal("1.5"), "day": date(2020, 1, 1), "n": None}]


def test_other_rows_are_as_arrow_gives_them() -> None:
    table = pa.table({"a": [1, None], "t": [datetime(2020, 1, 1, tzinfo=UTC), None]})
    assert plain_rows(table) == table.to_pylist()


def test_a_predicate_about_a_day_beyond_pythons_is_shown() -> None:
    assert str(Compare(("d",), "=", FAR_DAY[0])) == "d = +10000-01-01"
