"""Creating tables, appending to them and overwriting them, through the same worker with which merges write.

Source of the behaviour: delta-spark's WriteIntoDelta.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace

from deltamerge.commands.layout.auto_compact import compact_after
from deltamerge.commands.rows.leaving import Leaving, all_files, partitions_of
from deltamerge.commands.rows.replacing import replace_rows
from deltamerge.commands.rows.request import WriteRequest, checked
from deltamerge.commands.rows.schema import check_new_schema, spelled
from deltamerge.commands.rows.written import (
    PARTITION_OVERWRITE,
    WritePlan,
    Written,
    actions_of,
    check_rows,
    gathered,
    metadata_kept,
    planned,
    written,
)
from deltamerge.errors import AnalysisError, TableNotFoundError
from deltamerge.log.commit.clustering import clustering_domain
from deltamerge.log.commit.transaction import Committed, Proposal, commit, discarding
from deltamerge.log.commit.upkeep import after_commit
from deltamerge.log.replay.files import FileSet
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.log.replay.table import DeltaLog
from deltamerge.merge.commit import txn_actions
from deltamerge.merge.line import is_recorded
from deltamerge.merge.settings import SETTINGS, forget_transaction, session_transaction
from deltamerge.progress.operation import begin
from deltamerge.protocol.schema.types import StructType, schema_json
from deltamerge.protocol.table.actions import Action, DomainMetadata, Metadata, Protocol
from deltamerge.protocol.table.column_mapping import MAX_ID, MappingMode, assigned, mode_of
from deltamerge.protocol.table.evolution import nullable
from deltamerge.protocol.table.features import FEATURE_PROPERTY, check_writable, named_features, needed, upgraded
from deltamerge.protocol.table.known_properties import features_of_properties, is_of_protocol, kept_defaults
from deltamerge.protocol.table.row_tracking import with_column_names
from deltamerge.spark.plans.attributes import attribute_parts
from deltamerge.spark.read.feed import check_feed_columns
from deltamerge.spark.session.delta_check import check_delta
from deltamerge.spark.session.file_sizes import check_sizes
from deltamerge.spark.session.frames import Frame
from deltamerge.spark.session.running import operation
from deltamerge.spark.session.schema import from_spark, shown_schema
from deltamerge.spark.session.settings import author, known_settings, time_zone
from deltamerge.spark.session.storage import open_table
from deltamerge.spark.session.table_defaults import session_defaults

_CLUSTERING = f"{FEATURE_PROPERTY}clustering"


def write_table(frame: Frame, path: str, request: WriteRequest, storage_options: Mapping[str, str] | None = None) -> int | None:
    """Write a frame into the Delta table at `path`, as `write_into`; `storage_options` open an object store."""
    request = checked(request)
    return write_into(frame, open_table(frame.sparkSession, path, storage_options), request)


def write_into(frame: Frame, log: DeltaLog, request: WriteRequest) -> int | None:
    """Write a frame into the table of a log and return the version made; None when mode `ignore` found a table, or when the
    transaction is recorded in it.

    Raises AnalysisError, InvalidArgumentError, ExecutionError, ConcurrentModificationError; the table is then as it was.
    """
    spark, request = frame.sparkSession, checked(request)
    with known_settings(spark, (*SETTINGS, PARTITION_OVERWRITE)), operation(spark, "WRITE", log.store.url):
        check_delta(spark, "WRITE")
        check_sizes(spark)
        if request.txn_id is None:
            request = replace(request, txn_id=session_transaction(spark))
        committed = _committed(frame, log, request)
        if committed is not None:
            log.remember(committed.snapshot)
        forget_transaction(spark)
    return None if committed is None else committed.version


def _committed(frame: Frame, log: DeltaLog, request: WriteRequest) -> Committed | None:
    try:
        snapshot = log.snapshot()
    except TableNotFoundError:
        return _created(frame, log, request)
    if request.mode == "ignore" or (request.txn_id is not None and is_recorded(request.txn_id, snapshot)):
        return None
    if not (request.overwrites or request.mode == "append"):
        raise _exists(log.store.url)
    plan = planned(frame, snapshot, request)
    if request.overwrites and request.replace_where is not None:
        return replace_rows(plan, log)
    domains = _domains(plan.after, request) if request.new_schema else []
    return _written(plan, log, domains)


def _created(frame: Frame, log: DeltaLog, request: WriteRequest) -> Committed:
    if not request.data_change:
        raise metadata_kept("Create a Delta table")
    spark, schema = frame.sparkSession, nullable(shown_schema(from_spark(frame.schema)))
    asked = {_CLUSTERING: "supported"} if request.cluster_by else {}
    metadata = Metadata(
        id=str(uuid.uuid4()),
        schema_string=schema_json(schema),
        partition_columns=tuple(spelled(schema, name) for name in request.partition_by),
        configuration={**kept_defaults(request.properties, session_defaults(spark)), **request.properties, **asked},
        created_time=int(time.time() * 1000),
    )
    mapped = mode_of(metadata) is not MappingMode.NONE
    check_new_schema(schema, request.partition_by, any_name=mapped)
    check_feed_columns(schema, metadata)
    protocol = upgraded(needed(metadata), features_of_properties(metadata.configuration))
    metadata = _settled(metadata, schema, mapped, protocol)
    empty = Snapshot(log.store, -1, 0, protocol, metadata, FileSet())
    check_writable(protocol, metadata, log.store.url)
    domains = _domains(empty, request)
    empty = replace(empty, domains={domain.domain: domain for domain in domains})
    gathers = gathered(spark, empty, request)
    plan = WritePlan(frame, empty, empty, request, merges=request.merge_schema is True, gathers=gathers)
    check_rows(plan)
    return _written(plan, log, [protocol, metadata, *domains])


def _settled(metadata: Metadata, schema: StructType, mapped: bool, protocol: Protocol) -> Metadata:
    """The metadata as it is committed: all names and ids assigned, without the properties that only chose the protocol."""
    kept = {key: value for key, value in metadata.configuration.items() if not is_of_protocol(key)}
    if mapped:
        schema, highest = assigned(schema)
        kept[MAX_ID] = str(highest)
    return replace(metadata, schema_string=schema_json(schema), configuration=with_column_names(protocol, kept))


def _domains(after: Snapshot, request: WriteRequest) -> list[DomainMetadata]:
    """What says by which columns a table whose schema is given is clustered: nothing for one that is not and never was.

    Raises AnalysisError for columns that can't be.
    """
    if not request.cluster_by and "clustering" not in named_features(after.protocol):
        return []
    if "clustering" not in named_features(after.protocol):
        raise AnalysisError(
            "DELTAMERGE_NOT_CLUSTERED",
            f"The table {after.store.url} is not clustered, and overwriting it can't make it so.",
            parameters={"table": after.store.url},
            hint="Replace the table, or ALTER TABLE .. CLUSTER BY first.",
        )
    columns = [tuple(attribute_parts(name)) for name in request.cluster_by]
    return [clustering_domain(after.schema, columns, after.metadata, request.partition_by)]


def _written(plan: WritePlan, log: DeltaLog, head: Sequence[Action] = ()) -> Committed:
    """Write the plan's rows and commit them behind the actions of the `head`."""
    request, snapshot, spark = plan.request, plan.before, plan.frame.sparkSession
    files = written(plan)
    with discarding(snapshot, files.names):
        gone = Leaving()
        if request.overwrites and snapshot.version < 0:
            gone = all_files(snapshot)  # none, but no other writer's either
        elif request.overwrites:
            gone = partitions_of(snapshot, plan.replacing(files.added), time_zone(spark)) if plan.dynamic else all_files(snapshot)
            gone = gone.told(request.data_change)
        replaced = gone.metrics if request.overwrites and snapshot.version >= 0 else {}
        metrics = {**files.metrics, **replaced} if request.batch is None else _of_batch(files, gone)
        txn_id = request.txn_id
        apps = frozenset() if txn_id is None else frozenset([txn_id.application])
        read = replace(gone.read, app_ids=apps, frame=plan.read)
        actions = [*txn_actions(txn_id), *head, *gone.removed, *actions_of(plan, files)]
        proposal = Proposal(plan.operation, actions, read, plan.parameters, metrics, request.user_metadata, author(spark))
        begin("committing")
        committed = commit(snapshot, proposal)
    after_commit(committed.snapshot)
    compact_after(spark, log, committed.snapshot, files.added)
    return committed


def _of_batch(files: Written, gone: Leaving) -> Mapping[str, int]:
    """The metrics of a streaming query's batch as delta-spark names them."""
    found = {"numAddedFiles": len(files.added), "numRemovedFiles": len(gone.removed)}
    return {**found, **{name: files.metrics[name] for name in ("numOutputRows", "numOutputBytes")}}


def _exists(path: str) -> AnalysisError:
    return AnalysisError(
        "DELTA_PATH_EXISTS",
        f"Cannot write to already existent path {path} without setting mode to overwrite.",
        parameters={"path": path},
        hint="Use mode='append' to add rows, mode='overwrite' to replace them.",
    )
