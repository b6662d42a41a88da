"""A file that is spliced by pages has the rows, the statistics and the bounds of one that is written from its rows."""

from __future__ import annotations

import json
import random
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
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
from deltamerge.protocol.formats.thrift import BINARY, I32, LIST, STRUCT, Items
from deltamerge.worker.parquet.footer import Chunk
from deltamerge.worker.parquet.places import DATA
from deltamerge.worker.parquet.schema import OPTIONAL, Node
from deltamerge.worker.scan.scan import ROW, FileTask
from deltamerge.worker.write.feed import FeedWriter, change_file_spec
from deltamerge.worker.write.rewrite import CLAUSE, ChangedFile, ChangeSpec, ClauseAction
from deltamerge.worker.write.splice.paged import share_of
from deltamerge.worker.write.splice.splicer import rewriter
from deltamerge.worker.write.stats import StatsColumn
from deltamerge.worker.write.write import PartitionWriters
from tests.unit.worker.data import UTC_TIME, bag, folder, write_spec

NAME = "old.parquet"
EPOCH = datetime(1970, 1, 1)
SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("small", pa.int16()),
        ("whole", pa.int32()),
        ("few", pa.int64()),
        ("word", pa.string()),
        ("text", pa.string()),
        ("share", pa.float64()),
        ("single", pa.float32()),
        ("price", pa.decimal128(9, 2)),
        ("long_price", pa.decimal128(18, 2)),
        ("wide_price", pa.decimal128(38, 4)),
        ("day", pa.date32()),
        ("at", UTC_TIME),
        ("here", pa.timestamp("us")),
        ("open", pa.bool_()),
        ("raw", pa.binary()),
        ("words", pa.list_(pa.field("element", pa.string()))),
        ("nested", pa.struct([("x", pa.int32()), ("y", pa.string())])),
    ]
)
DELTA = {
    "id": "DELTA_BINARY_PACKED",
    "whole": "DELTA_BINARY_PACKED",
    "word": "DELTA_BYTE_ARRAY",
    "text": "DELTA_LENGTH_BYTE_ARRAY",
}
DELTA |= {"share": "BYTE_STREAM_SPLIT", "single": "BYTE_STREAM_SPLIT", "raw": "DELTA_LENGTH_BYTE_ARRAY"}
UNBOUNDED = ("open", "raw", "words")
STATS = (
    *(StatsColumn((field.name,), field.type, field.name not in UNBOUNDED) for field in SCHEMA if field.name != "nested"),
    StatsColumn(("nested", "x"), pa.int32(), True),
)


def decimal(number: int, places: int) -> Decimal:
    return Decimal((number < 0, tuple(map(int, str(abs(number)))), -places))


def value(name: str, rand: random.Random, nulls: float, id: int) -> Any:
    """A value of a column; few different ones in some."""
    if name == "id":
        return id
    if rand.random() < nulls:
        return None
    wide = rand.random() < 0.5
    number = rand.randrange(-(2**31), 2**31) if wide else rand.randrange(5)
    return {
        "small": lambda: number % 2**15,
        "whole": lambda: number,
        "few": lambda: rand.randrange(3),
        "word": lambda: rand.choice(["", "a", "bb", "é\U0001f600", "long " * 9]),
        "text": lambda: f"text {number}" * rand.randrange(1, 3),
        "share": lambda: rand.choice([0.0, -0.0, 1.5, float(number), float("inf")] + [float("nan")] * (rand.random() < 0.05)),
        "single": lambda: rand.choice([0.0, -0.0, 0.25, float(number % 1000)]),
        "price": lambda: decimal(number % 10**9 - 10**8, 2),
        "long_price": lambda: decimal(number * 10**6, 2),
        "wide_price": lambda: decimal(number * 10**20, 4),
        "day": lambda: date(1970, 1, 1) + timedelta(days=number % 40_000 - 10_000),
        "at": lambda: (EPOCH + timedelta(microseconds=number * 10**4)).replace(tzinfo=UTC),
        "here": lambda: EPOCH + timedelta(microseconds=number * 10**4),
        "open": lambda: rand.random() < 0.5,
        "raw": lambda: bytes([number % 256]) * rand.randrange(3),
        "words": lambda: [rand.choice(["p", None]) for _ in range(rand.randrange(3))],
        "nested": lambda: {"x": number, "y": rand.choice(["s", None])},
    }[name]()


