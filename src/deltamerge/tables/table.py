"""`DeltaTable`: what can be asked of a table and done with it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import overload

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType as SparkStructType

from deltamerge.commands.features.drop import drop_feature
from deltamerge.commands.layout.manifests import check_mode, generate_manifests
from deltamerge.commands.layout.optimize import Optimize
from deltamerge.commands.layout.restore import restore_table, restored_frame
from deltamerge.commands.layout.vacuum import VacuumRequest, vacuum_table
from deltamerge.commands.rows.dml import delete_rows, update_rows
from deltamerge.commands.rows.merge_history import History, merge_history
from deltamerge.commands.table.clone import Clone, clone_table
from deltamerge.commands.table.convert import Convert, convert_table
from deltamerge.commands.table.create import Creation
from deltamerge.commands.table.describe import detail_page, detail_table, history_page, history_table
from deltamerge.commands.table.properties import add_feature, upgrade_protocol
from deltamerge.display.shown import Shown, shown_as
from deltamerge.display.views import Page
from deltamerge.errors import DeltaMergeError
from deltamerge.exceptions import catchable
from deltamerge.log.replay.commit_times import milliseconds
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.log.replay.table import DeltaLog
from deltamerge.merge.statement.clauses import MergeSpec
from deltamerge.protocol.schema.types import StructType
from deltamerge.spark.read.catalog import table_named
from deltamerge.spark.read.hidden_frames import knowing_frame
from deltamerge.spark.read.snapshot import newest_frame
from deltamerge.spark.session.rows import rows_frame
from deltamerge.spark.session.settings import time_zone
from deltamerge.spark.session.storage import check_session, open_table
from deltamerge.spark.sql.text import name_parts_of
from deltamerge.storage.location import location_text
from deltamerge.tables.arguments import (
    ColumnMapping,
    ExpressionOrColumn,
    assignments_of,
    check_clone,
    expression_of,
    names_of,
    partition_schema,
)
from deltamerge.tables.column_builder import DeltaColumnBuilder
from deltamerge.tables.merge_builder import DeltaMergeBuilder
from deltamerge.tables.optimize_builder import DeltaOptimizeBuilder
from deltamerge.tables.table_builder import DeltaTableBuilder

_SHOWN_COLUMNS = 50


class DeltaTable(Shown):
    """A Delta table. Make one with `forPath` or `forName`."""

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
        return open_table(sparkSession, identifier).exists()

    @classmethod
    @catchable
    def convertToDelta(
        cls, sparkSession: SparkSession, identifier: str, partitionSchema: str | SparkStructType | None = None
    ) -> DeltaTable:
        """Make a Delta table of the Parquet files of ``parquet.`path` `` or of a table of the catalog, and return it.

        `partitionSchema` has the columns in the names of the folders, in their order: "year int, day date". No data file is
        written; statistics are made of all files. A Delta table stays as it is. As delta-spark's CONVERT TO DELTA.
        Raises an AnalysisException for files and folders that are no such table.
        """
        check_session(sparkSession)
        if not isinstance(identifier, str):
            raise TypeError(f"'identifier' in convertToDelta must be a string, found to be of type {type(identifier)!s}")
        log, name = convert_table(
            sparkSession, Convert(name_parts_of(identifier) or (identifier,), partition_schema(partitionSchema))
        )
        return cls(sparkSession, log, known_schema=log.snapshot().schema, name=name)

    @classmethod
    def create(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder[DeltaTable]:
        """Begin to make a table; it must not be there."""
        return _builder(sparkSession, Creation.CREATE)

    @classmethod
    def createIfNotExists(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder[DeltaTable]:
        """Begin to make a table; one that is there stays as it is."""
        return _builder(sparkSession, Creation.CREATE_IF_NOT_EXISTS)

    @classmethod
    def replace(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder[DeltaTable]:
        """Begin to replace a table: its rows, columns, layout and properties. Its history stays."""
        return _builder(sparkSession, Creation.REPLACE)

    @classmethod
    def createOrReplace(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder[DeltaTable]:
        """Begin to make a table, or to replace the one that is there."""
        return _builder(sparkSession, Creation.CREATE_OR_REPLACE)

    @classmethod
    def columnBuilder(cls, sparkSession: SparkSession, colName: str) -> DeltaColumnBuilder:
        """Begin a column for `addColumns`."""
        return DeltaColumnBuilder(sparkSession, colName)

    def _page(self) -> Page:
        """What is shown of the table: files, size, properties, columns of the newest version. No job runs."""
        try:
            return detail_page(self._log.snapshot(), _SHOWN_COLUMNS)
        except DeltaMergeError as error:
            return Page("Table", f"{location_text(self._log.store.url)}: {error.detail}")

    def alias(self, aliasName: str) -> DeltaTable:
        """The same table under a name for use in expressions."""
        if aliasName is not None and not isinstance(aliasName, str):
            raise TypeError(f"'aliasName' in alias must be a string, found to be of type {type(aliasName)!s}")
        return DeltaTable(self._spark, self._log, aliasName, self._known_schema, self._name)

    @catchable
    def toDF(self) -> DataFrame:
        """The newest version as a lazy DataFrame."""
        frame = knowing_frame(self._spark, self._log.snapshot(), newest_frame, catchable)
        name = self._alias or "".join(self._name[-1:])
        return frame.alias(name) if name else frame

    @catchable
    def history(self, limit: int | None = None) -> DataFrame:
        """The commits, newest first, at most `limit` of them."""
        if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 0):
            raise ValueError(f"'limit' in history must be a whole number from 0, found {limit!r}")
        found = history_table(self._log, limit)
        return shown_as(rows_frame(self._spark, found), lambda: history_page(found, self._log.store.url))

    @catchable
    def detail(self) -> DataFrame:
        """One row: format, id, location, files, bytes, properties, protocol."""
        snapshot = self._log.snapshot()
        return shown_as(rows_frame(self._spark, detail_table(snapshot)), lambda: detail_page(snapshot, _SHOWN_COLUMNS))

    @catchable
    def delete(self, condition: ExpressionOrColumn | None = None) -> None:
        """Delete the rows for which `condition` is true, all of them without one."""
        found = None if condition is None else expression_of(condition, "'condition'")
        delete_rows(self._spark, self._log, found, self._qualifier)

    @overload
    def update(self, condition: ExpressionOrColumn | None, set: ColumnMapping) -> None: ...
    @overload
    def update(self, *, set: ColumnMapping) -> None: ...
    @catchable
    def update(self, condition: ExpressionOrColumn | None = None, set: ColumnMapping | None = None) -> None:
        """Update the rows for which `condition` is true, all without one, by the rules of `set`."""
        assignments = assignments_of(set, "'set' in update")
        found = None if condition is None else expression_of(condition, "'condition'")
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
        found = expression_of(condition, "'condition' in merge")
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
            names_of(keys),
            effective,
            None if tracked is None else names_of(tracked),
            validFrom,
            validTo,
            current,
            ignoreLate,
            None if closeMissing is None else expression_of(closeMissing, "'closeMissing' in mergeHistory"),
        )
        return merge_history(self._spark, self._log, source, history, self._known_schema).to_frame(self._spark)

    @catchable
    def optimize(self) -> DeltaOptimizeBuilder:
        """Begin an OPTIMIZE: `.where(partitionFilter)`, then `.executeCompaction()` or `.executeZOrderBy(*cols)`."""
        return DeltaOptimizeBuilder(self._spark, self._log, Optimize())

    @catchable
    def restoreToVersion(self, version: int) -> DataFrame:
        """Make a new version that has the rows, the schema and the properties of an older one.

        One row: table_size_after_restore, num_of_files_after_restore, num_removed_files, num_restored_files,
        removed_files_size, restored_files_size; sizes in bytes. No row where `version` is the newest one.
        Raises AnalysisException for a version that is not there or older than removed files are kept, IllegalArgumentException
        when data files are gone. As delta-spark's RESTORE.
        """
        if not isinstance(version, int) or isinstance(version, bool):
            raise ValueError(f"version needs to be an int but got '{type(version)!s}'.")
        return restored_frame(self._spark, restore_table(self._spark, self._log, version=version))

    @catchable
    def restoreToTimestamp(self, timestamp: str) -> DataFrame:
        """As `restoreToVersion`, with the version that was the newest at a time such as '2024-01-31 12:00:00'."""
        if not isinstance(timestamp, str):
            raise ValueError(f"timestamp needs to be a string but got '{type(timestamp)!s}'.")
        found = milliseconds(timestamp, time_zone(self._spark))
        return restored_frame(self._spark, restore_table(self._spark, self._log, timestamp=found))

    @catchable
    def vacuum(self, retentionHours: float | None = None) -> DataFrame:
        """Delete files that no version of the last `retentionHours` needs, `delta.deletedFileRetentionDuration` without them.

        What was written within that time is never deleted. Empty folders as old are deleted, too. Returns a frame without rows
        and columns. Raises IllegalArgumentException for a time that is negative, or shorter than the table's while
        `spark.databricks.delta.retentionDurationCheck.enabled` is true. As delta-spark's VACUUM.
        """
        try:
            hours = None if retentionHours is None else float(retentionHours)
        except (TypeError, ValueError):
            hours = math.nan
        if hours is not None and not math.isfinite(hours):
            raise ValueError(f"'retentionHours' in vacuum must be a number of hours, found {retentionHours!r}") from None
        vacuum_table(self._spark, self._log, VacuumRequest(hours))
        return self._spark.createDataFrame([], SparkStructType([]))

    @catchable
    def generate(self, mode: str) -> None:
        """Write manifests for engines that read no Delta log; `mode` is "symlink_format_manifest".

        Raises IllegalArgumentException for another mode, UnsupportedOperationException for a table with column mapping or with
        deletion vectors. As delta-spark's GENERATE.
        """
        if not isinstance(mode, str):
            raise TypeError(f"'mode' in generate must be a string, found to be of type {type(mode)!s}")
        check_mode(mode)
        generate_manifests(self._log)

    @catchable
    def upgradeTableProtocol(self, readerVersion: int, writerVersion: int) -> None:
        """Raise the versions of the table's protocol. Raises an AnalysisException for lower ones."""
        for value, name in ((readerVersion, "readerVersion"), (writerVersion, "writerVersion")):
            if not isinstance(value, int):
                raise ValueError(f"The {name} needs to be an integer but got '{type(value)}'.")
        upgrade_protocol(self._spark, self._log, readerVersion, writerVersion)

    @catchable
    def addFeatureSupport(self, featureName: str) -> None:
        """Have the table's protocol support a feature. Raises an AnalysisException for one that is not known."""
        if not isinstance(featureName, str):
            raise ValueError(f"featureName needs to be a string but got '{type(featureName)}'.")
        add_feature(self._spark, self._log, featureName)

    @catchable
    def dropFeatureSupport(self, featureName: str, truncateHistory: bool | None = None) -> None:
        """Remove a feature from the table's protocol: `checkConstraints`. Raises an AnalysisException for others."""
        if not isinstance(featureName, str):
            raise ValueError(f"featureName needs to be a string but got '{type(featureName)}'.")
        if truncateHistory is not None and not isinstance(truncateHistory, bool):
            raise ValueError(f"truncateHistory needs to be a boolean but got '{type(truncateHistory)}'.")
        drop_feature(self._spark, self._log, featureName, bool(truncateHistory))

    @catchable
    def clone(
        self, target: str, isShallow: bool = False, replace: bool = False, properties: Mapping[str, str] | None = None
    ) -> DeltaTable:
        """Make a shallow clone: a table at `target`, a path or a name, whose files are those of this one. Returns it.

        Raises ValueError for arguments of another type, an AnalysisException for a deep clone and a target that can't be.
        """
        return self._cloned(self._log.snapshot(), target, isShallow, replace, properties)

    @catchable
    def cloneAtVersion(
        self,
        version: int,
        target: str,
        isShallow: bool = False,
        replace: bool = False,
        properties: Mapping[str, str] | None = None,
    ) -> DeltaTable:
        """As `clone`, of a version."""
        if not isinstance(version, int):
            raise ValueError(f"version needs to be an int but got '{type(version)}'.")
        return self._cloned(self._log.snapshot(version), target, isShallow, replace, properties)

    @catchable
    def cloneAtTimestamp(
        self,
        timestamp: str,
        target: str,
        isShallow: bool = False,
        replace: bool = False,
        properties: Mapping[str, str] | None = None,
    ) -> DeltaTable:
        """As `clone`, of the version that was the newest at a time."""
        if not isinstance(timestamp, str):
            raise ValueError(f"timestamp needs to be a string but got '{type(timestamp)}'.")
        moment = milliseconds(timestamp, time_zone(self._spark))
        return self._cloned(self._log.snapshot(timestamp=moment), target, isShallow, replace, properties)

    def _cloned(
        self, source: Snapshot, target: str, is_shallow: bool, replace: bool, properties: Mapping[str, str] | None
    ) -> DeltaTable:
        check_clone(target, is_shallow, replace, properties)
        is_path = target.startswith("/") or ":" in target
        parts = ("delta", target) if is_path else name_parts_of(target) or (target,)
        name = ".".join(self._name) if self._name else f"delta.`{self._log.store.url}`"
        log, _ = clone_table(self._spark, Clone(source, name, parts, properties=properties or {}, replaces=replace))
        return DeltaTable(self._spark, log, known_schema=log.snapshot().schema, name=() if parts[0].lower() == "delta" else parts)

    @property
    def _qualifier(self) -> tuple[str, ...]:
        """The parts of the name by which expressions may qualify columns; () for none."""
        return self._name if self._alias is None else (self._alias,)


def _builder(spark: SparkSession | None, creation: Creation) -> DeltaTableBuilder[DeltaTable]:
    found = SparkSession.getActiveSession() if spark is None else spark
    if found is None:
        raise ValueError("There is no active SparkSession: pass one.")

    def opened(log: DeltaLog, name: tuple[str, ...]) -> DeltaTable:
        return DeltaTable(found, log, known_schema=log.snapshot().schema, name=name)

    return DeltaTableBuilder(found, creation, opened)
