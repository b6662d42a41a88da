"""What rows take that are there many times, told without making them."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from deltamerge.protocol.values.widths import are_within, repeated_bytes

ROWS = 40
COLUMNS: dict[str, tuple[pa.DataType, Any]] = {
    "long": (pa.int64(), lambda n: n),
    "boolean": (pa.bool_(), lambda n: n % 2 == 0),
    "date": (pa.date32(), lambda n: date(2020, 1, 1)),
    "decimal": (pa.decimal128(20, 2), Decimal),
    "text": (pa.string(), lambda n: "x" * n * n),
    "bytes": (pa.large_binary(), lambda n: b"x" * n * n),
    "struct": (pa.struct([("a", pa.string()), ("b", pa.int32())]), lambda n: {"a": "y" * n * n, "b": n}),
    "list": (pa.list_(pa.string()), lambda n: ["z" * 50] * n),
    "list of lists": (pa.list_(pa.list_(pa.int64())), lambda n: [[n] * n] * n),
    "map": (pa.map_(pa.string(), pa.list_(pa.int32())), lambda n: [(str(k), [n] * n) for k in range(n)]),
    "void": (pa.null(), lambda n: None),
}


@pytest.mark.parametrize("name", list(COLUMNS))
@pytest.mark.parametrize("rows", [[0] * 1_000, [ROWS - 1] * 1_000, list(range(ROWS)) * 25, [], [3, 3, 17]], ids=str)
@pytest.mark.parametrize("chunks", [1, 3])
def test_the_estimate_is_what_the_taken_rows_have(name: str, rows: list[int], chunks: int) -> None:
    type, value = COLUMNS[name]
    values = [None if n % 7 == 3 else value(n) for n in range(ROWS)]
    parts = [pa.array(part, type) for part in np.array_split(np.array(values, object), chunks)]
    table = pa.table({"c": pa.chunked_array(parts, type)})
    taken = table.take(pa.array(rows, pa.int64())).combine_chunks()
    assert repeated_bytes(table, np.array(rows, np.int64)) == pytest.approx(taken.nbytes, rel=0.2, abs=5 * len(rows) + 64)


def test_a_slice_counts_its_own_rows() -> None:
    table = pa.table({"c": ["x" * 1_000, "y", "z"], "l": [["x" * 1_000], ["y"], None]})
    assert repeated_bytes(table.slice(1), np.array([0, 1, 1])) < 100
    assert repeated_bytes(table, np.array([0, 0])) > 4_000


def test_columns_add_up() -> None:
    table = pa.table({"a": pa.array([1, 2], pa.int64()), "b": pa.array([1, 2], pa.int32())})
    assert repeated_bytes(table, np.array([0, 1, 1])) == 36
    assert repeated_bytes(table.select([]), np.array([0, 1, 1])) == 0


@pytest.mark.parametrize("rows", [[], [0, 1, 2], [2, 1], [1] * 50, [0, 0]], ids=str)
def test_rows_of_two_sides_are_within_what_they_take(rows: list[int]) -> None:
    """One long row taken often takes much, and a short one taken often little."""
    table, taken = pa.table({"c": ["x" * 1_000, "y", "z"]}), np.array(rows, np.int64)
    sides = [(table, taken), (table.select([]), taken), (table, np.array([1], np.int64))]
    total = repeated_bytes(table, taken) + repeated_bytes(table, np.array([1]))
    assert are_within(sides, total)
    assert not are_within(sides, total - 1)
    assert not are_within([(table, np.array([0] * 1_000))], 900_000)
