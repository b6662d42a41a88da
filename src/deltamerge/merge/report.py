"""What a merge did, in numbers and words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from deltamerge.display.data import json_text
from deltamerge.display.shown import Shown
from deltamerge.display.views import Page, Pairs, counted, size_text, time_text
from deltamerge.merge.commit import CommittedMerge
from deltamerge.merge.plan.prune import FunnelStep
from deltamerge.merge.views import funnel_view, ran_view, time_view
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.rows import one_row
from deltamerge.worker.parquet.plain import Reason
from deltamerge.worker.write.results import PAGED, SPLICED


@dataclass(frozen=True)
class MergeReport(Shown):
    """The result of a merge. `version` is None when nothing changed and so nothing was committed.

    `metrics` are the commit's operationMetrics (rows, files, bytes, ms), `funnel` what pruning left of the table, `attempts` how
    often the commit was tried; `merged_before` says that the same transaction id was in the table already, so that nothing was
    done and every metric counts 0. `strategy` is how rows were matched, `attempt` says it in words, `reason` why it was chosen,
    and `others` why not another one; `touched_files` is the number of files in which rows changed. Of the files that were
    written again `spliced_files` had what did not change copied as bytes, and `paged_files` of these pages of
    columns of which others changed; `plain_rewrites` counts the others by the reason.
    """

    version: int | None
    metrics: Mapping[str, int]
    funnel: tuple[FunnelStep, ...] = ()
    attempts: int = 0
    merged_before: bool = False
    strategy: str = ""
    attempt: str = ""
    reason: str = ""
    others: tuple[str, ...] = ()
    touched_files: int = 0
    spliced_files: int = 0
    paged_files: int = 0
    plain_rewrites: Mapping[str, int] = field(default_factory=dict)

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

    def line(self, table: str = "") -> str:
        """The report in one line, which names the table where it is given."""
        of = f" of {table}" if table and self.version is not None else f" to {table}" if table else ""
        if self.merged_before:
            return f"nothing committed{of}: the transaction was merged before"
        changes = (("updated", self.updated), ("inserted", self.inserted), ("deleted", self.deleted))
        rows = ", ".join(f"{number:,} {word}" for word, number in changes if number) or "no row changed"
        took = time_text(self.metrics["executionTimeMs"])
        committed = "nothing committed" if self.version is None else f"committed version {self.version}"
        return f"{committed}{of}: {rows}, {self._files}, {took}"

    @property
    def _files(self) -> str:
        if not self.touched_files:
            return "no file changed"
        how = "rewritten" if self.metrics["numTargetFilesRemoved"] == self.touched_files else "changed"
        return f"{self.touched_files:,} of {counted(self.funnel[0].files, 'file')} {how}"

    def _page(self) -> Page:
        """What is shown of the report."""
        if self.merged_before:
            return Page("Merge", self.line())
        spliced = (("files spliced", f"{self.spliced_files:,}"),) if self.spliced_files else ()
        pairs = (
            ("rows copied", f"{self.metrics['numTargetRowsCopied']:,}"),
            ("files replaced", f"{self.metrics['numTargetFilesRemoved']:,}"),
            ("files written", f"{self.metrics['numTargetFilesAdded']:,}, {size_text(self.metrics['numTargetBytesAdded'])}"),
            ("files with marked rows", f"{self.metrics['numTargetDeletionVectorsAdded']:,}"),
            *spliced,
        )
        views = (Pairs("Written", pairs), funnel_view(self.funnel), ran_view(self.attempt, self.reason, self.others))
        return Page("Merge", self.line(), (*views, time_view(self.metrics)))

    def to_dict(self) -> dict[str, Any]:
        """The report as values that JSON has; the guide lists its keys."""
        rows = {name: getattr(self, name) for name in ("affected", "updated", "deleted", "inserted")}
        plain = {
            name: getattr(self, name) for name in ("strategy", "attempt", "reason", "touched_files", "attempts", "merged_before")
        }
        steps = [asdict(step) for step in self.funnel]
        return {
            "version": self.version,
            "rows": rows,
            "metrics": dict(self.metrics),
            "funnel": steps,
            **plain,
            "others": list(self.others),
            "spliced_files": self.spliced_files,
            "paged_files": self.paged_files,
            "plain_rewrites": dict(self.plain_rewrites),
        }

    def to_json(self) -> str:
        """`to_dict()` as JSON text."""
        return json_text(self.to_dict())

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
        reason=outcome.ran.attempt.reason,
        others=tuple(outcome.ran.others()),
        touched_files=outcome.touched.num_rows + len(outcome.marked),
        spliced_files=outcome.rewrites.get(SPLICED, 0) + outcome.rewrites.get(PAGED, 0),
        paged_files=outcome.rewrites.get(PAGED, 0),
        plain_rewrites={Reason[name].value: count for name, count in outcome.rewrites.items() if name in Reason.__members__},
    )


def merged_before() -> MergeReport:
    """The report of a merge whose transaction id was in the table already."""
    return MergeReport(None, Counter(), merged_before=True)
