"""Columns of data files become columns of the table's schema: names, missing fields, widths, nesting."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamerge.protocol.table.column_mapping import FIELD_ID, PARQUET_ID, PHYSICAL
from deltamerge.worker.scan.columns import conform, conform_table, padded, physical_name, stored_names, stored_table, within
from deltamerge.worker.scan.row_errors import Refused
from tests.unit.worker.data import BROKEN, UTC_TIME, examples


@dataclass(frozen=True)
class Shape:
    """A type as a file has it, the type that the table wants, and what the one's values are in the other."""

    stored: pa.DataType
    wanted: pa.DataType
    values: st.SearchStrategy[Any]
    converted: Callable[[Any], Any]


LEAVES = [
    Shape(pa.int32(), pa.int64(), st.integers(-5, 5), lambda value: value),
    Shape(pa.float32(), pa.float64(), st.sampled_from([0.5, -2.0]), lambda value: value),
    Shape(pa.string(), pa.string(), st.text(max_size=3), lambda value: value),
    Shape(pa.decimal128(5, 2), pa.decimal128(10, 2), st.sampled_from([Decimal("1.25"), Decimal("-0.50")]), lambda value: value),
]


def field_named(logical: str, physical: str, type: pa.DataType) -> pa.Field:
    return pa.field(logical, type, metadata={PHYSICAL: physical.encode()})


@st.composite
def structs(draw: st.DrawFn, inner: st.SearchStrategy[Shape]) -> Shape:
    """Structs with fields under physical names: some the table has dropped, some the file has never seen."""
    kept = draw(st.lists(inner, min_size=1, max_size=2))
    missing, dropped = draw(st.lists(inner, max_size=1)), draw(st.lists(inner, max_size=1))
    stored = {f"p{i}": shape for i, shape in enumerate(kept)} | {f"gone{i}": shape for i, shape in enumerate(dropped)}
    fields = [field_named(f"f{i}", f"p{i}", shape.wanted) for i, shape in enumerate(kept)]
    fields += [field_named(f"n{i}", f"q{i}", shape.wanted) for i, shape in enumerate(missing)]
    order = draw(st.permutations(fields))

    def converted(value: dict[str, Any]) -> dict[str, Any]:
        named = {f"f{i}": _or_none(shape, value[f"p{i}"]) for i, shape in enumerate(kept)}
        return {field.name: named.get(field.name) for field in order}

    return Shape(
        pa.struct([(name, shape.stored) for name, shape in stored.items()]),
        pa.struct(order),
        st.fixed_dictionaries({name: st.none() | shape.values for name, shape in stored.items()}),
        converted,
    )


def lists(inner: st.SearchStrategy[Shape]) -> st.SearchStrategy[Shape]:
    return inner.map(
        lambda shape: Shape(
            pa.list_(shape.stored),
            pa.list_(pa.field("element", shape.wanted)),
            st.lists(st.none() | shape.values, max_size=3),
            lambda values: [_or_none(shape, value) for value in values],
        )
    )


def maps(inner: st.SearchStrategy[Shape]) -> st.SearchStrategy[Shape]:
    return inner.map(
        lambda shape: Shape(
            pa.map_(pa.int32(), shape.stored),
            pa.map_(pa.int64(), shape.wanted),
            st.dictionaries(st.integers(0, 9), st.none() | shape.values, max_size=3).map(lambda found: list(found.items())),
            lambda pairs: [(key, _or_none(shape, value)) for key, value in pairs],
        )
    )


def _or_none(shape: Shape, value: Any) -> Any:
    return None if value is None else shape.converted(value)


shapes = st.recursive(st.sampled_from(LEAVES), lambda inner: structs(inner) | lists(inner) | maps(inner), max_leaves=4)


@st.composite
def columns(draw: st.DrawFn) -> tuple[Shape, list[Any], int, int]:
    shape = draw(shapes)
    values = draw(st.lists(st.none() | shape.values, max_size=6))
    start = draw(st.integers(0, len(values)))
    return shape, values, start, draw(st.integers(start, len(values)))


@examples
@given(columns())
def test_nested_values_survive_widening_renaming_and_slicing(column: tuple[Shape, list[Any], int, int]) -> None:
    shape, values, start, end = column
    array = pa.array(values, shape.stored).slice(start, end - start)
    found = conform(pa.chunked_array([array, array]), shape.wanted)
    found.validate(full=True)
    assert found.type == shape.wanted
    assert found.to_pylist() == [_or_none(shape, value) for value in values[start:end]] * 2


@examples
@given(columns())
def test_a_table_renamed_for_a_file_is_read_back_as_it_was(column: tuple[Shape, list[Any], int, int]) -> None:
    shape, values, start, end = column
    array = conform(pa.array(values, shape.stored), shape.wanted).slice(start, end - start)
    logical = pa.schema([field_named("logical", "physical", shape.wanted)])
    physical = pa.schema([("physical", physical_type(shape.wanted))])
    stored = stored_table(pa.table([array], schema=logical), physical)
    stored.validate(full=True)
    assert stored.schema == physical
    assert conform_table(stored, logical).to_pylist() == [{"logical": value} for value in array.to_pylist()]


