"""What a footer says of column chunks is what PyArrow says of them; and a damaged footer does not end the process."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamerge.protocol.formats.parquet_file import ColumnChunk, ParquetFile
from deltamerge.protocol.formats.thrift import (
    BINARY,
    BYTE,
    FALSE,
    I64,
    LIST,
    STRUCT,
    TRUE,
    Items,
    Malformed,
    Struct,
    each_struct,
    number_at,
    places,
    read_struct,
    struct_bytes,
    struct_end,
)
from deltamerge.worker.scan.row_errors import Refused
from deltamerge.worker.scan.scan import open_parquet
from tests.unit.protocol.formats.test_thrift import structs
from tests.unit.worker.data import examples

COLUMNS = pa.table(
    {
        "i": pa.array([3, None, -5, 700], pa.int64()),
        "n": pa.array([None] * 4, pa.int32()),
        "d": pa.array([-9, 12, 0, None], pa.int32()).cast(pa.date32()),
        "s": ["b", "", "ä", None],
        "x": [0.5, None, 2.0, -1.0],
        "small": pa.array([Decimal("-1.25"), None, Decimal("3.50"), Decimal(0)], pa.decimal128(9, 2)),
        "large": pa.array([Decimal("-1.25"), None, Decimal("3.50"), Decimal(0)], pa.decimal128(30, 2)),
        "list": [[1, None], [], None, [7]],
        "struct": [{"a": 1, "b": "x"}, None, {"a": None, "b": None}, {"a": 2, "b": "y"}],
    }
)
CHECKPOINT = pa.table({"add": [{"size": 1, "path": "a"}, {"size": 2, "path": "b"}]})
STATISTICS, SIZES = 12, 16

Change = Callable[[dict[int, Any], dict[int, Any]], None]


def said(chunk: ColumnChunk, other: Any) -> tuple[list[Any], list[Any]]:
    """What the footer says of a chunk, and what PyArrow says."""
    first, dictionary = other.data_page_offset, other.dictionary_page_offset
    ours = [chunk.values, chunk.size, chunk.first_page]
    theirs = [other.num_values, other.total_uncompressed_size, min(first, dictionary or first)]
    statistics = other.statistics
    if statistics is None:  # of INT96 PyArrow 18 has none, not even the count of nulls
        return [*ours, chunk.bounds], [*theirs, None]
    theirs.append(statistics.null_count if statistics.has_null_count else None)
    if not statistics.has_min_max:
        return [*ours, chunk.nulls, chunk.bounds], [*theirs, None]
    ends = (statistics.min_raw, statistics.max_raw)
    if isinstance(ends[0], int):
        return [*ours, chunk.nulls, chunk.numbers], [*theirs, ends]
    if statistics.logical_type.type == "DECIMAL":
        return [*ours, chunk.nulls, chunk.numbers], [*theirs, tuple(int.from_bytes(end, "big", signed=True) for end in ends)]
    if isinstance(ends[0], bytes):
        return [*ours, chunk.nulls, chunk.bounds], [*theirs, ends]
    return [*ours, chunk.nulls], theirs


def assert_alike(source: pa.NativeFile) -> int:
    """Compare all chunks of a file, and count them."""
    file, count = ParquetFile(source), 0
    for group in range(file.metadata.num_row_groups):
        for number in range(len(file.schema)):
            ours, theirs = said(file.chunks.chunk(group, number), file.metadata.row_group(group).column(number))
            assert ours == theirs, file.schema.column(number)
            count += 1
    rows = [file.read_row_group(group).num_rows for group in range(file.metadata.num_row_groups)]
    assert sum(rows) == file.metadata.num_rows
    return count


@pytest.mark.parametrize("options", [{}, {"row_group_size": 1}, {"write_page_index": True, "use_dictionary": False}])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_chunks_are_those_that_pyarrow_sees(version: str, options: dict[str, Any]) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(COLUMNS, sink, data_page_version=version, **options)
    assert assert_alike(pa.BufferReader(sink.getvalue())) == (40 if "row_group_size" in options else 10)


def test_bounds_by_another_order_count_for_whole_numbers_alone() -> None:
    def without_orders(footer: dict[int, Any]) -> None:
        del footer[7]

    file = ParquetFile(pa.BufferReader(rebuilt(without_orders)))
    bounds = {file.schema.column(at).path: file.chunks.chunk(0, at).bounds for at in range(len(file.schema))}
    assert {path for path, found in bounds.items() if found} == {"i", "d", "list.list.element", "struct.a"}


def elements(data: bytes, at: int) -> list[Struct]:
    """The structs of a list."""
    found = []

    def walk(at: int) -> int:
        found.append(read_struct(data, at)[0])
        return struct_end(data, at)

    each_struct(data, at, walk)
    return found


@examples
@given(structs, st.binary(max_size=4))
def test_places_are_those_that_are_read(struct: Struct, rest: bytes) -> None:
    data = rest + struct_bytes(struct)
    found, end = places(data, len(rest))
    assert {id: type for id, (type, _) in found.items()} == {
        id: type for id, (type, _) in read_struct(data, len(rest))[0].items()
    }
    assert end == len(data)
    for id, (type, at) in found.items():
        if type == I64:
            assert number_at(data, at) == struct[id][1]
        if type == STRUCT:
            assert read_struct(data, at)[0] == struct[id][1]
        if type == LIST and struct[id][1].type == STRUCT:
            assert elements(data, at) == list(struct[id][1].values)


@examples
@given(structs, st.data())
def test_bytes_that_are_no_struct_have_no_places(struct: Struct, choose: Any) -> None:
    data = bytearray(struct_bytes(struct))
    at = choose.draw(st.integers(0, len(data) - 1))
    data[at] ^= 1 << choose.draw(st.integers(0, 7))
    try:
        expected = read_struct(bytes(data))
    except Malformed:
        return
    found, end = places(bytes(data))
    assert ({id: type for id, (type, _) in found.items()}, end) == ({i: t for i, (t, _) in expected[0].items()}, expected[1])


def rebuilt(change: Callable[[dict[int, Any]], None], rows: pa.Table = COLUMNS) -> bytes:
    """A file whose footer is changed."""
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink)
    data = sink.getvalue().to_pybytes()
    length = int.from_bytes(data[-8:-4], "little")
    footer = dict(read_struct(data[-8 - length : -8])[0])
    change(footer)
    found = struct_bytes(footer)
    return data[: -8 - length] + found + len(found).to_bytes(4, "little") + b"PAR1"


def damaged(change: Change, rows: pa.Table) -> bytes:
    """A file whose first column chunk is changed: its fields, and those of its metadata."""

    def within(footer: dict[int, Any]) -> None:
        (group,) = footer[4][1].values
        first, *others = group[1][1].values
        chunk, meta = dict(first), dict(first[3][1])
        change(chunk, meta)
        if 3 in chunk:
            chunk[3] = (STRUCT, meta)
        footer[4] = (LIST, Items(STRUCT, ({**group, 1: (LIST, Items(STRUCT, (chunk, *others)))},)))

    return rebuilt(within, rows)


def _bounds(low: bytes, high: bytes) -> Change:
    def change(_: dict[int, Any], meta: dict[int, Any]) -> None:
        meta[STATISTICS] = (STRUCT, {**meta[STATISTICS][1], 5: (BINARY, high), 6: (BINARY, low)})

    return change


def _sizes(**fields: Any) -> Change:
    def change(_: dict[int, Any], meta: dict[int, Any]) -> None:
        meta[SIZES] = (STRUCT, {int(name[1:]): value for name, value in fields.items()})

    return change


def _encrypted(chunk: dict[int, Any], _: dict[int, Any]) -> None:
    chunk[8] = (STRUCT, {2: (STRUCT, {1: (LIST, Items(BINARY, (b"i",))), 2: (BINARY, b"k")})})


def _elsewhere(chunk: dict[int, Any], _: dict[int, Any]) -> None:
    del chunk[3]


def _uncounted(_: dict[int, Any], meta: dict[int, Any]) -> None:
    meta[STATISTICS] = (STRUCT, {id: field for id, field in meta[STATISTICS][1].items() if id != 3})


def _miscounted(_: dict[int, Any], meta: dict[int, Any]) -> None:
    meta[STATISTICS] = (STRUCT, {**meta[STATISTICS][1], 3: (I64, -1)})


def _inexact(_: dict[int, Any], meta: dict[int, Any]) -> None:
    wide = {5: (BINARY, (9_000).to_bytes(8, "little")), 7: (FALSE, False)}
    meta[STATISTICS] = (STRUCT, {**meta[STATISTICS][1], **wide})


NUMBERS = Items(I64, (1, 2, 3, 4, 5))
DAMAGES: dict[str, Change] = {
    "short bounds": _bounds(b"a", b"ab"),
    "no bytes": _bounds(b"", b""),
    "long bounds": _bounds(b"a" * 9, b"b" * 9),
    "definition levels": _sizes(f3=(LIST, NUMBERS)),
    "repetition levels": _sizes(f2=(LIST, NUMBERS)),
    "bytes of texts": _sizes(f1=(I64, 9)),
    "no count of nulls": _uncounted,
    "fewer nulls than none": _miscounted,
    "a bound above all values": _inexact,
    "encrypted": _encrypted,
    "no metadata": _elsewhere,
}


@pytest.mark.parametrize(
    "changed",
    [{4: (BINARY, b"lis\xf4")}, {10: (STRUCT, {10: (STRUCT, {1: (BYTE, 96), 2: (TRUE, True)})})}],
    ids=["a name that is no text", "a number of 96 bits"],
)
def test_a_schema_that_can_not_be_is_told(changed: Struct) -> None:
    def change(footer: dict[int, Any]) -> None:
        root, first, *others = footer[2][1].values
        footer[2] = (LIST, Items(STRUCT, (root, {**first, **changed}, *others)))

    with pytest.raises(Refused, match="DELTAMERGE_CORRUPT_DATA_FILE"):
        open_parquet(pa.BufferReader(rebuilt(change)), "f.parquet")


# Each reader of a file, in a process of its own.
READERS = """
import sys
from pathlib import Path
import pyarrow as pa
from pyspark.sql import types as T
from deltamerge.errors import DeltaMergeError
from deltamerge.log.replay.checkpoint import read_checkpoint
from deltamerge.log.replay.segment import CheckpointFiles
from deltamerge.spark.source.parquet_files import _looked_into
from deltamerge.storage import ObjectInfo
from deltamerge.storage.local import LocalStore
from deltamerge.worker.scan.row_errors import Refused
from deltamerge.worker.scan.scan import FileTask, ScanSpec, scan_file
from deltamerge.worker.scan.store import DataStore
from deltamerge.worker.skipping.keys import build_filter
from deltamerge.worker.write.existing import ExistingSpec, stats_of
from deltamerge.worker.write.stats import StatsColumn

