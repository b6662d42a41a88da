"""A frame as data files of a table: what is checked before any job, and the job that writes.

Source of the behaviour: delta-spark's WriteIntoDelta and TransactionalWrite.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from deltamerge.commands.rows.request import DYNAMIC, STATIC, WriteRequest, illegal_option
from deltamerge.commands.rows.schema import check_clustering, metadata_after
from deltamerge.errors import AnalysisError, InvalidArgumentError
from deltamerge.log.commit.conflict import FrameRead
from deltamerge.log.commit.transaction import check_removable
from deltamerge.log.commit.unread import check_unread
from deltamerge.log.replay.load import check_sound
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.merge.resolve.evolve import may_evolve
from deltamerge.progress.operation import begin
from deltamerge.protocol.table.actions import Action, AddFile, CdcFile
from deltamerge.protocol.table.constraints import Check, TableConstraints, constraints_of
from deltamerge.protocol.table.features import check_writable, evolved_protocol
from deltamerge.protocol.table.identity import Identity, identity_columns, unnamed, with_marks
from deltamerge.protocol.values.partitions import decode_path
from deltamerge.spark.expressions.constraints import check_constraints
from deltamerge.spark.expressions.metadata_sql import check_metadata_sql
from deltamerge.spark.read.unread import frame_read
from deltamerge.spark.session.data_files import file_options
from deltamerge.spark.session.file_sizes import gathering, gathers_rows
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.jobs import collect
from deltamerge.spark.session.schema import from_spark, shown_schema
from deltamerge.spark.session.settings import limits_texts, setting
from deltamerge.spark.stages.results import added_files, change_files
from deltamerge.spark.stages.target import write_spec
from deltamerge.spark.stages.writing import by_position, data_frame, laid_out
from deltamerge.worker.write.feed import change_file_spec

# What history says of an overwrite by saveAsTable, of a table that is there as of a new one.
CREATED, SAVED_ANEW = "CREATE OR REPLACE TABLE AS SELECT", {"isV1SaveAsTableOverwrite": True}
PARTITION_OVERWRITE = "spark.sql.sources.partitionOverwriteMode"


@dataclass(frozen=True)
class WritePlan:
    """A write that may run. `frame` has its columns by the table's names; `before` is the table as it is, `after` as it is
    written to: with the schema that the write gives it.

    `identities` are the columns that are numbered. Rows must meet `extra` checks beside the table's own. `merges` and `dynamic`
    say whether the schema may evolve, and whether only partitions that get rows are overwritten; `gathers` whether rows are put
    together before they are written, so that they come to few files. `read` is what the frame has read of the table, if it has.
    """

    frame: Frame = field(repr=False)
    before: Snapshot
    after: Snapshot
    request: WriteRequest
    identities: tuple[Identity, ...] = ()
    extra: tuple[Check, ...] = ()
    merges: bool = False
    dynamic: bool = False
    gathers: bool = False
    read: FrameRead | None = None

    @cached_property
    def constraints(self) -> TableConstraints:
        """What the table requires of the rows, and the write itself."""
        found = constraints_of(self.after.schema, self.after.metadata.configuration)
        return replace(found, checks=(*found.checks, *self.extra))

    def replacing(self, added: Iterable[AddFile]) -> list[AddFile]:
        """The files that were added whose partitions lose their other rows, if only partitions that get rows are overwritten."""
        stay = self.request.null_partitions_stay
        return [file for file in added if not (stay and None in file.partition_values.values())]

    @property
    def operation(self) -> str:
        """What history calls the write."""
        if self.request.batch is not None:
            return "STREAMING UPDATE"
        return CREATED if self._is_saved_anew else "WRITE"

    @property
    def parameters(self) -> Mapping[str, object]:
        """What history says of the write, as delta-spark names it."""
        request, batch = self.request, self.request.batch
        if batch is not None:
            return {"outputMode": batch.output_mode, "queryId": batch.query_id, "epochId": str(batch.number)}
        found: dict[str, object] = (
            self._of_saved
            if self._is_saved_anew
            else {
                "mode": {"error": "ErrorIfExists", "errorifexists": "ErrorIfExists"}.get(request.mode, request.mode.capitalize()),
                "partitionBy": json.dumps(list(request.partition_by), separators=(",", ":")),
            }
        )
        if request.replace_where is not None:
            found["predicate"] = request.replace_where
        said = {
            "isDynamicPartitionOverwrite": self.dynamic or request.partition_overwrite == DYNAMIC,
            "canOverwriteSchema": request.overwrite_schema,
        }
        return {**found, **{name: True for name, is_so in {**said, "canMergeSchema": self.merges}.items() if is_so}}

    @property
    def _is_saved_anew(self) -> bool:
        request = self.request
        return request.managed is not None and request.overwrites and request.replace_where is None

    @property
    def _of_saved(self) -> dict[str, object]:
        metadata = self.after.metadata
        return {
            "partitionBy": json.dumps(list(metadata.partition_columns), separators=(",", ":")),
            "clusterBy": json.dumps(list(self.request.cluster_by), separators=(",", ":")),
            "description": metadata.description,
            "isManaged": str(self.request.managed).lower(),
            "properties": json.dumps(dict(metadata.configuration), separators=(",", ":")),
            **SAVED_ANEW,
        }


@dataclass(frozen=True)
class Written:
    """The files that a job has written: data, and change data."""

    added: tuple[AddFile, ...]
    changes: tuple[CdcFile, ...] = ()

    @property
    def names(self) -> list[str]:
        """The files' names."""
        return [decode_path(path) for path in [file.path for file in self.added] + [file.path for file in self.changes]]

    @property
    def metrics(self) -> Mapping[str, int]:
        """The metrics of a write as delta-spark names them."""
        return {
            "numFiles": len(self.added),
            "numOutputRows": sum(file.num_records or 0 for file in self.added),
            "numOutputBytes": sum(file.size for file in self.added),
        }


