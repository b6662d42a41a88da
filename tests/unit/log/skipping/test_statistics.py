"""Bounds from statistics and partition values: typed where they can be trusted, null where not."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from deltamerge.errors import CorruptTableError
from deltamerge.log.replay.files import FILE_SCHEMA, FileChunk, table_of
from deltamerge.log.skipping import statistics as module
from deltamerge.log.skipping.statistics import Bounds, bounds_of, leaf, row_counts
from deltamerge.log.stats.json_leaves import json_leaves
from deltamerge.protocol.schema.types import StructType, arrow_type, parse_schema
from tests.unit.log.building import add, naive, schema_text

C = ("c",)


def chunk_of(*texts: str | None, partitions: list[str | None] | None = None) -> FileChunk:
    values = partitions or [None] * len(texts)
    rows = [
        add(f"f{n}", stats=text, partitionValues={"c": value})["add"]
        for n, (text, value) in enumerate(zip(texts, values, strict=True))
    ]
    return FileChunk(table_of(rows, FILE_SCHEMA))


def stats(low: Any, high: Any, nulls: Any = 0, rows: Any = 3) -> str:
    return json.dumps({"numRecords": rows, "minValues": {"c": low}, "maxValues": {"c": high}, "nullCount": {"c": nulls}})


def bounds(type: Any, *texts: str | None) -> Bounds:
    return bounds_of(chunk_of(*texts), parse_schema(schema_text(c=type)), [], [C])[C]


def lists(found: Bounds) -> tuple[list[Any], list[Any], list[Any], list[Any]]:
    return found.low.to_pylist(), found.high.to_pylist(), found.nulls.to_pylist(), found.rows.to_pylist()


ZONED, NTZ = datetime(2020, 1, 1, tzinfo=UTC), naive(2020, 1, 1)


@pytest.mark.parametrize(
    ("type", "low", "high", "expected"),
    [
        ("byte", -128, 127, (-128, 127)),
        ("long", -(2**63), 2**63 - 1, (-(2**63), 2**63 - 1)),
        ("double", -1.5, 1e300, (-1.5, 1e300)),
        ("double", 1, 2, (1.0, 2.0)),
        ("string", "a", "\U0010ffff", ("a", "\U0010ffff")),
        ("decimal(5,2)", 1.5, 10, (Decimal("1.50"), Decimal("10.00"))),
        ("date", "0001-01-01", "9999-12-31", (date(1, 1, 1), date(9999, 12, 31))),
        ("timestamp", "2020-01-01T00:00:00.000Z", "2020-01-01T00:00:00.000Z", (ZONED, ZONED.replace(microsecond=1000))),
        ("timestamp", "2020-01-01T02:00:00.000+02:00", "2019-12-31T16:00:00-08:00", (ZONED, ZONED.replace(microsecond=1000))),
        ("timestamp_ntz", "2020-01-01T00:00:00.000", "2020-01-01T00:00:00.000", (NTZ, NTZ.replace(microsecond=1000))),
        ("boolean", False, True, (None, None)),
        ("binary", "a", "b", (None, None)),
    ],
)
def test_the_bounds_of_each_type(type: str, low: Any, high: Any, expected: tuple[Any, Any]) -> None:
    found = bounds(type, stats(low, high))
    assert lists(found) == ([expected[0]], [expected[1]], [0], [3])
    assert found.low.type == found.high.type == arrow_type(parse_schema(schema_text(c=type)).fields[0].type)


def test_a_decimal_of_full_precision_is_exact() -> None:
    number = "9" * 28 + "." + "9" * 10
    text = f'{{"minValues":{{"c":-{number}}},"maxValues":{{"c":{number}}}}}'
    expected = [Decimal(f"-{number}")], [Decimal(number)], [None], [None]
    assert lists(bounds("decimal(38,10)", text)) == expected
    assert lists(bounds("decimal(38,10)", text, "{"))[0] == [Decimal(f"-{number}"), None]


@pytest.mark.parametrize("broken", [False, True], ids=["fast", "slow"])
@pytest.mark.parametrize(
    ("type", "low"),
    [
        ("byte", 128),
        ("long", 2**63),
        ("long", 1.5),
        ("long", "many"),
        ("long", True),
        ("double", "NaN"),
        ("double", "-Infinity"),
        ("double", "x"),
        ("decimal(5,2)", 12345678),
        ("decimal(5,2)", 0.001),
        ("date", "2020-13-01"),
        ("date", 5),
        ("timestamp", "2020-01-01T00:00:00"),
        ("timestamp", "soon"),
        ("timestamp_ntz", "2020-01-01T00:00:00Z"),
        ("string", 5),
        ("string", "\ud800"),
    ],
)
def test_a_bound_that_is_no_value_of_its_type_is_unknown(type: str, low: Any, broken: bool) -> None:
    texts = [stats(low, None), stats(None, None, 1, 2)]
    found = lists(bounds(type, *texts, "{") if broken else bounds(type, *texts))
    assert found[0][:2] == [None, None]
    assert found[2][:2] == [0, 1]
    assert found[3][:2] == [3, 2]


@pytest.mark.parametrize("text", [None, "", " ", "null", "true", "5", '"x"', "[]", "{", "{}}", '{"a":1}\n{"b":2}', "nonsense"])
def test_what_is_no_object_is_unknown_and_spares_the_others(text: str | None) -> None:
    found = bounds("long", stats(1, 2), text, stats(3, 4))
    assert lists(found) == ([1, None, 3], [2, None, 4], [0, None, 0], [3, None, 3])


@pytest.mark.parametrize("pad", [" \n{}", "{}\n\t", "\n {}\n"])
def test_space_around_statistics_does_not_matter(pad: str) -> None:
    found = bounds("long", pad.replace("{}", stats(1, 2)), json.dumps(json.loads(stats(3, 4)), indent=2))
    assert lists(found) == ([1, 3], [2, 4], [0, 0], [3, 3])


def test_infinite_bounds_do_not_hide_the_finite_ones() -> None:
    found = bounds("double", stats(1.5, "Infinity"), stats("-Infinity", 2.5), stats("NaN", "NaN"))
    assert lists(found)[:2] == ([1.5, None, None], [None, 2.5, None])


@pytest.mark.parametrize("texts", [1, 3])
@pytest.mark.parametrize("other", ["{}", '{"x":"\\u0041"}'])
def test_a_bare_nan_is_no_bound(texts: int, other: str) -> None:
    text = stats("NaN", "NaN").replace('"NaN"', "NaN")
    found = bounds("double", *[text] * texts, other, stats(1.5, 2.5))
    nothing = [None] * texts
    assert lists(found) == ([*nothing, None, 1.5], [*nothing, None, 2.5], [0] * texts + [None, 0], [3] * texts + [None, 3])


def test_a_file_without_a_column_in_its_statistics_is_unknown() -> None:
    found = bounds("long", json.dumps({"numRecords": 3, "minValues": {"other": 1}}), stats(1, 2))
    assert lists(found) == ([None, 1], [None, 2], [None, 0], [3, 3])


def test_columns_of_words_and_numbers_are_read_together() -> None:
    schema = parse_schema(schema_text(a="long", b="string", c="double"))
    text = '{"numRecords":1,"minValues":{"a":9007199254740993,"b":"x","c":0.1},"maxValues":{},"nullCount":{"b":1}}'
    found = bounds_of(chunk_of(text), schema, [], [("a",), ("b",), ("c",)])
    assert [found[name,].low.to_pylist() for name in "abc"] == [[2**53 + 1], ["x"], [0.1]]
    assert found["b",].nulls.to_pylist() == [1]


def nested_schema(**metadata: Any) -> StructType:
    inner = {"name": "x", "type": "long", "nullable": True, "metadata": metadata}
    outer = {"name": "s.t", "type": {"type": "struct", "fields": [inner]}, "nullable": True, "metadata": {}}
    return parse_schema(json.dumps({"type": "struct", "fields": [outer]}))


def test_nested_columns_are_found_by_path() -> None:
    text = json.dumps({"minValues": {"s.t": {"x": 5}}, "maxValues": {"s.t": {"x": 6}}, "nullCount": {"s.t": {"x": 1}}})
    path = ("s.t", "x")
    assert lists(bounds_of(chunk_of(text), nested_schema(), [], [path])[path]) == ([5], [6], [1], [None])


def test_statistics_are_by_physical_name() -> None:
    text = json.dumps({"minValues": {"s.t": {"col-1": 5, "x": 9}}})
    path = ("s.t", "x")
    schema = nested_schema(**{"delta.columnMapping.physicalName": "col-1"})
    assert bounds_of(chunk_of(text), schema, [], [path])[path].low.to_pylist() == [5]


def test_only_primitive_columns_have_bounds() -> None:
    schema = nested_schema()
    assert leaf(schema, ("s.t",)) is None
    assert leaf(schema, ("S.T", "x")) is None
    assert leaf(schema, ("s.t", "x", "y")) is None
    assert leaf(schema, ()) is None
    assert bounds_of(chunk_of("{}"), schema, [], [("s.t",), ("nothing",)]) == {}


def test_partition_columns_are_bounded_by_their_value() -> None:
    chunk = chunk_of(stats(7, 8, rows=4), None, None, stats(7, 8, rows=4), partitions=["1", "2", None, ""])
    found = bounds_of(chunk, parse_schema(schema_text(c="long")), ["c"], [C])[C]
    assert lists(found) == ([1, 2, None, None], [1, 2, None, None], [0, 0, 1, 1], [1, 1, 1, 1])


def test_partition_values_are_by_physical_name() -> None:
    table = table_of([add("f", partitionValues={"col-1": "5", "c": "9"})["add"]], FILE_SCHEMA)
    field = {"name": "c", "type": "long", "nullable": True, "metadata": {"delta.columnMapping.physicalName": "col-1"}}
    schema = parse_schema(json.dumps({"type": "struct", "fields": [field]}))
    assert bounds_of(FileChunk(table), schema, ["c"], [C])[C].low.to_pylist() == [5]


def test_a_damaged_partition_value_is_a_corrupt_table() -> None:
    with pytest.raises(CorruptTableError):
        bounds_of(chunk_of(None, partitions=["x"]), parse_schema(schema_text(c="long")), ["c"], [C])


@pytest.mark.parametrize(
    ("texts", "expected"),
    [([], []), (['{"numRecords":5}', None, '{"numRecords":"x"}', "{"], [5, None, None, None]), (['{"numRecords":5}'], [5])],
)
def test_row_counts(texts: list[str | None], expected: list[int | None]) -> None:
    assert row_counts(chunk_of(*texts)).to_pylist() == expected


def test_statistics_are_parsed_once_for_a_column(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = []
    monkeypatch.setattr(module, "json_leaves", lambda texts, wanted: parsed.append(set(wanted)) or json_leaves(texts, wanted))
    schema = parse_schema(schema_text(c="long", d="long"))
    chunk = chunk_of(stats(1, 2))
    first = bounds_of(chunk, schema, [], [C])[C]
    assert bounds_of(chunk, schema, [], [C])[C] is first
    bounds_of(chunk, schema, [], [C, ("d",)])
    row_counts(chunk)
    kinds = ("minValues", "maxValues", "nullCount")
    assert parsed == [{("numRecords",), *((kind, name) for kind in kinds)} for name in "cd"]


def test_partition_bounds_need_no_statistics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "json_leaves", None)
    found = bounds_of(chunk_of(stats(7, 8), partitions=["1"]), parse_schema(schema_text(c="long")), ["c"], [C])[C]
    assert found.low.to_pylist() == [1]


def test_a_column_of_another_type_is_parsed_anew() -> None:
    chunk = chunk_of(stats(1, 2))
    assert bounds_of(chunk, parse_schema(schema_text(c="integer")), [], [C])[C].low.type == pa.int32()
    assert bounds_of(chunk, parse_schema(schema_text(c="long")), [], [C])[C].low.type == pa.int64()


def test_bounds_in_which_bytes_were_replaced_are_unknown() -> None:
    replaced = "a\N{REPLACEMENT CHARACTER}b"
    found = bounds("string", stats("a", replaced), stats(replaced, "z"), stats("a", "b"))
    assert lists(found)[:2] == (["a", None, "a"], [None, "z", "b"])
