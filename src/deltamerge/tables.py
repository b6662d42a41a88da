"""`DeltaTable` and its builders: names, arguments and behaviour of `delta.tables`, without a JAR.

Source of the behaviour: delta-spark's `delta.tables`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn, overload

from pyspark.sql import Column, DataFrame, SparkSession

from deltamerge.commands.rows.dml import delete_rows, update_rows
from deltamerge.commands.rows.merge_history import History, merge_history
from deltamerge.commands.table.describe import detail_table, frame_of, history_table
from deltamerge.errors import CorruptTableError, TableNotFoundError
from deltamerge.exceptions import catchable
from deltamerge.log.replay.table import DeltaLog
from deltamerge.merge.line import Progress
from deltamerge.merge.preview import MergePreview
from deltamerge.merge.report import MergeReport
from deltamerge.merge.run import explained, previewed, run_merge
from deltamerge.merge.statement.clauses import Action, Assignment, Clause, ClauseKind, Latest, MergeSpec, TxnId
from deltamerge.protocol.schema.types import StructType
from deltamerge.spark.expressions.analysis import parsed
from deltamerge.spark.expressions.expression import Expression, from_user
from deltamerge.spark.read.catalog import table_named
from deltamerge.spark.read.snapshot import snapshot_frame
from deltamerge.spark.session.storage import check_session, open_table
from deltamerge.spark.sql.text import name_parts_of
from deltamerge.upstream import SaysWhatIsMissing, missing

ExpressionOrColumn = str | Column
ColumnMapping = Mapping[str, ExpressionOrColumn]

__all__ = ["DeltaMergeBuilder", "DeltaTable", "MergePreview", "MergeReport"]


class DeltaTable(metaclass=SaysWhatIsMissing):
    """A Delta table. Make one with `forPath` or `forName`."""

    if not TYPE_CHECKING:  # a type checker must go on to refuse names that are not there

        def __getattr__(self, name: str) -> Any:
            raise missing(type(self), name, self)

    def __init__(
        self,
        spark: SparkSession,
        log: DeltaLog,
        alias: str | None = None,
        known_schema: StructType | None = None,
        name: tuple[str, ...] = (),
    ) -> None:
        self._spark = spark
        self._log = log
        self._alias = alias
        self._known_schema = known_schema
        self._name = name

    @classmethod
    @catchable
    def forPath(cls, sparkSession: SparkSession, path: str, hadoopConf: Mapping[str, str] | None = None) -> DeltaTable:
        """The table at `path`. Raises an AnalysisException when there is none.

        `hadoopConf` has credentials and endpoint of an object store, Hadoop's settings or options as of `deltamerge.read`.
        """
        log = open_table(sparkSession, path, hadoopConf)
        return cls(sparkSession, log, known_schema=log.snapshot().schema)

    @classmethod
    @catchable
    def forName(cls, sparkSession: SparkSession, tableOrViewName: str) -> DeltaTable:
        """The Delta table of this name in the session's catalog. Raises an AnalysisException when it is none.

        As long as it has no alias, expressions may qualify its columns by its name: `events.id`, `db.events.id`.
        """
        check_session(sparkSession)
        if not isinstance(tableOrViewName, str):
            raise TypeError(f"'tableOrViewName' in forName must be a string, found to be of type {type(tableOrViewName)!s}")
        found = table_named(sparkSession, name_parts_of(tableOrViewName) or (tableOrViewName,))
        log = open_table(sparkSession, found.location)
        return cls(sparkSession, log, known_schema=log.snapshot().schema, name=found.name)

    @classmethod
    @catchable
    def isDeltaTable(cls, sparkSession: SparkSession, identifier: str) -> bool:
        """Whether there is a Delta table at the path `identifier`."""
        try:
            open_table(sparkSession, identifier).snapshot()
        except TableNotFoundError:
            return False
        except CorruptTableError:
            return True
        return True

    def alias(self, aliasName: str) -> DeltaTable:
        """The same table under a name for use in expressions."""
        if aliasName is not None and not isinstance(aliasName, str):
            raise TypeError(f"'aliasName' in alias must be a string, found to be of type {type(aliasName)!s}")
        return DeltaTable(self._spark, self._log, aliasName, self._known_schema, self._name)

    @catchable
    def toDF(self) -> DataFrame:
        """The newest version as a lazy DataFrame."""
        frame = snapshot_frame(self._spark, self._log.snapshot())
        name = self._alias or "".join(self._name[-1:])
        return frame.alias(name) if name else frame

    @catchable
    def history(self, limit: int | None = None) -> DataFrame:
        """The commits, newest first, at most `limit` of them."""
        if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 0):
            raise ValueError(f"'limit' in history must be a whole number from 0, found {limit!r}")
        return frame_of(self._spark, history_table(self._log, limit))

    @catchable
    def detail(self) -> DataFrame:
        """One row: format, id, location, files, bytes, properties, protocol."""
        return frame_of(self._spark, detail_table(self._log.snapshot()))

    @catchable
    def delete(self, condition: ExpressionOrColumn | None = None) -> None:
        """Delete the rows for which `condition` is true, all of them without one."""
        found = None if condition is None else _expression(condition, "'condition'")
        delete_rows(self._spark, self._log, found, self._qualifier)

    @overload
    def update(self, condition: ExpressionOrColumn | None, set: ColumnMapping) -> None: ...
    @overload
    def update(self, *, set: ColumnMapping) -> None: ...
    @catchable
    def update(self, condition: ExpressionOrColumn | None = None, set: ColumnMapping | None = None) -> None:
        """Update the rows for which `condition` is true, all without one, by the rules of `set`."""
        assignments = _assignments(set, "'set' in update")
        found = None if condition is None else _expression(condition, "'condition'")
        update_rows(self._spark, self._log, assignments, found, self._qualifier)

    @catchable
    def merge(self, source: DataFrame, condition: ExpressionOrColumn) -> DeltaMergeBuilder:
        """Begin a merge of `source` into this table: rows match when `condition` is true."""
        if source is None:
            raise ValueError("'source' in merge cannot be None")
        if not isinstance(source, DataFrame):
            raise TypeError(f"Type of 'source' in merge must be DataFrame, found to be of type {type(source)!s}")
        if condition is None:
            raise ValueError("'condition' in merge cannot be None")
        found = _expression(condition, "'condition' in merge")
        spec = MergeSpec(source, found, (), self._qualifier, known_schema=self._known_schema)
        return DeltaMergeBuilder(self._spark, self._log, spec)

    @catchable
    def mergeHistory(
        self,
        source: DataFrame,
        keys: str | Sequence[str],
        effective: str,
        *,
        tracked: str | Sequence[str] | None = None,
        validFrom: str = "valid_from",
        validTo: str = "valid_to",
        current: str | None = None,
        ignoreLate: bool = False,
        closeMissing: ExpressionOrColumn | None = None,
    ) -> DataFrame:
        """Merge changes into a table that keeps each version of a row (a slowly changing dimension of type 2); as `execute()`.

        A version holds from `validFrom` until before `validTo`, which is null in the current one; `current`, if the table has
        such a column, is true there. The `effective` column of `source` says from when a row of it holds. Where the `tracked`
        columns, all but `keys` and `effective` by default, differ from those of the version before, that one is closed and the
        next one opened, in one commit; the source's other columns are written along. A key may have several changes.

        Keys that `source` lacks stay, or are closed at the time that `closeMissing` gives. Raises an exception for a
        null key or time, for different changes of a key at one time, and for a change that is not later than the versions
        in the table, unless `ignoreLate`. Runs again after a conflict as often as `spark.deltamerge.conflictRetries` says.
        """
        if not isinstance(source, DataFrame):
            raise TypeError(f"Type of 'source' in mergeHistory must be DataFrame, found to be of type {type(source)!s}")
        history = History(
            _names(keys),
            effective,
            None if tracked is None else _names(tracked),
            validFrom,
            validTo,
            current,
            ignoreLate,
            None if closeMissing is None else _expression(closeMissing, "'closeMissing' in mergeHistory"),
        )
        return merge_history(self._spark, self._log, source, history, self._known_schema).to_frame(self._spark)

    @property
    def _qualifier(self) -> tuple[str, ...]:
        """The parts of the name by which expressions may qualify columns; () for none."""
        return self._name if self._alias is None else (self._alias,)


class DeltaMergeBuilder:
    """Says what a merge does with matched and unmatched rows; each method returns a builder with one clause more."""

    def __init__(self, spark: SparkSession, log: DeltaLog, spec: MergeSpec) -> None:
        self._spark = spark
        self._log = log
        self._spec = spec

    @overload
    def whenMatchedUpdate(self, condition: ExpressionOrColumn | None, set: ColumnMapping) -> DeltaMergeBuilder: ...
    @overload
    def whenMatchedUpdate(self, *, set: ColumnMapping) -> DeltaMergeBuilder: ...
    @catchable
    def whenMatchedUpdate(
        self, condition: ExpressionOrColumn | None = None, set: ColumnMapping | None = None
    ) -> DeltaMergeBuilder:
        """Update a matched row by the rules of `set`, if `condition` is true for it."""
        return self._with(ClauseKind.MATCHED, Action.UPDATE, condition, _assignments(set, "'set' in whenMatchedUpdate"))

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
        assignments = _assignments(values, "'values' in whenNotMatchedInsert")
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
        assignments = _assignments(set, "'set' in whenNotMatchedBySourceUpdate")
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
        return self._as(latest=Latest(tuple(_expression(order, "'by' in keepLatest") for order in orders), _names(keys or ())))

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
    def run(self, progress: Progress | None = None) -> MergeReport:
        """Run the merge and report on it: version, metrics, pruning funnel. `progress` is told each step as it begins."""
        return run_merge(self._spark, self._log, self._spec, progress)

    @catchable
    def execute(self) -> DataFrame:
        """Run the merge; one row: num_affected_rows, num_updated_rows, num_deleted_rows, num_inserted_rows."""
        return run_merge(self._spark, self._log, self._spec).to_frame(self._spark)

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
        found = None if condition is None else _expression(condition, "'condition'")
        clause = Clause(kind, action, found, assignments, star)
        return self._as(clauses=(*self._spec.clauses, clause))

    def _as(self, **changes: Any) -> DeltaMergeBuilder:
        return DeltaMergeBuilder(self._spark, self._log, replace(self._spec, **changes))


def _expression(value: Any, argument: str) -> Expression:
    if not isinstance(value, str | Column):
        raise TypeError(
            f"{argument} must be a Spark SQL Column or a string (expression in SQL syntax), found to be of type {type(value)!s}"
        )
    return parsed(value, from_user)


def _names(names: str | Sequence[str]) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _assignments(values: ColumnMapping | None, argument: str) -> tuple[Assignment, ...]:
    if values is None:
        raise ValueError(f"{argument} cannot be None")
    if not isinstance(values, Mapping):
        raise TypeError(f"{argument} must be a dict, found to be {type(values)!s}")
    found = []
    for column, value in values.items():
        if not isinstance(column, str):
            _refuse(f"Keys of dict in {argument} must contain only strings with column names", column)
        if not isinstance(value, str | Column):
            kinds = "Spark SQL Columns or strings (expressions in SQL syntax)"
            _refuse(f"Values of dict in {argument} must contain only {kinds} as values", value)
        found.append(Assignment(column, _expression(value, argument)))
    return tuple(found)


def _refuse(message: str, value: object) -> NoReturn:
    raise TypeError(f"{message}, found '{value!s}' of type '{type(value)!s}'")