def planned(frame: Frame, snapshot: Snapshot, request: WriteRequest) -> WritePlan:
    """A write into a snapshot, checked; no job runs.

    Raises AnalysisError, InvalidArgumentError, UnsupportedTableError, and ConcurrentModificationError where the frame has rows of
    an older version and data was committed since.
    """
    spark = frame.sparkSession
    check_writable(snapshot.protocol, snapshot.metadata, snapshot.store.url)
    check_sound(snapshot)
    if request.overwrites:
        check_removable(snapshot)
    merges = may_evolve(spark, request.merge_schema)
    frame = by_position(frame, snapshot.schema) if request.by_position else frame
    data = shown_schema(from_spark(frame.schema))
    metadata = metadata_after(snapshot, data, request, merges)
    protocol = snapshot.protocol
    if metadata is not snapshot.metadata:
        protocol = evolved_protocol(protocol, snapshot.metadata, metadata)
    after = replace(snapshot, protocol=protocol, metadata=metadata)
    if not request.data_change and after.metadata is not snapshot.metadata:
        anew = "Overwrite the Delta table schema or change the partition schema"
        raise metadata_kept(anew if request.new_schema else "Change the Delta table schema")
    if not request.new_schema:
        check_clustering(snapshot, request)
    dynamic = _is_dynamic(spark, after, request)
    if request.overwrites and request.null_partitions_stay is not None and not dynamic and request.replace_where is None:
        given = str(request.null_partitions_stay).lower()
        said = "it is for dynamic partition overwrites only"
        raise illegal_option("useNullIntolerantEqualityWithDPO", given, said)
    gathers, read = gathered(spark, after, request), frame_read(frame, snapshot.store)
    plan = WritePlan(frame, snapshot, after, request, numbered(frame, after), (), merges, dynamic, gathers, read)
    check_rows(plan)
    check_unread(snapshot, read)
    return plan


