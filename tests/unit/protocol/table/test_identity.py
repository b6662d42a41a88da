"""Identity columns: the next numbers, and how far the mark moves."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamerge.errors import AnalysisError, ArithmeticDataError, CorruptTableError
from deltamerge.protocol.schema.types import PrimitiveType, StructField, StructType, parse_schema, schema_json
from deltamerge.protocol.table.actions import AddFile, Metadata
from deltamerge.protocol.table.identity import (
    Identity,
    check_update,
    identity_columns,
    unnamed,
    with_later_marks,
    with_marks,
)

KEYS = {"delta.identity.start": 10, "delta.identity.step": 3, "delta.identity.allowExplicitInsert": False}


def schema_of(type: str = "long", **changes: Any) -> StructType:
    metadata = {**KEYS, **{f"delta.identity.{key}": value for key, value in changes.items()}}
    return StructType((StructField("id", PrimitiveType(type), True, metadata), StructField("v", PrimitiveType("long"))))


def file(**stats: Any) -> AddFile:
    return AddFile("f", {}, 1, 0, json.dumps({"numRecords": 1, **stats}))


@pytest.mark.parametrize(
    ("identity", "numbers"),
    [
        (Identity("id", 10, 3, None, False), [10, 13, 16]),
        (Identity("id", 10, 3, 13, False), [16, 19, 22]),
        (Identity("id", 10, 3, 14, False), [19, 22, 25]),
        (Identity("id", 10, 3, 4, False), [10, 13, 16]),
        (Identity("id", 10, -3, None, False), [10, 7, 4]),
        (Identity("id", 10, -3, 8, False), [4, 1, -2]),
    ],
)
def test_the_next_numbers_are_beyond_the_mark(identity: Identity, numbers: list[int]) -> None:
    assert list(identity.numbers(3)) == numbers


def test_numbers_end_with_those_of_a_long() -> None:
    last = Identity("id", 0, 2, (1 << 63) - 4, False)
    assert list(last.numbers(1)) == [(1 << 63) - 2]
    assert list(last.numbers(0)) == []
    with pytest.raises(ArithmeticDataError, match=r"ARITHMETIC_OVERFLOW.*column id"):
        last.numbers(2)


@given(st.integers(-100, 100), st.integers(-9, 9).filter(bool), st.none() | st.integers(-99, 99), st.integers(-300, 300))
def test_after_a_moved_mark_no_number_comes_back(start: int, step: int, mark: int | None, value: int) -> None:
    identity = Identity("id", start, step, mark, True)
    assert (identity.next - start) % step == 0
    moved = identity.moved(value)
    later = Identity("id", start, step, mark if moved is None else moved, True)
    assert all((number - value) * step > 0 or (value - start) * step < 0 for number in later.numbers(3))
    assert all((number - identity.next) * step >= 0 for number in later.numbers(3))


def test_marks_move_past_every_value_in_the_added_files() -> None:
    metadata = Metadata("m", schema_json(schema_of(highWaterMark=13)))
    added = [file(maxValues={"id": 19, "v": 900}), file(maxValues={"id": 16}), file(), AddFile("g", {}, 1, 0)]
    found = parse_schema(with_marks(metadata, ["id"], added).schema_string)
    assert found.fields[0].metadata["delta.identity.highWaterMark"] == 19
    assert found.fields[1] == schema_of().fields[1]
    assert with_marks(metadata, [], added) is metadata
    assert with_marks(metadata, ["id"], [file(maxValues={"id": 12})]) is metadata


def test_a_falling_columns_mark_is_its_smallest_value() -> None:
    metadata = Metadata("m", schema_json(schema_of(step=-3)))
    found = parse_schema(with_marks(metadata, ["id"], [file(minValues={"id": 2}, maxValues={"id": 10})]).schema_string)
    assert found.fields[0].metadata["delta.identity.highWaterMark"] == 1


@pytest.mark.parametrize("schema", [schema_of("integer"), schema_of(step=0), schema_of(start="x")], ids=["type", "step", "start"])
def test_an_inconsistent_column_is_refused(schema: StructType) -> None:
    with pytest.raises(CorruptTableError, match="DELTA_IDENTITY_COLUMN_INCONSISTENT_METADATA"):
        identity_columns(schema)


def test_who_may_give_values() -> None:
    always, by_default = identity_columns(schema_of()), identity_columns(schema_of(allowExplicitInsert=True))
    assert unnamed(always, ["v"]) == always
    assert unnamed(by_default, ["id", "v"]) == ()
    with pytest.raises(AnalysisError, match="DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED"):
        unnamed(always, ["id"])
    check_update(always, [("v",), ("st", "id")])
    with pytest.raises(AnalysisError, match="DELTA_IDENTITY_COLUMNS_UPDATE_NOT_SUPPORTED"):
        check_update(by_default, [("v",), ("id",)])


@pytest.mark.parametrize(("mark", "later", "next"), [(None, 16, 19), (13, 22, 25), (22, 13, 25), (13, None, 16)])
def test_a_schema_takes_the_farther_mark(mark: int | None, later: int | None, next: int) -> None:
    marked, other = (schema_of(**({} if m is None else {"highWaterMark": m})) for m in (mark, later))
    found = with_later_marks(marked, other)
    assert identity_columns(found)[0].next == next
    assert (found is marked) == (later is None or (mark is not None and mark >= later))
