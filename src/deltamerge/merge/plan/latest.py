"""Which of the source's rows are merged: all of them, the latest of each key, or those that the table's snapshot makes of it."""

from __future__ import annotations

from deltamerge.errors import AnalysisError, InvalidArgumentError
from deltamerge.merge.plan.conditions import equal_columns
from deltamerge.merge.plan.logical import LogicalPlan
from deltamerge.merge.resolve.assignments import KEEP_LATEST, sight
from deltamerge.merge.resolve.resolve import ResolvedMerge
from deltamerge.merge.statement.clauses import ClauseKind, Latest
from deltamerge.spark.expressions.analysis import Check, types_of
from deltamerge.spark.expressions.refused.unresolved import unresolved
from deltamerge.spark.session.frames import Frame
from deltamerge.spark.source.latest import latest


def chosen_rows(logical: LogicalPlan) -> Frame:
    """The rows of the source that are merged; no job runs but by `source_at`. Raises AnalysisError, InvalidArgumentError."""
    spec = logical.resolved.spec
    if spec.source_at is not None:
        return spec.source_at(logical.resolved.snapshot)
    if spec.latest is None:
        return spec.source
    keys = _given_keys(spec.latest, logical.resolved)
    keys = keys or [(pair.source, pair.null_safe) for pair in equal_columns(logical.resolved)]
    if not keys:
        raise InvalidArgumentError(
            "DELTAMERGE_NO_KEYS",
            f"keepLatest needs keys, and {spec.condition.text} compares no source column with a target column.",
            hint="Name the source's key columns: keepLatest(by, keys=[..]).",
        )
    scope = logical.resolved.scope
    source = spec.source.alias(scope.source_alias)
    types_of(source, [], [Check(KEEP_LATEST, order) for order in spec.latest.by], sight(scope, ClauseKind.NOT_MATCHED))
    return latest(source, keys, [order.column for order in spec.latest.by])


def _given_keys(wanted: Latest, resolved: ResolvedMerge) -> list[tuple[str, bool]]:
    """The keys that the user names, as the source spells them, none of which is equal to another null."""
    scope = resolved.scope
    fields = [(name, scope.source.find(name, scope.case_sensitive)) for name in wanted.keys]
    missing: list[AnalysisError] = [
        unresolved(name, KEEP_LATEST, sight(scope, ClauseKind.NOT_MATCHED)) for name, field in fields if field is None
    ]
    if missing:
        raise missing[0]
    return [(field.name, False) for _, field in fields if field is not None]
