"""What users run: a merge, its preview, its plan in words."""

from __future__ import annotations

import logging
from collections.abc import Callable

from deltamerge.display.shown import Explanation
from deltamerge.log.replay.table import DeltaLog
from deltamerge.merge.commit import CommittedMerge, commit_merge
from deltamerge.merge.execute.outcome import MergeOutcome
from deltamerge.merge.line import Timing, merge, planned, prospect_of
from deltamerge.merge.plan.explain import explain
from deltamerge.merge.preview import SAMPLE_ROWS, MergePreview, nothing_to_preview, preview
from deltamerge.merge.report import MergeReport, merged_before, report
from deltamerge.merge.settings import SETTINGS, budgets_of, check_names
from deltamerge.merge.statement.clauses import MergeSpec
from deltamerge.progress.operation import begin
from deltamerge.progress.reporters import Reported
from deltamerge.spark.session.checkpoints import give_back
from deltamerge.spark.session.frames import Session
from deltamerge.spark.session.running import operation
from deltamerge.spark.session.settings import author, known_settings, own_settings

log = logging.getLogger("deltamerge.merge")


def run_merge(
    spark: Session, table: DeltaLog, spec: MergeSpec, then: Callable[[CommittedMerge], None], progress: Reported = None
) -> MergeReport:
    """Merge, commit, `then` do what follows a commit, report; `progress` is told how far it is.

    Raises DeltaMergeError, and KeyboardInterrupt when it is stopped; the table is then as it was.
    """

    def finish(outcome: MergeOutcome, timing: Timing) -> CommittedMerge:
        begin("committing")
        committed = commit_merge(outcome, timing, author(spark))
        then(committed)
        return committed

    with operation(spark, "MERGE", table.store.url, progress):
        done = merge(spark, table, spec, finish)
    give_back()
    found = merged_before() if done is None else report(done)
    if done is not None and done.committed is not None:
        table.remember(done.committed.snapshot)
    log.info("%s", found.line(table.store.url))
    return found


def explained(spark: Session, table: DeltaLog, spec: MergeSpec) -> Explanation:
    """The logical plan in words, and the physical plan that is chosen by what is known without a job.

    Raises AnalysisError, InvalidArgumentError, UnsupportedTableError, CorruptTableError.
    """
    with known_settings(spark, SETTINGS):
        check_names(own_settings())
        logical = planned(spark, table.snapshot(), spec)
        prospect = prospect_of(logical, budgets_of(spark))
        return explain(prospect.logical, prospect.plan, prospect.files)


def previewed(spark: Session, table: DeltaLog, spec: MergeSpec) -> MergePreview:
    """What a merge into the newest version would do, by the same attempts, whose changed rows are counted in place of being
    written.

    Raises DeltaMergeError, as the merge would.
    """
    with operation(spark, "preview of MERGE", table.store.url):
        done = merge(spark, table, spec, lambda outcome, _: preview(outcome), sample=SAMPLE_ROWS)
    give_back()
    return nothing_to_preview(explained(spark, table, spec), table.snapshot()) if done is None else done
