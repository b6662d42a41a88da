"""CREATE TABLE, REPLACE TABLE and their mixtures, with rows of a query or without.

Source: delta-spark's CreateDeltaTableCommand.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum

from deltamerge.commands.layout.auto_compact import compact_after
from deltamerge.commands.rows.request import WriteRequest
from deltamerge.commands.rows.written import gathered
from deltamerge.commands.table.definition import Settled, TableDefinition, differences, settled
from deltamerge.commands.table.properties import ANY_NAME
from deltamerge.errors import AnalysisError, TableNotFoundError
from deltamerge.log.commit.clustering import clustering_names
from deltamerge.log.commit.conflict import ReadSet, everything
from deltamerge.log.commit.proposal import Proposal
from deltamerge.log.commit.transaction import commit, discarding
from deltamerge.log.commit.unread import check_unread
from deltamerge.log.commit.upkeep import after_commit
from deltamerge.log.replay.files import FileSet, add_files
from deltamerge.log.replay.load import check_sound
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.log.replay.table import DeltaLog
from deltamerge.merge.commit import txn_actions
from deltamerge.merge.statement.clauses import TxnId
from deltamerge.protocol.schema.types import StructType
from deltamerge.protocol.table.actions import Action, AddFile
from deltamerge.protocol.table.constraints import constraints_of
from deltamerge.protocol.table.evolution import nullable
from deltamerge.protocol.table.known_properties import checked
from deltamerge.protocol.values.partitions import decode_path
from deltamerge.spark.expressions.constraints import check_constraints
from deltamerge.spark.expressions.generated import check_generated
from deltamerge.spark.expressions.metadata_sql import check_metadata_sql
from deltamerge.spark.read.feed import check_feed_columns
from deltamerge.spark.read.unread import frame_read
from deltamerge.spark.session.data_files import file_options
from deltamerge.spark.session.file_sizes import gathering
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.jobs import collect
from deltamerge.spark.session.schema import from_spark, shown_schema
from deltamerge.spark.session.settings import author, limits_texts, setting
from deltamerge.spark.session.table_defaults import session_defaults
from deltamerge.spark.stages.results import added_files
from deltamerge.spark.stages.target import write_spec
from deltamerge.spark.stages.writing import data_frame, laid_out
from deltamerge.worker.write.file_options import UNSAID, FileOptions


class Creation(Enum):
    """What is asked for, as history names it; the second part says whether an existing table is left as it is."""

    CREATE = ("CREATE TABLE", False)
    CREATE_IF_NOT_EXISTS = ("CREATE TABLE", True)
    REPLACE = ("REPLACE TABLE", False)
    CREATE_OR_REPLACE = ("CREATE OR REPLACE TABLE", False)

    @property
    def replaces(self) -> bool:
        """Whether an existing table is replaced."""
        return self in (Creation.REPLACE, Creation.CREATE_OR_REPLACE)


@dataclass(frozen=True, slots=True)
class CreateTable:
    """A table to be made. `query` are its rows, from which it then has its columns; `name` is how errors call it.

    `adopts` says that a table which lies there is taken as it is if it is as the definition says: its name is new. Rows of a
    query are never left out for it. `is_managed` says that its folder is the catalog's. History has `told` and `user_metadata`,
    too; `txn_id` tells later runs that the rows were written. `files` are asked for the rows.
    """

    definition: TableDefinition
    creation: Creation
    name: str
    query: Frame | None = None
    adopts: bool = False
    is_managed: bool = False
    told: Mapping[str, object] = field(default_factory=dict)
    user_metadata: str | None = None
    txn_id: TxnId | None = None
    files: FileOptions = UNSAID


def create_table(spark: Session, log: DeltaLog, request: CreateTable, before: Snapshot | None) -> int | None:
    """Make or replace the table of a log and return the version made; None where an existing table is left as it is.

    `before` is the `existing` table, taken before the query is made, which may read it: what is committed between the two is then
    a conflict, and no row that the query has not seen is lost.
    Raises AnalysisError, InvalidArgumentError, UnsupportedTableError, ConcurrentModificationError.
    """
    if before is None and request.creation is Creation.REPLACE:
        raise AnalysisError(
            "TABLE_OR_VIEW_NOT_FOUND",
            f"The table or view {request.name} cannot be found.",
            parameters={"relationName": request.name},
            hint="To make it, create it: CREATE OR REPLACE TABLE, or DeltaTable.createOrReplace.",
        )
    if before is not None and not request.creation.replaces:
        if request.adopts:
            _check_adopted(request, before)
        elif request.creation is Creation.CREATE:
            raise already_exists(request.name)
        return None
    if before is None:
        check_empty(log)
    definition = _defined(request)
    any_name = setting(spark, ANY_NAME, "false").lower() == "true"
    definition = replace(definition, properties=checked(definition.properties, any_name))
    table = settled(definition, session_defaults(spark), log.store.url, before)
    _check_expressions(spark, table)
    return _committed(spark, log, request, table, before)


def already_exists(name: str) -> AnalysisError:
    """The error for a name or path that is taken."""
    return AnalysisError(
        "TABLE_OR_VIEW_ALREADY_EXISTS",
        f"Cannot create table or view {name} because it already exists.",
        parameters={"relationName": name},
        hint="Choose a different name, replace the table, or add IF NOT EXISTS.",
    )


def check_empty(log: DeltaLog) -> None:
    """Raise AnalysisError where files lie that are no Delta table's: a table here would take them for garbage."""
    store = log.store
    local = store.url.startswith("/")
    found = any(files for _, _, files in os.walk(store.url)) if local else bool(store.list(""))
    if found and not store.exists_folder("_delta_log"):
        raise AnalysisError(
            "DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION",
            f"Cannot create a table at {store.url}: the location is not empty and holds no Delta table.",
            parameters={"tableLocation": store.url},
            hint="Choose another location, or convert the files.",
        )


