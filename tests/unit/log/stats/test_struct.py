"""Statistics kept as structs: read without JSON, and turned into JSON when a commit needs it."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from deltamerge.log.replay.files import FILE_SCHEMA, FileChunk, FileSet, add_files, table_of
from deltamerge.log.skipping.statistics import bounds_of, row_counts
from deltamerge.log.stats.struct import as_type, child, json_texts
from deltamerge.protocol.schema.types import PrimitiveType, StructField, StructType
from tests.unit.log.building import add

MOMENT = pa.timestamp("us", "UTC")
VALUES: dict[str, tuple[pa.DataType, Any, str]] = {
    "integer": (pa.int32(), -3, "-3"),
    "long": (pa.int64(), 2**62, str(2**62)),
    "double": (pa.float64(), 1.5, "1.5"),
    "decimal(10,2)": (pa.decimal128(10, 2), Decimal("1.10"), "1.10"),
    "string": (pa.string(), 'ä"', '"ä\\""'),
    "date": (pa.date32(), date(2020, 2, 29), '"2020-02-29"'),
    "timestamp": (MOMENT, datetime(2020, 1, 1, 1, 2, 3, 4000, UTC), '"2020-01-01T01:02:03.004Z"'),
    "timestamp_ntz": (pa.timestamp("us"), datetime(2020, 1, 1), '"2020-01-01T00:00:00.000"'),
}


def stats(values: list[Any], type: pa.DataType) -> pa.StructArray:
    """A statistics struct of column `c` for each value, null for None."""
    bounds = pa.struct([("c", type)])
    fields = pa.struct(
        [("numRecords", pa.int64()), ("minValues", bounds), ("maxValues", bounds), ("nullCount", pa.struct([("c", pa.int64())]))]
    )
    rows = [{"numRecords": 2, "minValues": {"c": v}, "maxValues": {"c": v}, "nullCount": {"c": 0}} for v in values]
    return pa.array([None if v is None else row for v, row in zip(values, rows, strict=True)], fields)


def chunk(parsed: pa.StructArray) -> FileChunk:
    return FileChunk(table_of([add(f"f{n}")["add"] for n in range(len(parsed))], FILE_SCHEMA), parsed)


def schema(name: str) -> StructType:
    return StructType((StructField("c", PrimitiveType(name)),))


@pytest.mark.parametrize("name", VALUES)
def test_bounds_come_from_the_struct(name: str) -> None:
    type, value, _ = VALUES[name]
    files = chunk(stats([value, None], type))
    found = bounds_of(files, schema(name), (), [("c",)])[("c",)]
    assert found.low.to_pylist() == [value, None]
    assert found.low.type == type
    assert found.nulls.to_pylist() == [0, None]
    assert row_counts(files).to_pylist() == [2, None]
    if not pa.types.is_timestamp(type):
        assert found.high.to_pylist() == [value, None]


@pytest.mark.parametrize("name", VALUES)
def test_the_struct_becomes_the_json_that_a_writer_would_have_written(name: str) -> None:
    type, value, text = VALUES[name]
    expected = f'{{"numRecords":2,"minValues":{{"c":{text}}},"maxValues":{{"c":{text}}},"nullCount":{{"c":0}}}}'
    assert json_texts(stats([value, None], type)).to_pylist() == [expected, None]
    from_json = FileChunk(table_of([add("f0", stats=expected)["add"]], FILE_SCHEMA))
    one, other = (bounds_of(c, schema(name), (), [("c",)])[("c",)] for c in (from_json, chunk(stats([value], type))))
    assert (one.low, one.high, one.nulls, one.rows) == (other.low, other.high, other.nulls, other.rows)


def test_files_carry_the_json_into_commits() -> None:
    files = FileSet.of_chunks([chunk(stats([1, None, 3], pa.int64()))])
    mask = [False, True, True]
    import numpy as np

    chosen = add_files(files.select(np.array(mask)))
    assert [file.path for file in chosen] == ["f1", "f2"]
    assert chosen[0].num_records is None
    assert chosen[1].num_records == 2
    assert chosen[1].removed(5).stats == chosen[1].stats
    whole = files.replay(FILE_SCHEMA.empty_table(), ["f0"]).table()
    assert [None if t is None else json.loads(t)["minValues"] for t in whole["stats"].to_pylist()] == [None, {"c": 3}]


@pytest.mark.parametrize(
    ("found", "target", "expected"),
    [
        (pa.array([1, 2], pa.int32()), pa.int64(), [1, 2]),
        (pa.array([1], pa.int32()), pa.decimal128(10, 2), [Decimal(1)]),
        (pa.array([1], pa.int32()), pa.float64(), [1.0]),
        (pa.array([float("nan"), 1.0]), pa.float64(), [None, 1.0]),
        (pa.array([2**40], pa.int64()), pa.int32(), [None]),
        (pa.array(["1"]), pa.int32(), [None]),
        (pa.array([date(2020, 1, 1)]), pa.timestamp("us"), [datetime(2020, 1, 1)]),
        (pa.array([date(2020, 1, 1)]), MOMENT, [None]),
        (pa.array([1], pa.int64()), MOMENT, [None]),
        (pa.array([datetime(2020, 1, 1)], pa.timestamp("us")), MOMENT, [None]),
        (pa.array([datetime(2020, 1, 1, tzinfo=UTC)], pa.timestamp("ns", "UTC")), MOMENT, [datetime(2020, 1, 1, tzinfo=UTC)]),
        (pa.array(["a"], pa.large_string()), pa.string(), ["a"]),
    ],
)
def test_values_of_another_type_are_taken_over_or_unknown(found: pa.Array, target: pa.DataType, expected: list[Any]) -> None:
    assert as_type(found, target).to_pylist() == expected


def test_what_the_struct_lacks_is_unknown() -> None:
    parsed = pa.array([{"numRecords": 1, "minValues": {"d": 1}}])
    assert child(parsed, ("maxValues", "d")) is None
    assert child(parsed, ("numRecords", "d")) is None
    found = bounds_of(chunk(parsed), schema("long"), (), [("c",)])[("c",)]
    assert (found.low.to_pylist(), found.high.to_pylist(), found.nulls.to_pylist()) == ([None], [None], [None])


def test_odd_values_have_json_too() -> None:
    parsed = pa.array([{"a": float("nan"), "b": float("-inf"), "c": True, "d": None, "e": b"x", "f": {"g": float("inf")}}])
    assert json_texts(parsed).to_pylist() == ['{"a":"NaN","b":"-Infinity","c":true,"f":{"g":"Infinity"}}']
    far = pa.StructArray.from_arrays([pa.array([3]), pa.array([10**8], pa.int32()).cast(pa.date32())], ["numRecords", "day"])
    assert json_texts(far).to_pylist() == ['{"numRecords":3}']
