"""Data skipping: a file with a matching row is never dropped, and a file that cannot have one is."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltamerge.log.replay.files import FILE_SCHEMA, FileSet, table_of
from deltamerge.log.skipping import statistics
from deltamerge.log.skipping.skipping import could_match
from deltamerge.log.stats import json_leaves as stats_json
from deltamerge.protocol.schema.types import PrimitiveType, StructField, StructType, parse_schema
from deltamerge.protocol.values.partitions import partition_text
from deltamerge.protocol.values.predicate import ALWAYS, And, Compare, IsNotNull, IsNull, OneOf, Or, Path, Predicate, StartsWith
from tests.unit.log.building import add, naive, schema_text
from tests.unit.log.rows import KINDS, File, Kind, files, holds, predicates

C, X, P = ("c",), ("s", "x"), ("p",)


def schema_of(columns: dict[Path, Kind]) -> StructType:
    def field(name: str, type: Any) -> StructField:
        return StructField(name, type)

    nested = StructType((field("x", PrimitiveType(columns[X].name)),))
    return StructType(
        (field("c", PrimitiveType(columns[C].name)), field("s", nested), field("p", PrimitiveType(columns[P].name)))
    )


def file_set(found: list[File], partitions: list[Any], type: pa.DataType, dead: set[int]) -> FileSet:
    """The files over two chunks, those at `dead` removed again."""
    values = [
        add(f"f{number}", stats=file.stats, partitionValues={"p": partition_text(pa.scalar(partition, type))})["add"]
        for number, (file, partition) in enumerate(zip(found, partitions, strict=True))
    ]
    half = len(values) // 2
    first, second = table_of(values[:half], FILE_SCHEMA), table_of(values[half:], FILE_SCHEMA)
    return FileSet.of(first).replay(second, []).replay(FILE_SCHEMA.empty_table(), [f"f{number}" for number in dead])


def check(kind: Kind, nested: Kind, partition: Kind, data: st.DataObject) -> None:
    columns = {C: kind, X: nested}
    found = data.draw(st.lists(files(columns), min_size=1, max_size=6), label="files")
    partitions = data.draw(st.lists(st.none() | partition.values, min_size=len(found), max_size=len(found)), label="p")
    partitions = [None if value in ("", b"") else value for value in partitions]
    dead = data.draw(st.sets(st.integers(0, len(found) - 1)), label="dead")
    columns[P] = partition
    predicate = data.draw(predicates(columns), label="predicate")
    files_alive = file_set(found, partitions, partition.type, dead)
    mask = could_match(files_alive, predicate, schema_of(columns), ["p"])
    kept = dict(zip(files_alive.column("path").to_pylist(), mask.tolist(), strict=True))
    for number, (file, value) in enumerate(zip(found, partitions, strict=True)):
        if number not in dead and any(holds(predicate, row | {P: value}, columns) for row in file.rows):
            assert kept[f"f{number}"], (file, value, str(predicate))


LOGGED_IN_UTF8 = [kind for kind in KINDS if kind.name != "binary"]


@pytest.mark.parametrize("kind", KINDS, ids=repr)
def test_no_file_with_a_matching_row_is_dropped(kind: Kind) -> None:
    @settings(max_examples=25, deadline=None)
    @given(st.sampled_from(KINDS), st.sampled_from(LOGGED_IN_UTF8), st.data())
    def run(nested: Kind, partition: Kind, data: st.DataObject) -> None:
        check(kind, nested, partition, data)

    run()


@pytest.mark.parametrize("kind", LOGGED_IN_UTF8, ids=repr)
def test_no_partition_with_a_matching_row_is_dropped(kind: Kind) -> None:
    @settings(max_examples=12, deadline=None)
    @given(st.data())
    def run(data: st.DataObject) -> None:
        check(KINDS[2], KINDS[5], kind, data)

    run()


UTC_TYPE = pa.timestamp("us", tz="UTC")


def stats(low: Any = None, high: Any = None, nulls: int | None = 0, rows: int | None = 10) -> str:
    found: dict[str, Any] = {}
    if rows is not None:
        found["numRecords"] = rows
    if low is not None:
        found["minValues"] = {"c": low}
    if high is not None:
        found["maxValues"] = {"c": high}
    if nulls is not None:
        found["nullCount"] = {"c": nulls}
    return json.dumps(found)


def kept(type: str, predicate: Predicate, *texts: str | None) -> list[bool]:
    table = table_of([add(f"f{n}", stats=text)["add"] for n, text in enumerate(texts)], FILE_SCHEMA)
    return could_match(FileSet.of(table), predicate, parse_schema(schema_text(c=type)), []).tolist()


def compare(op: Any, value: Any, type: pa.DataType | None = None) -> Compare:
    return Compare(C, op, pa.scalar(value, type))


@pytest.mark.parametrize(
    ("op", "value", "expected"),
    [
        ("=", 4, [False, True, False]),
        ("=", 5, [True, True, False]),
        ("=", 6, [False, False, False]),
        ("<=>", 4, [False, True, False]),
        ("<", 1, [False, False, False]),
        ("<=", 1, [False, True, False]),
        ("<", 5, [False, True, False]),
        ("<=", 5, [True, True, False]),
        (">", 5, [False, False, True]),
        (">=", 5, [True, True, True]),
        (">", 9, [False, False, False]),
        (">=", 9, [False, False, True]),
    ],
)
def test_integers_outside_the_bounds_are_dropped(op: str, value: int, expected: list[bool]) -> None:
    texts = stats(5, 5), stats(1, 5), stats(7, 9)
    assert kept("long", compare(op, value), *texts) == expected


@pytest.mark.parametrize(
    ("type", "low", "high", "below", "inside", "above"),
    [
        ("integer", 1, 3, pa.scalar(0, pa.int32()), pa.scalar(2, pa.int32()), pa.scalar(4, pa.int32())),
        ("double", 1.5, 2.5, pa.scalar(1.4), pa.scalar(2.5), pa.scalar(2.6)),
        ("float", 0.1, 0.3, pa.scalar(0.05, pa.float32()), pa.scalar(0.1, pa.float32()), pa.scalar(0.31, pa.float32())),
        ("string", "b", "d", pa.scalar("a"), pa.scalar("c"), pa.scalar("da")),
        ("string", "\uffff", "\U0001f600", pa.scalar("ä"), pa.scalar("\U0001f600"), pa.scalar("\U0001f601")),
        ("decimal(5,2)", 1.5, 2.25, *(pa.scalar(Decimal(t), pa.decimal128(5, 2)) for t in ("1.49", "2.25", "2.26"))),
        ("date", "2020-01-02", "2020-01-04", *(pa.scalar(date(2020, 1, d)) for d in (1, 2, 5))),
        (
            "timestamp",
            "2020-01-01T00:00:00.000Z",
            "2020-01-01T00:00:01.000Z",
            *(
                pa.scalar(datetime(2020, 1, 1, tzinfo=UTC) + timedelta(microseconds=n), UTC_TYPE)
                for n in (-1, 1_000_999, 1_001_001)
            ),
        ),
        (
            "timestamp_ntz",
            "2020-01-01T00:00:00.000",
            "2020-01-01T00:00:01.000",
            *(pa.scalar(naive(2020, 1, 1) + timedelta(microseconds=n)) for n in (-1, 1_000_999, 1_001_001)),
        ),
    ],
)
def test_each_type_is_dropped_outside_its_bounds(
    type: str, low: Any, high: Any, below: pa.Scalar, inside: pa.Scalar, above: pa.Scalar
) -> None:
    text = stats(low, high)
    for value, expected in ((below, False), (inside, True), (above, False)):
        assert kept(type, Compare(C, "=", value), text) == [expected]
        assert kept(type, OneOf(C, pa.array([value.as_py()], value.type)), text) == [expected]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([], [False, False, False]),
        ([0, 10], [False, False, False]),
        ([0, 4, 10], [False, True, False]),
        ([5, 8], [True, True, True]),
    ],
)
def test_files_between_the_values_are_dropped(values: list[int], expected: list[bool]) -> None:
    texts = stats(5, 5), stats(1, 5), stats(7, 9)
    assert kept("long", OneOf(C, pa.array(values, pa.int64())), *texts) == expected


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [("", True), ("a", False), ("b", True), ("bc", True), ("bb", False), ("de", True), ("df", False), ("e", False)],
)
def test_prefixes_outside_the_bounds_are_dropped(prefix: str, expected: bool) -> None:
    assert kept("string", StartsWith(C, prefix), stats("bc", "de")) == [expected]


def test_nulls_are_counted() -> None:
    none, some, all = stats(1, 3, nulls=0), stats(1, 3, nulls=2), stats(nulls=10)
    unknown = stats(1, 3, nulls=None)
    texts = none, some, all, unknown
    assert kept("long", IsNull(C), *texts) == [False, True, True, True]
    assert kept("long", IsNotNull(C), *texts) == [True, True, False, True]
    assert kept("long", compare("=", 2), *texts) == [True, True, False, True]
    assert kept("long", compare("<=>", None, pa.int64()), *texts) == [False, True, True, True]
    assert kept("long", OneOf(C, pa.array([9]), or_null=True), *texts) == [False, True, True, True]
    assert kept("long", OneOf(C, pa.array([9])), *texts) == [False, False, False, False]


@pytest.mark.parametrize("op", ["=", "<", "<=", ">", ">="])
def test_comparing_with_null_matches_nothing(op: str) -> None:
    assert kept("long", compare(op, None, pa.int64()), stats(1, 3, nulls=1), None) == [False, False]


def test_without_statistics_nothing_is_dropped() -> None:
    texts = None, "", "{", "{}", "[]", stats(nulls=None, rows=None)
    for predicate in (compare("=", 5), OneOf(C, pa.array([5])), IsNull(C), IsNotNull(C), compare(">", 5)):
        assert kept("long", predicate, *texts) == [True] * len(texts)


def test_one_bound_alone_still_drops() -> None:
    texts = stats(low=5), stats(high=5)
    assert kept("long", compare("=", 4), *texts) == [False, True]
    assert kept("long", compare("=", 6), *texts) == [True, False]
    assert kept("long", OneOf(C, pa.array([6])), *texts) == [True, False]


def test_garbage_in_one_file_spares_the_others() -> None:
    texts = stats("garbage", []), stats(1, 3), "{", stats(5, 7)
    assert kept("long", compare("=", 6), *texts) == [True, False, True, True]


def test_a_file_may_hold_nan_above_its_bound() -> None:
    text = stats(1.0, 2.0)
    for op in (">", ">="):
        assert kept("double", compare(op, 5.0), text) == [True]
    for op in ("=", "<=>", "<=", ">", ">="):
        assert kept("double", compare(op, math.nan), text) == [True]
    assert kept("double", OneOf(C, pa.array([5.0, math.nan])), text) == [True]
    assert kept("double", OneOf(C, pa.array([5.0])), text) == [False]


def test_zeros_of_both_signs_are_equal() -> None:
    for bound in (0.0, -0.0):
        for value in (0.0, -0.0):
            assert kept("double", compare("=", value), stats(bound, bound)) == [True]
            assert kept("double", OneOf(C, pa.array([value])), stats(bound, bound)) == [True]


def test_both_sides_of_and_drop_and_one_of_or_keeps() -> None:
    texts = stats(1, 3), stats(5, 7)
    two, six = compare("=", 2), compare("=", 6)
    assert kept("long", And((two, six)), *texts) == [False, False]
    assert kept("long", Or((two, six)), *texts) == [True, True]
    assert kept("long", And((Or((two, six)), six)), *texts) == [False, True]
    assert kept("long", ALWAYS, *texts) == [True, True]
    assert kept("long", Or(()), *texts) == [False, False]


def partitioned(predicate: Predicate, type: str, *values: str | None, stats: str | None = None) -> list[bool]:
    rows = [add(f"f{n}", partitionValues={"c": value}, stats=stats)["add"] for n, value in enumerate(values)]
    rows.append(add("missing", stats=stats)["add"])
    schema = parse_schema(schema_text(c=type))
    return could_match(FileSet.of(table_of(rows, FILE_SCHEMA)), predicate, schema, ["c"]).tolist()


def test_other_partitions_are_dropped() -> None:
    values = "1", "2", None, ""
    assert partitioned(compare("=", 2), "long", *values) == [False, True, False, False, False]
    assert partitioned(compare(">=", 2), "long", *values) == [False, True, False, False, False]
    assert partitioned(OneOf(C, pa.array([2, 5])), "long", *values) == [False, True, False, False, False]
    assert partitioned(IsNull(C), "long", *values) == [False, False, True, True, True]
    assert partitioned(IsNotNull(C), "long", *values) == [True, True, False, False, False]
    assert partitioned(compare("<=>", None, pa.int64()), "long", *values) == [False, False, True, True, True]
    assert partitioned(OneOf(C, pa.array([1]), or_null=True), "long", *values) == [True, False, True, True, True]


def test_an_empty_string_is_no_partition() -> None:
    assert partitioned(compare("=", ""), "string", "", "a") == [False, False, False]
    assert partitioned(StartsWith(C, "a"), "string", "", "ab", "b") == [False, True, False, False]


def test_a_partition_of_nan_is_only_above() -> None:
    assert partitioned(compare(">", 1.0), "double", "NaN", "2.0") == [True, True, False]
    assert partitioned(compare("<", 5.0), "double", "NaN", "2.0") == [False, True, False]
    assert partitioned(compare("=", math.nan), "double", "NaN")[0]


def test_partition_timestamps_are_exact() -> None:
    at = datetime(2020, 1, 1, 0, 0, 0, 1, tzinfo=UTC)
    text = "2020-01-01T00:00:00.000001Z"
    assert partitioned(compare("=", at, UTC_TYPE), "timestamp", text)[0]
    assert not partitioned(compare("=", at + timedelta(microseconds=1), UTC_TYPE), "timestamp", text)[0]


@pytest.mark.parametrize("text", ["2020-01-01 00:00:00", "2020-01-01 00:00:00.000000", "2020-01-01T00:00", "2020-01-01"])
def test_a_partition_timestamp_without_offset_may_be_of_any_zone(text: str) -> None:
    at = datetime(2020, 1, 1, 5, tzinfo=UTC)
    assert partitioned(compare("=", at, UTC_TYPE), "timestamp", text, None) == [True, False, False]
    assert partitioned(IsNull(C), "timestamp", text, None) == [False, True, True]


@pytest.mark.parametrize("text", ["2020-01-01T00:00:00Z", "2020-01-01 02:00:00.5+02:00", "2020-01-01T00:00:00+0000"])
def test_a_partition_timestamp_with_offset_is_of_that_zone(text: str) -> None:
    assert not partitioned(compare("=", datetime(2020, 1, 1, 5, tzinfo=UTC), UTC_TYPE), "timestamp", text)[0]


def test_an_empty_set_gives_an_empty_mask() -> None:
    schema = parse_schema(schema_text(c="long"))
    for empty in (FileSet(), FileSet.of(FILE_SCHEMA.empty_table())):
        for partitions in ([], ["c"]):
            mask = could_match(empty, compare("=", 1), schema, partitions)
            assert (mask.dtype, mask.tolist()) == (np.bool_, [])


def test_an_unknown_column_drops_nothing() -> None:
    assert kept("long", Compare(("other",), "=", pa.scalar(1)), stats(5, 5)) == [True]
    assert kept("long", Compare(("c", "inner"), "=", pa.scalar(1)), stats(5, 5)) == [True]


def test_the_mask_is_in_the_order_of_the_live_files() -> None:
    first = table_of([add(f"a{n}", stats=stats(n, n))["add"] for n in range(4)], FILE_SCHEMA)
    second = table_of([add(f"b{n}", stats=stats(n, n))["add"] for n in range(4)], FILE_SCHEMA)
    found = FileSet.of(first).replay(second, ["a0", "a2"]).replay(FILE_SCHEMA.empty_table(), ["b1"])
    mask = could_match(found, OneOf(C, pa.array([1, 2, 3])), parse_schema(schema_text(c="long")), [])
    assert found.select(mask)["path"].to_pylist() == ["a1", "a3", "b2", "b3"]


def mapped(name: str, type: Any, physical: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": type, "nullable": True, "metadata": {"delta.columnMapping.physicalName": physical, **more}}


def test_bounds_go_by_physical_names_on_every_level() -> None:
    inner = {"type": "struct", "fields": [mapped("a", "long", "b"), mapped("b", "long", "a")]}
    schema = parse_schema(json.dumps({"type": "struct", "fields": [mapped("c", "long", "s"), mapped("s", inner, ".x")]}))
    text = json.dumps(
        {
            "numRecords": 3,
            "minValues": {"s": 1, "c": 50, ".x": {"a": 10, "b": 20}},
            "maxValues": {"s": 2, "c": 60, ".x": {"a": 11, "b": 21}},
            "nullCount": {"s": 0, ".x": {"a": 0, "b": 3}},
        }
    )
    files = FileSet.of(table_of([add("f", stats=text, partitionValues={"s": "1"})["add"]], FILE_SCHEMA))

    def keeps(predicate: Predicate, partitions: Iterable[str] = ()) -> bool:
        return bool(could_match(files, predicate, schema, partitions)[0])

    assert [n for n in (1, 10, 20, 50) if keeps(compare("=", n))] == [1]
    assert [n for n in (1, 10, 20, 50) if keeps(Compare(("s", "b"), "=", pa.scalar(n)))] == [10]
    assert not keeps(IsNotNull(("s", "a")))
    assert not keeps(compare("=", 2), ["c"])


WIDENED = [
    ("integer", "double", 1, 3, pa.scalar(3.0), pa.scalar(3.5)),
    (
        "byte",
        "decimal(12,2)",
        1,
        3,
        pa.scalar(Decimal("3.00"), pa.decimal128(12, 2)),
        pa.scalar(Decimal("3.01"), pa.decimal128(12, 2)),
    ),
    ("decimal(5,2)", "decimal(10,4)", 1.25, 3.5, *(pa.scalar(Decimal(t), pa.decimal128(10, 4)) for t in ("3.5000", "3.5001"))),
    ("date", "timestamp_ntz", "2020-01-01", "2020-01-02", pa.scalar(naive(2020, 1, 2)), pa.scalar(naive(2020, 1, 2, 0, 0, 1))),
    ("float", "double", 0.1, 0.3, pa.scalar(float(np.float32(0.3))), pa.scalar(0.31)),
]


@pytest.mark.parametrize(("old", "new", "low", "high", "inside", "above"), WIDENED)
def test_bounds_of_an_older_type_are_bounds(old: str, new: str, low: Any, high: Any, inside: pa.Scalar, above: pa.Scalar) -> None:
    change = {"delta.typeChanges": [{"fromType": old, "toType": new}]}
    schema = parse_schema(json.dumps({"type": "struct", "fields": [mapped("c", new, "c", **change)]}))
    files = FileSet.of(table_of([add("f", stats=stats(low, high))["add"]], FILE_SCHEMA))
    assert could_match(files, Compare(C, "=", inside), schema, []).tolist() == [True]
    assert could_match(files, Compare(C, "=", above), schema, []).tolist() == [False]


def test_a_float_below_the_double_of_its_text_is_not_lost() -> None:
    change = {"delta.typeChanges": [{"fromType": "float", "toType": "double"}]}
    schema = parse_schema(json.dumps({"type": "struct", "fields": [mapped("c", "double", "c", **change)]}))
    for value in np.random.default_rng(1).standard_normal(200).astype(np.float32):
        files = FileSet.of(table_of([add("f", stats=stats(float(str(value)), float(str(value))))["add"]], FILE_SCHEMA))
        assert could_match(files, Compare(C, "=", pa.scalar(float(value))), schema, []).tolist() == [True]


def test_statistics_are_parsed_of_the_files_in_wanted_partitions_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[int] = []
    monkeypatch.setattr(
        statistics, "json_leaves", lambda texts, wanted: parsed.append(len(texts)) or stats_json.json_leaves(texts, wanted)
    )
    rows = [
        add(f"f{n}", partitionValues={"p": str(n % 10)}, stats=json.dumps({"minValues": {"c": n}, "maxValues": {"c": n}}))["add"]
        for n in range(100)
    ]
    files = FileSet.of(table_of(rows, FILE_SCHEMA))
    schema = parse_schema(schema_text(p="integer", c="long"))
    of_partition = Compare(("p",), "=", pa.scalar(3, pa.int32()))
    predicate = And((And((of_partition,)), Compare(C, ">=", pa.scalar(50, pa.int64()))))
    assert np.flatnonzero(could_match(files, predicate, schema, ["p"])).tolist() == [53, 63, 73, 83, 93]
    assert parsed == [10]
