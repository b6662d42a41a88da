"""What every attempt of a merge works on, and what it may come to."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pyarrow as pa

from deltamerge.budgets import Budgets
from deltamerge.merge.plan.logical import LogicalPlan
from deltamerge.merge.plan.program import Program, compile_clauses
from deltamerge.merge.plan.prune import FileFacts
from deltamerge.merge.statement.clauses import ClauseKind
from deltamerge.progress.value import Amount
from deltamerge.protocol.table.row_tracking import tracking_columns
from deltamerge.spark.session.data_files import file_options
from deltamerge.spark.session.frames import Session
from deltamerge.spark.session.settings import limits_texts, time_zone
from deltamerge.spark.source.facts import Source
from deltamerge.spark.stages.target import file_tasks, write_spec
from deltamerge.worker.scan.scan import FileTask
from deltamerge.worker.write.feed import change_file_spec
from deltamerge.worker.write.rewrite import ChangeSpec
from deltamerge.worker.write.tracking import tracking_spec


@dataclass(frozen=True)
class Work:
    """A merge whose source is evaluated: `tasks` read its files, and `change` says what becomes of changed rows."""

    spark: Session = field(repr=False)
    logical: LogicalPlan
    source: Source
    files: FileFacts
    tasks: tuple[FileTask, ...] = field(repr=False)
    change: ChangeSpec = field(repr=False)
    budgets: Budgets = field(repr=False)

    @property
    def description(self) -> str:
        """What the jobs that write are called."""
        verb = "merge into" if self.change.sample is None else "preview a merge into"
        return f"deltamerge: {verb} {self.logical.resolved.snapshot.store.url}"

    @property
    def amount(self) -> Amount:
        """The files that are left, and their rows as far as they are known."""
        return Amount(self.files.count, self.files.bytes, sum(task.rows or 0 for task in self.tasks))

    def with_program(self, program: Program) -> Work:
        """The same merge by another programme."""
        change = replace(self.change, clauses=program.actions)
        return replace(self, logical=replace(self.logical, program=program), change=change)

    @property
    def with_original_clauses(self) -> Work | None:
        """The merge by its clauses as they were given; None where MATCHED ones are, or several matches of a row don't matter."""
        resolved = self.logical.resolved
        original = resolved.original_clauses
        pairs = zip(resolved.original_of(ClauseKind.MATCHED), resolved.of(ClauseKind.MATCHED), strict=True)
        if original is None or self.logical.ignores_duplicate_matches or all(one is other for one, other in pairs):
            return None
        resolved = replace(resolved, clauses=original, original_clauses=None)
        return replace(self, logical=replace(self.logical, resolved=resolved)).with_program(compile_clauses(resolved))


@dataclass(frozen=True)
class Changed:
    """What an attempt came to: the result rows of what became of changed rows. `scan_ms` is how long the matches took to find, 0
    where they are found and written in one.
    """

    result: pa.Table = field(repr=False)
    scan_ms: int = 0


def work_on(
    spark: Session, logical: LogicalPlan, source: Source, files: FileFacts, budgets: Budgets, sample: int | None = None
) -> Work:
    """The work of a merge. With a `sample` nothing is written: rows are counted, and so many of each clause shown."""
    snapshot, after = logical.resolved.snapshot, logical.resolved.after
    columns = None if logical.only_inserts else tracking_columns(snapshot.protocol, snapshot.metadata)
    counted = files.counted_rows
    tasks = file_tasks(snapshot, files.table, time_zone(spark), counted, tracked=columns is not None)
    written = write_spec(after, budgets, limits_texts(spark, after.schema), file_options(spark, after.properties))
    # Where the merge changes a partition column's type, its values are written otherwise than they are read.
    rewritten = tasks
    if after.partition_schema != snapshot.partition_schema:
        rewritten = file_tasks(after, files.table, time_zone(spark), counted, tracked=columns is not None)
    change = ChangeSpec(
        written if columns is None else tracking_spec(written, columns),
        logical.program.actions,
        {task.file: task for task in rewritten},
        logical.ignores_duplicate_matches,
        logical.rewrite_share,
        change_file_spec(written) if logical.feed else None,
        sample=sample,
    )
    return Work(spark, logical, source, files, tuple(tasks), change, budgets)