def scan(path):
    schema = pa.schema([("i", pa.int64())])
    keys, _ = build_filter(["i"], [pa.array([3])], [False])
    spec = ScanSpec(DataStore("file", str(path.parent)), schema, keys)
    return sum(batch.num_rows for batch in scan_file(spec, FileTask(0, path.name, {})))

def convert(path):
    columns = (StatsColumn(("i",), pa.int64(), True),)
    store = DataStore("file", str(path.parent))
    spec = ExistingSpec(store, ((FileTask(0, path.name, {}),),), pa.schema([("i", pa.int64())]), columns)
    return stats_of(spec, 0)["stats"][0].as_py()

def look(path):
    return _looked_into(DataStore("file", "/"), T.StructType([T.StructField("i", T.LongType())]), ("i",))(str(path)).rows

def replay(path):
    return read_checkpoint(LocalStore(str(path.parent)), CheckpointFiles(3, (ObjectInfo(path.name, 0, 0, ""),)))

for path in map(Path, sys.argv[1:]):
    for reader in (replay,) if path.name.startswith("0") else (scan, convert, look):
        try:
            found = reader(path)
        except (DeltaMergeError, Refused, ValueError, OSError) as error:
            found = f"{type(error).__name__}: {error}"
        print(path.stem, reader.__name__, str(found).replace(chr(10), " "), sep=" | ", flush=True)
