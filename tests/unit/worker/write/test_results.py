"""Result rows carry what a task wrote to the driver, partition values with their types."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamerge.worker.write.results import (
    ADD,
    COUNTS,
    RESULT_SCHEMA,
    TOUCHED,
    pack_partition,
    result_batch,
    touched_batch,
    unpack_partition,
    written_row,
)
from deltamerge.worker.write.write import WrittenFile
from tests.unit.worker.data import VALUES, examples


@examples
@given(st.lists(st.sampled_from(list(VALUES.items())), max_size=4), st.data())
def test_partition_values_come_back_as_they_were(columns: list[tuple[pa.DataType, Any]], data: st.DataObject) -> None:
    values = {f"p{i}": data.draw(st.none() | strategy) for i, (_, strategy) in enumerate(columns)}
    packed = {name: pa.scalar(value, type) for (name, value), (type, _) in zip(values.items(), columns, strict=True)}
    found = unpack_partition(pack_partition(packed))
    assert {name: value.type for name, value in found.items()} == {name: value.type for name, value in packed.items()}
    assert repr({name: value.as_py() for name, value in found.items()}) == repr(values)


@pytest.mark.parametrize("value", [math.nan, -0.0, math.inf])
def test_special_floats_come_back_as_they_were(value: float) -> None:
    assert repr(unpack_partition(pack_partition({"p": pa.scalar(value)}))["p"].as_py()) == repr(value)


def test_a_written_files_row_says_all_that_the_driver_needs() -> None:
    written = WrittenFile("p=1/part", {"p": pa.scalar(1)}, 100, 1_600_000_000_000, 3, "{}")
    (row,) = result_batch([written_row(ADD, written)]).to_pylist()
    assert unpack_partition(row.pop("partition")) == {"p": pa.scalar(1)}
    assert {name: value for name, value in row.items() if value is not None} == {
        "kind": "add",
        "name": "p=1/part",
        "size": 100,
        "modified": 1_600_000_000_000,
        "rows": 3,
        "stats": "{}",
    }


def test_rows_of_all_kinds_share_one_batch_with_nulls_for_what_they_lack() -> None:
    batch = result_batch([{"kind": TOUCHED, "file": 2, "rows": 9}, {"kind": COUNTS, "counts": [1, 2]}])
    assert batch.schema == RESULT_SCHEMA
    assert batch.column("file").to_pylist() == [2, None]
    assert batch.column("counts").to_pylist() == [None, [1, 2]]


def test_no_rows_are_an_empty_batch() -> None:
    batch = result_batch([])
    assert batch.schema == RESULT_SCHEMA
    assert batch.num_rows == 0


@pytest.mark.parametrize("files", [[], [3, 1, 4]])
def test_files_that_leave_whole_are_as_if_each_had_a_row(files: list[int]) -> None:
    rows = [{"kind": TOUCHED, "file": file, "rows": 0} for file in files]
    assert touched_batch(files).equals(result_batch(rows))