def metadata_kept(operation: str) -> AnalysisError:
    """The error for a write that only rearranges rows, and would make or change a table's metadata."""
    return AnalysisError(
        "DELTA_DATA_CHANGE_FALSE",
        f"Cannot change table metadata because the 'dataChange' option is set to false. Attempted operation: '{operation}'.",
        parameters={"op": operation},
        hint="Leave dataChange out; or make the table, or change its schema, before.",
    )


def gathered(spark: Session, after: Snapshot, request: WriteRequest) -> bool:
    """Whether rows are put together before they are written: as the request, the session or the table says, in this order.

    Raises InvalidArgumentError for a setting that can't be.
    """
    asked = gathers_rows(spark) if request.optimize_write is None else request.optimize_write
    return after.properties.flag("delta.autoOptimize.optimizeWrite") if asked is None else asked


def check_rows(plan: WritePlan) -> None:
    """Raise ConstraintError, before any job, for a plan whose table no row can meet."""
    check_metadata_sql(plan.frame.sparkSession, plan.after.schema, plan.after.metadata.configuration)
    check_constraints(plan.frame.sparkSession, plan.after.schema, plan.constraints)


def _is_dynamic(spark: Session, after: Snapshot, request: WriteRequest) -> bool:
    """Whether only the partitions that get rows are overwritten; a table without any is overwritten as a whole."""
    if not (after.partition_columns and request.overwrites and request.replace_where is None):
        return False
    mode = request.partition_overwrite or setting(spark, PARTITION_OVERWRITE, STATIC).lower()
    if mode == DYNAMIC and request.overwrite_schema:
        raise InvalidArgumentError(
            "DELTA_OVERWRITE_SCHEMA_WITH_DYNAMIC_PARTITION_OVERWRITE",
            "The schema can't be overwritten where only some partitions are: 'overwriteSchema' and dynamic partition overwrite "
            "exclude each other.",
            hint="Leave out one of the two.",
        )
    return mode == DYNAMIC


def numbered(frame: Frame, snapshot: Snapshot) -> tuple[Identity, ...]:
    """The identity columns that the frame leaves to be numbered. Raises AnalysisError for one that it must not have."""
    given = {name.lower() for name in frame.columns}
    return unnamed(identity_columns(snapshot.schema), [name for name in snapshot.schema.names if name.lower() in given])


def rows_of(plan: WritePlan) -> Frame:
    """The frame's rows as the table's: by column name, cast, generated, numbered. Raises AnalysisError; no job runs."""
    after, fills = plan.after, not plan.request.by_position
    return laid_out(plan.frame, after.schema, after.partition_columns, plan.constraints, plan.identities, fills, plan.gathers)


def written(plan: WritePlan, rows: Frame | None = None, feed: bool = False) -> Written:
    """The plan's rows, or these, in new data files, by one job; with a `feed` in change data files, too.

    Raises ExecutionError, ConstraintError.
    """
    rows, after = rows_of(plan) if rows is None else rows, plan.after
    spark = plan.frame.sparkSession
    files = file_options(spark, after.properties, plan.request.files)
    spec = write_spec(after, limited=limits_texts(spark, after.schema), files=files)
    frame = data_frame(rows, spec, change_file_spec(spec) if feed else None)
    set_to = gathering(plan.frame.sparkSession) if plan.gathers else None
    begin("writing rows")
    result = collect(frame, f"deltamerge: write into {after.store.url}", set_to=set_to)
    added, changes = added_files(result, after.schema), change_files(result, after.schema)
    return Written(tuple(file for _, file in added), tuple(file for _, file in changes))


def actions_of(plan: WritePlan, files: Written) -> list[Action]:
    """The protocol and the metadata, if they changed, and the files as a commit names them. Raises ArithmeticDataError."""
    metadata = with_marks(plan.after.metadata, [identity.name for identity in plan.identities], files.added)
    changed: list[Action] = [] if plan.after.protocol is plan.before.protocol else [plan.after.protocol]
    changed += [] if metadata is plan.before.metadata else [metadata]
    added = [replace(file, data_change=plan.request.data_change) for file in files.added]
    return [*changed, *added, *files.changes]
