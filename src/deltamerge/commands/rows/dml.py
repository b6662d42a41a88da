"""DELETE and UPDATE: a merge of one row that nothing names, whose search condition is theirs.

So they prune, scan, mark and rewrite as merges do. Source of the metrics: delta-spark's DeltaOperations.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping

from deltamerge.commands.layout.auto_compact import compact_after_changes
from deltamerge.errors import AnalysisError
from deltamerge.log.commit.conflict import FrameRead
from deltamerge.log.commit.transaction import Committed
from deltamerge.log.replay.table import DeltaLog
from deltamerge.merge.commit import Operation, commit_outcome
from deltamerge.merge.execute.outcome import MergeOutcome
from deltamerge.merge.line import Timing, merge
from deltamerge.merge.run import explained
from deltamerge.merge.statement.clauses import Action, Assignment, Clause, ClauseKind, MergeSpec
from deltamerge.progress.operation import begin
from deltamerge.spark.expressions.expression import Expression, from_user
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.running import operation
from deltamerge.spark.session.settings import author
from deltamerge.spark.source.evaluate import single_row

_VECTOR_COUNTS = ("numDeletionVectorsUpdated", "numDeletionVectorsRemoved")


def truncate(spark: Session, table: DeltaLog) -> Mapping[str, int]:
    """Delete all rows, as `delete_rows` does; history says how. Raises DeltaMergeError."""
    return _run(spark, table, Clause(ClauseKind.MATCHED, Action.DELETE), None, (), operation_name="TRUNCATE", parameters={})


def delete_rows(spark: Session, table: DeltaLog, condition: Expression | None, name: tuple[str, ...] = ()) -> Mapping[str, int]:
    """Delete the rows for which `condition` is true, all without one; delta-spark's metrics. Raises DeltaMergeError.

    Columns may be qualified by the table's alias or the parts of its `name`.
    """
    return _run(spark, table, Clause(ClauseKind.MATCHED, Action.DELETE), condition, name)


def update_rows(
    spark: Session,
    table: DeltaLog,
    assignments: tuple[Assignment, ...],
    condition: Expression | None,
    name: tuple[str, ...] = (),
    read: FrameRead | None = None,
) -> Mapping[str, int]:
    """Set columns of the rows for which `condition` is true; as `delete_rows`. Values may have `read` the table."""
    return _run(spark, table, Clause(ClauseKind.MATCHED, Action.UPDATE, assignments=assignments), condition, name, read)


def explain_delete(spark: Session, table: DeltaLog, condition: Expression | None, name: tuple[str, ...] = ()) -> str:
    """How rows would be deleted, by what is known without a job; the rest is as in `delete_rows`."""
    return _explained(spark, table, Clause(ClauseKind.MATCHED, Action.DELETE), condition, name)


def explain_update(
    spark: Session,
    table: DeltaLog,
    assignments: tuple[Assignment, ...],
    condition: Expression | None,
    name: tuple[str, ...] = (),
) -> str:
    """How rows would be updated, by what is known without a job; the rest is as in `update_rows`."""
    return _explained(spark, table, Clause(ClauseKind.MATCHED, Action.UPDATE, assignments=assignments), condition, name)


def _explained(spark: Session, table: DeltaLog, clause: Clause, condition: Expression | None, name: tuple[str, ...]) -> str:
    with _as_outside_of_merges():
        return str(explained(spark, table, _spec(single_row(spark).frame, clause, condition, name, None)))


def _spec(frame: Frame, clause: Clause, condition: Expression | None, name: tuple[str, ...], read: FrameRead | None) -> MergeSpec:
    return MergeSpec(
        frame,
        condition or from_user("true"),
        (clause,),
        name,
        with_schema_evolution=False,
        retries=None if read is None else 0,
        derives_deletes=clause.action is Action.DELETE,
        source_read=read,
        statement=clause.action.name,
    )


def _run(
    spark: Session,
    table: DeltaLog,
    clause: Clause,
    condition: Expression | None,
    name: tuple[str, ...],
    read: FrameRead | None = None,
    operation_name: str | None = None,
    parameters: Mapping[str, str] | None = None,
) -> Mapping[str, int]:
    source = single_row(spark)
    spec = _spec(source.frame, clause, condition, name, read)
    called = operation_name or clause.action.name
    everything = ["true"] if clause.action is Action.DELETE else []
    said = {"predicate": json.dumps(everything if condition is None else [condition.text])} if parameters is None else parameters

    def finish(outcome: MergeOutcome, timing: Timing) -> tuple[Mapping[str, int], Committed | None]:
        metrics = _metrics(outcome, clause.action, timing)
        begin("committing")
        operation = Operation(called, said, metrics, _VECTOR_COUNTS)
        committed = commit_outcome(outcome, operation, author(spark))
        if committed is not None:
            metrics = {**committed.metrics}
            compact_after_changes(spark, table, committed.snapshot, outcome)
        return metrics, committed

    with _as_outside_of_merges(), operation(spark, clause.action.name, table.store.url):
        done = merge(spark, table, spec, finish, source)
    if done is None:
        return {}
    metrics, committed = done
    if committed is not None:
        table.remember(committed.snapshot)
    return metrics


@contextlib.contextmanager
def _as_outside_of_merges() -> Iterator[None]:
    """The condition of a name that no column has is Spark's own, as in delta-spark."""
    try:
        yield
    except AnalysisError as error:
        if error.condition != "DELTA_MERGE_UNRESOLVED_EXPRESSION":
            raise
        name = "UNRESOLVED_COLUMN.WITH_SUGGESTION"
        raise AnalysisError(name, error.detail, parameters=error.parameters, hint=error.hint) from error.__cause__


def _metrics(outcome: MergeOutcome, action: Action, timing: Timing) -> dict[str, int]:
    return {
        "numDeletedRows" if action is Action.DELETE else "numUpdatedRows": sum(outcome.changed),
        "numCopiedRows": outcome.copied,
        "numAddedFiles": len(outcome.added),
        "numRemovedFiles": outcome.touched.num_rows,
        "numAddedBytes": outcome.added_bytes,
        "numRemovedBytes": outcome.removed_bytes,
        "numAddedChangeFiles": len(outcome.changes),
        "numDeletionVectorsAdded": len(outcome.marked),
        "numDeletionVectorsUpdated": outcome.updated_vectors,
        "numDeletionVectorsRemoved": outcome.removed_vectors,
        "executionTimeMs": timing.elapsed_ms,
        "scanTimeMs": timing.scan_ms,
        "rewriteTimeMs": timing.rewrite_ms,
    }