def physical_type(type: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(type):
        return pa.struct([(physical_name(field), physical_type(field.type)) for field in type])
    if pa.types.is_list(type):
        return pa.list_(pa.field("element", physical_type(type.value_type)))
    return pa.map_(type.key_type, physical_type(type.item_type)) if pa.types.is_map(type) else type


def test_columns_are_found_by_physical_name_and_missing_ones_are_null() -> None:
    schema = pa.schema([pa.field("new", pa.string()), field_named("id", "col-1", pa.int64()), pa.field("same", pa.int32())])
    found = conform_table(pa.table({"same": pa.array([1, 2], pa.int32()), "id": [8, 9], "col-1": [3, 4]}), schema)
    assert found.schema == schema
    assert found.to_pylist() == [{"new": None, "id": 3, "same": 1}, {"new": None, "id": 4, "same": 2}]


@pytest.mark.parametrize(
    ("stored", "wanted", "expected"),
    [
        (pa.array(["a", None, "a"]).dictionary_encode(), pa.string(), ["a", None, "a"]),
        (pa.array(["a", None], pa.large_string()), pa.string(), ["a", None]),
        (pa.array([[1], None, []], pa.large_list(pa.int32())), pa.list_(pa.int64()), [[1], None, []]),
        (pa.array([[1, 2], None, [], [3]], pa.list_view(pa.int32())).slice(1), pa.list_(pa.int64()), [None, [], [3]]),
        (pa.array([[1, 2], [3, 4]], pa.list_(pa.int32(), 2)).slice(1), pa.list_(pa.int64()), [[3, 4]]),
        (
            pa.array([{"l": [1]}], pa.struct({"l": pa.large_list_view(pa.int64())})),
            pa.struct({"l": pa.list_(pa.int64())}),
            [{"l": [1]}],
        ),
        (pa.array([1], pa.int8()), pa.float64(), [1.0]),
        (pa.array([date(1999, 1, 2)]), pa.timestamp("us"), [datetime.fromisoformat("1999-01-02")]),
        (pa.array([1, None], pa.int32()), pa.decimal128(12, 2), [Decimal("1.00"), None]),
    ],
    ids=[
        "dictionary",
        "large string",
        "large list",
        "list view",
        "sized list",
        "nested list view",
        "byte to double",
        "date to timestamp",
        "int to decimal",
    ],
)
def test_other_writers_types_and_widened_ones_become_the_tables(stored: pa.Array, wanted: pa.DataType, expected: Any) -> None:
    found = conform(stored, wanted)
    found.validate(full=True)
    assert found.type == wanted
    assert found.to_pylist() == expected


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
@pytest.mark.parametrize("wanted", [UTC_TIME, pa.timestamp("us")], ids=str)
def test_timestamps_keep_their_instant_whatever_the_files_label(zone: str | None, wanted: pa.DataType) -> None:
    micros = [1_583_000_000_000_001, -1, None]
    found = conform(pa.array(micros).cast(pa.timestamp("us", zone)), wanted)
    assert found.type == wanted
    assert found.cast(pa.int64()).to_pylist() == micros


def test_columns_of_the_right_type_are_not_copied() -> None:
    column = pa.chunked_array([[1, 2], [3]])
    assert conform(column, pa.int64()) is column


def test_a_value_that_the_tables_type_cannot_hold_is_an_error() -> None:
    with pytest.raises(pa.ArrowInvalid):
        conform(pa.array([1 << 20], pa.int32()), pa.int8())


def test_bytes_that_are_no_utf8_become_texts_as_they_are() -> None:
    found = conform(pa.array([*BROKEN, None]), pa.string())
    assert found.type == pa.string()
    assert found.cast(pa.binary()).to_pylist() == [*BROKEN, None]
    back = stored_table(pa.table({"c": pa.array([*BROKEN])}), pa.schema([("c", pa.string())]))
    assert back["c"].cast(pa.binary()).to_pylist() == [*BROKEN]


def test_a_column_that_a_file_holds_as_something_else_is_named() -> None:
    with pytest.raises(Refused, match=r"'n' of the data file, which holds int32, is not read as int8: .*1048576") as caught:
        conform_table(pa.table({"n": pa.array([1 << 20], pa.int32())}), pa.schema([("n", pa.int8())]))
    assert caught.value.condition == "DELTAMERGE_CORRUPT_DATA_FILE"


def test_names_that_were_swapped_within_a_struct_are_not_mixed_up() -> None:
    stored = pa.array([{"a": 1, "b": 2}], pa.struct([("a", pa.int64()), ("b", pa.int64())]))
    wanted = pa.struct([field_named("a", "b", pa.int64()), field_named("b", "a", pa.int64())])
    assert stored.type == wanted
    for nested, type in ((stored, wanted), (pa.array([[stored[0].as_py()]], pa.list_(stored.type)), pa.list_(wanted))):
        found = conform(nested, type).to_pylist()[0]
        assert (found[0] if isinstance(found, list) else found) == {"a": 2, "b": 1}


def with_id(name: str, type: pa.DataType, key: bytes, id: int) -> pa.Field:
    return pa.field(name, type, metadata={key: str(id).encode()})


def test_ids_decide_whatever_the_names(tmp_path: Path) -> None:
    inner = pa.struct([with_id("y", pa.int32(), PARQUET_ID, 4), with_id("x", pa.int32(), PARQUET_ID, 5)])
    stored = pa.schema([with_id("b", pa.int32(), PARQUET_ID, 1), with_id("a", pa.list_(inner), PARQUET_ID, 2)])
    rows = pa.table([[7], [[{"y": 8, "x": 9}]]], schema=stored)
    pq.write_table(rows, tmp_path / "f.parquet")
    element = pa.struct([with_id("x", pa.int64(), FIELD_ID, 4), with_id("new", pa.int64(), FIELD_ID, 6)])
    schema = pa.schema([with_id("a", pa.int64(), FIELD_ID, 1), with_id("b", pa.list_(element), FIELD_ID, 2)])
    file = pq.ParquetFile(tmp_path / "f.parquet")
    assert stored_names(file, schema) == ["b", "a"]
    found = conform_table(file.read(stored_names(file, schema)), schema)
    assert found.to_pylist() == [{"a": 7, "b": [{"x": 8, "new": None}]}]


def test_a_file_without_ids_is_refused_where_ids_decide(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), tmp_path / "f.parquet")
    with pytest.raises(Refused) as caught:
        stored_names(pq.ParquetFile(tmp_path / "f.parquet"), pa.schema([with_id("a", pa.int64(), FIELD_ID, 1)]))
    assert caught.value.condition == "DELTAMERGE_MISSING_FIELD_IDS"


