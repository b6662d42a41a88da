"""How changed rows are cut into pieces of work: by file when files are rewritten, in as few as fit when rows are marked."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamerge.budgets import Budgets
from deltamerge.errors import ConstraintError
from deltamerge.merge.execute.sink import (
    _ascend,
    _by_partition,
    _pieces,
    _read_bytes,
    _threaded,
    _together,
    repeated_positions,
    write_changes,
)
from deltamerge.worker.scan.scan import FILE, ROW, FileTask
from deltamerge.worker.write.rewrite import CLAUSE, ChangeSpec, ClauseAction
from tests.unit.worker.data import examples, vector_of, write_spec

SCHEMA = pa.schema([("id", pa.int64()), ("word", pa.string())])
DELETE, PART, WHOLE = (
    ClauseAction("delete"),
    ClauseAction("update", frozenset({"id"})),
    ClauseAction("update", frozenset(SCHEMA.names)),
)


def changes(*files: int | None, clause: int = 0) -> pa.Table:
    """A modified row for each file named, ordered by file, inserts last."""
    rows = list(range(len(files)))
    return pa.table(
        {FILE: pa.array(files, pa.int32()), ROW: pa.array(rows, pa.int64()), CLAUSE: pa.array([clause] * len(rows), pa.int32())}
    )


@examples
@given(st.lists(st.integers(0, 5) | st.none(), max_size=20), st.integers(1, 200), st.integers(1, 40))
def test_bundles_are_all_rows_in_order_and_split_no_file(files: list[int | None], most: int, each: int) -> None:
    table = changes(*sorted(files, key=lambda file: (file is None, file)))
    found = [piece for _, piece in _pieces(table, 64 << 20)]
    bundles = _together(found, [(piece.nbytes, each) for piece in found], (most, 100))
    assert pa.concat_tables([table.slice(0, 0), *bundles]).equals(table)
    owners = [{file for file in bundle[FILE].to_pylist() if file is not None} for bundle in bundles]
    assert sum(map(len, owners)) == len(set().union(*owners))
    assert all(bundle.num_rows for bundle in bundles)


def test_small_changes_of_many_files_are_one_piece() -> None:
    table = changes(0, 0, 3, 7, None, None)
    pieces = [piece for _, piece in _pieces(table, 64 << 20)]
    assert len(_together(pieces, [(1,)] * 4, (4,))) == 1
    assert [len(piece) for piece in _together(pieces, [(9,), (1,), (2,), (1,)], (3,))] == [2, 2, 2]


def test_what_is_small_of_a_partition_is_one_piece(tmp_path: Path) -> None:
    partitioned = pa.schema([("p", pa.string()), ("id", pa.int64())])
    tasks = {file: FileTask(file, f"{file}", {"p": pa.scalar(p)}) for file, p in enumerate(["a", "b", None, "b", "a"])}
    spec = ChangeSpec(
        replace(write_spec(tmp_path, partitioned, ["p"]), budgets=Budgets(small_files_bytes=2_000)), (WHOLE,), tasks
    )
    table = changes(0, 1, 2, 3, 4, 4, None, None, None, None).append_column("p", pa.array([None] * 6 + ["b", "c", None, "b"]))
    parts = _by_partition(spec, _pieces(table, 64 << 20), [100, 1_000, 10, 400, 1_950])
    found = [(sorted(zip(rows[FILE].to_pylist(), rows["p"].to_pylist(), strict=True), key=str), size) for rows, size in parts]
    pairs = [(0, None)], [(4, None), (4, None)], [(1, None), (3, None), (None, "b"), (None, "b")], [(2, None), (None, None)]
    assert [rows for rows, _ in found] == [*pairs, [(None, "c")]]
    assert [size for _, size in found][:2] == [100, 1_950]
    assert [size > given for (_, size), given in zip(found[2:], (1_400, 10, 0), strict=True)] == [True] * 3


def test_without_partitions_the_rows_stay_in_order(tmp_path: Path) -> None:
    table = changes(0, 3, 3, None, None)
    spec = ChangeSpec(write_spec(tmp_path, SCHEMA), (WHOLE,), {})
    ((rows, size),) = _by_partition(spec, _pieces(table, 64 << 20), [5, 0, 0, 7])
    assert rows.equals(table)
    assert size > 12
    assert _by_partition(spec, [], []) == []


def read_bytes(root: Path, rows: int | None, hits: int, clause: ClauseAction, share: float = 0.5, dead: int = 0) -> int:
    vector = vector_of(root, range(dead))
    task = FileTask(0, "f", {}, vector=vector, rows=rows)
    spec = ChangeSpec(write_spec(root, SCHEMA), (clause,), {0: task}, rewrite_share=share)
    return _read_bytes(spec, 0, 1_000, changes(*[0] * hits))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"rows": 10, "hits": 2, "clause": DELETE}, 0),
        ({"rows": 10, "hits": 2, "clause": WHOLE}, 0),
        ({"rows": 10, "hits": 2, "clause": PART}, 1_000),
        ({"rows": 10, "hits": 6, "clause": DELETE}, 1_000),
        ({"rows": 10, "hits": 10, "clause": DELETE}, 0),
        ({"rows": 10, "hits": 2, "dead": 4, "clause": DELETE}, 1_000),
        ({"rows": 10, "hits": 6, "dead": 4, "clause": DELETE}, 0),
        ({"rows": None, "hits": 2, "clause": DELETE}, 1_000),
        ({"rows": 10, "hits": 2, "clause": DELETE, "share": 0.0}, 1_000),
    ],
    ids=str,
)
def test_a_file_is_only_read_for_rows_that_stay_or_columns_that_do(tmp_path: Path, given: dict[str, Any], expected: int) -> None:
    assert read_bytes(tmp_path, **given) == expected


def test_a_value_that_could_not_be_written_fails_a_preview_as_it_fails_the_merge(tmp_path: Path) -> None:
    write = write_spec(tmp_path, SCHEMA, lengths=((("word",), 3),))
    spec = ChangeSpec(write, (ClauseAction("update", frozenset({"word"})),), {}, sample=1)
    changed = changes(0).append_column("word", pa.array(["abcd"]))
    with pytest.raises(ConstraintError) as error:
        write_changes(None, changed, spec, [1], "")  # type: ignore[arg-type]
    assert error.value.condition == "DELTA_EXCEED_CHAR_VARCHAR_LIMIT"


places = st.lists(st.tuples(st.none() | st.integers(0, 3), st.integers(0, 4)), max_size=12)


@examples
@given(places, st.integers(1, 4))
def test_rows_changed_twice_are_counted_and_ordered_rows_left_as_they_are(
    found: list[tuple[int | None, int]], parts: int
) -> None:
    files = pa.array([file for file, _ in found], pa.int32())
    rows = pa.array([None if file is None else row for file, row in found], pa.int64())
    whole = pa.table({FILE: files, ROW: rows})
    table = pa.concat_tables([whole.slice(at, parts) for at in range(0, len(found), parts)] or [whole])
    counts = Counter(place for place in found if place[0] is not None)
    assert repeated_positions(table) == sum(count > 1 for count in counts.values())
    ordered = sorted(found, key=lambda place: (place[0] is None, place))
    inserted = sum(file is None for file, _ in found)
    assert _ascend(table) == ([*map(_place, found)] == [*map(_place, ordered)])
    assert _ascend(table, strictly=True) == (_ascend(table) and len(counts) == len(found) - inserted)


def _place(found: tuple[int | None, int]) -> tuple[int | None, int | None]:
    return found if found[0] is not None else (None, None)


@pytest.mark.parametrize(("pieces", "cores", "threads"), [(1, 2, 2), (2, 2, 2), (3, 2, 1), (1, 1, 1), (1, 64, 4)])
def test_files_are_written_by_several_threads_where_there_are_few(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pieces: int, cores: int, threads: int
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    spec = write_spec(tmp_path, SCHEMA)
    found = _threaded(ChangeSpec(spec, (), {}, feed=spec), pieces)
    assert found.feed is not None
    assert (found.write.threads, found.feed.threads) == (threads, threads)
