"""What an update keeps of a row that is marked in a deletion vector: read with the row's key, instead of by a second reading."""

from __future__ import annotations

from dataclasses import replace

import pyarrow.compute as pc

from deltamerge.merge.execute.local_changes import copy_of
from deltamerge.merge.plan.plan import MergePlan, Strategy
from deltamerge.merge.plan.prune import PrunedPlan
from deltamerge.merge.resolve.resolve import ColumnValue, ResolvedClause, ResolvedMerge
from deltamerge.merge.resolve.scope import Reference
from deltamerge.merge.statement.clauses import Action, Side
from deltamerge.protocol.schema.char_varchar import sized_texts
from deltamerge.protocol.table.row_tracking import tracking_columns
from deltamerge.spark.expressions.expression import from_name
from deltamerge.spark.session.schema import spark_type
from deltamerge.spark.stages.target import null_free

# A row is estimated at so many times what it takes in the files, and no less than so much a value; texts that dictionaries make
# small in the files may take far more.
_UNPACKED = 4
_VALUE_BYTES = 16


def with_kept(pruned: PrunedPlan) -> PrunedPlan | None:
    """The plan with updates that set every column, those they keep to what they are.

    None where that gains nothing or is not sure to: where files are written again anyway, where not every matched row is
    updated, where rows are many or carry more than their columns, or a column is written otherwise than it is read.
    """
    plan, resolved = pruned.plan, pruned.plan.resolved
    if pruned.lookup is None or not kept_columns(plan) or pruned.source.rows * _row_bytes(pruned) > plan.budgets.early_bytes:
        return None
    clauses = [_whole(resolved, clause) for clause in resolved.clauses]
    if any(clause is None for clause in clauses):
        return None
    whole = replace(resolved, clauses=tuple(clause for clause in clauses if clause is not None))
    return replace(pruned, plan=replace(plan, resolved=whole))


def kept_columns(plan: MergePlan) -> list[str]:
    """The columns that updates leave as they are, where they may be read with the key; [] elsewhere."""
    resolved = plan.resolved
    if not (plan.rewrite_share and plan.keys_decide) or plan.feed or plan.by_source is not None or plan.strategy is Strategy.JOIN:
        return []
    matched = resolved.of(Side.MATCHED)
    if not matched or matched[-1].condition is not None or not _kept(resolved, matched[-1]) or not _is_plain(resolved):
        return []
    kept = {name for clause in matched for name in _kept(resolved, clause)}
    return [name for name in resolved.schema.names if name in kept]


def _is_plain(resolved: ResolvedMerge) -> bool:
    """Whether the target's columns are written as they are read, and are all there is to a row."""
    snapshot = resolved.snapshot
    is_tracked = tracking_columns(snapshot.protocol, snapshot.metadata) is not None
    is_padded = any(text.padded for text in sized_texts(resolved.schema))
    return resolved.metadata is None and not (is_tracked or is_padded or any(null_free(resolved.schema)))


def _row_bytes(pruned: PrunedPlan) -> int:
    """About how many bytes a target row has in memory."""
    stored = int(pc.sum(pruned.files["size"]).as_py() or 0) // max(1, pruned.rows)
    return max(_UNPACKED * stored, _VALUE_BYTES * len(pruned.plan.resolved.schema))


def _kept(resolved: ResolvedMerge, clause: ResolvedClause) -> list[str]:
    """The columns that an update leaves as they are."""
    return [name for name in resolved.schema.names if name not in clause.assigned] if clause.action is Action.UPDATE else []


def _whole(resolved: ResolvedMerge, clause: ResolvedClause) -> ResolvedClause | None:
    """The clause, an update with a value for every column; None where a column can't be told from one of the source."""
    kept = []
    for name in _kept(resolved, clause):
        field = resolved.schema.find(name, case_sensitive=True)
        assert field is not None
        type = spark_type(field.type)
        value = ColumnValue(name, from_name(resolved.scope.target_alias, name, type=type), type)
        if copy_of(resolved, value) != Reference("target", (name,)):
            return None
        kept.append(value)
    return replace(clause, values=(*clause.values, *kept))