def test_a_column_is_found_whatever_its_case_unless_two_could_be_meant() -> None:
    schema = pa.schema([("Id", pa.int64())])
    assert conform_table(pa.table({"ID": [1]}), schema).to_pylist() == [{"Id": 1}]
    assert conform_table(pa.table({"ID": [1], "Id": [2]}), schema).to_pylist() == [{"Id": 2}]
    for ambiguous in (["ID", "id"], ["Id", "Id"]):
        with pytest.raises(Refused, match=r"DELTAMERGE_AMBIGUOUS_COLUMN.*'Id'"):
            conform_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=ambiguous), schema)


def test_void_columns_and_fields_leave_for_a_file_and_come_back_as_nulls() -> None:
    struct = pa.struct([("v", pa.null()), ("x", pa.int64())])
    rows = pa.table([pa.array([{"x": 1}, None], struct), pa.nulls(2)], schema=pa.schema([("s", struct), ("w", pa.null())]))
    stored = stored_table(rows, pa.schema([("s", pa.struct([("x", pa.int64())]))]))
    assert stored.to_pylist() == [{"s": {"x": 1}}, {"s": None}]
    assert conform_table(stored, rows.schema).to_pylist() == rows.to_pylist()


NESTED = pa.struct([("c", pa.string()), ("n", pa.int32())])
OF_NESTED = pa.chunked_array(
    [
        pa.array(
            [
                [("left out", [{"c": "left out", "n": 0}])],
                [("k", [{"c": "ab", "n": 1}, None, {"c": None, "n": 2}]), ("l", None)],
                None,
                [("m", [{"c": "x", "n": 3}])],
            ],
            pa.map_(pa.string(), pa.list_(NESTED)),
        ).slice(1)
    ]
)


def test_texts_are_found_within_what_is_nested() -> None:
    assert within(OF_NESTED, ("key",)).to_pylist() == ["k", "l", "m"]
    assert within(OF_NESTED, ("value", "element", "c")).to_pylist() == ["ab", None, None, "x"]
    hidden = pa.StructArray.from_arrays([pa.array(["long", "x"])], ["c"], mask=pa.array([True, False]))
    assert within(pa.chunked_array([hidden]), ("c",)).to_pylist() == [None, "x"]


def test_texts_are_padded_within_what_is_nested() -> None:
    lengths = [(("key",), 2), (("value", "element", "c"), 3)]
    assert padded(OF_NESTED, lengths).to_pylist() == [
        [("k ", [{"c": "ab ", "n": 1}, None, {"c": None, "n": 2}]), ("l ", None)],
        None,
        [("m ", [{"c": "x  ", "n": 3}])],
    ]
    assert padded(OF_NESTED, []) is OF_NESTED
