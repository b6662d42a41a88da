"""Files whose columns several threads encode: they are what one writer makes, but for where the bytes are."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamerge.budgets import using
from deltamerge.worker.parquet.encode import encoded
from deltamerge.worker.parquet.footer import NAN_FREE, Chunk, footer_of
from deltamerge.worker.parquet.places import locations, offset_index
from deltamerge.worker.write.write import DataFileWriter, WriteSpec, WrittenFile
from tests.unit.worker.data import bounded, examples, folder, write_spec
from tests.unit.worker.write.splicing import SCHEMA, STATS, rows_of_table, table_of

# Arrow's memory of this module's tests; what is in it must not outlive it.
POOL = pa.proxy_memory_pool(pa.default_memory_pool())


def written(spec: WriteSpec, *tables: pa.Table) -> WrittenFile:
    writer = DataFileWriter(spec, {}, "", 0)
    for table in tables:
        writer.write(table)
        writer.flush()
    (file,) = writer.close()
    return file


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_chunks_are_in_the_order_of_the_leaves(threads: int) -> None:
    rows = pa.table({"wide": ["x" * 1_000], "s": [{"a": 1, "b": 2}], "n": [3]})
    chunks = encoded(rows, "snappy", [], threads=threads)
    assert [chunk.chunk.path for chunk in chunks] == [(b"wide",), (b"s", b"a"), (b"s", b"b"), (b"n",)]
    assert all(len(chunk.data) == chunk.chunk.end - chunk.chunk.start for chunk in chunks)


@examples
@given(st.lists(st.lists(rows_of_table, min_size=1, max_size=6), min_size=1, max_size=3), st.integers(2, 20))
def test_files_are_those_of_one_writer(batches: list[list[Any]], threads: int) -> None:
    tables = [table_of(rows) for rows in batches]
    with folder() as root, using(thread_bytes=0):
        one = written(write_spec(root, SCHEMA, stats=STATS), *tables)
        other = written(write_spec(root, SCHEMA, stats=STATS, threads=threads), *tables)
        assert json.loads(other.stats) == json.loads(one.stats)
        assert (other.rows, other.size) == (one.rows, (root / other.name).stat().st_size)
        files = [pq.ParquetFile(root / file.name, page_checksum_verification=True) for file in (one, other)]
        assert files[1].schema.equals(files[0].schema)
        assert str(files[1].read().to_pylist()) == str(files[0].read().to_pylist())
        assert _told(root / other.name) == _told(root / one.name)


def test_pages_are_where_they_are_in_the_whole_file(tmp_path: Path) -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.string())])
    rows = pa.table({"a": range(100), "b": [str(n) for n in range(100)]}, schema=schema)
    with using(thread_bytes=0):
        files = [written(write_spec(tmp_path, schema, threads=threads), rows, rows) for threads in (1, 3)]
    assert _told(tmp_path / files[1].name)[1:] == _told(tmp_path / files[0].name)[1:]


def _told(path: Path) -> list[Any]:
    """All that a file says of its chunks and their pages, but where the chunks are."""
    data = path.read_bytes()
    footer = footer_of(data)
    chunks = [chunk for group in footer.groups for chunk in group.chunks]
    told: list[Any] = [sorted(footer.nan_free(path.name))]
    for chunk in chunks:
        index = offset_index(chunk, _part(data, chunk, 4))
        pages = [(place[1][1] - chunk.start, place[2][1], place[3][1]) for place in locations(index)]
        bounds = _part(data, chunk, 6) if 6 in chunk.fields else None
        told.append(({id: field for id, field in chunk.meta.items() if id not in (9, 11)}, pages, bounds))
    return told


def _part(data: bytes, chunk: Chunk, id: int) -> bytes:
    start = chunk.fields[id][1]
    return data[start : start + chunk.fields[id + 1][1]]


def test_nested_columns_field_ids_and_dots_in_names_stay(tmp_path: Path) -> None:
    """Dictionaries are given by paths: a name with a dot is another column's field."""
    inner = pa.struct([pa.field("b", pa.string(), metadata={"PARQUET:field_id": "7"})])
    fields = [("a.b", pa.string()), ("a", inner), ("l", pa.list_(pa.field("element", pa.int32()))), ("n", pa.int64())]
    schema = pa.schema([pa.field(name, type, metadata={"PARQUET:field_id": str(at)}) for at, (name, type) in enumerate(fields)])
    rows = pa.table([["x", "y"], [{"b": "p"}, None], [[1], None], [1, 2]], schema=schema)
    with using(thread_bytes=0):
        file = written(write_spec(tmp_path, schema, threads=3), rows)
    found = pq.ParquetFile(tmp_path / file.name)
    assert found.read().to_pylist() == rows.to_pylist()
    assert [found.schema.to_arrow_schema().field(at).metadata for at in range(4)] == [field.metadata for field in schema]
    with duckdb.connect() as connection:
        assert connection.execute('SELECT "a.b", a.b, n FROM read_parquet(?)', [str(tmp_path / file.name)]).fetchall() == [
            ("x", "p", 1),
            ("y", None, 2),
        ]


