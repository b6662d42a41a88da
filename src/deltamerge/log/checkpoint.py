"""Checkpoints: the state of a version as Parquet, read into Arrow columns and written from them.

Source: PROTOCOL.md, "Checkpoints" and "Checkpoint Schema".
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from deltamerge.errors import CorruptTableError
from deltamerge.log.files import FILE_SCHEMA, TOMBSTONE_SCHEMA
from deltamerge.log.segment import LAST_CHECKPOINT, LOG, CheckpointFiles
from deltamerge.protocol.actions import Action, parse_action
from deltamerge.storage import NotFound, Store

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
_OTHERS = {"txn": _TXN, "metaData": _METADATA, "protocol": _PROTOCOL, "domainMetadata": _DOMAIN}


@dataclass(frozen=True)
class CheckpointState:
    """What a checkpoint holds: live files, tombstones, and the other actions."""

    adds: pa.Table
    removes: pa.Table
    others: tuple[Action, ...]


def read_checkpoint(store: Store, files: CheckpointFiles) -> CheckpointState:
    """Read all parts of a checkpoint. Raises CorruptTableError naming the file."""
    states = [_read_part(store, info.name) for info in files.parts]
    return CheckpointState(
        pa.concat_tables([state.adds for state in states]),
        pa.concat_tables([state.removes for state in states]),
        tuple(action for state in states for action in state.others),
    )


def _read_part(store: Store, name: str) -> CheckpointState:
    try:
        table = pq.read_table(pa.BufferReader(store.read(name)))
        return CheckpointState(
            _rows(table, "add", FILE_SCHEMA),
            _rows(table, "remove", TOMBSTONE_SCHEMA),
            tuple(action for kind in _OTHERS for action in _actions(table, kind)),
        )
    except NotFound as error:
        raise _corrupt(store, name, "the file is missing") from error
    except (pa.ArrowException, OSError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise _corrupt(store, name, str(error)) from error


def _rows(table: pa.Table, kind: str, schema: pa.Schema) -> pa.Table:
    """The non-null structs of one column, as a table of exactly `schema`; absent fields are null."""
    if kind not in table.column_names:
        return schema.empty_table()
    column = table[kind].combine_chunks()
    column = column.filter(pc.is_valid(column))
    return pa.table([_child(column, field) for field in schema], schema=schema)


def _child(struct: pa.StructArray, field: pa.Field) -> pa.Array:
    if struct.type.get_field_index(field.name) < 0:
        return pa.nulls(len(struct), field.type)
    child = pc.struct_field(struct, field.name)
    if pa.types.is_struct(field.type):
        fields = [_child(child, inner) for inner in field.type]
        return pa.StructArray.from_arrays(fields, fields=list(field.type), mask=pc.is_null(child))
    return child.cast(field.type)


def _actions(table: pa.Table, kind: str) -> list[Action]:
    if kind not in table.column_names:
        return []
    column = table[kind].combine_chunks()
    found = []
    for value in column.filter(pc.is_valid(column)).to_pylist():
        action = parse_action({kind: _plain(value)})
        if action is not None:
            found.append(action)
    return found


def _plain(value: Any) -> Any:
    """Arrow's Python form of an action as JSON would have it: maps are dicts, nulls are absent."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items() if item is not None}
    if isinstance(value, list) and value and all(isinstance(item, tuple) for item in value):
        return dict(value)
    return value


def checkpoint_bytes(adds: pa.Table, removes: pa.Table, others: list[Action]) -> bytes:
    """A classic checkpoint as one Parquet file: `others` first, then live files, then tombstones."""
    counts = (len(others), adds.num_rows, removes.num_rows)
    columns: dict[str, pa.Array] = {}
    for kind, type in _OTHERS.items():
        values = [_arrow_form(action.to_json().get(kind)) for action in others]
        columns[kind] = _placed(pa.array(values, type), counts, 0)
    columns["add"] = _placed(_struct(adds, dataChange=False), counts, 1)
    columns["remove"] = _placed(_struct(removes, dataChange=False), counts, 2)
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink, compression="snappy", row_group_size=200_000)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _struct(table: pa.Table, **constants: bool) -> pa.StructArray:
    table = table.combine_chunks()
    fields = list(table.schema)
    arrays = [column.chunk(0) if column.num_chunks else pa.nulls(0, column.type) for column in table.columns]
    for name, value in constants.items():
        fields.append(pa.field(name, pa.bool_()))
        arrays.append(pa.array(np.full(table.num_rows, value)))
    return pa.StructArray.from_arrays(arrays, fields=fields)


def _placed(values: pa.Array, counts: tuple[int, int, int], at: int) -> pa.Array:
    parts = [values if place == at else pa.nulls(count, values.type) for place, count in enumerate(counts)]
    return pa.concat_arrays(parts)


def _arrow_form(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    maps = {"configuration", "options"}
    return {k: list(v.items()) if k in maps and isinstance(v, dict) else _arrow_form(v) for k, v in value.items()}


def write_checkpoint(store: Store, version: int, adds: pa.Table, removes: pa.Table, others: list[Action]) -> None:
    """Write a classic checkpoint of `version` and point `_last_checkpoint` to it. Raises StorageError."""
    data = checkpoint_bytes(adds, removes, others)
    store.put(f"{LOG}/{version:020d}.checkpoint.parquet", data)
    pointer = {
        "version": version,
        "size": adds.num_rows + removes.num_rows + len(others),
        "sizeInBytes": len(data),
        "numOfAddFiles": adds.num_rows,
    }
    store.put(LAST_CHECKPOINT, json.dumps(pointer, separators=(",", ":")).encode())


def _corrupt(store: Store, name: str, cause: str) -> CorruptTableError:
    return CorruptTableError(
        "DELTAMERGE_CORRUPT_CHECKPOINT",
        f"The checkpoint {name} of {store.url} can't be read: {cause}.",
        parameters={"table": store.url, "file": name},
        hint="Delete the damaged checkpoint if all commits since an older one still exist; otherwise restore it from a backup.",
    )
