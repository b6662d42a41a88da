"""Running a pruned plan: the join, the write stage, and what the tasks report.

Nothing is committed here; on failure what tasks are known to have written is deleted.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.errors import ResultTooLargeError
from deltamerge.log.commit.transaction import delete_quietly
from deltamerge.log.replay.files import add_files
from deltamerge.merge.execute.ambiguous import as_asked, check_joined
from deltamerge.merge.execute.apply import apply_here, repeated_positions
from deltamerge.merge.execute.bloom import filtered
from deltamerge.merge.execute.collisions import multiple_matches
from deltamerge.merge.execute.identity_values import with_numbers
from deltamerge.merge.execute.local_changes import local_changes, needed_target
from deltamerge.merge.execute.matching import match
from deltamerge.merge.execute.routed import must_be_kept, route_merge
from deltamerge.merge.plan.kept import with_kept
from deltamerge.merge.plan.plan import MergePlan, Strategy
from deltamerge.merge.plan.prune import PrunedPlan
from deltamerge.merge.plan.routing import SENT, route_of
from deltamerge.merge.resolve.resolve import ResolvedClause
from deltamerge.merge.statement.clauses import Action, Side
from deltamerge.protocol.schema.types import PrimitiveType, StructType
from deltamerge.protocol.table.actions import AddFile, CdcFile
from deltamerge.protocol.table.row_tracking import tracking_columns
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.jobs import collect
from deltamerge.spark.session.schema import nullable_schema, to_spark
from deltamerge.spark.session.settings import time_zone
from deltamerge.spark.stages.changes import ChangeQuery, ClauseQuery, change_rows, fitting, inserted_by
from deltamerge.spark.stages.identity import numbered
from deltamerge.spark.stages.results import added_files, change_files
from deltamerge.spark.stages.scan import scan_frame
from deltamerge.spark.stages.shuffle import to_owners
from deltamerge.spark.stages.target import file_tasks, scan_spec, write_spec
from deltamerge.spark.stages.writing import RESULT_TYPE, written_frame
from deltamerge.worker.scan.scan import FILE, FileTask
from deltamerge.worker.write.feed import change_file_spec
from deltamerge.worker.write.results import COUNTS, MARKED, TOUCHED
from deltamerge.worker.write.rewrite import ChangeSpec, ClauseAction
from deltamerge.worker.write.tracking import tracking_spec

log = logging.getLogger("deltamerge.merge")


@dataclass(frozen=True)
class MarkedFile:
    """A file that stays, of `rows` rows, those in the encoded `vector` deleted."""

    file: AddFile
    rows: int
    vector: bytes = field(repr=False)


@dataclass(frozen=True)
class MergeOutcome:
    """What the tasks did. `touched` has the rows of the target's files that are replaced; counts are in rows.

    `changed` counts per clause, in the statement's order; `copied` the unmodified rows in files that are replaced;
    `changes` are the change data files; `scan_ms` is how long the matches took to find, 0 where a join finds and writes in one.
    """

    pruned: PrunedPlan
    added: tuple[AddFile, ...]
    touched: pa.Table = field(repr=False)
    marked: tuple[MarkedFile, ...] = ()
    changed: tuple[int, ...] = ()
    copied: int = 0
    changes: tuple[CdcFile, ...] = ()
    scan_ms: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether no row changed."""
        return not any(self.changed)

    @property
    def added_bytes(self) -> int:
        """Bytes of the new files."""
        return sum(file.size for file in self.added)

    @property
    def change_bytes(self) -> int:
        """Bytes of the change data files."""
        return sum(file.size for file in self.changes)

    @property
    def removed_bytes(self) -> int:
        """Bytes of the files that are replaced."""
        return int(pc.sum(self.touched["size"]).as_py() or 0)

    @property
    def updated_vectors(self) -> int:
        """Deletion vectors that replace another one of their file."""
        return sum(mark.file.deletion_vector is not None for mark in self.marked)

    @property
    def removed_vectors(self) -> int:
        """Deletion vectors that leave the table, those that are updated included, as delta-spark counts."""
        return self.updated_vectors + int(self.touched.num_rows - self.touched["deletionVector"].null_count)


