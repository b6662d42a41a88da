"""Footers of all writers are read, written again and moved; damaged ones are refused by one exception."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamerge.protocol.formats.thrift import read_struct, struct_bytes
from deltamerge.worker.parquet.agreement import check_statistics, check_told, told_by_headers, told_by_index
from deltamerge.worker.parquet.footer import (
    MAGIC,
    Chunk,
    Footer,
    footer_bytes,
    footer_of,
    get,
    group_fields,
    index_in,
    moved,
    parse_footer,
    type_ordered,
)
from deltamerge.worker.parquet.places import moved_index, offset_index, walked
from deltamerge.worker.parquet.plain import NotSpliceable, Reason
from deltamerge.worker.parquet.schema import check_chunk, columns_of, is_alike
from tests.spec.golden import golden_names, unpack
from tests.unit.worker.data import examples, folder
from tests.unit.worker.write.splicing import Change, by_arrow, by_delta_rs, by_duckdb, changes, table_of, writers

TABLE = table_of([])
ROWS = pa.table(
    {"id": range(40), "word": [f"word {n % 7}" if n % 5 else None for n in range(40)], "l": [[n] * (n % 3) for n in range(40)]}
)


def check_whole(data: bytes) -> Footer:
    """The footer of a file, of which all is understood, and which is written again as it was."""
    footer = footer_of(data)
    assert struct_bytes(footer.fields) == data[footer.start : -8]
    leaves = [leaf for node in columns_of(footer.schema) for leaf in node.leaves]
    for group in footer.groups:
        for chunk, leaf in zip(group.chunks, leaves, strict=True):
            check_chunk(chunk, leaf)
            pages = list(walked(chunk, lambda count, place: data[place : place + count]))
            check_statistics(chunk, leaf)
            check_told(chunk, leaf, told_by_headers(pages))
            if 4 in chunk.fields and 6 in chunk.fields:
                start = get(chunk.fields, 4)
                index = data[start : start + get(chunk.fields, 5)]
                assert moved_index(offset_index(chunk, index), 0) == index
                check_told(chunk, leaf, told_by_index(read_struct(index_in(data, chunk, 6))[0]))
    return footer


@examples
@given(changes(), writers)
def test_footers_of_any_rows(change: Change, write: Callable[..., None]) -> None:
    with folder() as root:
        write(table_of(change.rows), root / "f.parquet", change.group_rows)
        check_whole((root / "f.parquet").read_bytes())


@pytest.mark.parametrize("write", [by_arrow, by_duckdb, by_delta_rs])
@pytest.mark.parametrize("table", [ROWS, ROWS.slice(0, 0), TABLE], ids=["rows", "no rows", "all types"])
def test_footers_of_every_writer(tmp_path: Path, write: Callable[..., None], table: pa.Table) -> None:
    if write is by_delta_rs and not table.num_rows:
        pytest.skip("it writes no file without rows")
    write(table, tmp_path / "f.parquet", 16)
    footer = check_whole((tmp_path / "f.parquet").read_bytes())
    assert sum(group.rows for group in footer.groups) == table.num_rows
    assert type_ordered(footer) or not footer.groups


def test_footers_of_spark(tmp_path: Path) -> None:
    writers, refused = set(), []
    for name in golden_names():
        for path in unpack(name, tmp_path / name).rglob("*.parquet"):
            if "_delta_log" in path.parts:
                continue
            try:
                writers.add(check_whole(path.read_bytes()).writer[:17])
            except NotSpliceable as error:
                refused.append((name, error))
    if golden_names():
        assert {b"parquet-mr versio"} <= writers
    assert not refused, [(name, str(error)) for name, error in refused]


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "zstd", "lz4", "brotli"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_pages_are_found_without_an_index(tmp_path: Path, codec: str, version: str) -> None:
    pq.write_table(ROWS, tmp_path / "f", compression=codec, data_page_version=version, data_page_size=64, write_batch_size=8)
    check_whole((tmp_path / "f").read_bytes())


def spliced_by_hand(data: bytes, order: list[int], gap: int) -> bytes:
    """A file of some row groups of another, in an order and places of their own."""
    footer = footer_of(data)
    out, groups = bytearray(MAGIC), []
    for number in order:
        out += bytes(gap)
        chunks: list[Chunk] = []
        for chunk in footer.groups[number].chunks:
            chunks.append(moved(chunk, len(out)))
            out += data[chunk.start : chunk.end]
        groups.append(group_fields(footer.groups[number].rows, chunks, len(groups)))
    return bytes(out) + footer_bytes(footer, groups, "", [])


@examples
@given(st.lists(st.integers(0, 3), max_size=5), st.integers(0, 99))
def test_row_groups_are_read_where_they_are_moved_to(order: list[int], gap: int) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(ROWS, sink, row_group_size=10)
    new = spliced_by_hand(sink.getvalue().to_pybytes(), order, gap)
    found = pq.ParquetFile(pa.BufferReader(new)).read()
    expected = pa.concat_tables([ROWS.slice(0, 0), *[ROWS.slice(10 * number, 10) for number in order]])
    assert found.equals(expected.cast(found.schema))
    assert check_whole(new).fields[3][1] == 10 * len(order)


@pytest.fixture(scope="module")
def good() -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(ROWS, sink, row_group_size=16, write_page_index=True)
    data: bytes = sink.getvalue().to_pybytes()
    return data


@examples
@given(data=st.data())
def test_a_footer_that_is_cut_off_is_refused(good: bytes, data: st.DataObject) -> None:
    footer = footer_of(good)
    part = good[footer.start : footer.start + data.draw(st.integers(0, len(good) - 9 - footer.start))]
    with pytest.raises(NotSpliceable):
        parse_footer(part, footer.start)
    with pytest.raises(NotSpliceable):
        footer_of(good[: data.draw(st.integers(0, len(good) - 1))])


@examples
@given(flips=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 7)), min_size=1, max_size=3))
def test_a_footer_with_flipped_bits_names_bytes_of_the_file_or_is_refused(good: bytes, flips: list[tuple[int, int]]) -> None:
    data = bytearray(good)
    start = footer_of(good).start
    for place, bit in flips:
        data[start + place % (len(data) - start)] ^= 1 << bit
    tracemalloc.start()
    try:
        footer = footer_of(bytes(data))
        for chunk in (chunk for group in footer.groups for chunk in group.chunks):
            assert 4 <= chunk.start <= chunk.end <= footer.start
    except NotSpliceable:
        pass
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 200 * len(data)


def test_own_footers_may_be_large() -> None:
    """Only that of a file that is to be spliced may not: what is written is taken apart, too."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({f"c{number}": ["x" * 4_000] for number in range(1_100)}), sink)
    footer = footer_of(sink.getvalue().to_pybytes())
    assert len(footer.groups[0].chunks) == 1_100


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        (b"", Reason.FOOTER),
        (b"PAR1", Reason.FOOTER),
        (b"\xff\xff\xff\x7fPAR1", Reason.FOOTER),
        (b"\0\0\0\0PARE", Reason.FOOTER),
    ],
)
def test_what_is_no_footer(tail: bytes, reason: Reason) -> None:
    with pytest.raises(NotSpliceable) as caught:
        footer_of(MAGIC + tail)
    assert caught.value.reason is reason