def table_of(rows: list[dict[str, Any]], names: list[str]) -> pa.Table:
    schema = pa.schema([SCHEMA.field(name) for name in names])
    return pa.table([pa.array([row[name] for row in rows], schema.field(name).type) for name in names], schema=schema)


def rows_of(rand: random.Random, count: int, names: list[str]) -> list[dict[str, Any]]:
    nulls = {name: rand.choice([0.0, 0.0, 0.2, 1.0]) for name in names}
    return [{name: value(name, rand, nulls[name], id) for name in names} for id in range(count)]


@dataclass(frozen=True)
class Round:
    """A file, how it is written, and what changes in it."""

    table: pa.Table
    options: dict[str, Any]
    clauses: tuple[ClauseAction, ...]
    changed: pa.Table


def options_of(rand: random.Random, names: list[str]) -> dict[str, Any]:
    """How Arrow is to write a file: codecs, versions of pages, dictionaries that end in mid-chunk, other encodings, indexes."""
    options: dict[str, Any] = {
        "compression": rand.choice(["snappy", "none", "zstd", "gzip", "lz4", "brotli"]),
        "data_page_version": rand.choice(["1.0", "2.0"]),
        "max_rows_per_page": rand.choice([3, 10, 25]),
        "write_batch_size": rand.choice([1, 3, 7]),
        "write_page_index": rand.random() < 0.7,
        "write_page_checksum": rand.random() < 0.5,
        "row_group_size": rand.choice([20, 60, 200]),
    }
    kind = rand.randrange(4)
    if kind == 0:
        options["dictionary_pagesize_limit"] = rand.choice([8, 60])
    elif kind == 1:
        encodings = {name: encoding for name, encoding in DELTA.items() if name in names}
        options |= {"use_dictionary": False, "column_encoding": encodings}
    elif kind == 2:
        options["use_dictionary"] = False
    if rand.random() < 0.2:
        options["bloom_filter_options"] = {"id": {}} if "id" in names else None
    return options


def round_of(seed: int) -> Round:
    rand = random.Random(seed)
    names = ["id", *rand.sample(SCHEMA.names[1:], rand.randrange(1, 8))]
    names = [name for name in SCHEMA.names if name in names]
    count = rand.randrange(1, 300)
    rows = rows_of(rand, count, names)
    clauses = []
    for _ in range(rand.randrange(1, 4)):
        if rand.random() < 0.4:
            clauses.append(ClauseAction("delete"))
        else:
            clauses.append(ClauseAction("update", frozenset(rand.sample(names, rand.choice([1, len(names), len(names)])))))
    begin = rand.randrange(count)
    among = range(begin, min(count, begin + rand.choice([1, 10, 40])))
    hit = sorted(rand.sample(among, rand.randrange(1, len(among) + 1)))
    new = rows_of(rand, len(hit), names)
    for at, row in zip(hit, new, strict=True):
        if rand.random() < 0.5:
            row |= {name: old for name, old in rows[at].items() if rand.random() < 0.7}
    assigned = [name for name in names if any(name in clause.assigned for clause in clauses)]
    columns = table_of(new, assigned).columns if assigned else []
    numbers = pa.array([rand.randrange(len(clauses)) for _ in hit], pa.int32())
    changed = pa.table([pa.array(hit, pa.int64()), numbers, *columns], names=[ROW, CLAUSE, *assigned])
    return Round(table_of(rows, names), options_of(rand, names), tuple(clauses), changed)


def applied(root: Path, round: Round, feeds: bool, **limits: Any) -> tuple[ChangedFile, Counter[str]]:
    """What became of the file, and the rows of its change feed."""
    schema = round.table.schema
    with using(small_file_bytes=0, **limits):
        stats = tuple(column for column in STATS if column.path[0] in schema.names)
        write = write_spec(root, schema, stats=stats)
        feed = change_file_spec(write) if feeds else None
        spec = ChangeSpec(write, round.clauses, {0: FileTask(0, NAME, {})}, feed=feed)
        feeding = None if feed is None else FeedWriter(feed, 0)
        writer = rewriter(spec, spec.files[0], 0, PartitionWriters(write, 0), feeding)
        writer.take(round.changed)
        done = writer.finish()
        written = [] if feeding is None else feeding.close()
    return done, bag(row for file in written for row in pq.ParquetFile(root / file.name).read().to_pylist())


