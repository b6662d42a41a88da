"""Delta tables for the benchmark, written as Parquet files and a log without any of the engines; and copies to merge into."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.data import DATE, KEYS, QUANTITY, REGION, Ids, Shape

LOG = Shape(100_000_000, 100_000, layout="log")
LIVE_FILE = 50_000
_TYPES = {"int64": "long", "int32": "integer", "double": "double", "string": "string", "date32[day]": "date"}
_INDEXED = 32
_WRITTEN = 1_700_000_000_000
_LATER_COMMITS = 10


def table_path(root: Path, shape: Shape) -> Path:
    """The table of this shape, made when it is not there."""
    path = root / shape.name
    ready = root / f"{shape.name}.ready"
    if not ready.exists():
        shutil.rmtree(path, ignore_errors=True)
        (path / "_delta_log").mkdir(parents=True)
        if shape.layout == "log":
            _make_log(path, shape)
        else:
            files = enumerate(shape.files_of_ids())
            _commit(path, 0, [*_head(shape), *(_written(path, shape, number, ids) for number, ids in files)])
        ready.touch()
    return path


def fresh_copy(table: Path, shape: Shape, target: Path, vectors: bool, feed: bool) -> None:
    """A copy to merge into, with deletion vectors or the change data feed switched on by one more commit.

    Files are hard links: no engine changes one in place but `_last_checkpoint`.
    """
    shutil.copytree(table, target, copy_function=_linked)
    if vectors or feed:
        version = max(int(file.name[:20]) for file in (target / "_delta_log").glob("*.json"))
        _commit(target, version + 1, _head(shape, vectors, feed))


def _linked(source: str, target: str) -> None:
    (shutil.copyfile if "_last_checkpoint" in source else os.link)(source, target)


def _head(shape: Shape, vectors: bool = False, feed: bool = False) -> list[dict[str, Any]]:
    """The protocol and metaData actions."""
    schema = shape.table(np.arange(1)).schema
    fields = [{"name": f.name, "type": _TYPES[str(f.type)], "nullable": True, "metadata": {}} for f in schema]
    asked = {"delta.enableDeletionVectors": vectors, "delta.enableChangeDataFeed": feed}
    metadata = {
        "id": "4a8b1ff0-8f0a-4bd0-93b7-5b0f0a1ee8a4",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": [REGION] if shape.layout == "partitioned" else [],
        "configuration": {name: "true" for name, wanted in asked.items() if wanted},
        "createdTime": _WRITTEN,
    }
    protocol: dict[str, Any] = {"minReaderVersion": 1, "minWriterVersion": 4 if feed else 2}
    if vectors:
        features = ["appendOnly", "invariants", "deletionVectors", *(["changeDataFeed"] if feed else [])]
        protocol = {"minReaderVersion": 3, "minWriterVersion": 7}
        protocol |= {"readerFeatures": ["deletionVectors"], "writerFeatures": features}
    return [{"protocol": protocol}, {"metaData": metadata}]


def _commit(path: Path, version: int, actions: list[dict[str, Any]]) -> None:
    info = {"commitInfo": {"timestamp": _WRITTEN + version, "operation": "WRITE", "operationParameters": {"mode": "Append"}}}
    lines = [json.dumps(action, separators=(",", ":")) for action in [info, *actions]]
    (path / "_delta_log" / f"{version:020d}.json").write_text("\n".join(lines) + "\n")


def _written(path: Path, shape: Shape, number: int, ids: Ids) -> dict[str, Any]:
    """Write one data file; its add action."""
    rows = shape.table(ids)
    partition: dict[str, str] = {}
    if shape.layout == "partitioned":
        (region,) = rows[REGION].unique().to_pylist()
        rows, partition = rows.drop_columns([REGION]), {REGION: str(region)}
    folder = "".join(f"{name}={value}/" for name, value in partition.items())
    name = f"{folder}part-{number:05d}-{number:032x}.c000.snappy.parquet"
    (path / folder).mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, path / name, compression="snappy", write_page_index=True, row_group_size=shape.group_rows)
    return _add(name, (path / name).stat().st_size, partition, statistics(rows))


def _add(name: str, size: int, partition: dict[str, str], stats: dict[str, Any]) -> dict[str, Any]:
    text = json.dumps(stats, separators=(",", ":"))
    common = {"path": name, "partitionValues": partition, "size": size, "modificationTime": _WRITTEN}
    return {"add": {**common, "dataChange": True, "stats": text}}


def statistics(rows: pa.Table) -> dict[str, Any]:
    """The statistics of the first 32 columns, as the protocol has them."""
    found: dict[str, Any] = {"numRecords": rows.num_rows, "minValues": {}, "maxValues": {}, "nullCount": {}}
    for name in rows.column_names[:_INDEXED]:
        limits = pc.min_max(rows[name])
        for kind, side in (("minValues", "min"), ("maxValues", "max")):
            value = limits[side].as_py()
            found[kind][name] = value.isoformat() if isinstance(value, date) else value
        found["nullCount"][name] = rows[name].null_count
    return found


def _make_log(path: Path, shape: Shape) -> None:
    """A checkpoint, ten commits after it, and the one file that is there, which the checkpoint names."""
    from deltamerge.log.commit.upkeep import checkpoint
    from deltamerge.log.replay.load import load
    from deltamerge.storage.local import LocalStore

    later = 10
    base = shape.files - _LATER_COMMITS * later
    each = shape.rows // shape.files
    live = _written(path, shape, LIVE_FILE, np.arange(LIVE_FILE * each, (LIVE_FILE + 1) * each))
    _commit(path, 0, [*_head(shape), *(live if n == LIVE_FILE else add for n, add in enumerate(_unreal(shape, 0, base)))])
    checkpoint(load(LocalStore(str(path))))
    for version in range(1, _LATER_COMMITS + 1):
        start = base + (version - 1) * later
        _commit(path, version, list(_unreal(shape, start, start + later)))


def _unreal(shape: Shape, start: int, end: int) -> Iterator[dict[str, Any]]:
    """Add actions of files that are not there, with statistics of four columns, their keys apart from all others."""
    each = shape.rows // shape.files
    for number in range(start, end):
        first, last = (shape.times(number * each + at) for at in (0, each - 1))
        low = {KEYS[0]: first[0], KEYS[1]: 0, QUANTITY: 0, DATE: first[1].isoformat()}
        high = {KEYS[0]: last[0], KEYS[1]: 18_000, QUANTITY: 99, DATE: last[1].isoformat()}
        stats = {"numRecords": each, "minValues": low, "maxValues": high, "nullCount": dict.fromkeys(low, 0)}
        yield _add(f"part-{number:05d}-{number:032x}.c000.snappy.parquet", 60_000, {}, stats)