def column(type: pa.DataType, **options: Any) -> Any:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table([pa.array([], type)], names=["c"]), sink, **options)
    (node,) = columns_of(footer_of(sink.getvalue().to_pybytes()).schema)
    return node


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pa.int32(), pa.int64()),
        (pa.int8(), pa.int32()),
        (pa.uint32(), pa.int32()),
        (pa.string(), pa.binary()),
        (pa.timestamp("us"), pa.timestamp("us", "UTC")),
        (pa.timestamp("us"), pa.timestamp("ms")),
        (pa.decimal128(9, 2), pa.decimal128(9, 3)),
        (pa.decimal128(9, 2), pa.decimal128(10, 2)),
        (pa.date32(), pa.int32()),
        (pa.list_(pa.int32()), pa.list_(pa.int64())),
        (pa.struct([("a", pa.int32())]), pa.struct([("b", pa.int32())])),
        (pa.struct([("a", pa.int32())]), pa.struct([("a", pa.int32()), ("b", pa.int32())])),
        (pa.struct([("a", pa.int32())]), pa.list_(pa.int32())),
        (pa.map_(pa.string(), pa.int32()), pa.list_(pa.struct([("key", pa.string()), ("value", pa.int32())]))),
    ],
    ids=str,
)
def test_columns_that_are_stored_otherwise(one: pa.DataType, other: pa.DataType) -> None:
    assert is_alike(column(one), column(one))
    assert not is_alike(column(one), column(other))
    assert not is_alike(column(other), column(one))
