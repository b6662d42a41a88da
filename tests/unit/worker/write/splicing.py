"""Files to splice by several writers, and changes of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import write_deltalake
from hypothesis import strategies as st

from deltamerge.budgets import using
from deltamerge.protocol.formats.thrift import I32, LIST, STRUCT, Items, Struct, struct_bytes
from deltamerge.worker.parquet.footer import footer_of
from deltamerge.worker.scan.scan import ROW, FileTask
from deltamerge.worker.write.feed import FeedWriter, change_file_spec
from deltamerge.worker.write.rewrite import CLAUSE, ChangedFile, ChangeSpec, ClauseAction
from deltamerge.worker.write.splice.splicer import rewriter
from deltamerge.worker.write.stats import StatsColumn
from deltamerge.worker.write.write import PartitionWriters
from tests.unit.worker.data import UTC_TIME, bag, write_spec

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
    with using(small_file_bytes=0, splices=splices, rewrite_rows=options.pop("rewrite_rows", 131_072), thread_bytes=0):
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


def same(root: Path, change: Change, cut: int, rewrite_rows: int = 131_072, threads: int = 1, **options: Any) -> ChangedFile:
    """The file spliced by some threads, of which rows, feed and statistics are those of the plain one by one thread."""
    done, fed = applied(root, change, cut, splices=True, rewrite_rows=rewrite_rows, threads=threads, **options)
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
    footer = footer_of(data)
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


def edited_statistics(path: Path, leaf: int, said: Struct) -> None:
    """A file of which each row group has other fields in the statistics of a column."""

    def edit(fields: dict[int, Any], before: bytes) -> bytes:
        groups = []
        for group in fields[4][1].values:
            chunks = list(group[1][1].values)
            meta = chunks[leaf][3][1]
            chunks[leaf] = {**chunks[leaf], 3: (STRUCT, {**meta, 12: (STRUCT, {**meta[12][1], **said})})}
            groups.append({**group, 1: (LIST, Items(STRUCT, tuple(chunks)))})
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
    footer = footer_of(data)
    start = footer.groups[1].chunks[0].fields[4][1]
    # The offset index of a page: a list of one struct, whose first field is its place.
    data[start + 3] ^= 2
    path.write_bytes(data)


def column_index_of_noise(path: Path) -> None:
    data = bytearray(path.read_bytes())
    footer = footer_of(data)
    start = footer.groups[1].chunks[0].fields[6][1]
    data[start : start + 4] = b"\xff" * 4
    path.write_bytes(data)


EVERY = ClauseAction("update", frozenset(IDS.names))
STRICT = pa.schema([IDS.field("id"), IDS.field("word").with_nullable(False), IDS.field("share")])
LEGACY = {"org.apache.spark.version": "3.5.0", "org.apache.spark.legacyDateTime": ""}