def existing(log: DeltaLog) -> Snapshot | None:
    """The newest version of a table; None where there is none."""
    try:
        return log.snapshot()
    except TableNotFoundError:
        return None


def _defined(request: CreateTable) -> TableDefinition:
    """The definition with the query's columns, which may hold nulls, where there is a query."""
    definition = request.definition
    if request.query is not None:
        return replace(definition, columns=nullable(shown_schema(from_spark(request.query.schema))))
    if not len(definition.columns) and request.creation.replaces:
        raise AnalysisError(
            "DELTA_SCHEMA_NOT_PROVIDED",
            "Table schema is not provided.",
            hint="Provide the columns of the table, or an AS SELECT query, to replace it.",
        )
    return definition


def _check_expressions(spark: Session, table: Settled) -> None:
    check_generated(spark, table.schema)
    check_metadata_sql(spark, table.schema, table.metadata.configuration)
    check_constraints(spark, table.schema, constraints_of(table.schema, table.metadata.configuration))
    check_feed_columns(table.schema, table.metadata)


def _committed(spark: Session, log: DeltaLog, request: CreateTable, table: Settled, before: Snapshot | None) -> int:
    empty = Snapshot(log.store, -1, 0, table.protocol, table.metadata, FileSet())
    frame = None if before is None or request.query is None else frame_read(request.query, log.store)
    if before is not None:
        check_unread(before, frame)
    added = [] if request.query is None else _written(request.query, empty, request.files)
    old = [] if before is None else list(add_files(before.files.table()))
    now = int(time.time() * 1000)
    changes_protocol = before is None or before.protocol != table.protocol
    actions: list[Action] = [
        *txn_actions(request.txn_id),
        *([table.protocol] if changes_protocol else []),
        table.metadata,
        *table.domains,
        *(file.removed(now) for file in old),
        *added,
    ]
    replaces_rows = before is not None or (request.creation.replaces and request.query is not None)
    read = ReadSet(whole_table=True, would_read=everything, frame=frame) if replaces_rows else ReadSet()
    on = empty if before is None else before
    proposal = Proposal(
        operation=f"{request.creation.value[0]}{'' if request.query is None else ' AS SELECT'}",
        actions=actions,
        read=read,
        parameters=_parameters(request, table),
        metrics={} if request.query is None else _metrics(added, old, request.creation.replaces),
        user_metadata=request.user_metadata,
        author=author(spark),
    )
    with discarding(on, [decode_path(file.path) for file in added]):
        check_sound(on)
        committed = commit(on, proposal)
    log.remember(committed.snapshot)
    after_commit(committed.snapshot)
    compact_after(spark, log, committed.snapshot, added)
    return committed.version


