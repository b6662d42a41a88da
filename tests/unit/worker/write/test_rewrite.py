"""Rewriting one file: which values its rows get, what counts as a collision, and how little is held in memory."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamerge.budgets import using
from deltamerge.worker.scan.row_errors import Refused
from deltamerge.worker.scan.scan import ROW, FileTask
from deltamerge.worker.write.rewrite import (
    CLAUSE,
    ChangedFile,
    ChangeSpec,
    ClauseAction,
    FileRewriter,
    conform_column,
    new_rows,
    pick,
)
from deltamerge.worker.write.splice.splicer import rewriter as rewriter_of
from deltamerge.worker.write.write import PartitionWriters
from tests.unit.worker.data import BROKEN, MOMENT, UTC_TIME, data_files, examples, folder, raw_texts, read_rows, write_spec

NAME = "old.parquet"
SCHEMA = pa.schema([("id", pa.int64()), ("word", pa.string())])
DELETE = ClauseAction("delete")


@pytest.fixture(autouse=True)
def _no_file_is_small(limit: Callable[..., None]) -> None:
    limit(small_file_bytes=0)


def spec_for(root: Path, *clauses: ClauseAction, schema: pa.Schema = SCHEMA, folds: bool = False, **options: Any) -> ChangeSpec:
    task = FileTask(3, NAME, {})
    return ChangeSpec(write_spec(root, schema, **options), clauses, {task.file: task}, folds)


def rewriter(spec: ChangeSpec) -> FileRewriter:
    return rewriter_of(spec, spec.files[3], 0, PartitionWriters(spec.write, 0))


@pytest.mark.parametrize("stored", [pa.string(), pa.binary(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())], ids=str)
def test_texts_that_are_no_utf8_are_copied_as_they_are(tmp_path: Path, stored: pa.DataType) -> None:
    words = raw_texts(*BROKEN, b"ok", None)
    as_stored = words.dictionary_encode() if pa.types.is_dictionary(stored) else words.cast(stored)
    nested = pa.StructArray.from_arrays([as_stored], ["x"])
    pq.write_table(pa.table({"id": range(6), "word": as_stored, "s": nested}), tmp_path / NAME, store_schema=False)
    schema = pa.schema([*SCHEMA, ("s", pa.struct([("x", pa.string())]))])
    written = rewritten(spec_for(tmp_path, DELETE, schema=schema), hits([4])).written[0]
    found = pq.ParquetFile(tmp_path / written.name)
    assert found.schema_arrow.field("word").type == pa.string()
    table = found.read()
    for column in (table["word"], pc.struct_field(table["s"], "x")):
        assert column.cast(pa.binary()).to_pylist() == [*BROKEN, None]


def hits(rows: list[int], **columns: Any) -> pa.Table:
    return pa.table({ROW: pa.array(rows, pa.int64()), CLAUSE: pa.array([0] * len(rows), pa.int32()), **columns})


def rewritten(spec: ChangeSpec, *feeds: pa.Table) -> ChangedFile:
    writer = rewriter(spec)
    for feed in feeds:
        writer.take(feed)
    return writer.finish()


def words(count: int) -> pa.Table:
    return pa.table({"id": range(count), "word": [str(i) for i in range(count)]}, schema=SCHEMA)


@examples
@given(
    positions=st.lists(st.integers(0, 11), max_size=20).map(sorted),
    cuts=st.lists(st.integers(0, 20), max_size=6).map(sorted),
    batch_rows=st.integers(1, 12),
    folds=st.booleans(),
)
def test_collisions_are_the_rows_hit_twice_or_more_however_hits_arrive(
    positions: list[int], cuts: list[int], batch_rows: int, folds: bool
) -> None:
    edges = [0, *(min(cut, len(positions)) for cut in cuts), len(positions)]
    feeds = [hits(positions[start:end]) for start, end in pairwise(edges)]
    with folder() as root, using(rewrite_rows=batch_rows, small_file_bytes=0):
        pq.write_table(words(12), root / NAME)
        result = rewritten(spec_for(root, DELETE, folds=folds), *feeds)
    repeated = {position for position in positions if positions.count(position) > 1}
    assert result.collisions == (0 if folds else len(repeated))
    assert result.counts.tolist() == [len(set(positions))]
    assert result.copied == 12 - len(set(positions))


def test_a_file_without_rows_left_is_not_written(tmp_path: Path) -> None:
    pq.write_table(words(3), tmp_path / NAME)
    result = rewritten(spec_for(tmp_path, DELETE), hits([0, 1, 2]))
    assert (result.file, result.written, result.copied) == (3, [], 0)
    assert data_files(tmp_path) == [NAME]


def test_one_file_stays_one_file_whatever_the_target_size(tmp_path: Path, limit: Callable[..., None]) -> None:
    limit(row_group_bytes=1)
    pq.write_table(words(40_000), tmp_path / NAME)
    result = rewritten(spec_for(tmp_path, DELETE, target_bytes=1), hits([5]))
    (file,) = result.written
    assert file.rows == 39_999


def test_unmodified_rows_keep_their_order(tmp_path: Path) -> None:
    pq.write_table(words(9), tmp_path / NAME, row_group_size=4)
    with using(rewrite_rows=2):
        result = rewritten(spec_for(tmp_path, DELETE), hits([0, 4, 5]))
    assert [row[0] for row in read_rows(tmp_path, result.written[0].name, {}, ["id"])] == [1, 2, 3, 6, 7, 8]


def test_the_new_file_lies_where_the_old_one_does(tmp_path: Path) -> None:
    (tmp_path / "some" / "folder").mkdir(parents=True)
    pq.write_table(words(2), tmp_path / "some" / "folder" / NAME)
    spec = spec_for(tmp_path, DELETE)
    writer = rewriter_of(spec, FileTask(3, f"some/folder/{NAME}", {}), 0, PartitionWriters(spec.write, 0))
    writer.take(hits([1]))
    assert writer.finish().written[0].name.startswith("some/folder/part-")


def test_legacy_int96_timestamps_are_written_again_as_microseconds(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("at", UTC_TIME)])
    table = pa.table({"id": [1, 2], "at": pa.array([MOMENT.replace(year=8888)] * 2, UTC_TIME)})
    pq.write_table(table, tmp_path / NAME, use_deprecated_int96_timestamps=True)
    result = rewritten(spec_for(tmp_path, DELETE, schema=schema), hits([1]))
    new = pq.ParquetFile(tmp_path / result.written[0].name)
    assert new.schema.column(1).physical_type == "INT64"
    assert new.read()["at"].cast(pa.int64()).to_pylist() == table["at"][:1].cast(pa.int64()).to_pylist()


def test_discard_leaves_the_old_file_only(tmp_path: Path, limit: Callable[..., None]) -> None:
    limit(row_group_bytes=1, rewrite_rows=20_000, splices=False)
    pq.write_table(words(60_000), tmp_path / NAME)
    writer = rewriter(spec_for(tmp_path, DELETE))
    writer.take(hits([50_000]))
    assert len(data_files(tmp_path)) == 2
    writer.discard()
    assert data_files(tmp_path) == [NAME]


def test_a_null_in_a_required_column_is_refused(tmp_path: Path) -> None:
    pq.write_table(words(2), tmp_path / NAME)
    spec = spec_for(tmp_path, ClauseAction("update", frozenset({"word"})), required=(("word",),))
    with pytest.raises(Refused):
        rewritten(spec, hits([1], word=pa.array([None], pa.string())))


@pytest.mark.parametrize("feed_rows", [10, 1_000, 20_000])
def test_memory_is_a_part_of_the_file_however_hits_arrive(tmp_path: Path, limit: Callable[..., None], feed_rows: int) -> None:
    limit(row_group_bytes=1, rewrite_rows=16_384)
    count = 400_000
    pq.write_table(
        pa.table({"id": range(count), "word": pa.repeat("a long word", count)}), tmp_path / NAME, row_group_size=20_000
    )
    size = pq.read_table(tmp_path / NAME).nbytes
    writer = rewriter(spec_for(tmp_path, DELETE))
    before = pa.total_allocated_bytes()
    peak = 0
    every = np.arange(0, count, 20)
    for start in range(0, len(every), feed_rows):
        writer.take(hits(every[start : start + feed_rows].tolist()))
        peak = max(peak, pa.total_allocated_bytes() - before)
    assert writer.finish().copied == count - len(every)
    assert peak < size // 3


def test_assigned_columns_come_from_the_hits_and_the_others_from_the_file(tmp_path: Path) -> None:
    clauses = ClauseAction("update", frozenset({"word"})), DELETE, ClauseAction("update", frozenset({"id", "word"}))
    changed = pa.table({"id": [None, 20], "word": ["x", None]}, schema=SCHEMA)
    found = new_rows(spec_for(tmp_path, *clauses), words(2), changed, np.array([0, 2]))
    assert found.to_pylist() == [{"id": 0, "word": "x"}, {"id": 20, "word": None}]


def test_a_column_that_no_applying_clause_assigns_is_not_looked_for(tmp_path: Path) -> None:
    clauses = ClauseAction("update", frozenset()), ClauseAction("update", frozenset({"id"}))
    assert new_rows(spec_for(tmp_path, *clauses), words(2), hits([0, 1]), np.array([0, 0])).equals(words(2))


@pytest.mark.parametrize(
    ("yes", "no"),
    [
        (pa.array([1, None, 3]), pa.array([4, 5, None])),
        (pa.array([{"x": 1}, None, {"x": None}]), pa.array([{"x": 4}, {"x": 5}, None])),
        (pa.array([[1], None, []]), pa.array([[4, None], [5], None])),
        (
            pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int64())),
            pa.array([None] * 3, pa.map_(pa.string(), pa.int64())),
        ),
    ],
    ids=["flat", "struct", "list", "map"],
)
def test_pick_takes_each_row_from_one_side(yes: pa.Array, no: pa.Array) -> None:
    for chunked in (False, True):
        sides = [pa.chunked_array([side.slice(0, 1), side.slice(1)]) if chunked else side for side in (yes, no)]
        for mask in ([True, False, True], [False, True, False], [True] * 3, [False] * 3):
            expected = [(a if first else b) for first, a, b in zip(mask, yes.to_pylist(), no.to_pylist(), strict=True)]
            assert pick(pa.array(mask), *sides).to_pylist() == expected


def test_a_column_as_spark_sent_it_becomes_one_of_the_tables_type() -> None:
    sent = pa.array([MOMENT], pa.timestamp("us", "America/New_York"))
    assert conform_column(sent, UTC_TIME).to_pylist() == [MOMENT]
    strict = pa.array([[{"x": 1}]], pa.list_(pa.field("element", pa.struct([pa.field("x", pa.int32(), False)]), False)))
    wanted = pa.list_(pa.struct([("x", pa.int32())]))
    found = conform_column(pa.chunked_array([strict, strict]), wanted)
    assert found.type == wanted
    assert found.to_pylist() == [[{"x": 1}], [{"x": 1}]]
