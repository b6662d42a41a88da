"""Checkpoints, written: the state of a version as Parquet, in one file, in parts, or as a V2 checkpoint with sidecars.

Source: PROTOCOL.md, "Checkpoints", "Checkpoint Schema", "V2 Spec"; delta-spark's Checkpoints.
"""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from deltamerge.errors import CorruptTableError
from deltamerge.log.commit.clustering import clustering_columns
from deltamerge.log.commit.parts import part_numbers
from deltamerge.log.commit.stats_columns import StatsLeaf, leaves_of, partition_structs, partition_type, stats_structs, stats_type
from deltamerge.log.replay.checkpoint import SIDECARS
from deltamerge.log.replay.files import FILE_SCHEMA, TOMBSTONE_SCHEMA, FileChunk, Mask
from deltamerge.log.replay.last_checkpoint import write_pointer
from deltamerge.log.replay.segment import LOG
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.protocol.table.actions import Action
from deltamerge.protocol.table.features import named_features

log = logging.getLogger("deltamerge.log")

MOST_ACTIONS = 2_000_000

_ROW_GROUP = 200_000
_MAP = pa.map_(pa.string(), pa.string())
_METADATA = pa.struct(
    [
        ("id", pa.string()),
        ("name", pa.string()),
        ("description", pa.string()),
        ("format", pa.struct([("provider", pa.string()), ("options", _MAP)])),
        ("schemaString", pa.string()),
        ("partitionColumns", pa.list_(pa.string())),
        ("configuration", _MAP),
        ("createdTime", pa.int64()),
    ]
)
_PROTOCOL = pa.struct(
    [
        ("minReaderVersion", pa.int32()),
        ("minWriterVersion", pa.int32()),
        ("readerFeatures", pa.list_(pa.string())),
        ("writerFeatures", pa.list_(pa.string())),
    ]
)
_TXN = pa.struct([("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())])
_DOMAIN = pa.struct([("domain", pa.string()), ("configuration", pa.string()), ("removed", pa.bool_())])
_SMALL = {"txn": _TXN, "metaData": _METADATA, "protocol": _PROTOCOL, "domainMetadata": _DOMAIN}
_SIDECAR = pa.struct([("path", pa.string()), ("sizeInBytes", pa.int64()), ("modificationTime", pa.int64()), ("tags", _MAP)])
_V2_ONLY = {"checkpointMetadata": pa.struct([("version", pa.int64()), ("tags", _MAP)]), "sidecar": _SIDECAR}
_CLASSIC = (*_SMALL, "add", "remove")
_TOP_LEVEL = (*_SMALL, *_V2_ONLY, "add", "remove")
_FILES = ("add", "remove")
_FLAG = pa.field("dataChange", pa.bool_())
_REMOVE = pa.struct([*(field for field in TOMBSTONE_SCHEMA if field.name != "tags"), _FLAG])


@dataclass(frozen=True)
class CheckpointContent:
    """What a checkpoint of a version holds: live files with their statistics in the table's forms, tombstones, the rest."""

    chunks: tuple[FileChunk, ...]
    removes: pa.Table
    small: tuple[dict[str, Any], ...]
    snapshot: Snapshot
    with_structs: bool = True

    @property
    def count(self) -> int:
        """How many actions there are."""
        files = sum(len(chunk) for chunk in self.chunks)
        return files + int(self.removes.num_rows) + len(self.small)


def write_checkpoint(snapshot: Snapshot, removes: pa.Table, most_actions: int = MOST_ACTIONS) -> None:
    """Write a checkpoint of `snapshot` with the tombstones `removes`, and point `_last_checkpoint` to it.

    A V2 checkpoint where the table asks for one; a classic one else, in parts beyond `most_actions`. Raises StorageError.
    """
    others: list[Action] = [snapshot.protocol, snapshot.metadata, *snapshot.txns.values(), *snapshot.domains.values()]
    chunks = tuple(chunk if mask is None else chunk.take(_where(mask)) for chunk, mask in snapshot.files.parts())
    content = CheckpointContent(chunks, removes, tuple(action.to_json() for action in others), snapshot)
    parts = -(-content.count // most_actions)
    try:
        pointer = _written(content, parts)
    except CorruptTableError as error:
        log.warning("the checkpoint keeps no statistics structs: %s", error)
        pointer = _written(replace(content, with_structs=False), parts)
    write_pointer(snapshot.store, {"version": snapshot.version, **pointer})


def _written(content: CheckpointContent, parts: int) -> dict[str, Any]:
    snapshot = content.snapshot
    policy = snapshot.metadata.configuration.get("delta.checkpointPolicy", "classic").lower()
    with_sidecars = policy == "v2" and "v2Checkpoint" in named_features(snapshot.protocol)
    return _write_v2(content, parts) if with_sidecars else _write_classic(content, parts)


def _write_classic(content: CheckpointContent, parts: int) -> dict[str, Any]:
    base = f"{LOG}/{content.snapshot.version:020d}.checkpoint"
    total = 0
    for number, part in enumerate(_split(content, parts), 1):
        data = parquet_bytes(part)
        name = f"{base}.parquet" if parts == 1 else f"{base}.{number:010d}.{parts:010d}.parquet"
        content.snapshot.store.put(name, data)
        total += len(data)
    pointer = {"size": content.count, "sizeInBytes": total, "numOfAddFiles": len(content.snapshot.files)}
    return pointer if parts == 1 else {**pointer, "parts": parts}


def _write_v2(content: CheckpointContent, parts: int) -> dict[str, Any]:
    store, version = content.snapshot.store, content.snapshot.version
    sidecars: list[dict[str, Any]] = []
    for part in _split(replace(content, small=()), parts):
        name, data = f"{uuid.uuid4()}.parquet", parquet_bytes(part, _FILES)
        store.put(f"{SIDECARS}/{name}", data)
        sidecars.append({"path": name, "sizeInBytes": len(data), "modificationTime": int(time.time() * 1000)})
    store.sync([SIDECARS])  # another writer may have made the folder a moment ago
    head = {"checkpointMetadata": {"version": version}}
    small = (head, *content.small, *({"sidecar": sidecar} for sidecar in sidecars))
    top = replace(content, chunks=(), removes=TOMBSTONE_SCHEMA.empty_table(), small=small)
    data = parquet_bytes(top, _TOP_LEVEL)
    name = f"{version:020d}.checkpoint.{uuid.uuid4()}.parquet"
    made = store.put_if_absent(f"{LOG}/{name}", data)
    return {
        "size": content.count + 1 + len(sidecars),
        "sizeInBytes": len(data) + sum(sidecar["sizeInBytes"] for sidecar in sidecars),
        "numOfAddFiles": len(content.snapshot.files),
        "v2Checkpoint": {"path": name, "sizeInBytes": len(data), "modificationTime": made.modified},
    }


def _split(content: CheckpointContent, parts: int) -> Iterator[CheckpointContent]:
    """The content in parts, file actions by Spark's hash of their identity, so that racing writers make the same parts."""
    if parts == 1:
        yield content
        return
    with_vectors = "deletionVectors" in named_features(content.snapshot.protocol)
    places = [part_numbers(chunk.table, parts, with_vectors) for chunk in content.chunks]
    gone = part_numbers(content.removes, parts, with_vectors)
    for number in range(parts):
        rows = [_where(np.equal(at, number)) for at in places]
        chunks = tuple(chunk.take(at) for chunk, at in zip(content.chunks, rows, strict=True))
        removes = content.removes.take(_where(np.equal(gone, number)))
        yield replace(content, chunks=chunks, removes=removes, small=content.small if number == 0 else ())


def _where(chosen: Mask) -> pa.Array:
    return pa.array(np.flatnonzero(chosen))


def parquet_bytes(content: CheckpointContent, kinds: Sequence[str] = _CLASSIC) -> bytes:
    """A file of a checkpoint with a column for each of the `kinds` of actions: a row an action, the small ones first."""
    form = _Form(content.snapshot, content.with_structs)
    types = {kind: {**_SMALL, **_V2_ONLY, "add": form.type, "remove": _REMOVE}[kind] for kind in kinds}
    schema = pa.schema(list(types.items()))
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, schema, compression="snappy", write_page_checksum=True) as writer:
        for columns in _batches(content, form):
            count = len(next(iter(columns.values())))
            rows = [columns.get(kind, pa.nulls(count, type)) for kind, type in types.items()]
            if count:
                writer.write_table(pa.table(rows, schema=schema), row_group_size=_ROW_GROUP)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _batches(content: CheckpointContent, form: _Form) -> Iterator[dict[str, pa.Array]]:
    """Rows of a checkpoint file, by kind of action; a kind that is left out is null in all of them."""
    yield {kind: _small_values(content.small, kind, type) for kind, type in {**_SMALL, **_V2_ONLY}.items()}
    for chunk in content.chunks:
        yield {"add": form.structs(chunk)}
    yield {"remove": _tombstones(content)}


class _Form:
    """How a table's checkpoints hold live files: statistics as JSON, as structs, or both."""

    def __init__(self, snapshot: Snapshot, with_structs: bool) -> None:
        flag = snapshot.properties.flag
        self._json = flag("delta.checkpoint.writeStatsAsJson", True)
        self._structs = with_structs and flag("delta.checkpoint.writeStatsAsStruct", True)
        self._partitions = snapshot.partition_schema
        self._leaves: list[StatsLeaf] = []
        if self._structs:
            self._leaves = leaves_of(snapshot.data_schema, snapshot.properties, clustering_columns(snapshot))
        fields = [field for field in FILE_SCHEMA if field.name != "stats" or self._json]
        fields.append(_FLAG)
        if self._structs:
            fields.append(pa.field("stats_parsed", stats_type(self._leaves)))
        if self._structs and len(self._partitions):
            fields.append(pa.field("partitionValues_parsed", partition_type(self._partitions)))
        self.type = pa.struct(fields)

    def structs(self, chunk: FileChunk) -> pa.StructArray:
        """The `add` values of some files."""
        table = chunk.chosen(None) if self._json else chunk.table
        columns = {name: _array(table[name]) for name in table.column_names}
        columns["dataChange"] = pa.array(np.zeros(table.num_rows, np.bool_))
        if self._structs:
            columns["stats_parsed"] = stats_structs(chunk, self._leaves)
            if len(self._partitions):
                columns["partitionValues_parsed"] = partition_structs(chunk, self._partitions)
        return pa.StructArray.from_arrays([columns[field.name] for field in self.type], fields=list(self.type))


def _tombstones(content: CheckpointContent) -> pa.StructArray:
    columns = {name: _array(content.removes[name]) for name in content.removes.column_names}
    columns["dataChange"] = pa.array(np.zeros(content.removes.num_rows, np.bool_))
    return pa.StructArray.from_arrays([columns[field.name] for field in _REMOVE], fields=list(_REMOVE))


def _array(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks else pa.nulls(0, column.type)


def _small_values(small: Sequence[dict[str, Any]], kind: str, type: pa.DataType) -> pa.Array:
    return pa.array([_arrow_form(value.get(kind)) for value in small], type)


def _arrow_form(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    maps = {"configuration", "options"}
    return {k: list(v.items()) if k in maps and isinstance(v, dict) else _arrow_form(v) for k, v in value.items()}
