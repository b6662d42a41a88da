"""What data files hold otherwise than the table's schema has it: columns that were dropped, types that were widened.

The files' footers tell, which this process reads. Source: delta-spark's ReorgTableHelper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa

from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.protocol.schema.type_widening import CHANGES
from deltamerge.protocol.schema.types import StructType, arrow_type, fields_of
from deltamerge.protocol.table.column_mapping import MappingMode, highest_id, mode_of
from deltamerge.protocol.table.row_tracking import COLUMN_NAMES
from deltamerge.spark.session.jobs import in_process
from deltamerge.spark.stages.target import data_store
from deltamerge.worker.scan.scan import FileTask, open_file, open_parquet

_AT_ONCE = 8


def with_dropped_columns(snapshot: Snapshot, tasks: Sequence[FileTask]) -> list[FileTask]:
    """The files that hold columns or fields that the schema does not have. Raises CorruptTableError, StorageError.

    None of a table without column mapping, of which no column can be dropped, or of which none was.
    """
    fields = list(fields_of(snapshot.schema))
    if mode_of(snapshot.metadata) is MappingMode.NONE or len(fields) == highest_id(snapshot.metadata):
        return []
    kept = {name for key in COLUMN_NAMES if (name := snapshot.metadata.configuration.get(key))}
    return _found(snapshot, tasks, lambda stored: _has_more((f for f in stored if f.name not in kept), snapshot.schema))


def with_older_types(snapshot: Snapshot, tasks: Sequence[FileTask]) -> list[FileTask]:
    """The files that hold values of types that the schema has widened. Raises CorruptTableError, StorageError."""
    if not any(CHANGES in field.metadata for field in fields_of(snapshot.schema)):
        return []
    return _found(snapshot, tasks, lambda stored: _has_older(stored, snapshot.schema))


def _found(snapshot: Snapshot, tasks: Sequence[FileTask], differs: Callable[[pa.Schema], bool]) -> list[FileTask]:
    store = data_store(snapshot.store)

    def is_found(task: FileTask) -> bool:
        source = open_file(store, task)
        try:
            return differs(open_parquet(source, task.label, store.remote).schema_arrow)
        finally:
            source.close()

    with in_process(), ThreadPoolExecutor(_AT_ONCE) as pool:
        return [task for task, found in zip(tasks, pool.map(is_found, tasks), strict=True) if found]


def _has_more(stored: Iterable[pa.Field], schema: StructType) -> bool:
    wanted = {field.physical_name.lower(): field.type for field in schema}
    return any(field.name.lower() not in wanted or _more(field.type, wanted[field.name.lower()]) for field in stored)


def _more(stored: pa.DataType, wanted: Any) -> bool:
    if pa.types.is_struct(stored) and isinstance(wanted, StructType):
        return _has_more(stored, wanted)
    return any(_more(one, other) for one, other in _parts(stored, wanted))


def _has_older(stored: Iterable[pa.Field], schema: StructType) -> bool:
    wanted = {field.physical_name.lower(): field.type for field in schema}
    return any(field.name.lower() in wanted and _older(field.type, wanted[field.name.lower()]) for field in stored)


def _older(stored: pa.DataType, wanted: Any) -> bool:
    if pa.types.is_struct(stored) and isinstance(wanted, StructType):
        return _has_older(stored, wanted)
    if pa.types.is_nested(stored):
        return any(_older(one, other) for one, other in _parts(stored, wanted))
    types = pa.types
    return any(is_one(stored) for is_one in (types.is_integer, types.is_floating, types.is_decimal, types.is_date)) and bool(
        stored != arrow_type(wanted)
    )


def _parts(stored: pa.DataType, wanted: Any) -> list[tuple[pa.DataType, Any]]:
    """The types within a map or an array, beside the schema's."""
    if pa.types.is_map(stored):
        return [(stored.key_type, wanted.key), (stored.item_type, wanted.value)]
    if pa.types.is_list(stored) or pa.types.is_large_list(stored):
        return [(stored.value_type, wanted.element)]
    return []
