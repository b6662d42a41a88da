"""What queries within a statement's values have read of the table that the statement changes."""

from __future__ import annotations

from collections.abc import Iterator

from deltamerge.log.commit.conflict import FrameRead
from deltamerge.merge.resolve.resolve import ResolvedMerge, frames_of
from deltamerge.merge.statement.clauses import ClauseKind
from deltamerge.spark.expressions.expression import Expression
from deltamerge.spark.expressions.time import asks_unseen, empty_like
from deltamerge.spark.read.unread import all_read, frame_read
from deltamerge.spark.session.frames import Session


def queries_read(spark: Session, resolved: ResolvedMerge) -> FrameRead | None:
    """What the queries within a statement's values have read of its table, by views and frames; None for nothing. No job runs.

    Such a view is fixed to the version that was the newest one when it was made, as a source is.
    """
    asking = {kind: list(_asking(resolved, kind)) for kind in ClauseKind}
    if not any(asking.values()):
        return None
    frames = frames_of(spark, resolved.scope, empty_like(resolved.spec.source))
    found = (
        frames[kind].select(*[value.column.alias(f"c{number}") for number, value in enumerate(values)])
        for kind, values in asking.items()
        if values
    )
    return all_read(frame_read(frame, resolved.snapshot.store) for frame in found)


def _asking(resolved: ResolvedMerge, kind: ClauseKind) -> Iterator[Expression]:
    """The values of the clauses about one kind of rows that may ask a query; conditions can't."""
    for clause in resolved.of(kind):
        yield from (value.value for value in clause.values if value.value.tree is None or asks_unseen(value.value))