def execute(spark: Session, pruned: PrunedPlan) -> MergeOutcome:
    """Join, write, and gather. Raises MultipleMatchError, ExecutionError; nothing is committed."""
    plan = pruned.plan
    snapshot, after = plan.resolved.snapshot, plan.resolved.after
    columns = None if plan.only_inserts else tracking_columns(snapshot.protocol, snapshot.metadata)
    written = write_spec(after, plan.budgets)
    described = partial(
        file_tasks,
        zone=time_zone(spark),
        counted=plan.rewrite_share > 0 or plan.by_source is not None,
        tracked=columns is not None,
    )
    tasks = described(snapshot, pruned.files)
    started = time.perf_counter()
    route = route_of(pruned) if plan.strategy in SENT else None
    clauses, changes = (plan.resolved.clauses, None) if route is not None else _held(spark, pruned, tasks)
    scan_ms = 0 if changes is None else int((time.perf_counter() - started) * 1000)
    # Where the merge changed a partition column's type, its values are written otherwise than they are read.
    rewritten = tasks if after.partition_schema == snapshot.partition_schema else described(after, pruned.files)
    spec = ChangeSpec(
        written if columns is None else tracking_spec(written, columns),
        tuple(map(_action, clauses)),
        {task.file: task for task in rewritten},
        plan.folds_duplicates,
        plan.rewrite_share,
        change_file_spec(written) if plan.feed else None,
    )
    result: pa.Table | None = None
    if changes is not None:
        changes = with_numbers(changes, plan.resolved)
        collisions = 0 if plan.folds_duplicates else repeated_positions(changes)
        if collisions:
            raise multiple_matches(change_query(spark, pruned, tasks), plan, collisions)
        if changes[FILE].null_count == changes.num_rows:
            spec = replace(spec, feed=None)
        sizes = pruned.files["size"].to_pylist()
        result = apply_here(spark, changes, spec, sizes, _description(pruned))
    elif (route := route or route_of(pruned)) is not None:
        result = route_merge(spark, pruned, route, spec, _description(pruned))
    if result is None:
        must_be_kept(pruned.source, "Spark joins")
        check_joined(pruned, lambda plan: change_query(spark, plan, tasks))
        rows = _ready(change_rows(change_query(spark, filtered(pruned), tasks)), pruned)
        result = collect(written_frame(rows, spec), _description(pruned), RESULT_TYPE)
    return replace(_outcome(spark, pruned, tasks, result), scan_ms=scan_ms)


def _held(spark: Session, pruned: PrunedPlan, tasks: Sequence[FileTask]) -> tuple[Sequence[ResolvedClause], pa.Table | None]:
    """The changed rows when they can be held, and their clauses: with what updates keep if that spares a reading."""
    whole = with_kept(pruned)
    if whole is not None:
        changes = changes_in_arrow(spark, whole, tasks, pruned.plan.budgets.early_bytes)
        if changes is not None:
            return whole.plan.resolved.clauses, changes
        log.info("what updates keep is too large to be held with the keys")
    return pruned.plan.resolved.clauses, changes_in_arrow(spark, pruned, tasks)


def changes_in_arrow(spark: Session, pruned: PrunedPlan, tasks: Sequence[FileTask], most: int | None = None) -> pa.Table | None:
    """The changed rows when source and matches are small enough to be held here (within `most` bytes); None when Spark must join.

    Raises MultipleMatchError where it is the clauses as they were given that make a match ambiguous.
    """
    try:
        return _changes_in_arrow(spark, pruned, tasks, most)
    except ResultTooLargeError as error:
        log.info("Spark joins: %s", error.detail)
        return None


def _changes_in_arrow(spark: Session, pruned: PrunedPlan, tasks: Sequence[FileTask], most: int | None) -> pa.Table | None:
    if pruned.lookup is None or pruned.ranks is None or pruned.plan.strategy is Strategy.JOIN:
        return None
    matches = match(spark, pruned, tasks, needed_target(pruned), most)
    if matches is None:
        return None
    asked = as_asked(pruned)
    if asked is not None and repeated_positions(matches.target):
        changes = local_changes(spark, asked, matches)
        if changes is None:
            return None
        if collisions := repeated_positions(changes):
            raise multiple_matches(change_query(spark, asked, tasks), asked.plan, collisions)
    return local_changes(spark, pruned, matches)


def _outcome(spark: Session, pruned: PrunedPlan, tasks: Sequence[FileTask], result: pa.Table) -> MergeOutcome:
    plan = pruned.plan
    added = added_files(result, plan.resolved.schema)
    changes = change_files(result, plan.resolved.schema)
    counts = np.zeros(len(plan.resolved.clauses) + 2, np.int64)
    for row in result.filter(pc.equal(result["kind"], COUNTS))["counts"].to_pylist():
        counts += np.array(row, np.int64)
    if counts[-1]:
        delete_quietly(plan.resolved.snapshot, [name for name, _ in (*added, *changes)])
        raise multiple_matches(change_query(spark, pruned, tasks), plan, int(counts[-1]))
    touched = result.filter(pc.equal(result["kind"], TOUCHED))["file"].to_pylist()
    return MergeOutcome(
        pruned,
        tuple(file for _, file in added),
        pruned.files.take(pa.array(sorted(touched), pa.int64())),
        _marked(pruned, result.filter(pc.equal(result["kind"], MARKED)).sort_by("file")),
        tuple(int(n) for n in counts[:-2]),
        int(counts[-2]),
        tuple(file for _, file in changes),
    )


def _marked(pruned: PrunedPlan, result: pa.Table) -> tuple[MarkedFile, ...]:
    files = add_files(pruned.files.take(result["file"].cast(pa.int64())))
    columns = zip(files, result["rows"].to_pylist(), result["positions"].to_pylist(), strict=True)
    return tuple(MarkedFile(file, rows, vector) for file, rows, vector in columns)


