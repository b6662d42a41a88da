"""What reads bytes that anybody may have written, each with examples to begin with. Only named errors may come out."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from deltamerge.errors import DeltaMergeError
from deltamerge.log.replay.checkpoint import read_checkpoint
from deltamerge.log.replay.commit_file import UNPARSABLE, parse_commit
from deltamerge.log.replay.load import load
from deltamerge.log.replay.segment import CheckpointFiles, commit_name
from deltamerge.merge.statement.parse import parse_merge
from deltamerge.protocol.formats.parquet_file import ColumnChunks
from deltamerge.protocol.formats.roaring import encode
from deltamerge.protocol.formats.thrift import Malformed
from deltamerge.protocol.schema.types import arrow_schema, check_supported, parse_schema
from deltamerge.protocol.table.actions import DeletionVector
from deltamerge.protocol.table.deletion_vector import deleted_rows, file_of_vectors, vector_reference
from deltamerge.protocol.values.partitions import parse_partition_values
from deltamerge.storage import ObjectInfo
from deltamerge.storage.local import LocalStore
from deltamerge.worker.parquet.footer import footer_of
from deltamerge.worker.parquet.plain import NotSpliceable
from deltamerge.worker.scan.row_errors import Refused
from deltamerge.worker.scan.scan import FileTask, ScanSpec, scan_file
from deltamerge.worker.scan.store import DataStore
from deltamerge.worker.skipping.keys import build_filter
from tests.fuzz.told import SEED, Told, judged
from tests.spec.test_log_fuzz import build
from tests.unit.log import building


@dataclass(frozen=True)
class Target:
    """A reader of bytes: `run` it on anything; it may raise `expected` errors. `seeds` are read without one."""

    run: Callable[[bytes], object]
    seeds: Sequence[bytes]
    expected: tuple[type[Exception], ...] = (DeltaMergeError,)


def _commit() -> Target:
    root = Path(tempfile.mkdtemp())
    commits = [path.read_bytes() for path in sorted(build(root).glob("0*.json"))]
    store = LocalStore(str(root))
    return Target(lambda data: parse_commit(data, ObjectInfo(commit_name(7), len(data), 0, ""), store), commits)


_TEXTS = pa.map_(pa.string(), pa.string())
_ACTIONS = pa.schema(
    {
        "protocol": pa.struct({"minReaderVersion": pa.int32(), "minWriterVersion": pa.int32()}),
        "metaData": pa.struct({"id": pa.string(), "schemaString": pa.string(), "configuration": _TEXTS}),
        "add": pa.struct(
            {
                "path": pa.string(),
                "partitionValues": _TEXTS,
                "size": pa.int64(),
                "stats_parsed": pa.struct({"numRecords": pa.int64(), "minValues": pa.struct({"id": pa.int64()})}),
            }
        ),
        "remove": pa.struct({"path": pa.string(), "deletionTimestamp": pa.int64()}),
    }
)


def _small_checkpoint() -> bytes:
    """One of few columns, which is read in a moment."""
    files = [
        {"path": str(n), "partitionValues": [], "size": n, "stats_parsed": {"numRecords": n, "minValues": {"id": n}}}
        for n in (1, 2)
    ]
    rows = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": {"id": "i", "schemaString": building.schema_text(id="long"), "configuration": [("a", "b")]}},
        *({"add": file} for file in files),
        {"remove": {"path": "x", "deletionTimestamp": 1}},
    ]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, _ACTIONS), sink, row_group_size=3)
    return sink.getvalue().to_pybytes()


def _checkpoint() -> Target:
    root = Path(tempfile.mkdtemp())
    store = building.create(root)
    info = ObjectInfo(f"_delta_log/{3:020d}.checkpoint.parquet", 0, 0, "")

    def run(data: bytes) -> object:
        (root / info.name).write_bytes(data)
        return read_checkpoint(store, CheckpointFiles(3, (info,)))

    return Target(run, [_small_checkpoint()])


def _checkpoint_json() -> Target:
    """A V2 checkpoint in JSON, which lists its files itself, and the pointer to it."""
    root = Path(tempfile.mkdtemp())
    store = building.create(root)
    name = f"_delta_log/{1:020d}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"
    lines = [{"checkpointMetadata": {"version": 1}}, building.V2, building.metadata(), building.add("a"), building.remove("b")]
    lines.append({"sidecar": {"path": "x.parquet", "sizeInBytes": 9, "modificationTime": 1}})

    def run(data: bytes) -> object:
        (root / name).write_bytes(data)
        return read_checkpoint(store, CheckpointFiles(1, (ObjectInfo(name, len(data), 0, ""),)))

    return Target(run, ["\n".join(map(json.dumps, lines[:count])).encode() for count in (5, 4)])


def _pointer() -> Target:
    """The pointer to the last checkpoint, with one of another version beside."""
    root = Path(tempfile.mkdtemp())
    store, path = building.create(root), root / "_delta_log" / "_last_checkpoint"
    for version in (1, 2):
        building.commit(root, version, building.info())
        (root / f"_delta_log/{version:020d}.checkpoint.parquet").write_bytes(_small_checkpoint())

    def run(data: bytes) -> object:
        path.write_bytes(data)
        return load(store)

    good = {"version": 1, "size": 4, "parts": None, "sizeInBytes": 9, "numOfAddFiles": 1, "checkpointSchema": {"type": "struct"}}
    return Target(run, [json.dumps(good).encode()])


def _vector() -> Target:
    vectors = [encode(np.array([1, 5, 70_000])), encode(np.arange(10, 20)), encode(np.arange(0, 90_000, 2))]
    data, offsets = file_of_vectors(vectors)
    sizes = map(len, vectors)
    places = list(zip(offsets, sizes, (3, 10, 45_000), strict=True))

    def run(data: bytes) -> None:
        for offset, size, rows in places:
            vector = DeletionVector("u", "^-aqEH.-t@S}K{vb[*k^", size, rows, offset)
            with contextlib.suppress(DeltaMergeError):
                deleted_rows(vector, lambda at, count: data[at : at + count], "f").positions()

    return Target(run, [data])


def _descriptor() -> Target:
    def run(data: bytes) -> object:
        vector = DeletionVector.from_json(json.loads(data.decode()))
        vector_reference(vector, "f")
        return deleted_rows(vector, lambda at, count: b"", "f")

    inline = {"storageType": "i", "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", "sizeInBytes": 40}
    # An action is parsed with errors of these kinds, and a commit names them.
    return Target(run, [json.dumps({**inline, "cardinality": 6, "offset": None}).encode()], (DeltaMergeError, *UNPARSABLE))


def _partitions() -> Target:
    types = [
        pa.int32(),
        pa.float64(),
        pa.date32(),
        pa.timestamp("us", "UTC"),
        pa.timestamp("us"),
        pa.decimal128(9, 2),
        pa.bool_(),
    ]

    def run(data: bytes) -> None:
        texts = pa.array([data.decode("utf-8", "replace")], pa.string())
        for type in [*types, pa.bool_(), pa.binary(), pa.string()]:
            with contextlib.suppress(DeltaMergeError):
                parse_partition_values(texts, type, "Europe/Berlin")

    return Target(run, [b"1", b"1.5e9", b"2020-02-29", b"2020-02-29 12:30:00.123456", b"true", b"NaN", b"-99999-01-01", b"12.34"])


def _file() -> tuple[bytes, int]:
    """The bytes of a Parquet file, and where its footer begins."""
    sink = pa.BufferOutputStream()
    columns = {"i": pa.array(range(40)), "s": ["x"] * 40, "l": [[1, None]] * 40}
    pq.write_table(pa.table(columns), sink, row_group_size=16, write_page_index=True)
    data = sink.getvalue().to_pybytes()
    return data, len(data) - 8 - int.from_bytes(data[-8:-4], "little")


def _footer() -> Target:
    seed, start = _file()

    def run(tail: bytes) -> object:
        data = seed[:start] + tail
        return footer_of(data)

    return Target(run, [seed[start:]], (DeltaMergeError, NotSpliceable))


def _chunks() -> Target:
    """All that a footer says of column chunks, however its schema is."""

    def run(footer: bytes) -> None:
        chunks = ColumnChunks(footer)
        for group in range(3):
            for number in range(3):
                chunks.chunk(group, number)

    seed, start = _file()
    return Target(run, [seed[start:-8]], (Malformed,))


def _rows() -> Target:
    """A data file with another footer, of which rows are read that statistics may rule out."""
    seed, start = _file()
    keys, _ = build_filter(["i"], [pa.array([3, 20])], [False])
    root = Path(tempfile.mkdtemp())
    spec = ScanSpec(DataStore("file", str(root)), pa.schema([("i", pa.int64()), ("s", pa.string())]), keys)

    def run(tail: bytes) -> object:
        (root / "a").write_bytes(seed[:start] + tail)
        return list(scan_file(spec, FileTask(0, "a", {})))

    return Target(run, [seed[start:]], (DeltaMergeError, Refused))


def _schema() -> Target:
    def run(data: bytes) -> object:
        schema = parse_schema(data.decode("utf-8", "replace"))
        check_supported(schema)
        return arrow_schema(schema)

    inner = {"type": "map", "keyType": "string", "valueType": "decimal(9,2)", "valueContainsNull": True}
    types = {"a": "long", "b": inner, "c": {"type": "array", "elementType": "date", "containsNull": True}}
    return Target(run, [building.schema_text(**types).encode()])


def _merge_text() -> Target:
    texts = [
        "MERGE INTO delta.`/t` t USING (SELECT 1 id) s ON t.id = s.id WHEN MATCHED AND s.x > 'a' THEN UPDATE SET t.a = s.b",
        "WITH a AS (SELECT 1) MERGE WITH SCHEMA EVOLUTION INTO t USING a ON a.i <=> t.i WHEN NOT MATCHED THEN INSERT *",
        "EXPLAIN MERGE INTO t USING s ON true WHEN MATCHED THEN DELETE WHEN NOT MATCHED BY SOURCE THEN UPDATE SET x = /* y */ 2",
        "MERGE INTO t USING s ON t.i = s.i WHEN NOT MATCHED THEN INSERT (a, `b c`) VALUES (s.a, CASE WHEN 1 THEN 2 END)",
    ]
    return Target(lambda data: parse_merge(data.decode("utf-8", "replace")), [text.encode() for text in texts])


def _expression() -> Target:
    texts = [
        "a > 1 AND upper(b) IN ('x', \"y\") -- c",
        "transform(xs, x -> x + 1)[0].y",
        "(SELECT 1) = ${a}",
        "CASE WHEN a IS NOT NULL THEN CAST(b AS DATE) + INTERVAL '1' DAY ELSE a::INT END",
        "EXTRACT(YEAR FROM a) = dateadd(DAY, 1, b) AND aggregate(xs, 0, (x, y) -> x + y)",
        "substring(a FROM 1 FOR b) NOT LIKE ANY ('x', trim(BOTH a FROM b)) OR struct(a AS b).b <=> session.v",
    ]
    return Target(lambda data: judged(data.decode("utf-8", "replace")), [text.encode() for text in texts])


# What reads bytes of somebody else's, by what it reads.
GROUPS: dict[str, dict[str, Callable[[], Target]]] = {
    "log files": {"commit": _commit, "json checkpoint": _checkpoint_json, "pointer": _pointer},
    "checkpoints": {"checkpoint": _checkpoint},
    "deletion vectors": {"vector": _vector, "descriptor": _descriptor},
    "partition values": {"partition value": _partitions},
    "footers": {"footer": _footer, "chunks": _chunks, "data file": _rows},
    "told": {"told": lambda: Target(Told(), ["\n".join(SEED).encode()])},
    "texts": {"merge text": _merge_text, "expression": _expression, "schema": _schema},
}
TARGETS = {name: made for group in GROUPS.values() for name, made in group.items()}
