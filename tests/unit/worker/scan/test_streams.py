"""Rows on their way between tasks: what is unpacked is what was packed, and whole numbers take no more bytes than they need."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from deltamerge.worker.scan.streams import packed_rows, read_stream, unpacked_rows

TYPES = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}
# The least and the greatest numbers of each width, and their neighbours.
EDGES = sorted({sign * (1 << width - 1) + step for width in TYPES for sign in (-1, 1) for step in (-1, 0, 1)})


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """Columns of whole numbers with nulls, in one or more chunks, beside ones of other types, with metadata."""
    rows = draw(st.integers(0, 9))
    columns, fields = [], []
    for at, width in enumerate(draw(st.lists(st.sampled_from(sorted(TYPES)), max_size=5))):
        limit = 1 << width - 1
        number = st.one_of(st.sampled_from([edge for edge in EDGES if -limit <= edge < limit]), st.integers(-9, 9))
        values = draw(st.lists(st.one_of(st.none(), number), min_size=rows, max_size=rows))
        type, cut = TYPES[width], draw(st.integers(0, rows))
        columns.append(pa.chunked_array([pa.array(values[:cut], type), pa.array(values[cut:], type)]))
        fields.append(pa.field(f"n{at}", type, nullable=draw(st.booleans()), metadata={"id": str(at)}))
    others = {
        "text": pa.array(["x" * n for n in range(rows)]),
        "date": pa.array(range(rows), pa.date32()),
        "long ago": pa.array(range(rows), pa.timestamp("us", "UTC")),
        "double": pa.array(range(rows), pa.float64()),
        "nested": pa.array([{"a": n} for n in range(rows)], pa.struct([("a", pa.int64())])),
    }
    fields += [pa.field(name, values.type) for name, values in others.items()]
    metadata = draw(st.sampled_from([None, {"of": "the user"}]))
    return pa.table([*columns, *others.values()], schema=pa.schema(fields, metadata=metadata))


@given(tables(), st.sampled_from([0, 5, 100]))
@example(pa.table({"a": pa.array([None, None], pa.int64())}), 0)
def test_what_is_unpacked_is_what_was_packed(table: pa.Table, narrow_rows: int) -> None:
    [payload] = packed_rows(table, narrow_rows)
    found = unpacked_rows(payload)
    assert found.equals(table)
    assert found.schema.equals(table.schema, check_metadata=True)


@pytest.mark.parametrize(("stored", "needed"), [(stored, needed) for stored in TYPES for needed in TYPES if needed <= stored])
def test_numbers_travel_in_the_narrowest_type_that_has_all_of_them(stored: int, needed: int) -> None:
    limit = 1 << needed - 1
    for values in ([-limit, 0], [limit - 1, None], [0, limit - 1]):
        [payload] = packed_rows(pa.table({"n": pa.array(values, TYPES[stored])}), 2)
        assert read_stream(payload).schema.field("n").type == TYPES[needed]


@pytest.mark.parametrize(("width", "next_one"), [(8, 16), (16, 32), (32, 64)])
def test_a_number_beyond_a_type_travels_in_the_next_one_and_comes_back(width: int, next_one: int) -> None:
    limit = 1 << width - 1
    for value in (limit, -limit - 1):
        table = pa.table({"n": pa.array([value, 0], pa.int64())})
        [payload] = packed_rows(table, 0)
        assert read_stream(payload).schema.field("n").type == TYPES[next_one]
        assert unpacked_rows(payload).equals(table)


def test_other_columns_and_few_rows_travel_as_they_are() -> None:
    values = pa.array([1, 2, 3], pa.int64())
    for table, rows in (
        (pa.table({"n": values}), 4),
        (pa.table({"n": values.cast(pa.timestamp("us")), "d": values.cast(pa.float64())}), 0),
    ):
        [payload] = packed_rows(table, rows)
        assert read_stream(payload).schema.equals(table.schema, check_metadata=True)


def test_a_slice_and_what_lies_beneath_nulls_are_no_matter() -> None:
    hidden = pa.Array.from_buffers(pa.int64(), 3, [pa.py_buffer(b"\x05"), pa.py_buffer(np.array([1, 1 << 40, 3]))])
    table = pa.table({"n": pa.concat_arrays([pa.array([1 << 50], pa.int64()), hidden])}).slice(1)
    [payload] = packed_rows(table, 0)
    assert read_stream(payload).column("n").type == pa.int8()
    assert unpacked_rows(payload).column("n").to_pylist() == [1, None, 3]


def test_numbers_without_nulls_have_no_bit_map_when_they_come_back() -> None:
    table = pa.table({"n": pa.array(range(10_000), pa.int64())})
    [payload] = packed_rows(table, 0)
    assert unpacked_rows(payload).nbytes == table.nbytes


def test_narrow_numbers_take_fewer_bytes() -> None:
    numbers = np.random.default_rng(1).integers(0, 30_000, 100_000)
    table = pa.table({"n": pa.array(numbers)})
    narrow, wide = packed_rows(table, 0), packed_rows(table, 1 << 20)
    assert narrow.nbytes * 1.5 < wide.nbytes
