"""Running a pruned plan: the join, the write stage, and what the tasks report.

Nothing is committed here; on failure what tasks are known to have written is deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.log.files import add_files
from deltamerge.log.transaction import delete_quietly
from deltamerge.merge.apply import apply_here, repeated_positions
from deltamerge.merge.clauses import Action, Side
from deltamerge.merge.collisions import multiple_matches
from deltamerge.merge.local_changes import local_changes, needed_target
from deltamerge.merge.matching import match
from deltamerge.merge.plan import MergePlan, Strategy
from deltamerge.merge.prune import PrunedPlan
from deltamerge.merge.resolve import ResolvedClause
from deltamerge.protocol.actions import AddFile
from deltamerge.protocol.schema import PrimitiveType, StructType
from deltamerge.spark.changes import ChangeQuery, ClauseQuery, change_rows, fitting
from deltamerge.spark.frames import Frame, Session
from deltamerge.spark.jobs import collect
from deltamerge.spark.results import added_files
from deltamerge.spark.scan import scan_frame
from deltamerge.spark.schema import to_spark
from deltamerge.spark.session import time_zone
from deltamerge.spark.shuffle import to_owners
from deltamerge.spark.target import file_tasks, scan_spec, write_spec
from deltamerge.spark.writing import written_frame
from deltamerge.worker.results import COUNTS, MARKED, TOUCHED
from deltamerge.worker.rewrite import ChangeSpec, ClauseAction
from deltamerge.worker.scan import FileTask

_OWNER_BYTES = 32 << 20
# A task that marks writes only the updated rows of its files, and each task writes a file of its own.
_MARKER_BYTES = 256 << 20
_MOST_OWNERS = 512
_INSERT_BYTES = 64 << 20
_MOST_INSERTERS = 64


@dataclass(frozen=True)
class MarkedFile:
    """A file that stays, of `rows` rows, those in the encoded `vector` deleted."""

    file: AddFile
    rows: int
    vector: bytes = field(repr=False)


@dataclass(frozen=True)
class MergeOutcome:
    """What the tasks did. `touched` has the rows of the target's files that are replaced; counts are in rows.

    `changed` counts per clause, in the statement's order; `copied` the unmodified rows in files that are replaced.
    """

    pruned: PrunedPlan
    added: tuple[AddFile, ...]
    touched: pa.Table = field(repr=False)
    marked: tuple[MarkedFile, ...] = ()
    changed: tuple[int, ...] = ()
    copied: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether no row changed."""
        return not any(self.changed)

    @property
    def added_bytes(self) -> int:
        """Bytes of the new files."""
        return sum(file.size for file in self.added)

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
    tasks = file_tasks(plan.resolved.snapshot, pruned.files, time_zone(spark), counted=plan.rewrite_share > 0)
    spec = ChangeSpec(
        write_spec(plan.resolved.snapshot),
        tuple(_action(clause) for clause in plan.resolved.clauses),
        {task.file: task for task in tasks},
        plan.folds_duplicates,
        plan.rewrite_share,
    )
    changes = _changes_in_arrow(spark, pruned, tasks)
    if changes is not None:
        collisions = 0 if plan.folds_duplicates else repeated_positions(changes)
        if collisions:
            raise multiple_matches(change_query(spark, pruned, tasks), plan, collisions)
        sizes = pruned.files["size"].to_pylist()
        result = apply_here(spark, changes, spec, sizes, _description(pruned))
    else:
        rows = _fitting(change_rows(change_query(spark, pruned, tasks)), plan)
        result = collect(written_frame(_placed(rows, pruned), spec), _description(pruned))
    return _outcome(spark, pruned, tasks, result)


def _changes_in_arrow(spark: Session, pruned: PrunedPlan, tasks: Sequence[FileTask]) -> pa.Table | None:
    """The changed rows when source and matches are small enough to be held here; None when Spark must join."""
    if pruned.keys is None or pruned.ranks is None or pruned.plan.strategy is Strategy.JOIN:
        return None
    matches = match(spark, pruned, tasks, needed_target(pruned))
    return None if matches is None else local_changes(spark, pruned, matches)


def _outcome(spark: Session, pruned: PrunedPlan, tasks: Sequence[FileTask], result: pa.Table) -> MergeOutcome:
    plan = pruned.plan
    added = added_files(result, plan.resolved.schema)
    counts = np.zeros(len(plan.resolved.clauses) + 2, np.int64)
    for row in result.filter(pc.equal(result["kind"], COUNTS))["counts"].to_pylist():
        counts += np.array(row, np.int64)
    if counts[-1]:
        delete_quietly(plan.resolved.snapshot, [name for name, _ in added])
        raise multiple_matches(change_query(spark, pruned, tasks), plan, int(counts[-1]))
    touched = result.filter(pc.equal(result["kind"], TOUCHED))["file"].to_pylist()
    return MergeOutcome(
        pruned,
        tuple(file for _, file in added),
        pruned.files.take(pa.array(sorted(touched), pa.int64())),
        _marked(pruned, result.filter(pc.equal(result["kind"], MARKED)).sort_by("file")),
        tuple(int(n) for n in counts[:-2]),
        int(counts[-2]),
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
    target = scan_frame(spark, scan_spec(plan.resolved.snapshot, schema, pruned.keys), to_spark(schema), tasks, sizes)
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


def _fitting(rows: Frame, plan: MergePlan) -> Frame:
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


def _placed(rows: Frame, pruned: PrunedPlan) -> Frame:
    """The changed rows where they are written: with the file that they change, or in as few new files as fit."""
    plan = pruned.plan
    total = int(pc.sum(pruned.files["size"]).as_py() or 0)
    each = _MARKER_BYTES if plan.rewrite_share else _OWNER_BYTES
    owners = max(1, min(pruned.files.num_rows, _MOST_OWNERS, total // each + 2))
    hashable = [field.name for field in written_columns(plan) if isinstance(field.type, PrimitiveType)]
    spread_by = plan.resolved.snapshot.partition_columns or hashable
    inserters = 0
    if plan.resolved.of(Side.NOT_MATCHED):
        inserters = max(1, min(_MOST_INSERTERS, pruned.source.bytes // _INSERT_BYTES)) if spread_by else 1
    return to_owners(rows, owners, inserters, spread_by)