def test_small_row_groups_are_encoded_by_one_thread(tmp_path: Path) -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    rows = pa.table({"a": range(100), "b": range(100)}, schema=schema)
    spec = write_spec(tmp_path, schema, threads=2)
    assert spec.threads_for(rows) == 1
    with using(thread_bytes=rows.nbytes):
        assert write_spec(tmp_path, schema, threads=2).threads_for(rows) == 2


@pytest.mark.parametrize("threads", [1, 2])
def test_encoded_columns_take_little_more_than_their_bytes(threads: int) -> None:
    numbers = np.random.default_rng(0)
    rows = pa.table({f"c{n}": numbers.integers(0, 1 << 62, 1 << 17) for n in range(9)})
    before = pa.default_memory_pool()
    pa.set_memory_pool(POOL)
    tracemalloc.start()
    try:
        chunks = encoded(rows, "none", [], threads=threads)
        taken = tracemalloc.get_traced_memory()[1] + POOL.max_memory()
    finally:
        tracemalloc.stop()
        pa.set_memory_pool(before)
    assert sum(len(chunk.data) for chunk in chunks) >= rows.nbytes
    assert taken < 1.5 * rows.nbytes


def test_small_files_are_written_as_by_one_thread(tmp_path: Path) -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    rows = pa.table({"a": range(100), "b": range(100)}, schema=schema)
    one, other = (tmp_path / written(write_spec(tmp_path, schema, threads=threads), rows).name for threads in (1, 4))
    assert other.read_bytes() == one.read_bytes()


def test_what_was_written_goes_where_the_writer_is_discarded(tmp_path: Path) -> None:
    schema = pa.schema([("a", pa.int64())])
    with using(thread_bytes=0):
        writer = DataFileWriter(write_spec(tmp_path, schema, threads=2), {}, "", 0)
    writer.write(pa.table({"a": [1]}, schema=schema))
    writer.flush()
    assert list(tmp_path.iterdir())
    writer.discard()
    assert not list(tmp_path.iterdir())


def test_columns_with_nan_have_no_bounds(tmp_path: Path) -> None:
    schema = pa.schema([("a", pa.float64()), ("b", pa.float64())])
    rows = pa.table({"a": [1.0, float("nan")], "b": [1.0, 2.0]}, schema=schema)
    with using(thread_bytes=0):
        file = written(write_spec(tmp_path, schema, stats=bounded(schema), threads=2), rows)
    metadata = pq.read_metadata(tmp_path / file.name)
    assert json.loads(metadata.metadata[NAN_FREE])["columns"] == [["b"]]
    told = [metadata.row_group(0).column(at).statistics for at in range(2)]
    assert [one is not None and one.has_min_max for one in told] == [False, True]
