"""A merge as users run it: with what follows its commit."""

from __future__ import annotations

from deltamerge.commands.layout.auto_compact import compact_after_changes
from deltamerge.log.replay.table import DeltaLog
from deltamerge.merge.commit import CommittedMerge
from deltamerge.merge.report import MergeReport
from deltamerge.merge.run import run_merge
from deltamerge.merge.statement.clauses import MergeSpec
from deltamerge.progress.reporters import Reported
from deltamerge.spark.session.frames import Session


def merge_rows(spark: Session, table: DeltaLog, spec: MergeSpec, progress: Reported = None) -> MergeReport:
    """Merge, commit, put small files together where that is asked for, report. Raises as `run_merge` does."""

    def then(done: CommittedMerge) -> None:
        if done.committed is not None:
            compact_after_changes(spark, table, done.committed.snapshot, done.outcome)

    return run_merge(spark, table, spec, then, progress)
