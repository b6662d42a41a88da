"""Data files and deletion vectors that claim very many rows: refused by name, or read in a stated multiple of memory."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltamerge.protocol.formats.roaring import PORTABLE
from deltamerge.protocol.formats.thrift import I64, LIST, STRUCT, Items, read_struct, struct_bytes
from deltamerge.protocol.table.actions import DeletionVector
from deltamerge.protocol.table.deletion_vector import vector_reference
from deltamerge.worker.scan.scan import MOST_GROUP_ROWS, FileTask, ScanSpec, scan_file
from deltamerge.worker.scan.store import DataStore
from deltamerge.worker.scan.vectors import Vector

MB = 1 << 20
BESIDE = 48 * MB
WHERE = "^-aqEH.-t@S}K{vb[*k^"
ROWS = 100_000

CHILD = """
import json, resource, sys
import pyarrow.compute, pyarrow.parquet
from deltamerge.worker.scan.row_errors import Refused
from tests.unit.worker.scan import test_large

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

before = peak()
try:
    told = test_large.scanned(sys.argv[1], *map(int, sys.argv[2:]))
except Refused as error:
    told = error.condition
print(json.dumps([told, peak() - before]))
"""


def in_child(root: Path, *vector: int) -> tuple[object, int]:
    """The number of rows of the file, or why it is refused, and the bytes of memory that reading it took."""
    command = [sys.executable, "-c", CHILD, str(root), *map(str, vector)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    told, taken = json.loads(done.stdout)
    return told, taken


def scanned(root: str, size: int = 0, cardinality: int = 0) -> int:
    """The rows of the file `f.parquet`, without those that a vector of so many bytes deletes."""
    store = DataStore("file", root)
    vector = None
    if size:
        descriptor = DeletionVector("u", WHERE, size, cardinality, 1)
        vector = Vector(descriptor, store, vector_reference(descriptor, "f") or "")
    spec = ScanSpec(store, pa.schema([("a", pa.int64())]))
    return sum(batch.num_rows for batch in scan_file(spec, FileTask(0, "f.parquet", {}, vector=vector)))


def bitmap(containers: list[tuple[int, bytes]]) -> bytes:
    """One 32-bit bitmap of containers of runs, each with its number of rows."""
    count = len(containers)
    flags = np.packbits(np.ones(count, np.uint8), bitorder="little").tobytes()
    head = struct.pack("<I", 12_347 | (count - 1) << 16) + flags
    head += b"".join(struct.pack("<HH", key, rows - 1) for key, (rows, _) in enumerate(containers))
    width = 4 if count >= 4 else 0  # few containers of runs have no offsets
    at, offsets = len(head) + width * count, []
    for _, body in containers:
        offsets.append(at)
        at += len(body)
    return (
        struct.pack("<IQI", PORTABLE, 1, 0)
        + head
        + (np.array(offsets, "<u4").tobytes() if width else b"")
        + b"".join(b for _, b in containers)
    )


def put_vector(root: Path, data: bytes) -> int:
    descriptor = DeletionVector("u", WHERE, len(data), 1, 1)
    whole = b"\x01" + struct.pack(">I", len(data)) + data + struct.pack(">I", zlib.crc32(data))
    (root / (vector_reference(descriptor, "f") or "")).write_bytes(whole)
    return len(data)


def claiming(root: Path, rows: int) -> None:
    """A file whose footer says that it has so many rows, in its only row group and column, too."""
    path = root / "f.parquet"
    data = path.read_bytes()
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    fields, _ = read_struct(data[start:-8])
    group = dict(fields[4][1].values[0])
    chunk = dict(group[1][1].values[0])
    chunk[3] = (STRUCT, {**chunk[3][1], 5: (I64, rows)})
    group |= {1: (LIST, Items(STRUCT, (chunk,))), 3: (I64, rows)}
    footer = struct_bytes({**fields, 3: (I64, rows), 4: (LIST, Items(STRUCT, (group,)))})
    path.write_bytes(data[:start] + footer + struct.pack("<I", len(footer)) + b"PAR1")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    pq.write_table(pa.table({"a": np.zeros(ROWS, np.int64)}), tmp_path / "f.parquet")
    return tmp_path


WHOLE = (65_536, struct.pack("<HHH", 1, 0, 65_535))
SINGLE = (1, struct.pack("<HHH", 1, 0, 0))


@pytest.mark.parametrize(
    ("containers", "cardinality", "expected"),
    [
        ([WHOLE] * 65_536, 1 << 32, "DELTA_DELETION_VECTOR_INVALID_ROW_INDEX"),
        ([WHOLE] * 65_536, 1 << 62, "DELTA_DELETION_VECTOR_CARDINALITY_MISMATCH"),
        ([SINGLE] * 65_536, 1 << 16, "DELTA_DELETION_VECTOR_INVALID_ROW_INDEX"),
        ([WHOLE], 1 << 16, ROWS - 65_536),
    ],
    ids=["all rows", "cardinality", "sparse", "good"],
)
def test_a_vector_of_very_many_rows(root: Path, containers: list[tuple[int, bytes]], cardinality: int, expected: object) -> None:
    size = put_vector(root, bitmap(containers))
    told, taken = in_child(root, size, cardinality)
    assert told == expected
    assert taken < BESIDE + 50 * size


def test_a_vector_that_claims_two_gigabytes(root: Path) -> None:
    put_vector(root, bitmap([WHOLE]))
    told, taken = in_child(root, (1 << 31) - 1, 1)
    assert told == "DELTA_DELETION_VECTOR_SIZE_MISMATCH"
    assert taken < BESIDE


def test_a_vector_of_as_many_rows_as_the_footer_claims(root: Path) -> None:
    claiming(root, 1 << 32)
    size = put_vector(root, bitmap([WHOLE] * 65_536))
    told, taken = in_child(root, size, 1 << 32)
    assert told == "DELTAMERGE_ROW_GROUP_TOO_LARGE"
    assert taken < BESIDE


@pytest.mark.parametrize("rows", [MOST_GROUP_ROWS + 1, 1 << 40, (1 << 62) + 1])
def test_a_row_group_that_claims_very_many_rows(root: Path, rows: int) -> None:
    claiming(root, rows)
    told, taken = in_child(root)
    assert told == "DELTAMERGE_ROW_GROUP_TOO_LARGE"
    assert taken < BESIDE


def test_a_row_group_that_claims_more_rows_than_it_has(root: Path) -> None:
    claiming(root, MOST_GROUP_ROWS)
    told, taken = in_child(root)
    assert told == "DELTAMERGE_CORRUPT_DATA_FILE"
    assert taken < BESIDE + 9 * MOST_GROUP_ROWS


def short(root: Path) -> int:
    """Very many rows in few bytes, and what they are when they are decoded."""
    count = 20_000_000
    pq.write_table(pa.table({"a": np.zeros(count, np.int64)}), root / "f.parquet", row_group_size=count, compression="zstd")
    return 8 * count


def one_page(root: Path) -> int:
    """A page of zeros."""
    count = 8_000_000
    table = pa.table({"a": np.zeros(count, np.int64)})
    pq.write_table(
        table, root / "f.parquet", row_group_size=count, data_page_size=1 << 30, use_dictionary=False, compression="zstd"
    )
    return 8 * count


@pytest.mark.parametrize("make", [short, one_page])
def test_rows_in_few_bytes_take_memory_for_what_they_are(tmp_path: Path, make: Callable[[Path], int]) -> None:
    size = make(tmp_path)
    assert (tmp_path / "f.parquet").stat().st_size < MB
    told, taken = in_child(tmp_path)
    assert told == size // 8
    assert taken < BESIDE + 3 * size + 9 * size // 8