def _description(pruned: PrunedPlan) -> str:
    return f"deltamerge: merge into {pruned.plan.resolved.snapshot.store.url}"


def change_query(spark: Session, pruned: PrunedPlan, tasks: Sequence[FileTask]) -> ChangeQuery:
    """The merge as one query over the pruned files; nothing runs yet."""
    plan = pruned.plan
    scope = plan.resolved.scope
    schema = scope.target.select(list(plan.target_columns))
    sizes = pruned.files["size"].to_pylist()
    spec = scan_spec(plan.resolved.snapshot, schema, pruned.keys)
    # Without an equality to join by all rows of one side are broadcast, and the table's keys are the smaller one; told of many
    # Spark would read the table again for each part of the source.
    rows = 0 if plan.equates is False else pruned.rows
    target = scan_frame(spark, spec, nullable_schema(schema), tasks, sizes, rows, plan.budgets)
    return ChangeQuery(
        source=pruned.source.frame.alias(scope.source_alias),
        target=target.alias(scope.target_alias),
        source_alias=scope.source_alias,
        target_alias=scope.target_alias,
        condition=plan.resolved.spec.condition,
        join=plan.join.value,
        matched=[_query(clause) for clause in plan.resolved.of(Side.MATCHED)],
        not_matched=[_query(clause) for clause in plan.resolved.of(Side.NOT_MATCHED)],
        by_source=[_query(clause) for clause in plan.resolved.of(Side.BY_SOURCE)],
        schema=to_spark(written_columns(plan)),
    )


def fitting_rows(rows: Frame, plan: MergePlan) -> Frame:
    """The changed rows as the table demands them; one that violates a check fails when the rows are evaluated."""
    resolved = plan.resolved
    written = [clause.number for clause in resolved.clauses if clause.action is not Action.DELETE]
    if not (written and resolved.demands):
        return rows
    computed = {
        name: [clause.number for clause in resolved.clauses if name in clause.computed] for name, _ in resolved.demands.generated
    }
    return fitting(rows, resolved.schema, resolved.demands, computed, written)


def written_columns(plan: MergePlan) -> StructType:
    """The target columns that any clause assigns."""
    assigned = {name for clause in plan.resolved.clauses for name in clause.assigned}
    return plan.resolved.schema.select(list(assigned))


def _query(clause: ResolvedClause) -> ClauseQuery:
    values = {value.column: (value.value, value.type) for value in clause.values}
    return ClauseQuery(clause.number, clause.condition, values)


def _action(clause: ResolvedClause) -> ClauseAction:
    return ClauseAction(clause.action.value, clause.assigned if clause.action is Action.UPDATE else frozenset())


def _ready(rows: Frame, pruned: PrunedPlan) -> Frame:
    """The changed rows as they are written, where they are written.

    Numbers of identity columns are only known there, and so are what constraints and generated columns say of them.
    """
    plan = pruned.plan
    if not plan.resolved.identities:
        return _placed(fitting_rows(rows, plan), pruned, *_tasks(pruned))
    owners, inserters = _tasks(pruned)
    clauses = {i: [c.number for c in plan.resolved.clauses if i.name in c.numbered] for i in plan.resolved.identities}
    chosen = {identity: inserted_by(numbers) for identity, numbers in clauses.items()}
    return fitting_rows(numbered(_placed(rows, pruned, owners, inserters), chosen, owners, inserters), plan)


def _tasks(pruned: PrunedPlan) -> tuple[int, int]:
    """How many tasks own files, and how many insert rows; 0 where little is inserted into small files, which take it up."""
    plan, budgets = pruned.plan, pruned.plan.budgets
    total = int(pc.sum(pruned.files["size"]).as_py() or 0)
    if total + pruned.source.bytes <= budgets.small_files_bytes and not plan.resolved.identities:
        return 1, 0
    each = budgets.mark_task_bytes if plan.rewrite_share else budgets.write_task_bytes
    owners = max(1, min(pruned.files.num_rows, budgets.write_tasks, total // each + 2))
    if not plan.resolved.of(Side.NOT_MATCHED):
        return owners, 0
    inserters = max(1, min(budgets.insert_tasks, pruned.source.bytes // budgets.insert_task_bytes))
    return owners, inserters if _spread_by(plan) else 1


def _spread_by(plan: MergePlan) -> Sequence[str]:
    hashable = [field.name for field in written_columns(plan) if isinstance(field.type, PrimitiveType)]
    return plan.resolved.snapshot.partition_columns or hashable


def _placed(rows: Frame, pruned: PrunedPlan, owners: int, inserters: int) -> Frame:
    """The changed rows where they are written: with the file that they change, or in as few new files as fit."""
    return to_owners(rows, owners, inserters, _spread_by(pruned.plan))