def checked_round(root: Path, seed: int) -> ChangedFile:
    """The file as it is spliced by pages, of which rows, feed and statistics are those of the plain one."""
    round = round_of(seed)
    feeds = seed % 3 == 0
    options = {"store_decimal_as_integer": True, "store_schema": False, **round.options}
    pq.write_table(round.table, root / NAME, **options)
    done, fed = applied(root, round, feeds, page_share=0.9, page_bytes=0)
    plain, expected = applied(root, round, feeds, splices=False)
    assert fed == expected
    assert (done.copied, done.counts.tolist(), len(done.written)) == (plain.copied, plain.counts.tolist(), len(plain.written))
    for file, other in zip(done.written, plain.written, strict=True):
        found = pq.ParquetFile(root / file.name, page_checksum_verification=True)
        wanted = pq.ParquetFile(root / other.name).read()
        rows = found.read()
        assert bag(map(str, rows.to_pylist())) == bag(map(str, wanted.to_pylist()))
        assert json.loads(file.stats) == json.loads(other.stats)
        assert file.rows == rows.num_rows
        check_metadata(root / file.name, found, rows)
        if done.pages:
            check_readers(root / file.name, rows)
    return done


def check_metadata(path: Path, file: pq.ParquetFile, rows: pa.Table) -> None:
    """Bounds and null counts of each row group hold of its values, and sizes are those of its chunks."""
    first = 0
    for number in range(file.num_row_groups):
        group = file.metadata.row_group(number)
        part = rows.slice(first, group.num_rows)
        first += group.num_rows
        assert group.total_byte_size == sum(group.column(at).total_uncompressed_size for at in range(group.num_columns))
        for at in range(group.num_columns):
            column = group.column(at)
            statistics = column.statistics
            if column.path_in_schema not in rows.column_names or statistics is None:
                continue
            values = part.column(column.path_in_schema)
            assert statistics.null_count in (None, values.null_count)
            if statistics.has_min_max and not pa.types.is_floating(values.type):
                known = [v for v in values.to_pylist() if v is not None]
                if pa.types.is_timestamp(values.type):
                    known = [v.replace(tzinfo=None) for v in known]
                    assert (statistics.min.replace(tzinfo=None), statistics.max.replace(tzinfo=None)) == (min(known), max(known))
                elif isinstance(known[0], str):
                    assert (statistics.min.encode(), statistics.max.encode()) == (
                        min(map(str.encode, known)),
                        max(map(str.encode, known)),
                    )
                else:
                    assert (statistics.min, statistics.max) == (min(known), max(known))


def check_readers(path: Path, rows: pa.Table) -> None:
    """DuckDB reads the same rows in the same order, and finds those of a condition."""
    names = [name for name in rows.column_names if not pa.types.is_nested(rows.schema.field(name).type)]
    moments = [name for name in names if pa.types.is_timestamp(rows.schema.field(name).type)]
    chosen = ", ".join(f'epoch_us("{name}")' if name in moments else f'"{name}"' for name in names)
    columns = [rows[name].cast(pa.int64()) if name in moments else rows[name] for name in names]
    expected = list(zip(*(column.to_pylist() for column in columns), strict=True))
    with duckdb.connect() as connection:
        found = connection.execute(f"SELECT {chosen} FROM read_parquet('{path}')").fetchall()
        assert [repr(row) for row in found] == [repr(row) for row in expected]
        low = rows["id"].to_pylist()[len(rows) // 2] or 0
        some = connection.execute(f"SELECT {chosen} FROM read_parquet('{path}') WHERE id >= {low}").fetchall()
        at = rows["id"].to_pylist()
        assert [repr(row) for row in some] == [
            repr(row) for row, id in zip(expected, at, strict=True) if id is not None and id >= low
        ]


@pytest.mark.parametrize("seed", range(60))
def test_rows_and_statistics_are_those_of_the_plain_rewrite(seed: int) -> None:
    with folder() as root:
        checked_round(root, seed)


@given(st.integers(1, 400), st.integers(1, 9), st.sets(st.integers(0, 399), max_size=30))
def test_the_share_of_hit_pages_is_that_of_equal_parts(rows: int, pages: int, changed: set[int]) -> None:
    hit = sorted(row for row in changed if row < rows)
    pages = min(pages, rows)
    counted = Items(STRUCT, ({1: (I32, DATA), 2: (I32, 0), 3: (I32, pages)},))
    chunk = Chunk({}, {13: (LIST, counted)}, 4, 4)
    node = Node({1: (I32, 1), 3: (I32, OPTIONAL), 4: (BINARY, b"c")}, ())
    expected = len({row * pages // rows for row in hit}) / pages
    assert share_of(chunk, node, rows, np.array(hit, np.int64)) == expected
