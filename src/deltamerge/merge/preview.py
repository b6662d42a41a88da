"""What a merge would do: counts per clause, touched files, sample rows, from what its attempts have counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from deltamerge.display.data import json_text, plain_json
from deltamerge.display.shown import Shown
from deltamerge.display.views import Page, View, counted, size_text
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.merge.execute.outcome import MergeOutcome
from deltamerge.merge.execute.work import Work
from deltamerge.merge.plan.explain import explain
from deltamerge.merge.plan.prune import FunnelStep
from deltamerge.merge.resolve.resolve import ResolvedClause
from deltamerge.merge.statement.clauses import Action
from deltamerge.merge.views import funnel_view, sample_view
from deltamerge.protocol.values.plain import plain_rows
from deltamerge.spark.session.jobs import in_process
from deltamerge.spark.session.settings import pads_chars
from deltamerge.spark.stages.target import scan_spec
from deltamerge.worker.scan.scan import FILE, ROW, row_at
from deltamerge.worker.write.rewrite import CLAUSE

# Changed rows of each clause that are shown.
SAMPLE_ROWS = 5
Row = Mapping[str, Any]


@dataclass(frozen=True)
class RowChange:
    """One row that would change: its keys and assigned columns before (None for an insert) and the values it would get."""

    before: Row | None
    after: Row | None


@dataclass(frozen=True)
class ClausePreview:
    """What one clause would do: `rows` changed, and up to five of them."""

    clause: str
    action: str
    rows: int
    sample: tuple[RowChange, ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class MergePreview(Shown):
    """What a merge would do to the version that it was previewed on. Counts are in rows and files, sizes in bytes.

    `strategy` is how rows would be matched. `touched_files` hold rows that would change; whether their rows are marked or
    rewritten, `plan` says.
    """

    plan: str = field(repr=False)
    version: int
    strategy: str
    source_rows: int
    clauses: tuple[ClausePreview, ...]
    touched_files: int
    touched_bytes: int
    funnel: tuple[FunnelStep, ...]

    @property
    def updated(self) -> int:
        """Target rows that would be updated."""
        return self._rows(Action.UPDATE)

    @property
    def deleted(self) -> int:
        """Target rows that would be deleted."""
        return self._rows(Action.DELETE)

    @property
    def inserted(self) -> int:
        """Rows that would be inserted."""
        return self._rows(Action.INSERT)

    @property
    def line(self) -> str:
        """The preview in one line."""
        changes = (("updated", self.updated), ("inserted", self.inserted), ("deleted", self.deleted))
        rows = ", ".join(f"{number:,} {word}" for word, number in changes if number)
        if not rows:
            return f"of version {self.version}: nothing would change"
        files = f"{self.touched_files:,} of {counted(self.funnel[0].files, 'file')} touched, {size_text(self.touched_bytes)}"
        return f"of version {self.version}: {rows}; {files}"

    def _page(self) -> Page:
        """What is shown of the preview."""
        clauses: list[View] = [
            sample_view(clause.clause, clause.rows, [(change.before, change.after) for change in clause.sample])
            for clause in self.clauses
        ]
        views = (*clauses, funnel_view(self.funnel)) if self.funnel else ()
        return Page("Preview", self.line, views)

    def to_dict(self) -> dict[str, Any]:
        """The preview as values that JSON has; the guide lists its keys."""
        found: dict[str, Any] = plain_json(asdict(self))
        rows = {name: getattr(self, name) for name in ("updated", "deleted", "inserted")}
        return {**found, "plan": str(self.plan), "rows": {"affected": sum(rows.values()), **rows}}

    def to_json(self) -> str:
        """`to_dict()` as JSON text."""
        return json_text(self.to_dict())

    def _rows(self, action: Action) -> int:
        return sum(clause.rows for clause in self.clauses if clause.action == action.value)


def preview(outcome: MergeOutcome) -> MergePreview:
    """The preview of a merge whose changed rows were counted."""
    work, logical = outcome.work, outcome.work.logical
    shown = [] if outcome.shown is None else plain_rows(outcome.shown)
    return MergePreview(
        explain(logical, outcome.ran.plan, work.files),
        logical.resolved.snapshot.version,
        outcome.ran.attempt.strategy.value,
        work.source.rows,
        tuple(_of_clause(work, clause, outcome.changed[clause.number], shown) for clause in logical.resolved.clauses),
        outcome.touched.num_rows,
        outcome.removed_bytes,
        work.files.funnel,
    )


def nothing_to_preview(plan: str, snapshot: Snapshot) -> MergePreview:
    """The preview of a merge whose transaction id is in the table already: it would do nothing."""
    return MergePreview(plan, snapshot.version, "", 0, (), 0, 0, ())


def _of_clause(work: Work, clause: ResolvedClause, rows: int, shown: Sequence[Row]) -> ClausePreview:
    sample = [row for row in shown if row[CLAUSE] == clause.number][:SAMPLE_ROWS]
    condition = f" AND {clause.condition.text}" if clause.condition is not None else ""
    return ClausePreview(
        f"WHEN {clause.kind.value}{condition} THEN {clause.action.name}",
        clause.action.value,
        rows,
        tuple(RowChange(_before(work, clause, row), _after(clause, row)) for row in sample),
    )


def _before(work: Work, clause: ResolvedClause, row: Row) -> Row | None:
    """A target row as it is: the columns of the search condition, and those that the clause assigns."""
    if row[FILE] is None:
        return None
    resolved = work.logical.resolved
    wanted = clause.assigned | set(resolved.scope.used([resolved.spec.condition], "target"))
    schema = resolved.snapshot.schema.select([name for name in resolved.snapshot.schema.names if name in wanted])
    spec = scan_spec(resolved.snapshot, schema, None, padded=pads_chars(work.spark, schema))
    with in_process():
        return row_at(spec, work.tasks[row[FILE]], row[ROW])


def _after(clause: ResolvedClause, row: Row) -> Row | None:
    if clause.action is Action.DELETE:
        return None
    return {value.column: row[value.column] for value in clause.values}
