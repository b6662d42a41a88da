"""Parquet files of a source, as workers read them: certain files alone, rows by their positions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltamerge.worker.scan.outcomes import AttemptEnded, SourceUnreadable
from deltamerge.worker.scan.scan import FileTask
from deltamerge.worker.scan.source import BIN, POSITION, SourceSpec, rows_at, source_rows
from deltamerge.worker.scan.store import DataStore

STORE = DataStore("file", "/")
SCHEMA = pa.schema([("k", pa.int64()), ("w", pa.string())])


def spec_of(folder: Path, sizes: tuple[int, ...] = (5, 7)) -> SourceSpec:
    """Files of so many rows, numbered through, in row groups of three, all in one bin."""
    names, first = [], 0
    for number, size in enumerate(sizes):
        keys = pa.array(range(first, first + size), pa.int64())
        table = pa.table({"w": [f"w{key}" for key in keys.to_pylist()], "k": keys, "x": pa.nulls(size, pa.int8())})
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=3)
        names.append(str(folder / f"{number}.parquet"))
        first += size
    tasks = tuple(FileTask(number, name, {}) for number, name in enumerate(names))
    return SourceSpec(STORE, SCHEMA, (tasks,), {name: STORE.stamp(name) for name in names})


def test_rows_come_in_order_with_their_positions(tmp_path: Path) -> None:
    spec = spec_of(tmp_path)
    rows = pa.concat_tables(source_rows(spec, 0))
    assert rows.schema == SCHEMA
    assert rows["k"].to_pylist() == list(range(12))
    binned = pa.concat_tables(source_rows(replace(spec, columns=("k",), positioned=True), 0))
    assert binned.column_names == ["k", BIN, POSITION]
    assert binned["k"].to_pylist() == binned[POSITION].to_pylist()
    assert set(binned[BIN].to_pylist()) == {0}


def test_rows_are_found_by_their_positions(tmp_path: Path) -> None:
    found = pa.concat_tables(rows_at(spec_of(tmp_path), 0, np.array([0, 4, 5, 11])))
    assert found.to_pylist() == [{"k": key, "w": f"w{key}"} for key in (0, 4, 5, 11)]


def test_files_that_are_not_certain_are_not_read(tmp_path: Path) -> None:
    spec = spec_of(tmp_path)
    name = str(tmp_path / "1.parquet")
    others = [
        replace(spec, stamps={**spec.stamps, name: (1, 1)}),
        replace(spec, schema=pa.schema([("k", pa.int32())])),
        replace(spec, schema=pa.schema([*SCHEMA, ("y", pa.int8())]), columns=("k",)),
        replace(spec, bins=((FileTask(0, str(tmp_path / "gone.parquet"), {}),),)),
    ]
    for other in others:
        with pytest.raises(AttemptEnded) as caught:
            list(source_rows(other, 0))
        assert isinstance(caught.value.outcome, SourceUnreadable)
