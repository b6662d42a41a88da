"""Several source rows for a target row are refused even where `skipUnchanged()` leaves out what one of them would do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa

from deltamerge.merge.execute.collisions import multiple_matches
from deltamerge.merge.plan.prune import PrunedPlan
from deltamerge.merge.statement.clauses import Side
from deltamerge.spark.stages.changes import ChangeQuery
from deltamerge.spark.stages.collisions import collision_count


def as_asked(pruned: PrunedPlan) -> PrunedPlan | None:
    """The plan with its clauses as they were given; None where MATCHED ones are, or a row may be hit more than once."""
    resolved = pruned.plan.resolved
    pairs = zip(resolved.asked_of(Side.MATCHED), resolved.of(Side.MATCHED), strict=True)
    if resolved.asked is None or pruned.plan.folds_duplicates or all(one is other for one, other in pairs):
        return None
    return replace(pruned, plan=replace(pruned.plan, resolved=replace(resolved, clauses=resolved.asked, asked=None)))


def check_joined(pruned: PrunedPlan, query: Callable[[PrunedPlan], ChangeQuery]) -> None:
    """Raise MultipleMatchError where the clauses as they were given apply to a target row for several source rows.

    One job more, unless the source's keys are known to be unique.
    """
    asked = as_asked(pruned)
    if asked is None or _has_unique_keys(asked):
        return
    count = collision_count(query(asked))
    if count:
        raise multiple_matches(query(asked), asked.plan, count)


def _has_unique_keys(pruned: PrunedPlan) -> bool:
    """Whether no two rows of a collected source can match the same target row, by columns whose equal values are equal bytes."""
    source = pruned.source.collected
    if source is None:
        return False
    names = [pair.source for pair in pruned.plan.pairs if not pa.types.is_floating(source.schema.field(pair.source).type)]
    return bool(names) and source.group_by(names).aggregate([]).num_rows == source.num_rows
