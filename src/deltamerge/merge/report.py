"""What a merge did, in numbers and words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from deltamerge.merge.commit import CommittedMerge
from deltamerge.merge.plan.prune import FunnelStep
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.rows import one_row


@dataclass(frozen=True)
class MergeReport:
    """The result of a merge. `version` is None when nothing changed and so nothing was committed.

    `metrics` are the commit's operationMetrics (rows, files, bytes, ms), `funnel` what pruning left of the table, `attempts` how
    often the commit was tried; `merged_before` says that the same transaction id was in the table already, so that nothing was
    done and every metric counts 0. `strategy` is how rows were matched, `attempt` says it in words, and `others` why it was not
    done otherwise; `touched_files` is the number of files in which rows changed.
    """

    version: int | None
    metrics: Mapping[str, int]
    funnel: tuple[FunnelStep, ...] = ()
    attempts: int = 0
    merged_before: bool = False
    strategy: str = ""
    attempt: str = ""
    others: tuple[str, ...] = ()
    touched_files: int = 0

    @property
    def updated(self) -> int:
        """Target rows updated."""
        return self.metrics["numTargetRowsUpdated"]

    @property
    def deleted(self) -> int:
        """Target rows deleted."""
        return self.metrics["numTargetRowsDeleted"]

    @property
    def inserted(self) -> int:
        """Rows inserted."""
        return self.metrics["numTargetRowsInserted"]

    @property
    def affected(self) -> int:
        """Rows updated, deleted or inserted."""
        return self.updated + self.deleted + self.inserted

    def to_frame(self, spark: Session) -> Frame:
        """delta-spark's result: one row of four counts."""
        return one_row(
            spark,
            {
                "num_affected_rows": self.affected,
                "num_updated_rows": self.updated,
                "num_deleted_rows": self.deleted,
                "num_inserted_rows": self.inserted,
            },
        )


def report(done: CommittedMerge) -> MergeReport:
    """The report of a merge."""
    committed, outcome = done.committed, done.outcome
    return MergeReport(
        None if committed is None else committed.version,
        done.metrics,
        outcome.work.files.funnel,
        0 if committed is None else committed.attempts,
        strategy=outcome.ran.attempt.strategy.value,
        attempt=outcome.ran.attempt.text,
        others=tuple(outcome.ran.others()),
        touched_files=outcome.touched.num_rows + len(outcome.marked),
    )


def merged_before() -> MergeReport:
    """The report of a merge whose transaction id was in the table already."""
    return MergeReport(None, Counter(), merged_before=True)
