"""A preview counts what a merge writes: rows by clause, files in which rows change, and target rows that are changed twice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltamerge.worker.scan.row_errors import Refused
from deltamerge.worker.scan.scan import FILE, ROW
from deltamerge.worker.scan.streams import read_stream
from deltamerge.worker.write.apply import apply_changes
from deltamerge.worker.write.results import COUNTS, SAMPLE, TOUCHED
from deltamerge.worker.write.rewrite import CLAUSE, ChangeSpec, ClauseAction
from tests.unit.worker.data import data_files, write_spec

SCHEMA = pa.schema([("id", pa.int64())])
CLAUSES = (ClauseAction("update", frozenset({"id"})), ClauseAction("delete"), ClauseAction("insert"))


def changes(*rows: tuple[int | None, int | None, int]) -> pa.Table:
    """Changed rows by file, position and clause; the id is the position."""
    columns = [pa.array([row[at] for row in rows], type) for at, type in ((0, pa.int32()), (1, pa.int64()), (2, pa.int32()))]
    return pa.table([*columns, columns[1]], names=[FILE, ROW, CLAUSE, "id"])


CHANGED = changes(
    (None, None, 2), (None, None, 2), (0, 3, 0), (0, 4, 1), (0, 9, 0), (2, 1, 0), (2, 1, 0), (2, 1, 1), (2, 5, 0), (2, 5, 0)
)


@pytest.mark.parametrize("size", [1, 3, 100])
@pytest.mark.parametrize("ignores", [False, True])
def test_rows_are_counted_and_shown(tmp_path: Path, size: int, ignores: bool) -> None:
    spec = ChangeSpec(write_spec(tmp_path, SCHEMA), CLAUSES, {}, ignores, sample=2)
    (batch,) = apply_changes(spec, CHANGED.to_batches(max_chunksize=size), 0)
    rows: list[dict[str, Any]] = batch.to_pylist()
    assert [row["counts"] for row in rows if row["kind"] == COUNTS] == [[4, 1, 2, 0, 0 if ignores else 2]]
    assert [row["file"] for row in rows if row["kind"] == TOUCHED] == [0, 2]
    (shown,) = [
        read_stream(value) for value, kind in zip(batch["positions"], batch["kind"], strict=True) if kind.as_py() == SAMPLE
    ]
    found = list(zip(*(shown[name].to_pylist() for name in (FILE, ROW, CLAUSE)), strict=True))
    assert sorted(found, key=str) == sorted([(None, None, 2), (None, None, 2), (0, 3, 0), (0, 4, 1), (0, 9, 0)], key=str)
    assert data_files(tmp_path) == []


@pytest.mark.parametrize(
    ("clause", "name", "refused"),
    [
        (0, None, None),
        (0, "abcd", "CHAR_VARCHAR"),
        (1, None, None),
        (2, None, "NOT_NULL"),
        (2, "abcd", "CHAR_VARCHAR"),
        (2, "abc", None),
    ],
)
def test_values_that_could_not_be_written_are_refused(tmp_path: Path, clause: int, name: str | None, refused: str | None) -> None:
    """The update sets a name that must not be too long; the insert must set one, and a delete sets nothing."""
    schema = pa.schema([("id", pa.int64()), ("name", pa.string())])
    write = write_spec(tmp_path, schema, required=(("id",), ("name",)) if clause == 2 else (("id",),), lengths=((("name",), 3),))
    clauses = (ClauseAction("update", frozenset({"name"})), ClauseAction("delete"), ClauseAction("insert"))
    rows = changes((None, None, 2) if clause == 2 else (0, 3, clause)).append_column("name", pa.array([name], pa.string()))
    rows = rows.set_column(3, "id", pa.array([1 if clause == 2 else None], pa.int64()))
    spec = ChangeSpec(write, clauses, {}, sample=5)
    if refused is None:
        assert len(list(apply_changes(spec, rows.to_batches(), 0))) == 1
    else:
        with pytest.raises(Refused, match=refused):
            list(apply_changes(spec, rows.to_batches(), 0))


def test_nothing_is_counted_as_nothing(tmp_path: Path) -> None:
    spec = replace(ChangeSpec(write_spec(tmp_path, SCHEMA), CLAUSES, {}), sample=5)
    (batch,) = apply_changes(spec, [], 0)
    assert [(row["kind"], row["counts"]) for row in batch.to_pylist()] == [(COUNTS, [0, 0, 0, 0, 0])]
