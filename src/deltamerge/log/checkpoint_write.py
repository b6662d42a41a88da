"""Checkpoints, written: the state of a version as Parquet.

Source: PROTOCOL.md, "Checkpoint Schema".
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from deltamerge.log.last_checkpoint import write_pointer
from deltamerge.log.segment import LOG
from deltamerge.protocol.actions import Action
from deltamerge.storage import Store

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
    write_pointer(store, pointer)
