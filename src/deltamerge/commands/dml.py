"""DELETE and UPDATE: a merge of one row without columns, whose search condition is theirs.

So they prune, scan, mark and rewrite as merges do. Source of the metrics: delta-spark's DeltaOperations.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping

import pyarrow.compute as pc

from deltamerge.log.table import DeltaLog
from deltamerge.merge.clauses import Action, Assignment, Clause, MergeSpec, Side
from deltamerge.merge.commit import Operation, commit_outcome
from deltamerge.merge.execute import MergeOutcome, execute
from deltamerge.merge.plan import plan_merge
from deltamerge.merge.prune import prune
from deltamerge.merge.resolve import resolve
from deltamerge.merge.run import chosen_share, chosen_strategy
from deltamerge.spark.expression import Expression, from_user
from deltamerge.spark.frames import Session
from deltamerge.spark.session import engine_name
from deltamerge.spark.source import materialize


def delete_rows(spark: Session, table: DeltaLog, condition: Expression | None, alias: str | None = None) -> Mapping[str, int]:
    """Delete the rows for which `condition` is true, all without one; delta-spark's metrics. Raises DeltaMergeError."""
    return _run(spark, table, Clause(Side.MATCHED, Action.DELETE), condition, alias)


def update_rows(
    spark: Session, table: DeltaLog, assignments: tuple[Assignment, ...], condition: Expression | None, alias: str | None = None
) -> Mapping[str, int]:
    """Set columns of the rows for which `condition` is true; delta-spark's metrics. Raises DeltaMergeError."""
    return _run(spark, table, Clause(Side.MATCHED, Action.UPDATE, assignments=assignments), condition, alias)


def _run(spark: Session, table: DeltaLog, clause: Clause, condition: Expression | None, alias: str | None) -> Mapping[str, int]:
    started = time.perf_counter()
    spec = MergeSpec(spark.range(1).select(), condition or from_user("true"), (clause,), alias)
    resolved = resolve(spark, spec, table.snapshot())
    pruned = prune(plan_merge(resolved, chosen_strategy(spark), chosen_share(spark)), materialize(spec.source, ()))
    scanned = time.perf_counter()
    outcome = execute(spark, pruned)
    metrics = _metrics(outcome, clause.action, started, scanned)
    parameters = {"predicate": json.dumps([] if condition is None else [condition.text])}
    committed = commit_outcome(outcome, Operation(clause.action.name, parameters, metrics), engine_name(spark))
    if committed is not None:
        table.remember(committed.snapshot)
    return metrics


def _metrics(outcome: MergeOutcome, action: Action, started: float, scanned: float) -> dict[str, int]:
    updated_vectors = sum(mark.file.deletion_vector is not None for mark in outcome.marked)
    removed_vectors = outcome.touched.num_rows - outcome.touched["deletionVector"].null_count
    now = time.perf_counter()
    return {
        "numDeletedRows" if action is Action.DELETE else "numUpdatedRows": sum(outcome.changed),
        "numCopiedRows": outcome.copied,
        "numAddedFiles": len(outcome.added),
        "numRemovedFiles": outcome.touched.num_rows,
        "numAddedBytes": sum(file.size for file in outcome.added),
        "numRemovedBytes": int(pc.sum(outcome.touched["size"]).as_py() or 0),
        "numAddedChangeFiles": 0,
        "numDeletionVectorsAdded": len(outcome.marked),
        "numDeletionVectorsUpdated": updated_vectors,
        "numDeletionVectorsRemoved": updated_vectors + removed_vectors,
        "executionTimeMs": int((now - started) * 1000),
        "scanTimeMs": int((scanned - started) * 1000),
        "rewriteTimeMs": int((now - scanned) * 1000),
    }
