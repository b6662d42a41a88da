"""A spliced file has the rows and the statistics of one that is written from its rows, whoever wrote the old one."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from deltamerge.budgets import using
from deltamerge.protocol.table.row_tracking import TrackingColumns
from deltamerge.protocol.values.thrift import BINARY, I32, I64, LIST, STRUCT, Items, struct_bytes
from deltamerge.worker.parquet.footer import parse_footer, read_footer
from deltamerge.worker.parquet.plain import NotSpliceable, Reason
from deltamerge.worker.scan.row_errors import Refused
from deltamerge.worker.scan.scan import ROW, FileTask
from deltamerge.worker.write.feed import FeedWriter, change_file_spec
from deltamerge.worker.write.rewrite import CLAUSE, ChangedFile, ChangeSpec, ClauseAction
from deltamerge.worker.write.splice.splicer import rewriter
from deltamerge.worker.write.stats import StatsColumn
from deltamerge.worker.write.tracking import tracking_spec
from deltamerge.worker.write.write import PartitionWriters
from tests.unit.worker.data import UTC_TIME, bag, bounded, data_files, examples, folder, vector_of, write_spec

NAME = "old.parquet"
DELETE = ClauseAction("delete")
PRICE, LONG_PRICE, WIDE_PRICE = pa.decimal128(9, 2), pa.decimal128(18, 2), pa.decimal128(38, 4)
NESTED = pa.struct([("x", pa.int32()), ("l", pa.list_(pa.field("element", pa.float64())))])
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("small", pa.int16()),
        ("word", pa.string()),
        ("share", pa.float64()),
        ("single", pa.float32()),
        ("price", PRICE),
        ("long_price", LONG_PRICE),
        ("wide_price", WIDE_PRICE),
        ("day", pa.date32()),
        ("at", UTC_TIME),
        ("here", pa.timestamp("us")),
        ("open", pa.bool_()),
        ("raw", pa.binary()),
        ("words", pa.list_(pa.field("element", pa.string()))),
        ("numbers", pa.map_(pa.string(), pa.int32())),
        ("nested", NESTED),
    ]
)


def prices(places: int, digits: int) -> st.SearchStrategy[Decimal]:
    return st.integers(-(10**digits) + 1, 10**digits - 1).map(lambda n: Decimal((n < 0, tuple(map(int, str(abs(n)))), -places)))


floats = st.sampled_from([0.0, -0.0, float("nan"), 1.5, -2.5, float("inf")])
moments = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))
VALUES: list[st.SearchStrategy[Any]] = [
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-(2**15), 2**15 - 1),
    st.sampled_from(["", "a", "ab" * 20, "é\U0001f600", "\x7f" * 33, "x" * 5000]),
    floats,
    floats,
    prices(2, 9),
    prices(2, 18),
    prices(4, 30),
    st.dates(),
    moments.map(lambda at: at.replace(tzinfo=UTC)),
    moments,
    st.booleans(),
    st.binary(max_size=3),
    st.lists(st.none() | st.sampled_from(["p", "q"]), max_size=2),
    st.lists(st.tuples(st.sampled_from(["k", "l"]), st.none() | st.integers(0, 9)), max_size=1),
    st.fixed_dictionaries({"x": st.none() | st.integers(0, 9), "l": st.none() | st.lists(st.none() | floats, max_size=2)}),
]
UNBOUNDED = ("open", "raw", "words", "numbers")
STATS = (
    *(StatsColumn((field.name,), field.type, field.name not in UNBOUNDED) for field in SCHEMA if field.name != "nested"),
    StatsColumn(("nested", "x"), pa.int32(), True),
    StatsColumn(("nested", "l"), NESTED.field("l").type, False),
)
rows_of_table = st.tuples(*[st.none() | values for values in VALUES])


def table_of(rows: Sequence[tuple[Any, ...]], schema: pa.Schema = SCHEMA) -> pa.Table:
    return pa.table([pa.array([row[at] for row in rows], field.type) for at, field in enumerate(schema)], schema=schema)


def by_arrow(table: pa.Table, path: Path, group_rows: int, **options: Any) -> None:
    kept = {"store_decimal_as_integer": True, "store_schema": False, "write_page_index": True, **options}
    pq.write_table(table, path, row_group_size=group_rows, **kept)


def by_duckdb(table: pa.Table, path: Path, group_rows: int) -> None:
    with duckdb.connect() as connection:
        connection.register("rows", table)
        connection.execute(f"COPY rows TO '{path}' (FORMAT parquet, ROW_GROUP_SIZE {group_rows})")


def by_delta_rs(table: pa.Table, path: Path, group_rows: int) -> None:
    root = path.with_suffix(".table")
    write_deltalake(root, table)
    next(root.glob("*.parquet")).rename(path)


@dataclass(frozen=True)
class Change:
    """A file in row groups, clauses, and what they do to some of its rows: position, clause, new values."""

    rows: list[tuple[Any, ...]]
    group_rows: int
    clauses: tuple[ClauseAction, ...]
    hits: list[tuple[int, int, tuple[Any, ...]]]

    def changed(self) -> pa.Table:
        assigned = [name for name in SCHEMA.names if any(name in clause.assigned for clause in self.clauses)]
        new = table_of([values for _, _, values in self.hits]).select(assigned)
        positions = pa.array([row for row, _, _ in self.hits], pa.int64())
        clauses = pa.array([clause for _, clause, _ in self.hits], pa.int32())
        return pa.table([positions, clauses, *new.columns], names=[ROW, CLAUSE, *assigned])


@st.composite
def changes(draw: st.DrawFn) -> Change:
    rows = draw(st.lists(rows_of_table, min_size=1, max_size=12))
    update = st.builds(ClauseAction, st.just("update"), st.sets(st.sampled_from(SCHEMA.names), max_size=4).map(frozenset))
    clauses = draw(st.lists(update | st.just(DELETE), min_size=1, max_size=3))
    positions = draw(st.lists(st.integers(0, len(rows) - 1), unique=True, max_size=6).map(sorted))
    hits = [(row, draw(st.integers(0, len(clauses) - 1)), draw(rows_of_table)) for row in positions]
    return Change(rows, draw(st.integers(1, 6)), tuple(clauses), hits)


def applied(root: Path, change: Change, cut: int, splices: bool, **options: Any) -> tuple[ChangedFile, list[Any]]:
    """What became of the file, and the rows of its change feed."""
    changed = change.changed()
    name = options.pop("name", NAME)
    with using(small_file_bytes=0, splices=splices, rewrite_rows=options.pop("rewrite_rows", 131_072)):
        write = write_spec(root, options.pop("schema", SCHEMA), stats=STATS, **options)
        feed = change_file_spec(write)
        spec = ChangeSpec(write, change.clauses, {0: FileTask(0, name, {})}, feed=feed)
        feeding = FeedWriter(feed, 0)
        writer = rewriter(spec, spec.files[0], 0, PartitionWriters(write, 0), feeding)
        writer.take(changed.slice(0, cut))
        writer.take(changed.slice(cut))
        done = writer.finish()
        fed = [row for file in feeding.close() for row in pq.ParquetFile(root / file.name).read().to_pylist()]
    return done, fed


def same(root: Path, change: Change, cut: int, rewrite_rows: int = 131_072, **options: Any) -> ChangedFile:
    """The file as it is spliced, of which rows, feed and statistics are those of the plain one."""
    done, fed = applied(root, change, cut, splices=True, rewrite_rows=rewrite_rows, **options)
    plain, expected = applied(root, change, cut, splices=False, **options)
    assert bag(fed) == bag(expected)
    assert (done.copied, done.counts.tolist(), len(done.written)) == (plain.copied, plain.counts.tolist(), len(plain.written))
    for file, other in zip(done.written, plain.written, strict=True):
        found = pq.ParquetFile(root / file.name, page_checksum_verification=True).read()
        assert bag(map(str, found.to_pylist())) == bag(map(str, pq.ParquetFile(root / other.name).read().to_pylist()))
        assert json.loads(file.stats) == json.loads(other.stats)
        assert file.size == (root / file.name).stat().st_size
        assert file.rows == other.rows == found.num_rows
    return done


small_pages = partial(by_arrow, data_page_version="2.0", data_page_size=64, use_dictionary=False, write_page_index=False)
untold = partial(by_arrow, write_statistics=False, store_schema=True)
writers = st.sampled_from([by_arrow, small_pages, untold, by_duckdb, by_delta_rs])


@examples
@given(changes(), st.integers(0, 6), st.integers(1, 6), writers)
def test_rows_feed_and_statistics_are_those_of_the_plain_rewrite(
    change: Change, cut: int, rewrite_rows: int, write: Callable[..., None]
) -> None:
    with folder() as root:
        write(table_of(change.rows), root / NAME, change.group_rows)
        done = same(root, change, cut, rewrite_rows)
        if done.written and done.plain is None:
            name = done.written[0].name
            assert pq.read_metadata(root / name).num_row_groups
            hits = [hit for hit in change.hits if hit[0] < done.written[0].rows]
            same(root, Change(change.rows, change.group_rows, change.clauses, hits), cut, rewrite_rows, name=name)


IDS = pa.schema([("id", pa.int64()), ("word", pa.string()), ("share", pa.float64())])
UPDATE = ClauseAction("update", frozenset({"word"}))
ROWS = pa.table({"id": range(12), "word": [f"w{n}" for n in range(12)], "share": [n / 2 for n in range(12)]}, schema=IDS)


def update_of(root: Path, *rows: int, clause: ClauseAction = UPDATE, splices: bool = True, **options: Any) -> ChangedFile:
    """What becomes of a file of `IDS` when some rows get another word, or go."""
    task = FileTask(
        0, options.pop("name", NAME), options.pop("partition", {}), vector=options.pop("vector", None), **options.pop("task", {})
    )
    columns = {name: pa.nulls(len(rows), IDS.field(name).type) for name in IDS.names if name in clause.assigned}
    columns |= {"word": pa.array(["new"] * len(rows))} if "word" in columns else {}
    with using(**{"small_file_bytes": 0, "splices": splices, **options.pop("limits", {})}):
        write = options.pop("write", None) or write_spec(root, options.pop("schema", IDS), **options)
        writer = rewriter(ChangeSpec(write, (clause,), {0: task}), task, 0, PartitionWriters(write, 0))
        changed = {ROW: pa.array(rows, pa.int64()), CLAUSE: pa.array([0] * len(rows), pa.int32()), **columns}
        writer.take(pa.table(changed))
        return writer.finish()


def read(root: Path, done: ChangedFile) -> pa.Table:
    return pq.ParquetFile(root / done.written[0].name).read()


def edited(path: Path, edit: Callable[[dict[int, Any], bytes], bytes]) -> None:
    """A file with another footer: `edit` changes its fields, and gives the bytes before them."""
    data = path.read_bytes()
    footer = read_footer(lambda count, place: data[place : place + count], len(data))
    fields = dict(footer.fields)
    before = edit(fields, data[: footer.start])
    text = struct_bytes(fields)
    path.write_bytes(before + text + len(text).to_bytes(4, "little") + b"PAR1")


def edited_meta(path: Path, **changed: Any) -> None:
    """A file whose first chunk has other metadata, or other fields of its own, which are named with an `o`."""

    def edit(fields: dict[int, Any], before: bytes) -> bytes:
        groups = list(fields[4][1].values)
        chunks = list(groups[0][1][1].values)
        meta = {**chunks[0][3][1], **{int(name[1:]): field for name, field in changed.items() if name[0] == "m"}}
        own = {int(name[1:]): field for name, field in changed.items() if name[0] == "o"}
        chunks[0] = {**chunks[0], 3: (STRUCT, meta), **own}
        groups[0] = {**groups[0], 1: (LIST, Items(STRUCT, tuple(chunks)))}
        fields[4] = (LIST, Items(STRUCT, tuple(groups)))
        return before

    edited(path, edit)


def without_orders(fields: dict[int, Any], before: bytes) -> bytes:
    del fields[7]
    return before


def with_unknown(fields: dict[int, Any], before: bytes) -> bytes:
    fields[30] = (I32, 1)
    return before


def moved_pages(path: Path) -> None:
    data = bytearray(path.read_bytes())
    footer = read_footer(lambda count, place: bytes(data[place : place + count]), len(data))
    start = footer.groups[1].chunks[0].fields[4][1]
    # The offset index of a page: a list of one struct, whose first field is its place.
    data[start + 3] ^= 2
    path.write_bytes(data)


def column_index_of_noise(path: Path) -> None:
    data = bytearray(path.read_bytes())
    footer = read_footer(lambda count, place: bytes(data[place : place + count]), len(data))
    start = footer.groups[1].chunks[0].fields[6][1]
    data[start : start + 4] = b"\xff" * 4
    path.write_bytes(data)


EVERY = ClauseAction("update", frozenset(IDS.names))
STRICT = pa.schema([IDS.field("id"), IDS.field("word").with_nullable(False), IDS.field("share")])
LEGACY = {"org.apache.spark.version": "3.5.0", "org.apache.spark.legacyDateTime": ""}


@dataclass(frozen=True)
class Plain:
    """A file that is written from its rows, and why."""

    reason: Reason
    table: pa.Table = field(default_factory=lambda: ROWS)
    write: Any = None
    edit: Callable[[Path], None] = lambda path: None
    options: Any = None


PLAIN = {
    "switched off": Plain(Reason.OFF, options={"splices": False}),
    "small": Plain(Reason.SMALL, options={"limits": {"small_file_bytes": 1 << 20}}),
    "every column of the only row group": Plain(Reason.WHOLE, write={"group_rows": 12}, options={"clause": EVERY}),
    "rows of every row group": Plain(Reason.WHOLE, options={"clause": DELETE, "rows": (0, 4, 8)}),
    "a field that is not known": Plain(Reason.FOOTER, edit=lambda path: edited(path, with_unknown)),
    "no column orders": Plain(Reason.ORDERS, edit=lambda path: edited(path, without_orders)),
    "a column less": Plain(Reason.COLUMNS, ROWS.drop_columns(["share"])),
    "a column more": Plain(Reason.COLUMNS, ROWS.append_column("more", ROWS["id"])),
    "a column of another case": Plain(Reason.COLUMNS, ROWS.rename_columns(["ID", "word", "share"])),
    "a narrower type": Plain(Reason.TYPES, ROWS.set_column(0, "id", ROWS["id"].cast(pa.int32()))),
    "no nulls in the file, nulls may come": Plain(Reason.TYPES, ROWS.cast(STRICT)),
    "another calendar": Plain(Reason.CALENDAR, ROWS.replace_schema_metadata(LEGACY), write={"store_schema": True}),
    "a Bloom filter without a length": Plain(Reason.INDEXES, edit=lambda path: edited_meta(path, m14=(I64, 4))),
    "a Bloom filter that is none": Plain(Reason.INDEXES, edit=lambda path: edited_meta(path, m14=(I64, 4), m15=(I32, 9))),
    "half an index": Plain(Reason.INDEXES, edit=lambda path: edited_meta(path, o6=(I64, 1 << 30))),
    "a column index that is none": Plain(Reason.INDEXES, edit=column_index_of_noise),
    "pages that are elsewhere": Plain(Reason.PAGES, edit=moved_pages),
}


@pytest.mark.parametrize("case", PLAIN.values(), ids=list(PLAIN))
def test_what_is_not_certain_is_written_from_its_rows(tmp_path: Path, case: Plain) -> None:
    by_arrow(case.table, tmp_path / NAME, **{"group_rows": 4, **(case.write or {})})
    case.edit(tmp_path / NAME)
    options = dict(case.options or {})
    done = update_of(tmp_path, *options.pop("rows", (5,)), **options)
    assert done.plain is case.reason
    if case.reason is not Reason.SMALL:
        assert read(tmp_path, done).num_rows == done.copied + done.counts.sum() * (options.get("clause") != DELETE)


def test_deleted_rows_are_left_behind_from_rows(tmp_path: Path) -> None:
    by_arrow(ROWS, tmp_path / NAME, 4)
    done = update_of(tmp_path, 5, vector=vector_of(tmp_path, [1, 11]))
    assert (done.plain, done.written[0].rows) == (Reason.VECTOR, 10)


def test_int96_is_written_from_rows(tmp_path: Path) -> None:
    schema = pa.schema([*IDS, ("at", UTC_TIME)])
    table = pa.table([*ROWS.columns, pa.array([0] * 12, UTC_TIME)], schema=schema)
    by_arrow(table, tmp_path / NAME, 4, use_deprecated_int96_timestamps=True)
    assert update_of(tmp_path, 5, schema=schema).plain is Reason.TYPES


@pytest.mark.parametrize(
    ("fields", "reason"),
    [({8: (STRUCT, {1: (STRUCT, {})})}, Reason.ENCRYPTED), ({9: (BINARY, b"key")}, Reason.ENCRYPTED)],
)
def test_encrypted_files_are_told_by_their_footer(tmp_path: Path, fields: dict[int, Any], reason: Reason) -> None:
    by_arrow(ROWS, tmp_path / NAME, 4)
    data = (tmp_path / NAME).read_bytes()
    footer = read_footer(lambda count, place: data[place : place + count], len(data))
    with pytest.raises(NotSpliceable) as caught:
        parse_footer(struct_bytes({**footer.fields, **fields}), footer.start)
    assert caught.value.reason is reason


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"o1": (BINARY, b"elsewhere.parquet")}, Reason.ELSEWHERE),
        ({"o8": (STRUCT, {1: (STRUCT, {})})}, Reason.ENCRYPTED),
        ({"o9": (BINARY, b"")}, Reason.ENCRYPTED),
        ({"m10": (I64, 9)}, Reason.FOOTER),
        ({"m7": (I64, 1 << 40)}, Reason.FOOTER),
    ],
)
def test_chunks_that_are_elsewhere_or_encrypted(tmp_path: Path, changed: dict[str, Any], reason: Reason) -> None:
    by_arrow(ROWS, tmp_path / NAME, 4)
    edited_meta(tmp_path / NAME, **changed)
    data = (tmp_path / NAME).read_bytes()
    with pytest.raises(NotSpliceable) as caught:
        read_footer(lambda count, place: data[place : place + count], len(data))
    assert caught.value.reason is reason


def test_bytes_of_what_does_not_change_are_the_same(tmp_path: Path) -> None:
    by_arrow(ROWS, tmp_path / NAME, 4)
    done = update_of(tmp_path, 5)
    assert done.plain is None
    old, new = (path.read_bytes() for path in (tmp_path / NAME, tmp_path / done.written[0].name))
    before, after = (read_footer(lambda count, place, data=data: data[place : place + count], len(data)) for data in (old, new))
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