def _parameters(request: CreateTable, table: Settled) -> dict[str, object]:
    clustered = [".".join(name) for name in request.definition.cluster_by or ()]
    return {
        "partitionBy": json.dumps(list(table.metadata.partition_columns)),
        "clusterBy": json.dumps(clustered, separators=(",", ":")),
        "description": table.metadata.description,
        "isManaged": str(request.is_managed).lower(),
        "properties": json.dumps(dict(table.metadata.configuration), separators=(",", ":")),
        **request.told,
    }


def _metrics(added: Sequence[AddFile], old: Sequence[AddFile], replaces: bool) -> dict[str, int]:
    found = {
        "numFiles": len(added),
        "numOutputRows": sum(file.num_records or 0 for file in added),
        "numOutputBytes": sum(file.size for file in added),
    }
    removed = {"numRemovedFiles": len(old), "numRemovedBytes": sum(file.size for file in old)}
    return {**found, **removed} if replaces else found


def _written(frame: Frame, snapshot: Snapshot, asked: FileOptions) -> list[AddFile]:
    """The query's rows in files of the table that is to be, as they are asked for."""
    spark = frame.sparkSession
    constraints = constraints_of(snapshot.schema, snapshot.metadata.configuration)
    gathers = gathered(spark, snapshot, WriteRequest())
    rows = laid_out(frame, snapshot.schema, snapshot.partition_columns, constraints, gathers=gathers)
    files = file_options(spark, snapshot.properties, asked)
    spec = write_spec(snapshot, limited=limits_texts(spark, snapshot.schema), files=files)
    set_to = gathering(spark) if gathers else None
    result = collect(data_frame(rows, spec), f"deltamerge: write into {snapshot.store.url}", set_to=set_to)
    return [file for _, file in added_files(result, snapshot.schema)]


def _check_adopted(request: CreateTable, before: Snapshot) -> None:
    """Raise AnalysisError where a table that lies at the place of a new name can't be the one that is asked for."""
    if request.query is not None:  # the name would be given to other rows than the query's
        place = before.store.url
        raise AnalysisError(
            "DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION",
            f"Cannot create a table of a query's rows at {place}: a Delta table lies there.",
            parameters={"tableLocation": place},
            hint="Choose another location, replace the table, or create it without AS SELECT to take it as it is.",
        )
    _check_same(request, before)


def _check_same(request: CreateTable, before: Snapshot) -> None:
    """Raise AnalysisError where a table that lies at the place of a new name is not as its definition says."""
    definition, place = request.definition, before.store.url
    if not len(definition.columns) and not definition.properties:
        return
    if len(definition.columns):
        found = _user_schema(before)
        lines = differences(definition, found)
        if lines:
            raise _mismatch("DELTA_CREATE_TABLE_SCHEME_MISMATCH", "schema", place, "; ".join(lines))
        wanted = [name.lower() for name in definition.partition_by]
        if wanted != [name.lower() for name in before.partition_columns]:
            has = ", ".join(before.partition_columns) or "none"
            raise _mismatch("DELTA_CREATE_TABLE_WITH_DIFFERENT_PARTITIONING", "partitioning", place, f"it has {has}")
        clustered = [".".join(name).lower() for name in definition.cluster_by or ()]
        if clustered != [name.lower() for name in clustering_names(before)]:
            has = ", ".join(clustering_names(before)) or "none"
            raise _mismatch("DELTA_CREATE_TABLE_WITH_DIFFERENT_CLUSTERING", "clustering columns", place, f"it has {has}")
    wanted_properties = checked(definition.properties)
    if wanted_properties and wanted_properties != dict(before.metadata.configuration):
        raise _mismatch(
            "DELTA_CREATE_TABLE_WITH_DIFFERENT_PROPERTY", "properties", place, f"it has {dict(before.metadata.configuration)}"
        )


def _user_schema(before: Snapshot) -> StructType:
    return shown_schema(before.schema)


def _mismatch(condition: str, what: str, place: str, found: str) -> AnalysisError:
    return AnalysisError(
        condition,
        f"The specified {what} do not match those of the table that lies at {place}: {found}.",
        parameters={"path": place},
        hint="Leave columns, layout and properties out to take the table as it is, or replace it.",
    )