"""

STATS = '{"numRecords":4,"minValues":{"i":-5},"maxValues":{"i":700},"nullCount":{"i":1}}'
NAMED = {"scan": "Refused: ", "convert": STATS, "look": "4", "replay": "CorruptTableError: [DELTAMERGE_CORRUPT_CHECKPOINT]"}
EXPECTED = {
    ("short bounds", "convert"): "Refused: ",
    ("no bytes", "convert"): "Refused: ",
    ("long bounds", "scan"): "1",
    **{(name, "scan"): "1" for name in ("no count of nulls", "fewer nulls than none", "a bound above all values")},
    ("0 long bounds", "replay"): "CheckpointState(",
    ("0 no count of nulls", "replay"): "CheckpointState(",
    ("0 fewer nulls than none", "replay"): "CheckpointState(",
    ("0 a bound above all values", "replay"): "CheckpointState(",
    ("no metadata", "convert"): "Refused: ",
    ("no metadata", "look"): "Malformed: ",
}
# Older versions of PyArrow read rows without a look at bounds and sizes.
CHECKS_LESS = int(pa.__version__.partition(".")[0]) < 26
READ = {"scan": "1", "convert": STATS, "replay": "CheckpointState("}


def test_a_damaged_footer_does_not_end_the_process(tmp_path: Path) -> None:
    """As it does where PyArrow is asked for a column chunk or its statistics."""
    paths = []
    for name, change in DAMAGES.items():
        for path, rows in ((tmp_path / f"{name}.parquet", COLUMNS), (tmp_path / f"0 {name}.parquet", CHECKPOINT)):
            path.write_bytes(damaged(change, rows))
            paths.append(str(path))
    done = subprocess.run([sys.executable, "-c", READERS, *paths], capture_output=True, text=True, check=False)
    told = [line.split(" | ") for line in done.stdout.splitlines()]
    assert done.returncode == 0, f"after {told[-1:]}: {done.stderr[-500:]}"
    found = {(name, reader): text for name, reader, text in told}
    assert len(found) == 4 * len(DAMAGES)
    for (name, reader), text in found.items():
        expected = [EXPECTED.get((name, reader), NAMED[reader]), *([READ[reader]] if CHECKS_LESS and reader in READ else [])]
        assert text.startswith(tuple(expected)), (name, reader, text)
