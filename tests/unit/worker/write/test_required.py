"""Columns, fields, elements and values that must not be null."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltamerge.worker.scan.row_errors import Refused
from deltamerge.worker.write.write import DataFileWriter, PartitionWriters, check_required
from tests.unit.worker.data import write_spec

PERSON = pa.struct([("name", pa.string()), ("home", pa.struct([("city", pa.string())]))])


@pytest.mark.parametrize(
    ("path", "row"),
    [
        (("id",), {"id": None, "person": None}),
        (("person",), {"id": 1, "person": None}),
        (("person", "name"), {"id": 1, "person": {"name": None, "home": None}}),
        (("person", "home", "city"), {"id": 1, "person": {"name": "a", "home": {"city": None}}}),
    ],
    ids=lambda value: ".".join(value) if isinstance(value, tuple) else "",
)
def test_a_null_in_a_required_column_is_refused_by_name(tmp_path: Path, path: tuple[str, ...], row: dict[str, Any]) -> None:
    schema = pa.schema([("id", pa.int64()), ("person", PERSON)])
    full = {"id": 1, "person": {"name": "a", "home": {"city": "b"}}}
    writer = DataFileWriter(write_spec(tmp_path, schema, required=(path,)), {}, "", 0)
    writer.write(pa.Table.from_pylist([full], schema))
    with pytest.raises(Refused) as refused:
        writer.write(pa.Table.from_pylist([full, row], schema))
    assert refused.value.condition == "DELTA_NOT_NULL_CONSTRAINT_VIOLATED"
    assert refused.value.parameters == (".".join(path),)


def test_a_required_field_may_be_missing_with_its_parent() -> None:
    schema = pa.schema([("person", PERSON)])
    rows = [{"person": None}, {"person": {"name": "a", "home": None}}]
    check_required([("person", "name"), ("person", "home", "city")], pa.Table.from_pylist(rows, schema))


NESTED = pa.schema(
    [
        ("a", pa.list_(pa.int32())),
        ("m", pa.map_(pa.string(), pa.int32())),
        ("st", pa.struct([("in", pa.list_(pa.struct([("b", pa.list_(pa.int32()))])))])),
    ]
)
BELOW = ("st", "in", "element")
ELEMENTS = (("a", "element"), ("m", "value"), (*BELOW, "b"), (*BELOW, "b", "element"))


@pytest.mark.parametrize(
    ("row", "name"),
    [
        ({"a": [1, None]}, "a.element"),
        ({"m": [("k", None)]}, "m.value"),
        ({"st": {"in": [{"b": [1]}, {"b": [2, None]}]}}, "st.in.element.b.element"),
        ({"st": {"in": [None, {"b": None}]}}, "st.in.element.b"),
    ],
)
def test_a_null_within_an_array_or_map_that_has_none_is_refused_by_name(row: dict[str, Any], name: str) -> None:
    table = pa.Table.from_pylist([{"a": [1], "m": None, "st": None}, row], NESTED)
    with pytest.raises(Refused) as refused:
        check_required(ELEMENTS, table)
    assert (refused.value.condition, refused.value.parameters) == ("DELTA_NOT_NULL_CONSTRAINT_VIOLATED", (name,))
    check_required(ELEMENTS, table.slice(0, 1))


def test_arrays_and_maps_that_have_no_nulls_may_be_null_or_empty_themselves() -> None:
    rows = [{}, {"a": [], "m": [], "st": {"in": None}}, {"st": {"in": [None, {"b": []}]}}]
    check_required(ELEMENTS, pa.Table.from_pylist(rows, NESTED))
    check_required(ELEMENTS, pa.table({"other": [None]}))


def test_a_required_partition_column_is_checked_too(tmp_path: Path) -> None:
    schema = pa.schema([("p", pa.string()), ("id", pa.int64())])
    writers = PartitionWriters(write_spec(tmp_path, schema, ["p"], required=(("p",),)), 0)
    with pytest.raises(Refused, match="NOT NULL constraint violated for column: p"):
        writers.write(pa.table({"p": pa.array([None], pa.string()), "id": [1]}, schema=schema))
