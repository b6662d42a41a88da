"""What of a column can't be copied by pages with certainty is encoded as a whole, and why; damaged pages give no wrong row."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltamerge.budgets import using
from deltamerge.protocol.formats.thrift import I32, read_struct, struct_bytes
from deltamerge.protocol.table.row_tracking import TrackingColumns
from deltamerge.worker.parquet.footer import RowGroup, footer_of
from deltamerge.worker.parquet.pages import header_of
from deltamerge.worker.parquet.places import DATA, DATA_V2, DICTIONARY, Walked, walked
from deltamerge.worker.parquet.plain import NotPaged, Reason, Whole
from deltamerge.worker.parquet.schema import columns_of
from deltamerge.worker.scan.scan import ROW, FileTask
from deltamerge.worker.write.rewrite import CLAUSE, ChangedFile, ChangeSpec, ClauseAction
from deltamerge.worker.write.splice.dictionary import dictionary_of
from deltamerge.worker.write.splice.splicer import rewriter
from deltamerge.worker.write.stats import StatsColumn
from deltamerge.worker.write.tracking import tracking_spec
from deltamerge.worker.write.write import PartitionWriters
from tests.unit.worker.data import bag, folder, write_spec
from tests.unit.worker.write.splicing import NAME, edited_meta

PAGES, ROWS = 10, 100
KINDS = (DATA, DICTIONARY, DATA_V2)


@dataclass(frozen=True)
class Case:
    """A file of two columns, `v` and `w`, of which `v` gets new values in some rows; and why it is encoded as a whole."""

    reason: Whole | None
    values: list[Any] = field(default_factory=lambda: [n % 40 for n in range(ROWS)])
    new: Any = 7
    type: pa.DataType = field(default_factory=pa.int64)
    rows: tuple[int, ...] = (41, 45)
    write: Mapping[str, Any] = field(default_factory=dict)
    edit: Callable[[Path], None] = lambda path: None
    stats: bool = True
    bounded: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)
    limits: Mapping[str, Any] = field(default_factory=dict)


def with_page(path: Path, number: int, change: Callable[[bytes], bytes]) -> None:
    """Change the bytes of a page of `v`, which keep their length."""
    data = path.read_bytes()
    page = pages_of(path, 0)[number]
    changed = change(data[page.start : page.end])
    assert len(changed) == page.end - page.start
    path.write_bytes(data[: page.start] + changed + data[page.end :])


def pages_of(path: Path, leaf: int) -> list[Walked]:
    return [page for group in groups_of(path) for page in walked(group.chunks[leaf], reader_of(path))]


def groups_of(path: Path) -> tuple[RowGroup, ...]:
    return tuple(footer_of(path.read_bytes()).groups)


def reader_of(path: Path) -> Callable[[int, int], bytes]:
    data = path.read_bytes()
    return lambda count, place: data[place : place + count]


def other_count(page: bytes) -> bytes:
    fields, length = read_struct(page)
    return struct_bytes({**fields, 5: (fields[5][0], {**fields[5][1], 1: (I32, 9)})}) + page[length:]


CASES = {
    "by pages": Case(None),
    "by pages, a value that the dictionary lacks": Case(None, new=20_000),
    "by pages, a text that the dictionary lacks": Case(None, [f"t{n % 40}" for n in range(ROWS)], "other", pa.string()),
    "by pages, no dictionary": Case(None, write={"use_dictionary": False}),
    "nested": Case(Whole.NESTED, [[n] for n in range(ROWS)], [7], pa.list_(pa.field("element", pa.int64())), bounded=False),
    "many pages": Case(Whole.MANY, rows=tuple(range(0, ROWS, 10))[:9]),
    "few bytes": Case(Whole.FEW, limits={"page_bytes": 1 << 20}),
    "a page of other values than its place says": Case(Whole.PAGES, edit=lambda path: with_page(path, 5, other_count)),
    "a codec that is not known": Case(Whole.CODEC, edit=lambda path: edited_meta(path, m4=(I32, 3))),
    "lengths are checked": Case(Whole.CHECKED, ["a"] * ROWS, "b", pa.string(), options={"lengths": ((("v",), 9),)}),
    "no statistics": Case(Whole.STATISTICS, write={"write_statistics": False}),
    "the greatest value goes": Case(Whole.BOUNDS, list(range(ROWS)), 50, rows=(99,)),
    "the least value goes": Case(Whole.BOUNDS, list(range(ROWS)), 50, rows=(0,)),
    "an empty dictionary": Case(Whole.DICTIONARY, [None] * ROWS),
    "a dictionary of values of a fixed length": Case(
        Whole.DICTIONARY, [b"12345", b"abcde"] * (ROWS // 2), b"other", pa.binary(5), stats=False, options={}
    ),
    "more different values than rows": Case(Whole.FULL, list(range(ROWS)), -50, rows=(3,)),
}


def changed_file(root: Path, case: Case, **limits: Any) -> ChangedFile:
    schema = pa.schema([("v", case.type), ("w", pa.int64())])
    stats = tuple(StatsColumn((name,), schema.field(name).type, case.bounded) for name in schema.names if case.stats)
    with using(small_file_bytes=0, **limits):
        write = write_spec(root, schema, stats=stats, **case.options)
        spec = ChangeSpec(write, (ClauseAction("update", frozenset({"v"})),), {0: FileTask(0, NAME, {})})
        writer = rewriter(spec, spec.files[0], 0, PartitionWriters(write, 0))
        count = len(case.rows)
        new = pa.array([case.new] * count, case.type)
        writer.take(pa.table({ROW: pa.array(case.rows, pa.int64()), CLAUSE: pa.array([0] * count, pa.int32()), "v": new}))
        return writer.finish()


def written(root: Path, case: Case) -> None:
    table = pa.table({"v": pa.array(case.values, case.type), "w": pa.array(range(ROWS), pa.int64())})
    options = {"store_schema": False, "write_page_index": True, "max_rows_per_page": ROWS // PAGES, "write_batch_size": 5}
    pq.write_table(table, root / NAME, **{**options, **case.write})


@contextmanager
def reasons() -> Iterator[list[str]]:
    """What the worker says of columns that are encoded as a whole."""
    found: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: found.append(str(record.args[-1]) if record.args else "")  # type: ignore[method-assign]
    logger = logging.getLogger("deltamerge.worker")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield found
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_why_a_column_is_encoded_as_a_whole(tmp_path: Path, case: Case) -> None:
    written(tmp_path, case)
    case.edit(tmp_path / NAME)
    limits = {"page_share": 0.5, "page_bytes": 0, **case.limits}
    with reasons() as found:
        try:
            done = changed_file(tmp_path, case, **limits)
        except Exception:
            # The file is damaged so that no reader reads it.
            assert case.reason in (Whole.CODEC, Whole.PAGES, Whole.DICTIONARY)
            done = None
    assert any(case.reason.value in text or case.reason.name in text for text in found) if case.reason else not found
    if done is not None:
        assert (done.pages > 0) is (case.reason is None)
        rows = pq.ParquetFile(tmp_path / done.written[0].name, page_checksum_verification=True).read()
        expected = [case.new if at in case.rows else value for at, value in enumerate(case.values)]
        assert rows.column("v").to_pylist() == expected
        assert rows.column("w").to_pylist() == list(range(ROWS))


def test_every_reason_has_a_case() -> None:
    # Values that are the file's are in test_pages_of_tracked_rows.
    assert {case.reason for case in CASES.values()} | {Whole.FILLED} == {*Whole, None}


@pytest.mark.parametrize("kind", ["update", "delete"])
@pytest.mark.parametrize("filled", [True, False])
def test_pages_of_tracked_rows(tmp_path: Path, kind: str, filled: bool) -> None:
    """Null row ids and versions are those of the file, and the new file has others: such a column is encoded as a whole."""
    ids = [1000 + n if filled or n % 9 else None for n in range(ROWS)]
    versions = [3 if filled or n % 7 else None for n in range(ROWS)]
    table = pa.table({"v": pa.array([n % 40 for n in range(ROWS)], pa.int64()), "_id": ids, "_version": versions})
    options = {"store_schema": False, "write_page_index": True, "max_rows_per_page": ROWS // PAGES, "write_batch_size": 5}
    pq.write_table(table, tmp_path / NAME, **options)
    schema = table.schema.field("v")
    clause = ClauseAction("update", frozenset({"v"})) if kind == "update" else ClauseAction("delete")
    values = {"v": pa.array([-1, -2], pa.int64())} if kind == "update" else {}
    found = {}
    for limits in ({"page_share": 0.5, "page_bytes": 0}, {"splices": False}):
        with using(small_file_bytes=0, **limits):
            stats = (StatsColumn(("v",), pa.int64(), False),)
            write = tracking_spec(write_spec(tmp_path, pa.schema([schema]), stats=stats), TrackingColumns("_id", "_version"))
            spec = ChangeSpec(write, (clause,), {0: FileTask(0, NAME, {}, base_row_id=500, row_version=7)})
            with reasons() as why:
                writer = rewriter(spec, spec.files[0], 0, PartitionWriters(write, 0))
                clauses = pa.array([0, 0], pa.int32())
                writer.take(pa.table({ROW: pa.array([41, 45], pa.int64()), CLAUSE: clauses, **values}))
                done = writer.finish()
        found[done.plain] = bag(map(str, pq.ParquetFile(tmp_path / done.written[0].name).read().to_pylist()))
        if done.plain is None:
            assert done.pages
            assert why.count(Whole.FILLED.value) == (0 if filled else 2)
    assert found[None] == found[Reason.OFF]


def test_pages_keep_their_kinds(tmp_path: Path) -> None:
    """A dictionary ended in the middle of a chunk: a plain page never comes before one against it."""
    case = Case(None, [n % 3 if n < 50 else n for n in range(ROWS)], 2, rows=(12, 74))
    written(tmp_path, Case(None, case.values, write={"dictionary_pagesize_limit": 40}))
    before = kinds_of(tmp_path / NAME)
    assert set(before) == {True, False}
    done = changed_file(tmp_path, Case(None, case.values, -9, rows=(12, 74)), page_share=0.5, page_bytes=0)
    assert done.pages
    assert kinds_of(tmp_path / done.written[0].name) == before == sorted(before, reverse=True)


def kinds_of(path: Path) -> list[bool]:
    """Whether the pages of `v` are against the dictionary."""
    data = path.read_bytes()
    found = [(page, header_of(data[page.start : page.end], KINDS)) for page in pages_of(path, 0)]
    return [header.is_against_dictionary for page, header in found if page.kind != DICTIONARY]


@pytest.mark.parametrize(
    ("share", "new", "expected"),
    [
        # Whole chunks get pages that end at other rows than those beside them; pages in the places of others do not.
        (0.0, 7, [(False, False), (True, True)]),
        (0.5, 7, [(False, True), (True, True)]),
    ],
)
def test_a_column_index_stays_where_all_pages_end_at_the_same_rows(
    tmp_path: Path, share: float, new: int, expected: list[tuple[bool, bool]]
) -> None:
    case = Case(None, new=new, write={"row_group_size": ROWS // 2}, rows=(21, 25))
    written(tmp_path, case)
    done = changed_file(tmp_path, case, page_share=share, page_bytes=0)
    groups = [pq.read_metadata(tmp_path / done.written[0].name).row_group(number) for number in range(2)]
    assert [tuple(group.column(at).has_column_index for at in range(2)) for group in groups] == expected
    assert all(group.column(at).has_offset_index for group in groups for at in range(2))


@pytest.mark.parametrize("unpacked", [0, (1 << 31) - 1])
def test_a_dictionary_that_claims_another_size_is_not_decompressed(tmp_path: Path, unpacked: int) -> None:
    written(tmp_path, Case(None))
    data = (tmp_path / NAME).read_bytes()
    chunk, place = groups_of(tmp_path / NAME)[0].chunks[0], pages_of(tmp_path / NAME, 0)[0]
    node = columns_of(footer_of(data).schema)[0]
    page = data[place.start : place.end]
    assert len(dictionary_of(chunk, node, page).values) == 40
    fields, length = read_struct(page)
    before = pa.total_allocated_bytes()
    with pytest.raises(NotPaged, match=Whole.DICTIONARY.value):
        dictionary_of(chunk, node, struct_bytes({**fields, 2: (I32, unpacked)}) + page[length:])
    assert pa.total_allocated_bytes() - before < 1 << 20


@pytest.mark.parametrize("seed", range(60))
def test_damaged_pages_and_indexes_give_no_wrong_row(seed: int) -> None:
    damaged(seed)


def damaged(seed: int) -> str:
    """What becomes of a file with damage in the header of a page or an index: the rows of the plain rewrite, or an error."""
    rand = random.Random(seed)
    with folder() as root:
        values = [rand.randrange(30) for _ in range(ROWS)]
        write = {
            "use_dictionary": rand.random() < 0.7,
            "data_page_version": rand.choice(["1.0", "2.0"]),
            "compression": rand.choice(["snappy", "none", "zstd"]),
            "write_page_index": rand.random() < 0.7,
            "write_page_checksum": rand.random() < 0.5,
        }
        case = Case(None, values, rand.choice([7, 1000]), write=write)
        written(root, case)
        damage(root / NAME, rand)
        found = rows_or_error(root, case, page_share=0.5, page_bytes=0)
        expected = rows_or_error(root, case, splices=False)
        if isinstance(found, str):
            return found
        if isinstance(expected, str):
            # A reader that stops at the damaged page reads the one file as little as the other.
            return "copied"
        assert bag(found) == bag(expected)
        return "same"


def damage(path: Path, rand: random.Random) -> None:
    """Flip a bit, or set the bytes to their end to 0xff, of a header or an index; or say that an index is longer."""
    data = bytearray(path.read_bytes())
    chunk = groups_of(path)[0].chunks[0]
    page = rand.choice(pages_of(path, 0))
    length = header_of(bytes(data[page.start : page.end]), KINDS).length
    places = [(page.start, length)] + [(chunk.fields[id][1], chunk.fields[id + 1][1]) for id in (4, 6) if id in chunk.fields]
    start, length = rand.choice(places)
    way = rand.randrange(4)
    at = start + rand.randrange(length)
    if way <= 1:
        data[at] ^= 1 << rand.randrange(8)
    elif way == 2:
        end = min(start + length, at + rand.choice([1, 2, 4]))
        data[at:end] = b"\xff" * (end - at)
    path.write_bytes(data)
    if way == 3 and 4 in chunk.fields:
        id = rand.choice([id for id in (5, 7) if id in chunk.fields])
        edited_meta(path, **{f"o{id}": (I32, rand.choice([0, 1, chunk.fields[id][1] - 1, (1 << 31) - 1]))})


def rows_or_error(root: Path, case: Case, **limits: Any) -> list[Any] | str:
    try:
        done = changed_file(root, case, **limits)
        rows: list[Any] = pq.ParquetFile(root / done.written[0].name).read().to_pylist()
    except Exception as error:
        return type(error).__name__
    return rows
