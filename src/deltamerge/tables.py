"""`DeltaTable` and its builders: names, arguments and behaviour of `delta.tables`, without a JAR.

Source of the behaviour: delta-spark's `delta.tables`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NoReturn, overload

from pyspark.errors import ParseException
from pyspark.sql import Column, DataFrame, SparkSession

from deltamerge.commands.describe import detail_table, frame_of, history_table
from deltamerge.commands.dml import delete_rows, update_rows
from deltamerge.errors import CorruptTableError, TableNotFoundError
from deltamerge.exceptions import catchable
from deltamerge.log.table import DeltaLog
from deltamerge.merge.clauses import Action, Assignment, Clause, MergeSpec, Side
from deltamerge.merge.report import MergeReport
from deltamerge.merge.run import Progress, planned, run_merge
from deltamerge.spark.analysis import syntax_error
from deltamerge.spark.catalog import location_of
from deltamerge.spark.expression import Expression, from_user
from deltamerge.spark.reading import snapshot_frame
from deltamerge.spark.sqltext import name_parts_of
from deltamerge.spark.storage import open_table

ExpressionOrColumn = str | Column
ColumnMapping = Mapping[str, ExpressionOrColumn]

__all__ = ["DeltaMergeBuilder", "DeltaTable", "MergeReport"]


class DeltaTable:
    """A Delta table. Make one with `forPath` or `forName`."""

    def __init__(self, spark: SparkSession, log: DeltaLog, alias: str | None = None) -> None:
        self._spark = spark
        self._log = log
        self._alias = alias

    @classmethod
    @catchable
    def forPath(cls, sparkSession: SparkSession, path: str, hadoopConf: Mapping[str, str] | None = None) -> DeltaTable:
        """The table at `path`. Raises an AnalysisException when there is none.

        `hadoopConf` has credentials and endpoint of an object store, Hadoop's settings or options as of `deltamerge.read`.
        """
        log = open_table(sparkSession, path, hadoopConf)
        log.snapshot()
        return cls(sparkSession, log)

    @classmethod
    @catchable
    def forName(cls, sparkSession: SparkSession, tableOrViewName: str) -> DeltaTable:
        """The Delta table of this name in the session's catalog. Raises an AnalysisException when it is none."""
        return cls.forPath(sparkSession, location_of(sparkSession, name_parts_of(tableOrViewName) or (tableOrViewName,)))

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
        return DeltaTable(self._spark, self._log, aliasName)

    @catchable
    def toDF(self) -> DataFrame:
        """The newest version as a lazy DataFrame."""
        frame = snapshot_frame(self._spark, self._log.snapshot())
        return frame.alias(self._alias) if self._alias else frame

    @catchable
    def history(self, limit: int | None = None) -> DataFrame:
        """The commits, newest first, at most `limit` of them."""
        return frame_of(self._spark, history_table(self._log, limit))

    @catchable
    def detail(self) -> DataFrame:
        """One row: format, id, location, files, bytes, properties, protocol."""
        return frame_of(self._spark, detail_table(self._log.snapshot()))

    @catchable
    def delete(self, condition: ExpressionOrColumn | None = None) -> None:
        """Delete the rows for which `condition` is true, all of them without one."""
        delete_rows(self._spark, self._log, None if condition is None else _expression(condition, "'condition'"), self._alias)

    @overload
    def update(self, condition: ExpressionOrColumn | None, set: ColumnMapping) -> None: ...
    @overload
    def update(self, *, set: ColumnMapping) -> None: ...
    @catchable
    def update(self, condition: ExpressionOrColumn | None = None, set: ColumnMapping | None = None) -> None:
        """Update the rows for which `condition` is true, all without one, by the rules of `set`."""
        assignments = _assignments(set, "'set' in update")
        found = None if condition is None else _expression(condition, "'condition'")
        update_rows(self._spark, self._log, assignments, found, self._alias)

    @catchable
    def merge(self, source: DataFrame, condition: ExpressionOrColumn) -> DeltaMergeBuilder:
        """Begin a merge of `source` into this table: rows match when `condition` is true."""
        if source is None:
            raise ValueError("'source' in merge cannot be None")
        if not isinstance(source, DataFrame):
            raise TypeError(f"'source' in merge must be a DataFrame, found to be of type {type(source)!s}")
        if condition is None:
            raise ValueError("'condition' in merge cannot be None")
        spec = MergeSpec(source, _expression(condition, "'condition' in merge"), (), self._alias)
        return DeltaMergeBuilder(self._spark, self._log, spec)


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
        return self._with(Side.MATCHED, Action.UPDATE, condition, _assignments(set, "'set' in whenMatchedUpdate"))

    @catchable
    def whenMatchedUpdateAll(self, condition: ExpressionOrColumn | None = None) -> DeltaMergeBuilder:
        """Update all columns of a matched row from the source's columns of the same names."""
        return self._with(Side.MATCHED, Action.UPDATE, condition, star=True)

    @catchable
    def whenMatchedDelete(self, condition: ExpressionOrColumn | None = None) -> DeltaMergeBuilder:
        """Delete a matched row, if `condition` is true for it."""
        return self._with(Side.MATCHED, Action.DELETE, condition)

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
        return self._with(Side.NOT_MATCHED, Action.INSERT, condition, assignments)

    @catchable
    def whenNotMatchedInsertAll(self, condition: ExpressionOrColumn | None = None) -> DeltaMergeBuilder:
        """Insert a source row without a match, each column by its name."""
        return self._with(Side.NOT_MATCHED, Action.INSERT, condition, star=True)

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
        return self._with(Side.BY_SOURCE, Action.UPDATE, condition, assignments)

    @catchable
    def whenNotMatchedBySourceDelete(self, condition: ExpressionOrColumn | None = None) -> DeltaMergeBuilder:
        """Delete a target row that no source row matches, if `condition` is true for it."""
        return self._with(Side.BY_SOURCE, Action.DELETE, condition)

    @catchable
    def explain(self) -> str:
        """How the merge would run, without running anything: strategy, join, keys, columns, pruning."""
        return planned(self._spark, self._log, self._spec).explain()

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
        side: Side,
        action: Action,
        condition: ExpressionOrColumn | None,
        assignments: tuple[Assignment, ...] = (),
        star: bool = False,
    ) -> DeltaMergeBuilder:
        found = None if condition is None else _expression(condition, "'condition'")
        clause = Clause(side, action, found, assignments, star)
        return DeltaMergeBuilder(self._spark, self._log, replace(self._spec, clauses=(*self._spec.clauses, clause)))


def _expression(value: Any, argument: str) -> Expression:
    if not isinstance(value, str | Column):
        raise TypeError(
            f"{argument} must be a Spark SQL Column or a string (expression in SQL syntax), found to be of type {type(value)!s}"
        )
    try:
        return from_user(value)
    except ParseException as error:
        raise syntax_error(str(value), error) from error


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
