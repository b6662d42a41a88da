"""From what the tasks did to a version of the table."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from deltamerge.log.commit.conflict import ReadSet
from deltamerge.log.commit.proposal import Author
from deltamerge.log.commit.transaction import Committed, Proposal, commit, discarding
from deltamerge.log.commit.upkeep import after_commit
from deltamerge.log.replay.files import each_add_file, file_keys
from deltamerge.merge.execute.look import finds_same, would_find, would_read
from deltamerge.merge.execute.outcome import MergeOutcome
from deltamerge.merge.line import Timing
from deltamerge.merge.statement.clauses import Action, ClauseKind, TxnId
from deltamerge.protocol.table.actions import Action as LogAction
from deltamerge.protocol.table.actions import Txn
from deltamerge.protocol.table.identity import with_marks
from deltamerge.protocol.values.partitions import decode_path

_VECTOR_COUNTS = ("numTargetDeletionVectorsUpdated", "numTargetDeletionVectorsRemoved")


@dataclass(frozen=True)
class CommittedMerge:
    """A merge that is part of the table; `committed` is None when no row changed and nothing was committed."""

    outcome: MergeOutcome
    metrics: Mapping[str, int]
    committed: Committed | None


@dataclass(frozen=True)
class Operation:
    """What history says of a commit: delta-spark's name, parameters as JSON values, metrics in rows, files, bytes and ms.

    `vector_counts` names the metrics that count the deletion vectors which are replaced. Without `data_change` the files that
    leave are said to be rearranged only.
    """

    name: str
    parameters: Mapping[str, object]
    metrics: Mapping[str, int]
    vector_counts: tuple[str, ...] = ()
    data_change: bool = True


def commit_merge(outcome: MergeOutcome, timing: Timing, author: Author) -> CommittedMerge:
    """Commit a merge. Raises a ConcurrentModificationError when another transaction conflicts; the table is as it was."""
    operation = Operation("MERGE", _parameters(outcome), merge_metrics(outcome, timing), _VECTOR_COUNTS)
    committed = commit_outcome(outcome, operation, author)
    return CommittedMerge(outcome, operation.metrics if committed is None else committed.metrics, committed)


def commit_outcome(
    outcome: MergeOutcome, operation: Operation, author: Author, beside: Sequence[LogAction] | None = None
) -> Committed | None:
    """Commit what was done to rows and schema, and what was done `beside` it; None when nothing changed, and nothing is beside.

    Raises as `commit_merge` does.
    """
    resolved = outcome.work.logical.resolved
    txn_id = resolved.spec.txn_id
    if outcome.is_empty and resolved.metadata is None and txn_id is None and beside is None:
        return None
    snapshot = resolved.snapshot
    with discarding(snapshot, written_names(outcome)):
        proposal = Proposal(
            operation=operation.name,
            actions=[*txn_actions(txn_id), *_actions(outcome, operation.data_change), *(beside or ())],
            marked=outcome.marked,
            read=_read_set(outcome, joins=beside is None and outcome.work.budgets.joins_vectors),
            parameters=operation.parameters,
            metrics=operation.metrics,
            vector_counts=operation.vector_counts,
            user_metadata=outcome.work.logical.resolved.spec.user_metadata,
            author=author,
        )
        committed = commit(snapshot, proposal)
    after_commit(committed.snapshot)
    return committed


def written_names(outcome: MergeOutcome) -> list[str]:
    """The names of the files that were written for a merge."""
    return [decode_path(path) for path in [file.path for file in outcome.added] + [file.path for file in outcome.changes]]


def _actions(outcome: MergeOutcome, data_change: bool) -> list[LogAction]:
    """The protocol and the metadata if they changed, the files that leave, the new ones, the change data files."""
    now = int(time.time() * 1000)
    resolved = outcome.work.logical.resolved
    metadata = with_marks(resolved.after.metadata, [identity.name for identity in resolved.identities], outcome.added)
    actions: list[LogAction] = [] if resolved.after.protocol is resolved.snapshot.protocol else [resolved.after.protocol]
    actions += [metadata] if metadata is not resolved.snapshot.metadata else []
    actions += [file.removed(now, data_change) for file in each_add_file(outcome.touched)]
    actions += outcome.added
    return [*actions, *outcome.changes]


def txn_actions(txn_id: TxnId | None) -> list[LogAction]:
    """What tells later runs that the transaction was made."""
    return [] if txn_id is None else [Txn(txn_id.application, txn_id.version, int(time.time() * 1000))]


def _read_set(outcome: MergeOutcome, joins: bool) -> ReadSet:
    """A merge has read the files that it opened, and would have read others that have rows which it looks for.

    With `joins` other transactions may have deleted other rows of the files than those that it has changed. Rows that don't match
    have left no trace. Those that match and stay as they are have kept source rows from being inserted.
    """
    resolved, work = outcome.work.logical.resolved, outcome.work
    matched, inserts = resolved.of(ClauseKind.MATCHED), resolved.of(ClauseKind.NOT_MATCHED)
    leaves_matches = bool(inserts) and all(clause.condition is not None for clause in matched)
    files = work.files
    txn_id = resolved.spec.txn_id
    return ReadSet(
        keys=frozenset(file_keys(files.table).to_pylist()),
        would_read=partial(would_read, work),
        app_ids=frozenset() if txn_id is None else frozenset([txn_id.application]),
        frame=resolved.spec.source_read,
        would_find=partial(would_find, work, leaves_matches) if joins else None,
        finds_same=partial(finds_same, work) if joins and work.logical.rewrite_share else None,
    )


def _parameters(outcome: MergeOutcome) -> dict[str, str]:
    """OperationParameters as delta-spark names them; each value is JSON text."""
    resolved = outcome.work.logical.resolved
    names = {
        ClauseKind.MATCHED: "matchedPredicates",
        ClauseKind.NOT_MATCHED: "notMatchedPredicates",
        ClauseKind.BY_SOURCE: "notMatchedBySourcePredicates",
    }
    found = {"predicate": json.dumps([resolved.spec.condition.text])}
    for kind, name in names.items():
        clauses = []
        for clause in resolved.original_of(kind):
            value = {"predicate": clause.condition.text} if clause.condition is not None else {}
            clauses.append({**value, "actionType": clause.action.value})
        found[name] = json.dumps(clauses, separators=(",", ":"))
    return found


def merge_metrics(outcome: MergeOutcome, timing: Timing) -> dict[str, int]:
    """OperationMetrics as delta-spark names them: rows, files, bytes and ms.

    A deletion vector that is updated counts as added and as removed, too.
    """
    resolved = outcome.work.logical.resolved

    def rows(kind: ClauseKind, action: Action) -> int:
        pairs = zip(resolved.clauses, outcome.changed, strict=True)
        return sum(count for clause, count in pairs if clause.kind is kind and clause.action is action)

    matched_updated, by_source_updated = rows(ClauseKind.MATCHED, Action.UPDATE), rows(ClauseKind.BY_SOURCE, Action.UPDATE)
    matched_deleted, by_source_deleted = rows(ClauseKind.MATCHED, Action.DELETE), rows(ClauseKind.BY_SOURCE, Action.DELETE)
    inserted = rows(ClauseKind.NOT_MATCHED, Action.INSERT)
    funnel = outcome.work.files.funnel
    return {
        "numSourceRows": outcome.work.source.rows,
        "numTargetRowsInserted": inserted,
        "numTargetRowsUpdated": matched_updated + by_source_updated,
        "numTargetRowsMatchedUpdated": matched_updated,
        "numTargetRowsNotMatchedBySourceUpdated": by_source_updated,
        "numTargetRowsDeleted": matched_deleted + by_source_deleted,
        "numTargetRowsMatchedDeleted": matched_deleted,
        "numTargetRowsNotMatchedBySourceDeleted": by_source_deleted,
        "numTargetRowsCopied": outcome.copied,
        "numOutputRows": inserted + matched_updated + by_source_updated + outcome.copied,
        "numTargetFilesBeforeSkipping": funnel[0].files,
        "numTargetFilesAfterSkipping": funnel[-1].files,
        "numTargetBytesBeforeSkipping": funnel[0].bytes,
        "numTargetBytesAfterSkipping": funnel[-1].bytes,
        "numTargetFilesAdded": len(outcome.added),
        "numTargetFilesRemoved": outcome.touched.num_rows,
        "numTargetBytesAdded": outcome.added_bytes,
        "numTargetBytesRemoved": outcome.removed_bytes,
        "numTargetChangeFilesAdded": len(outcome.changes),
        "numTargetChangeFileBytes": outcome.change_bytes,
        "numTargetDeletionVectorsAdded": len(outcome.marked),
        "numTargetDeletionVectorsUpdated": outcome.updated_vectors,
        "numTargetDeletionVectorsRemoved": outcome.removed_vectors,
        "executionTimeMs": timing.elapsed_ms,
        "materializeSourceTimeMs": timing.source_ms,
        "scanTimeMs": timing.scan_ms,
        "rewriteTimeMs": timing.rewrite_ms,
    }
