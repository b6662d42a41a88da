"""The builder of merges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, overload

from pyspark.sql import Column, DataFrame, SparkSession

from deltamerge.commands.rows.merge_rows import merge_rows
from deltamerge.display.shown import Shown
from deltamerge.display.views import Node, Page, Tree
from deltamerge.exceptions import catchable
from deltamerge.log.replay.table import DeltaLog
from deltamerge.merge.preview import MergePreview
from deltamerge.merge.report import MergeReport
from deltamerge.merge.run import explained, previewed
from deltamerge.merge.statement.clauses import Action, Assignment, Clause, ClauseKind, Latest, MergeSpec, TxnId
from deltamerge.progress.reporters import Reported, checked
from deltamerge.storage.location import location_text
from deltamerge.tables.arguments import ColumnMapping, ExpressionOrColumn, assignments_of, expression_of, names_of


class DeltaMergeBuilder(Shown):
    """Says what a merge does with matched and unmatched rows; each method returns a builder with one clause more."""

    def __init__(self, spark: SparkSession, log: DeltaLog, spec: MergeSpec) -> None:
        self._spark = spark
        self._log = log
        self._spec = spec

    def _page(self) -> Page:
        """What is shown of the merge: table, condition, clauses. Nothing runs."""
        clauses = tuple(Node(clause.text) for clause in self._spec.clauses) or (Node("no clause", "say what to do with rows"),)
        about = f"{location_text(self._log.store.url)} ON {self._spec.condition.text}"
        return Page("MERGE INTO", about, (Tree("Clauses", clauses),))

    @overload
    def whenMatchedUpdate(self, condition: ExpressionOrColumn | None, set: ColumnMapping) -> DeltaMergeBuilder: ...
    @overload
    def whenMatchedUpdate(self, *, set: ColumnMapping) -> DeltaMergeBuilder: ...
    @catchable
    def whenMatchedUpdate(
        self, condition: ExpressionOrColumn | None = None, set: ColumnMapping | None = None
    ) -> DeltaMergeBuilder:
        """Update a matched row by the rules of `set`, if `condition` is true for it."""
        return self._with(ClauseKind.MATCHED, Action.UPDATE, condition, assignments_of(set, "'set' in whenMatchedUpdate"))

    @catchable
    def whenMatchedUpdateAll(self, condition: ExpressionOrColumn | None = None) -> DeltaMergeBuilder:
        """Update all columns of a matched row from the source's columns of the same names."""
        return self._with(ClauseKind.MATCHED, Action.UPDATE, condition, star=True)

    @catchable
    def whenMatchedDelete(self, condition: ExpressionOrColumn | None = None) -> DeltaMergeBuilder:
        """Delete a matched row, if `condition` is true for it."""
        return self._with(ClauseKind.MATCHED, Action.DELETE, condition)

    @overload
    def whenNotMatchedInsert(self, condition: ExpressionOrColumn, values: ColumnMapping) -> DeltaMergeBuilder: ...
    @overload
    def whenNotMatchedInsert(self, *, values: ColumnMapping) -> DeltaMergeBuilder: ...
    @catchable
    def whenNotMatchedInsert(
        self, condition: ExpressionOrColumn | None = None, values: ColumnMapping | None = None
    ) -> DeltaMergeBuilder:
        """Insert a row for a source row without a match, by the rules of `values`."""
        assignments = assignments_of(values, "'values' in whenNotMatchedInsert")
        return self._with(ClauseKind.NOT_MATCHED, Action.INSERT, condition, assignments)

    @catchable
    def whenNotMatchedInsertAll(self, condition: ExpressionOrColumn | None = None) -> DeltaMergeBuilder:
        """Insert a source row without a match, each column by its name."""
        return self._with(ClauseKind.NOT_MATCHED, Action.INSERT, condition, star=True)

    @overload
    def whenNotMatchedBySourceUpdate(self, condition: ExpressionOrColumn | None, set: ColumnMapping) -> DeltaMergeBuilder: ...
    @overload
    def whenNotMatchedBySourceUpdate(self, *, set: ColumnMapping) -> DeltaMergeBuilder: ...
    @catchable
    def whenNotMatchedBySourceUpdate(
        self, condition: ExpressionOrColumn | None = None, set: ColumnMapping | None = None
    ) -> DeltaMergeBuilder:
        """Update a target row that no source row matches, by the rules of `set`."""
        assignments = assignments_of(set, "'set' in whenNotMatchedBySourceUpdate")
        return self._with(ClauseKind.BY_SOURCE, Action.UPDATE, condition, assignments)

    @catchable
    def whenNotMatchedBySourceDelete(self, condition: ExpressionOrColumn | None = None) -> DeltaMergeBuilder:
        """Delete a target row that no source row matches, if `condition` is true for it."""
        return self._with(ClauseKind.BY_SOURCE, Action.DELETE, condition)

    def withSchemaEvolution(self) -> DeltaMergeBuilder:
        """Columns and fields of the source that clauses assign, `updateAll` and `insertAll` included, are added to the table."""
        return DeltaMergeBuilder(self._spark, self._log, replace(self._spec, with_schema_evolution=True))

    @catchable
    def withTransaction(self, appId: str, version: int) -> DeltaMergeBuilder:
        """Merge at most once: a merge of this application and version, or a later one, is not run again.

        The pair is recorded in the merge's own commit, also when no row changes. Source: PROTOCOL.md, "Transaction
        Identifiers"; delta-spark reads the same pair from `spark.databricks.delta.write.txnAppId` and `..txnVersion`.
        """
        if not isinstance(appId, str) or not appId:
            raise TypeError(f"'appId' in withTransaction must be a string that is not empty, found {appId!r}")
        if not isinstance(version, int) or isinstance(version, bool):
            raise TypeError(f"'version' in withTransaction must be an int, found {version!r}")
        return self._as(txn_id=TxnId(appId, version))

    @catchable
    def keepLatest(
        self, by: ExpressionOrColumn | Sequence[ExpressionOrColumn], keys: Sequence[str] | None = None
    ) -> DeltaMergeBuilder:
        """Merge, of the source rows with equal keys, only those that come last in the order of `by`.

        Nulls come first. Rows that tie are all kept, so that a merge that can't tell which one to take says so. `keys`
        are source columns; without them they are the source columns that the search condition wants equal to target columns.
        """
        orders = [by] if isinstance(by, str | Column) else list(by)
        if not orders:
            raise ValueError("'by' in keepLatest cannot be empty")
        return self._as(
            latest=Latest(tuple(expression_of(order, "'by' in keepLatest") for order in orders), names_of(keys or ()))
        )

    @catchable
    def skipUnchanged(self) -> DeltaMergeBuilder:
        """Leave rows alone that an UPDATE clause would leave as they are: not written, not counted, not in the change feed.

        Values are told apart as `<=>` does; columns with maps always count as changed. Costs reading the assigned columns.
        """
        return self._as(skips_unchanged=True)

    @catchable
    def retryConflicts(self, times: int) -> DeltaMergeBuilder:
        """Run again on the newest version, with the same source, up to `times` times when another transaction conflicts.

        For sources that were not computed from the target: those would be out of date. The session's default is
        `spark.deltamerge.conflictRetries`, 0 unless it is set.
        """
        if not isinstance(times, int) or isinstance(times, bool) or times < 0:
            raise ValueError(f"'times' in retryConflicts must be a whole number from 0, found {times!r}")
        return self._as(retries=times)

    @catchable
    def preview(self) -> MergePreview:
        """What the merge would do to the newest version: rows per clause with samples, files and bytes touched, strategy.

        The source is evaluated and matched; nothing is written. Raises what the merge itself would raise for several
        source rows that modify one target row.
        """
        return previewed(self._spark, self._log, self._spec)

    @catchable
    def explain(self) -> str:
        """How the merge would run, without running anything: strategy, join, keys, columns, pruning."""
        return explained(self._spark, self._log, self._spec)

    @catchable
    def run(self, progress: Reported = None) -> MergeReport:
        """Run the merge and report on it: version, metrics, pruning funnel.

        `progress` is a function that is called with a `deltamerge.progress.Progress` as each step begins and while it runs, or
        False for no bar. Without it the merge reports as `deltamerge.progress.reporting` says.
        """
        return merge_rows(self._spark, self._log, self._spec, checked(progress, "'progress' in run"))

    @catchable
    def execute(self) -> DataFrame:
        """Run the merge; one row: num_affected_rows, num_updated_rows, num_deleted_rows, num_inserted_rows."""
        return merge_rows(self._spark, self._log, self._spec).to_frame(self._spark)

    def _with(
        self,
        kind: ClauseKind,
        action: Action,
        condition: ExpressionOrColumn | None,
        assignments: tuple[Assignment, ...] = (),
        star: bool = False,
    ) -> DeltaMergeBuilder:
        if action is Action.UPDATE and condition is None and not star and not assignments:
            return self  # as in delta.tables: a clause that would take every row and change none is no clause
        found = None if condition is None else expression_of(condition, "'condition'")
        clause = Clause(kind, action, found, assignments, star)
        return self._as(clauses=(*self._spec.clauses, clause))

    def _as(self, **changes: Any) -> DeltaMergeBuilder:
        return DeltaMergeBuilder(self._spark, self._log, replace(self._spec, **changes))
