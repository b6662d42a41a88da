"""Creating tables and appending to them, through the same worker with which merges write."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from deltamerge.errors import AnalysisError, InvalidArgumentError, TableNotFoundError
from deltamerge.log.commit.conflict import ReadSet
from deltamerge.log.commit.transaction import Committed, Proposal, commit, discarding
from deltamerge.log.commit.upkeep import after_commit
from deltamerge.log.replay.files import FileSet, Mask, add_files
from deltamerge.log.replay.load import check_sound
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.log.replay.table import DeltaLog
from deltamerge.protocol.schema.types import (
    PrimitiveType,
    StructType,
    check_names,
    schema_json,
)
from deltamerge.protocol.table.actions import Action, AddFile, Metadata, Protocol
from deltamerge.protocol.table.column_mapping import MAX_ID, MappingMode, assigned, mode_of
from deltamerge.protocol.table.constraints import constraints_of
from deltamerge.protocol.table.evolution import nullable
from deltamerge.protocol.table.features import FEATURE_PROPERTY, check_writable, needed
from deltamerge.protocol.table.identity import Identity, identity_columns, unnamed, with_marks
from deltamerge.protocol.table.row_tracking import with_column_names
from deltamerge.protocol.values.partitions import decode_path
from deltamerge.spark.expressions.constraints import check_constraints
from deltamerge.spark.read.feed import check_feed_columns
from deltamerge.spark.session.frames import Frame
from deltamerge.spark.session.jobs import collect
from deltamerge.spark.session.schema import from_spark, shown_schema
from deltamerge.spark.session.settings import engine_name, limits_texts
from deltamerge.spark.session.storage import open_table
from deltamerge.spark.stages.results import added_files
from deltamerge.spark.stages.target import write_spec
from deltamerge.spark.stages.writing import data_frame, laid_out

MODES = ("error", "errorifexists", "ignore", "append", "overwrite")


def write_table(
    frame: Frame,
    path: str,
    mode: str = "error",
    partition_by: str | Sequence[str] = (),
    properties: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> int | None:
    """Write a frame into the Delta table at `path` and return the version made; None when `ignore` found a table.

    `mode` is error (or errorifexists), ignore, append or overwrite, as of Spark's DataFrameWriter. `partition_by` and
    `properties` are for a new table; `storage_options` open an object store.
    Raises AnalysisError, InvalidArgumentError, ConcurrentModificationError.
    """
    mode = mode.lower()
    partition_by = [partition_by] if isinstance(partition_by, str) else partition_by
    if mode not in MODES:
        raise InvalidArgumentError(
            "DELTAMERGE_INVALID_MODE",
            f"Unknown mode {mode!r}.",
            parameters={"mode": mode},
            hint=f"One of {', '.join(MODES)}.",
        )
    log = open_table(frame.sparkSession, path, storage_options)
    try:
        snapshot: Snapshot | None = log.snapshot()
    except TableNotFoundError:
        snapshot = None
    if snapshot is None:
        return _create(frame, log, partition_by, properties or {})
    if mode == "ignore":
        return None
    if mode in ("error", "errorifexists"):
        raise AnalysisError(
            "DELTA_PATH_EXISTS",
            f"Cannot write to already existent path {path} without setting mode to overwrite.",
            parameters={"path": path},
            hint="Use mode='append' to add rows, mode='overwrite' to replace them.",
        )
    return _append(frame, log, snapshot, partition_by, mode)


def _create(frame: Frame, log: DeltaLog, partition_by: Sequence[str], properties: Mapping[str, str]) -> int:
    schema = nullable(shown_schema(from_spark(frame.schema)))
    metadata = Metadata(
        id=str(uuid.uuid4()),
        schema_string=schema_json(schema),
        partition_columns=tuple(_spelled(schema, name) for name in partition_by),
        configuration=dict(properties),
        created_time=int(time.time() * 1000),
    )
    mapped = mode_of(metadata) is not MappingMode.NONE
    check_new_schema(schema, partition_by, any_name=mapped)
    check_feed_columns(schema, metadata)
    protocol = needed(metadata)
    metadata = _settled(metadata, schema, mapped, protocol)
    empty = Snapshot(log.store, -1, 0, protocol, metadata, FileSet())
    check_writable(protocol, metadata, log.store.url)
    added = _written(frame, empty)
    actions: list[Action] = [protocol, metadata, *added]
    return _committed(frame, log, empty, actions, added, "ErrorIfExists", ReadSet())


def _settled(metadata: Metadata, schema: StructType, mapped: bool, protocol: Protocol) -> Metadata:
    """The metadata as it is committed: all names and ids assigned, without the properties that only chose the protocol."""
    kept = {key: value for key, value in metadata.configuration.items() if not key.startswith(FEATURE_PROPERTY)}
    if mapped:
        schema, highest = assigned(schema)
        kept[MAX_ID] = str(highest)
    return replace(metadata, schema_string=schema_json(schema), configuration=with_column_names(protocol, kept))


def _append(frame: Frame, log: DeltaLog, snapshot: Snapshot, partition_by: Sequence[str], mode: str) -> int:
    check_writable(snapshot.protocol, snapshot.metadata, log.store.url)
    check_sound(snapshot)
    given = [name.lower() for name in partition_by]
    if given and given != [name.lower() for name in snapshot.partition_columns]:
        raise AnalysisError(
            "DELTA_PARTITION_COLUMN_MISMATCH",
            f"The table is partitioned by {list(snapshot.partition_columns)}, not by {list(partition_by)}.",
            parameters={"partitionColumns": list(snapshot.partition_columns)},
            hint="Leave partition_by out; a table keeps its partitioning.",
        )
    identities = _numbered(frame, snapshot)
    added = _written(frame, snapshot, identities)
    metadata = with_marks(snapshot.metadata, [identity.name for identity in identities], added)
    actions: list[Action] = [*([metadata] if metadata is not snapshot.metadata else []), *added]
    read = ReadSet()
    if mode == "overwrite":
        now = int(time.time() * 1000)
        old = snapshot.files.table()
        actions = [*(file.removed(now) for file in add_files(old)), *actions]
        read = ReadSet(whole_table=True, would_read=_everything)
    return _committed(frame, log, snapshot, actions, added, mode.capitalize(), read)


def _numbered(frame: Frame, snapshot: Snapshot) -> tuple[Identity, ...]:
    """The identity columns that the frame leaves to be numbered. Raises AnalysisError for one that it must not have."""
    return unnamed(identity_columns(snapshot.schema), [_spelled(snapshot.schema, name) for name in frame.columns])


def _written(frame: Frame, snapshot: Snapshot, identities: Sequence[Identity] = ()) -> list[AddFile]:
    """The frame's rows in new data files, by column name, cast to the table's types; `identities` are numbered."""
    constraints = constraints_of(snapshot.schema, snapshot.metadata.configuration)
    check_constraints(frame.sparkSession, snapshot.schema, constraints)
    rows = laid_out(frame, snapshot.schema, snapshot.partition_columns, constraints, identities)
    spec = write_spec(snapshot, limited=limits_texts(frame.sparkSession, snapshot.schema))
    result = collect(data_frame(rows, spec), f"deltamerge: write into {snapshot.store.url}")
    return [file for _, file in added_files(result, snapshot.schema)]


def _committed(
    frame: Frame,
    log: DeltaLog,
    snapshot: Snapshot,
    actions: Sequence[Action],
    added: Sequence[AddFile],
    mode: str,
    read: ReadSet,
) -> int:
    proposal = Proposal(
        operation="WRITE",
        actions=actions,
        read=read,
        parameters={"mode": mode, "partitionBy": json.dumps(list(snapshot.partition_columns))},
        metrics={
            "numFiles": len(added),
            "numOutputRows": sum(file.num_records or 0 for file in added),
            "numOutputBytes": sum(file.size for file in added),
        },
        engine=engine_name(frame.sparkSession),
    )
    with discarding(snapshot, [decode_path(file.path) for file in added]):
        committed: Committed = commit(snapshot, proposal)
    log.remember(committed.snapshot)
    after_commit(committed.snapshot)
    return committed.version


def _everything(files: FileSet) -> Mask:
    return np.ones(len(files), np.bool_)


def check_new_schema(schema: StructType, partition_by: Sequence[str], any_name: bool = False) -> None:
    """Raise AnalysisError for a schema that no Delta table can have. Column mapping allows `any_name`."""
    if not len(schema):
        raise AnalysisError(
            "DELTA_EMPTY_DATA",
            "The data has no columns, so that no Delta table can be made of it.",
            hint="Select at least one column.",
        )
    names = [name.lower() for name in schema.names]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise AnalysisError(
            "DELTA_DUPLICATE_COLUMNS_FOUND",
            f"Found duplicate column(s) in the data: {', '.join(repeated)}.",
            parameters={"duplicateCols": repeated},
            hint="Column names are the same whatever their case; rename one.",
        )
    if not any_name:
        check_names(schema)
    if len({name.lower() for name in partition_by}) < len(partition_by):
        raise AnalysisError(
            "DELTA_DUPLICATE_COLUMNS_FOUND",
            f"Found duplicate column(s) in partition_by: {list(partition_by)}.",
            parameters={"duplicateCols": list(partition_by)},
            hint="Column names are the same whatever their case; name each once.",
        )
    for name in partition_by:
        field = schema.find(name)
        if field is None:
            raise AnalysisError(
                "DELTA_MISSING_PARTITION_COLUMN",
                f"Partition column {name} not found in {schema.names}.",
                parameters={"columnName": name, "columnList": schema.names},
            )
        if not isinstance(field.type, PrimitiveType):
            raise AnalysisError(
                "DELTA_INVALID_PARTITION_COLUMN_TYPE",
                f"Using column {name} of type {field.type} as a partition column is not supported.",
                parameters={"name": name, "dataType": str(field.type)},
            )
    if partition_by and len(set(map(str.lower, partition_by))) == len(schema):
        raise AnalysisError("DELTA_CANNOT_USE_ALL_COLUMNS_FOR_PARTITION", "Cannot use all columns for partition columns.")


def _spelled(schema: StructType, name: str) -> str:
    found = schema.find(name)
    return name if found is None else found.name
