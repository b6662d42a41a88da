"""A spliced file has the rows and the statistics of one that is written from its rows, whoever wrote the old one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamerge.budgets import using
from deltamerge.protocol.table.row_tracking import TrackingColumns
from deltamerge.worker.parquet.footer import footer_of
from deltamerge.worker.parquet.plain import Reason
from deltamerge.worker.scan.row_errors import Refused
from deltamerge.worker.scan.scan import ROW, FileTask
from deltamerge.worker.write.rewrite import CLAUSE, ChangeSpec, ClauseAction
from deltamerge.worker.write.splice.splicer import rewriter
from deltamerge.worker.write.stats import StatsColumn
from deltamerge.worker.write.tracking import tracking_spec
from deltamerge.worker.write.write import PartitionWriters
from tests.unit.worker.data import bag, bounded, data_files, examples, folder, write_spec
from tests.unit.worker.write.splicing import (
    DELETE,
    IDS,
    NAME,
    ROWS,
    UPDATE,
    Change,
    by_arrow,
    changes,
    read,
    same,
    table_of,
    update_of,
    writers,
)


@examples
@given(changes(), st.integers(0, 6), st.integers(1, 6), st.integers(1, 3), writers)
def test_rows_feed_and_statistics_are_those_of_the_plain_rewrite(
    change: Change, cut: int, rewrite_rows: int, threads: int, write: Callable[..., None]
) -> None:
    with folder() as root:
        write(table_of(change.rows), root / NAME, change.group_rows)
        done = same(root, change, cut, rewrite_rows, threads)
        if done.written and done.plain is None:
            name = done.written[0].name
            assert pq.read_metadata(root / name).num_row_groups
            hits = [hit for hit in change.hits if hit[0] < done.written[0].rows]
            same(root, Change(change.rows, change.group_rows, change.clauses, hits), cut, rewrite_rows, threads, name=name)


def test_bytes_of_what_does_not_change_are_the_same(tmp_path: Path) -> None:
    by_arrow(ROWS, tmp_path / NAME, 4)
    done = update_of(tmp_path, 5)
    assert done.plain is None
    old, new = (path.read_bytes() for path in (tmp_path / NAME, tmp_path / done.written[0].name))
    before, after = (footer_of(data) for data in (old, new))
    for number, (one, other) in enumerate(zip(before.groups, after.groups, strict=True)):
        for leaf, (a, b) in enumerate(zip(one.chunks, other.chunks, strict=True)):
            assert (old[a.start : a.end] == new[b.start : b.end]) == ((number, leaf) != (1, 1))
    assert read(tmp_path, done)["word"].to_pylist() == ["new" if n == 5 else f"w{n}" for n in range(12)]


@pytest.mark.parametrize("codec", ["none", "gzip", "zstd", "lz4", "brotli"])
@pytest.mark.parametrize(
    "options", [{}, {"data_page_version": "2.0"}, {"bloom_filter_options": {"id": {}}}, {"write_statistics": False}]
)
def test_codecs_pages_and_bloom_filters(tmp_path: Path, codec: str, options: Any) -> None:
    by_arrow(ROWS, tmp_path / NAME, 4, compression=codec, write_page_checksum=True, **options)
    done, plain = (update_of(tmp_path, 5, stats=bounded(IDS), splices=splices) for splices in (True, False))
    assert done.plain is None
    assert json.loads(done.written[0].stats) == json.loads(plain.written[0].stats)
    found = pq.ParquetFile(tmp_path / done.written[0].name, page_checksum_verification=True)
    assert found.read()["word"][5].as_py() == "new"
    if "bloom_filter_options" in options:
        with duckdb.connect() as connection:
            probed = f"SELECT bloom_filter_excludes FROM parquet_bloom_probe('{tmp_path / done.written[0].name}', 'id', 3)"
            assert [row[0] for row in connection.execute(probed).fetchall()] == [False, True, True]


def test_columns_that_hold_no_null_stay_so(tmp_path: Path) -> None:
    strict = pa.schema([field.with_nullable(False) for field in IDS])
    by_arrow(ROWS.cast(strict), tmp_path / NAME, 4)
    gone = update_of(tmp_path, 5, clause=DELETE)
    assert (gone.plain, read(tmp_path, gone).schema.field("id").nullable) == (None, False)
    assert update_of(tmp_path, 5, required=(("word",),)).plain is None
    with pytest.raises(Refused):
        update_of(tmp_path, 5, required=(("share",),), clause=ClauseAction("update", frozenset({"share"})))


@pytest.mark.parametrize("options", [{"required": (("share",),)}, {"lengths": ((("word",), 2),)}])
def test_rows_that_are_copied_are_checked(tmp_path: Path, options: Any) -> None:
    share = pa.array([None, *[1.0] * 11])
    by_arrow(ROWS.set_column(2, IDS.field("share"), share), tmp_path / NAME, 4)
    for splices in (True, False):
        with pytest.raises(Refused):
            update_of(tmp_path, 5, clause=ClauseAction("update", frozenset({"id"})), splices=splices, **options)


def test_only_metadata_that_tells_how_to_read_stays(tmp_path: Path) -> None:
    told = {"org.apache.spark.version": "4.0.0", "geo": "a box around the old rows"}
    by_arrow(ROWS.replace_schema_metadata(told), tmp_path / NAME, 4, store_schema=True)
    done = update_of(tmp_path, 5, stats=bounded(IDS))
    found = pq.read_metadata(tmp_path / done.written[0].name).metadata
    assert found.pop(b"ARROW:schema")
    assert json.loads(found.pop(b"deltamerge.nanFree")) == {"file": done.written[0].name, "columns": [["share"]]}
    assert found == {b"org.apache.spark.version": b"4.0.0"}


def test_what_another_file_says_of_nan_counts_for_nothing(tmp_path: Path) -> None:
    by_arrow(ROWS, tmp_path / NAME, 4)
    handed_on = pq.read_schema(tmp_path / update_of(tmp_path, 5, stats=bounded(IDS)).written[0].name).metadata
    assert handed_on
    share = pa.array([float("nan"), *[1.0] * 11])
    table = ROWS.set_column(2, IDS.field("share"), share).replace_schema_metadata(handed_on)
    by_arrow(table, tmp_path / NAME, 4, store_schema=True)
    done = update_of(tmp_path, 5, stats=bounded(IDS))
    assert (done.plain, json.loads(done.written[0].stats)["maxValues"]["share"]) == (None, "NaN")


@pytest.mark.parametrize("splices", [True, False])
def test_columns_with_nan_have_no_bounds(tmp_path: Path, splices: bool) -> None:
    """Bounds leave NaN out, and Spark, for which it is the greatest, looks past row groups by them."""
    share = pa.array([*[1.0] * 5, float("nan"), *[2.0] * 6])
    by_arrow(ROWS.set_column(2, IDS.field("share"), share), tmp_path / NAME, 4)
    done = update_of(tmp_path, 5, stats=bounded(IDS), splices=splices)
    told = json.loads(done.written[0].stats)
    assert (told["minValues"]["share"], told["maxValues"]["share"]) == (1.0, "NaN")
    found = pq.ParquetFile(tmp_path / done.written[0].name)
    groups = [found.metadata.row_group(number) for number in range(found.num_row_groups)]
    columns = [[group.column(at) for at in range(3)] for group in groups]
    assert {tuple(column.statistics.has_min_max for column in group) for group in columns} == {(True, True, False)}
    assert {tuple(column.has_column_index for column in group) for group in columns} == {(True, True, False)}
    assert done.written[0].size == (tmp_path / done.written[0].name).stat().st_size
    assert found.read()["share"].null_count == 0
    again = update_of(tmp_path, 5, stats=bounded(IDS), task={}, name=done.written[0].name)
    assert (again.plain, again.written[0].stats) == (None, done.written[0].stats)


def test_void_fields_are_counted_once(tmp_path: Path) -> None:
    stored = pa.schema([IDS.field("id"), ("s", pa.struct([("x", pa.int32())]))])
    schema = pa.schema([IDS.field("id"), ("s", pa.struct([("x", pa.int32()), ("v", pa.null())]))])
    by_arrow(
        pa.table([ROWS["id"], pa.array([{"x": n} for n in range(12)], stored.field("s").type)], schema=stored), tmp_path / NAME, 4
    )
    clause = ClauseAction("update", frozenset({"s"}))
    with using(small_file_bytes=0):
        spec = write_spec(tmp_path, schema, stored=stored, stats=(StatsColumn(("s", "v"), pa.null(), False),))
        task = FileTask(0, NAME, {})
        writer = rewriter(ChangeSpec(spec, (clause,), {0: task}), task, 0, PartitionWriters(spec, 0))
        new = pa.array([{"x": 9, "v": None}], schema.field("s").type)
        writer.take(pa.table({ROW: pa.array([5], pa.int64()), CLAUSE: pa.array([0], pa.int32()), "s": new}))
        done = writer.finish()
    assert (done.plain, json.loads(done.written[0].stats)["nullCount"]) == (None, {"s": {"v": 12}})


def test_versions_that_can_not_become_null_are_written_from_rows(tmp_path: Path) -> None:
    with using(small_file_bytes=0):
        write = tracking_spec(write_spec(tmp_path, IDS), TrackingColumns("_id", "_version"))
    table = ROWS.append_column("_id", ROWS["id"]).append_column(pa.field("_version", pa.int64(), nullable=False), ROWS["id"])
    by_arrow(table, tmp_path / NAME, 4)
    done = update_of(tmp_path, 5, write=write, task={"base_row_id": 500, "row_version": 7})
    assert (done.plain, read(tmp_path, done)["_version"].null_count) == (Reason.TYPES, 1)


def test_field_ids_are_those_of_the_table(tmp_path: Path) -> None:
    def with_ids(first: int) -> pa.Schema:
        return pa.schema([f.with_metadata({"PARQUET:field_id": str(first + at)}) for at, f in enumerate(IDS)])

    by_arrow(ROWS.cast(with_ids(1)), tmp_path / NAME, 4)
    assert update_of(tmp_path, 5, stored=with_ids(1)).plain is None
    assert update_of(tmp_path, 5, stored=with_ids(2)).plain is Reason.TYPES


@pytest.mark.parametrize("clause", [UPDATE, DELETE, ClauseAction("update", frozenset())])
def test_row_ids_and_versions_stay_with_their_rows(tmp_path: Path, clause: ClauseAction) -> None:
    with using(small_file_bytes=0):
        write = tracking_spec(write_spec(tmp_path, IDS), TrackingColumns("_id", "_version"))
        plain = replace(write, budgets=replace(write.budgets, splices=False))
    ids = pa.array([100 + n if n < 6 else None for n in range(12)])
    versions = pa.array([3 if n % 2 else None for n in range(12)])
    by_arrow(ROWS.append_column("_id", ids).append_column("_version", versions), tmp_path / NAME, 4)
    task = {"base_row_id": 500, "row_version": 7}
    found = {}
    for splices in (True, False):
        done = update_of(tmp_path, 5, write=write if splices else plain, clause=clause, task=task)
        assert (done.plain is None) is splices
        found[splices] = bag(map(str, read(tmp_path, done).to_pylist()))
    assert found[True] == found[False]


@pytest.mark.parametrize("splices", [True, False])
def test_rows_that_arrow_does_not_find_are_missed(tmp_path: Path, splices: bool) -> None:
    schema = pa.schema([IDS.field("id"), ("words", pa.list_(pa.field("element", pa.string())))])
    table = pa.table([ROWS["id"], pa.array([["a"]] * 12, schema.field("words").type)], schema=schema)
    by_arrow(table, tmp_path / NAME, 1, data_page_size=1)
    with pytest.raises(Refused, match="0 of 1 rows"):
        update_of(tmp_path, 5, schema=schema, clause=DELETE, splices=splices)


def test_large_row_groups_are_cut_where_rows_leave(tmp_path: Path) -> None:
    by_arrow(ROWS, tmp_path / NAME, 6)
    limits = {"row_group_rows": 2, "rewrite_rows": 4, "row_group_bytes": 1}
    done = update_of(tmp_path, 1, clause=DELETE, limits=limits)
    groups = pq.read_metadata(tmp_path / done.written[0].name)
    assert [groups.row_group(n).num_rows for n in range(groups.num_row_groups)] == [2, 2, 1, 6]


def test_a_failure_leaves_no_file(tmp_path: Path) -> None:
    by_arrow(ROWS, tmp_path / NAME, 4)
    with using(small_file_bytes=0, piece_bytes=-1):
        spec = ChangeSpec(write_spec(tmp_path, IDS), (DELETE,), {0: FileTask(0, NAME, {})})
        writer = rewriter(spec, spec.files[0], 0, PartitionWriters(spec.write, 0))
        writer.take(pa.table({ROW: pa.array([9], pa.int64()), CLAUSE: pa.array([0], pa.int32())}))
        assert len(data_files(tmp_path)) == 2
        writer.discard()
    assert data_files(tmp_path) == [NAME]
