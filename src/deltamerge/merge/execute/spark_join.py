"""Spark's join: source and target are joined as Spark does it, and changed rows sent to the tasks that write their files."""

from __future__ import annotations

from collections.abc import Sequence

from deltamerge.merge.execute.multiple_matches import change_query, check_original_clauses
from deltamerge.merge.execute.runtime_filter import with_bloom_filter
from deltamerge.merge.execute.work import Changed, Work
from deltamerge.merge.plan.logical import LogicalPlan
from deltamerge.merge.plan.physical import RowFilter, SparkJoin
from deltamerge.merge.statement.clauses import Action, ClauseKind
from deltamerge.progress.operation import begin
from deltamerge.protocol.schema.types import PrimitiveType
from deltamerge.spark.session.frames import Frame
from deltamerge.spark.session.jobs import collect
from deltamerge.spark.stages.changes import change_rows, fitting, inserted_by
from deltamerge.spark.stages.exchange.shuffle import to_writers
from deltamerge.spark.stages.identity import numbered
from deltamerge.spark.stages.writing import RESULT_TYPE, written_frame


def spark_join(work: Work, attempt: SparkJoin) -> Changed:
    """Join and write in one job. Raises MultipleMatchError, ExecutionError."""
    check_original_clauses(work)
    work = with_bloom_filter(work) if attempt.filter is RowFilter.BLOOM else work
    begin("joining and writing", lambda: work.amount)
    rows = _written_rows(change_rows(change_query(work)), work)
    return Changed(collect(written_frame(rows, work.change), work.description, RESULT_TYPE))


def _written_rows(rows: Frame, work: Work) -> Frame:
    """The changed rows as they are written, where they are written.

    The values of identity columns are only known there, and so is what constraints and generated columns say of them.
    """
    logical, resolved = work.logical, work.logical.resolved
    writers, inserters = _tasks(work)
    spread_by = _spread_by(logical)
    if not resolved.identities:
        return to_writers(_fitting(rows, logical), writers, inserters, spread_by)
    clauses = {i: [c.number for c in resolved.clauses if i.name in c.numbered] for i in resolved.identities}
    chosen = {identity: inserted_by(numbers) for identity, numbers in clauses.items()}
    placed = to_writers(rows, writers, inserters, spread_by)
    return _fitting(numbered(placed, chosen, writers, inserters), logical)


def _fitting(rows: Frame, logical: LogicalPlan) -> Frame:
    """The changed rows as the table's constraints want them; one that violates a check fails when the rows are evaluated."""
    resolved = logical.resolved
    written = [clause.number for clause in resolved.clauses if clause.action is not Action.DELETE]
    if not (written and resolved.constraints):
        return rows
    computed = {
        name: [clause.number for clause in resolved.clauses if name in clause.computed]
        for name, _ in resolved.constraints.generated
    }
    return fitting(rows, resolved.schema, resolved.constraints, computed, written, resolved.clock)


def _tasks(work: Work) -> tuple[int, int]:
    """How many tasks write files, and how many insert rows; 0 where little is inserted into small files, which take it up."""
    logical, budgets, files = work.logical, work.budgets, work.files
    if files.bytes + work.source.bytes <= budgets.small_files_bytes and not logical.resolved.identities:
        return 1, 0
    each = budgets.mark_task_bytes if logical.rewrite_share else budgets.write_task_bytes
    writers = max(1, min(files.count, budgets.write_tasks, files.bytes // each + 2))
    if not logical.resolved.of(ClauseKind.NOT_MATCHED):
        return writers, 0
    inserters = max(1, min(budgets.insert_tasks, work.source.bytes // budgets.insert_task_bytes))
    return writers, inserters if _spread_by(logical) else 1


def _spread_by(logical: LogicalPlan) -> Sequence[str]:
    """The columns by which inserted rows are spread over tasks."""
    hashable = [field.name for field in logical.program.written if isinstance(field.type, PrimitiveType)]
    return logical.resolved.snapshot.partition_columns or hashable
