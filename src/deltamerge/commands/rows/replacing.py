"""An overwrite of the rows for which a predicate is true: they are deleted as DELETE does it, and the new rows added beside.

Source of the behaviour: delta-spark's WriteIntoDelta with `replaceWhere`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import replace

from sqlglot import exp

from deltamerge.commands.layout.auto_compact import compact_after
from deltamerge.commands.rows.written import WritePlan, Written, actions_of, planned, rows_of, written
from deltamerge.errors import AnalysisError, ConstraintError
from deltamerge.log.commit.transaction import Committed, discarding
from deltamerge.log.replay.table import DeltaLog
from deltamerge.merge.commit import Operation, commit_outcome, written_names
from deltamerge.merge.execute.outcome import MergeOutcome
from deltamerge.merge.line import Timing, merge
from deltamerge.merge.statement.clauses import Action, Clause, ClauseKind, MergeSpec
from deltamerge.progress.operation import begin
from deltamerge.protocol.formats.roaring import decode
from deltamerge.protocol.table.constraints import Check
from deltamerge.spark.expressions.expression import Expression
from deltamerge.spark.expressions.predicates import predicate_of
from deltamerge.spark.session.delta_settings import DELTA
from deltamerge.spark.session.settings import author, flag
from deltamerge.spark.source.evaluate import single_row

CHECKED = f"{DELTA}replaceWhere.constraintCheck.enabled"
ANY_COLUMN = f"{DELTA}replaceWhere.dataColumns.enabled"
_NAME = "replaceWhere"


def replace_rows(plan: WritePlan, table: DeltaLog) -> Committed | None:
    """Replace the rows that the plan's predicate finds, in one commit; None when the transaction was recorded meanwhile.

    Raises AnalysisError for a row that does not meet the predicate, and what deleting raises.
    """
    request, spark = plan.request, plan.frame.sparkSession
    assert request.replace_where is not None
    predicate = predicate_of(spark, plan.before.schema, request.replace_where)
    if not request.data_change:
        _check_partitions_only(plan, predicate)
    by_partition = not flag(spark, ANY_COLUMN, default=True)
    if by_partition:
        _check_partitions(plan, predicate)
    # Rows of other partitions than those that are replaced are refused in any case.
    checks = by_partition or flag(spark, CHECKED, default=True)
    given, source = _checking(plan, predicate, checks), single_row(spark)
    rows = rows_of(given)
    spec = MergeSpec(
        source.frame,
        predicate,
        (Clause(ClauseKind.MATCHED, Action.DELETE),),
        with_schema_evolution=False,
        user_metadata=request.user_metadata,
        txn_id=request.txn_id,
        retries=None if plan.read is None else 0,
        derives_deletes=True,
        source_read=plan.read,
        statement="DELETE",
    )

    def finish(outcome: MergeOutcome, timing: Timing) -> Committed | None:
        snapshot = outcome.work.logical.resolved.snapshot
        # A commit that came in between may have changed what the rows must be like.
        is_same = snapshot.metadata == plan.before.metadata
        current = (
            replace(given, before=snapshot) if is_same else _checking(planned(plan.frame, snapshot, request), predicate, checks)
        )
        with discarding(snapshot, written_names(outcome)), _explained(request.replace_where or ""):
            files = written(current, rows if is_same else None, feed=bool(outcome.changes))
        with discarding(snapshot, files.names):
            begin("committing")
            operation = Operation("WRITE", plan.parameters, _metrics(outcome, files, timing), data_change=request.data_change)
            committed = commit_outcome(outcome, operation, author(spark), actions_of(current, files))
        if committed is not None:
            marked = [mark.file for mark in outcome.marked]
            compact_after(spark, table, committed.snapshot, [*files.added, *outcome.added, *marked])
        return committed

    return merge(spark, table, spec, finish, source)


def _check_partitions_only(plan: WritePlan, predicate: Expression) -> None:
    """Raise AnalysisError for rows that are rearranged by a predicate about more than partitions: other rows lie beside them."""
    known = {name.lower() for name in plan.before.partition_columns}
    columns = [] if predicate.tree is None else [column.name.lower() for column in predicate.tree.find_all(exp.Column)]
    if predicate.tree is None or not known.issuperset(columns):
        raise AnalysisError(
            "DELTA_REPLACE_WHERE_WITH_FILTER_DATA_CHANGE_UNSET",
            f"'replaceWhere' cannot be used with data filters when 'dataChange' is set to false. Filters: {predicate.text}",
            parameters={"dataFilters": predicate.text},
            hint="Use a condition about partition columns alone, or leave dataChange out.",
        )


def _check_partitions(plan: WritePlan, predicate: Expression) -> None:
    """Raise AnalysisError for a predicate about other columns than the partitions', where the session allows none."""
    before, text = plan.before, predicate.text
    try:
        predicate_of(plan.frame.sparkSession, before.partition_schema, text)
    except AnalysisError as error:
        known = list(before.partition_columns)
        others = [name for name in before.schema.names if name not in known and predicate.mentions(name)]
        raise AnalysisError(
            "DELTA_NON_PARTITION_COLUMN_REFERENCE",
            f"Predicate references non-partition column '{', '.join(others) or text}'. Only the partition columns may be "
            f"referenced: [{', '.join(known)}].",
            parameters={"columnName": others[0] if others else text, "columnList": known},
            hint=f"Set {ANY_COLUMN} to true to replace rows by other columns.",
        ) from error


def _checking(plan: WritePlan, predicate: Expression, checks: bool) -> WritePlan:
    """The plan by which rows must meet the predicate, unless it is about no column, or nothing `checks` them."""
    if not checks:
        return plan
    is_constant = predicate.tree is not None and predicate.tree.find(exp.Column) is None
    return plan if is_constant else replace(plan, extra=(Check(_NAME, predicate.text),))


@contextlib.contextmanager
def _explained(predicate: str) -> Iterator[None]:
    """A row that does not meet the predicate comes out as what is wrong with the write."""
    try:
        yield
    except ConstraintError as error:
        if [*error.parameters.get("values", ())][:1] != [_NAME]:
            raise
        raise AnalysisError(
            "DELTA_REPLACE_WHERE_MISMATCH",
            f"Written data does not conform to partial table overwrite condition or constraint '{predicate}'.\n{error.detail}",
            parameters={"replaceWhere": predicate},
            hint="Write only rows that meet the condition: df.where(condition).",
        ) from error


def _metrics(outcome: MergeOutcome, files: Written, timing: Timing) -> Mapping[str, int]:
    """The metrics as delta-spark names them; the rows that stay in a file with a vector count as copied."""
    kept = sum(mark.rows - decode(mark.vector).rows for mark in outcome.marked)
    new = files.metrics
    return {
        "numFiles": new["numFiles"] + len(outcome.added) + len(outcome.marked),
        "numOutputRows": new["numOutputRows"] + outcome.copied + kept,
        "numOutputBytes": new["numOutputBytes"] + outcome.added_bytes + sum(mark.file.size for mark in outcome.marked),
        "numCopiedRows": outcome.copied + kept,
        "numDeletedRows": sum(outcome.changed),
        "numRemovedFiles": outcome.touched.num_rows,
        "numRemovedBytes": outcome.removed_bytes,
        "numAddedChangeFiles": len(outcome.changes) + len(files.changes),
        "executionTimeMs": timing.elapsed_ms,
        "scanTimeMs": timing.scan_ms,
        "rewriteTimeMs": timing.rewrite_ms,
    }
