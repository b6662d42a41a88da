"""What a merge would do, found out by matching and committing nothing: counts per clause, touched files, sample rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.merge.execute.ambiguous import check_joined
from deltamerge.merge.execute.collisions import multiple_matches
from deltamerge.merge.execute.execute import change_query, changes_in_arrow, fitting_rows
from deltamerge.merge.plan.plan import Strategy
from deltamerge.merge.plan.prune import FunnelStep, PrunedPlan
from deltamerge.merge.plan.routing import SENT, route_of
from deltamerge.merge.resolve.resolve import ResolvedClause
from deltamerge.merge.statement.clauses import Action
from deltamerge.spark.session.frames import Session
from deltamerge.spark.session.jobs import collect, in_process
from deltamerge.spark.session.settings import time_zone
from deltamerge.spark.stages.changes import change_rows
from deltamerge.spark.stages.counting import COLLISIONS, COUNT, SAMPLE, change_counts
from deltamerge.spark.stages.target import file_tasks, scan_spec
from deltamerge.worker.scan.scan import FILE, ROW, FileTask, row_at
from deltamerge.worker.write.rewrite import CLAUSE

_SAMPLE = 5
Row = Mapping[str, Any]


@dataclass(frozen=True)
class RowChange:
    """One row that would change: its keys and assigned columns before (None for an insert) and the values it would get."""

    before: Row | None
    after: Row | None


@dataclass(frozen=True)
class ClausePreview:
    """What one clause would do: `rows` changed, and up to five of them."""

    clause: str
    action: str
    rows: int
    sample: tuple[RowChange, ...] = ()


@dataclass(frozen=True)
class MergePreview:
    """What a merge would do to the version that it was previewed on. Counts are in rows and files, sizes in bytes.

    `touched_files` hold rows that would change; whether their rows are marked or rewritten, `plan` says.
    """

    plan: str
    version: int
    strategy: str
    source_rows: int
    clauses: tuple[ClausePreview, ...]
    touched_files: int
    touched_bytes: int
    funnel: tuple[FunnelStep, ...]

    @property
    def updated(self) -> int:
        """Target rows that would be updated."""
        return self._rows(Action.UPDATE)

    @property
    def deleted(self) -> int:
        """Target rows that would be deleted."""
        return self._rows(Action.DELETE)

    @property
    def inserted(self) -> int:
        """Rows that would be inserted."""
        return self._rows(Action.INSERT)

    def _rows(self, action: Action) -> int:
        return sum(clause.rows for clause in self.clauses if clause.action == action.value)

    def __str__(self) -> str:
        lines = [self.plan, f"  strategy:          {self.strategy}", f"  source:            {self.source_rows:,} rows"]
        lines += [f"  files {step.name + ':':<24}{step.files:,} ({step.bytes:,} bytes)" for step in self.funnel]
        lines.append(f"  files touched:                {self.touched_files:,} ({self.touched_bytes:,} bytes)")
        for clause in self.clauses:
            lines.append(f"  {clause.clause}: {clause.rows:,} rows")
            lines += [f"    {_text(change.before)} -> {_text(change.after)}" for change in clause.sample]
        return "\n".join(lines)


def preview(spark: Session, pruned: PrunedPlan) -> MergePreview:
    """Match, count, and show. Raises MultipleMatchError as the merge itself would, ExecutionError; nothing is written."""
    plan = pruned.plan
    tasks = file_tasks(plan.resolved.snapshot, pruned.files, time_zone(spark), counted=plan.by_source is not None)
    changes = changes_in_arrow(spark, pruned, tasks)
    if changes is not None:
        counted, shown = _counted(changes), _shown(changes)
    else:
        check_joined(pruned, lambda plan: change_query(spark, plan, tasks))
        rows = change_rows(change_query(spark, pruned, tasks))
        rows = rows if plan.resolved.identities else fitting_rows(rows, plan)  # their numbers are only known when written
        table = pruned.plan.resolved.snapshot.store.url
        counted = collect(change_counts(rows, _SAMPLE), f"deltamerge: preview a merge into {table}")
        shown = [row for rows in counted[SAMPLE].to_pylist() if rows for row in rows]
    collisions = int(pc.sum(counted[COLLISIONS]).as_py() or 0)
    if collisions and not plan.folds_duplicates:
        raise multiple_matches(change_query(spark, pruned, tasks), plan, collisions)
    touched = sorted({file for file in counted[FILE].to_pylist() if file is not None})
    return MergePreview(
        plan.explain(),
        plan.resolved.snapshot.version,
        _strategy(pruned, changes).value,
        pruned.source.rows,
        tuple(_of_clause(pruned, clause, counted, shown, tasks) for clause in plan.resolved.clauses),
        len(touched),
        int(pc.sum(pruned.files["size"].take(pa.array(touched, pa.int64()))).as_py() or 0),
        pruned.funnel,
    )


def _strategy(pruned: PrunedPlan, changes: pa.Table | None) -> Strategy:
    """How the merge would run."""
    if changes is not None and pruned.plan.strategy not in SENT:
        return Strategy.ARROW
    if (route := route_of(pruned)) is not None:
        return Strategy.MEET if route.meetings else Strategy.ROUTE
    return Strategy.JOIN if changes is None else Strategy.ARROW


def _counted(changes: pa.Table) -> pa.Table:
    """Changed rows per file and clause, a target row once; collisions are target rows that are changed more than once."""
    placed = changes.filter(pc.is_valid(changes[FILE]))
    once = placed.group_by([FILE, ROW]).aggregate([([], "count_all"), (CLAUSE, "min")])
    repeated = pc.greater(once["count_all"], 1).cast(pa.int64())
    once = pa.table([once[FILE], once[f"{CLAUSE}_min"], repeated], names=[FILE, CLAUSE, COLLISIONS])
    inserted = changes.filter(pc.is_null(changes[FILE])).select([FILE, CLAUSE])
    inserted = inserted.append_column(COLLISIONS, pa.array(np.zeros(inserted.num_rows, np.int64)))
    grouped = pa.concat_tables([once, inserted]).group_by([FILE, CLAUSE]).aggregate([([], "count_all"), (COLLISIONS, "sum")])
    names = {"count_all": COUNT, f"{COLLISIONS}_sum": COLLISIONS}
    return grouped.rename_columns([names.get(name, name) for name in grouped.column_names])


def _shown(changes: pa.Table) -> list[dict[str, Any]]:
    """Some changed rows of each clause."""
    numbers = changes[CLAUSE].to_numpy()
    rows = [row for number in np.unique(numbers) for row in np.flatnonzero(numbers == number)[:_SAMPLE]]
    found: list[dict[str, Any]] = changes.take(pa.array(rows, pa.int64())).to_pylist()
    return found


def _of_clause(
    pruned: PrunedPlan, clause: ResolvedClause, counted: pa.Table, shown: Sequence[Row], tasks: Sequence[FileTask]
) -> ClausePreview:
    own = counted.filter(pc.equal(counted[CLAUSE], clause.number))
    sample = [row for row in shown if row[CLAUSE] == clause.number][:_SAMPLE]
    condition = f" AND {clause.condition.text}" if clause.condition is not None else ""
    return ClausePreview(
        f"WHEN {clause.side.value}{condition} THEN {clause.action.name}",
        clause.action.value,
        int(pc.sum(own[COUNT]).as_py() or 0),
        tuple(RowChange(_before(pruned, clause, row, tasks), _after(clause, row)) for row in sample),
    )


def _before(pruned: PrunedPlan, clause: ResolvedClause, row: Row, tasks: Sequence[FileTask]) -> Row | None:
    """A target row as it is: the columns of the search condition, and those that the clause assigns."""
    if row[FILE] is None:
        return None
    resolved = pruned.plan.resolved
    wanted = clause.assigned | set(resolved.scope.used([resolved.spec.condition], "target"))
    schema = resolved.snapshot.schema.select([name for name in resolved.snapshot.schema.names if name in wanted])
    with in_process():
        return row_at(scan_spec(resolved.snapshot, schema, None), tasks[row[FILE]], row[ROW])


def _after(clause: ResolvedClause, row: Row) -> Row | None:
    if clause.action is Action.DELETE:
        return None
    return {value.column: row[value.column] for value in clause.values}


def _text(row: Row | None) -> str:
    return "nothing" if row is None else "(" + ", ".join(f"{name}={value!r}" for name, value in row.items()) + ")"
