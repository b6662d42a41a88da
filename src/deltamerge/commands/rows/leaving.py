"""Which files leave a table that is overwritten, and what that says of the transaction's reads."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.log.commit.conflict import ReadSet, everything
from deltamerge.log.replay.files import FILE_SCHEMA, FileSet, Mask, each_add_file, file_keys
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.protocol.schema.types import arrow_type
from deltamerge.protocol.table.actions import AddFile, RemoveFile
from deltamerge.protocol.values.partitions import parse_partition_values

_Partition = tuple[str, ...]


@dataclass(frozen=True)
class Leaving:
    """The files that leave, and what was read to know them. `metrics` count them and their bytes."""

    removed: tuple[RemoveFile, ...] = ()
    read: ReadSet = field(default_factory=ReadSet)

    @property
    def metrics(self) -> Mapping[str, int]:
        """The metrics of an overwrite as delta-spark names them."""
        return {"numRemovedFiles": len(self.removed), "numRemovedBytes": sum(file.size or 0 for file in self.removed)}

    def told(self, data_change: bool) -> Leaving:
        """The same files, as ones that take rows with them or, without `data_change`, as rearranged ones."""
        return replace(self, removed=tuple(replace(file, data_change=data_change) for file in self.removed))


def all_files(snapshot: Snapshot) -> Leaving:
    """The whole table, which counts as read."""
    return _leaving(snapshot.files.table(), ReadSet(whole_table=True, would_read=everything))


def partitions_of(snapshot: Snapshot, added: Iterable[AddFile], zone: str) -> Leaving:
    """The partitions to which files were added; texts of timestamps without an offset are read in `zone`."""
    written = pa.array([list(file.partition_values.items()) for file in added], FILE_SCHEMA.field("partitionValues").type)
    wanted = frozenset(_partitions(snapshot, written, zone))

    def chosen(files: FileSet) -> Mask:
        values = files.column("partitionValues").combine_chunks()
        return np.fromiter((partition in wanted for partition in _partitions(snapshot, values, zone)), np.bool_, len(files))

    table = snapshot.files.select(chosen(snapshot.files))
    return _leaving(table, ReadSet(frozenset(file_keys(table).to_pylist()), chosen))


def _leaving(table: pa.Table, read: ReadSet) -> Leaving:
    now = int(time.time() * 1000)
    return Leaving(tuple(file.removed(now) for file in each_add_file(table)), read)


def _partitions(snapshot: Snapshot, values: pa.Array, zone: str) -> Iterable[_Partition]:
    """The partition of each file. Writers spell one value in several ways, so that values are compared, not texts."""
    columns = []
    for column in snapshot.partition_schema:
        texts = pc.map_lookup(values, pa.scalar(column.physical_name), "first")
        columns.append(map(repr, parse_partition_values(texts, arrow_type(column.type), zone).to_pylist()))
    return zip(*columns, strict=True)
