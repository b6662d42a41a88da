"""Temporary views in the place of tables whose rows are to be changed. Source: delta-spark's DeltaViewHelper, and what it does.

A view will do that shows all rows and columns of a table's newest version, and nothing else. Where the plan of a view does not
say so for certain it is no table.
"""

from __future__ import annotations

from collections.abc import Sequence

from deltamerge.errors import AnalysisError
from deltamerge.log.replay.table import DeltaLog
from deltamerge.spark.expressions.queries import table_frame
from deltamerge.spark.plans.attributes import quoted
from deltamerge.spark.read.catalog import NamedTable, NotDelta, delta_named, sql_name, table_only
from deltamerge.spark.read.kept_views import aliased, kept_alias
from deltamerge.spark.read.snapshot import newest_frame
from deltamerge.spark.read.unread import ShownTable, shown_table
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.storage import open_table


def changed_named(spark: Session, name: Sequence[str]) -> NamedTable | NotDelta:
    """As `delta_named`, for a statement that changes rows: also the table that a temporary view of this name shows.

    Raises AnalysisError, also for a view that shows a part of a table or a version of it.
    """
    found = delta_named(spark, name)
    if isinstance(found, NamedTable) or not found.is_view:
        return found
    frame = table_frame(spark, sql_name(name))
    shown = shown_table(frame)
    if shown is None:
        return found
    if shown.version is not None:
        raise _refused(
            "DELTA_FAILED_SCAN_WITH_HISTORICAL_VERSION",
            f"Expect a full scan of the latest version of the Delta source, but the view {sql_name(name)} shows version "
            f"{shown.version} of {shown.url}.",
            name,
        )
    if shown.is_filtered or not shown.has_all_columns:
        part = "some rows" if shown.is_filtered else "some columns, or in another order,"
        raise _refused(
            "DELTA_UNEXPECTED_PARTIAL_SCAN",
            f"Expect a full scan of Delta sources, but the view {sql_name(name)} shows {part} of {shown.url}.",
            name,
        )
    _check_columns(spark, frame, shown, name)
    return NamedTable(shown.url, tuple(name), is_read_by_spark=False, is_view=True)


def changed_table(spark: Session, name: Sequence[str], operation: str) -> NamedTable:
    """As `changed_named`; raises AnalysisError for what is no Delta table, too."""
    found = changed_named(spark, name)
    if isinstance(found, NamedTable):
        return found
    raise table_only(name, found, operation)


def show_newest(spark: Session, found: NamedTable, table: DeltaLog) -> None:
    """Have a view by whose name its table was changed show what has become of the table; nothing to do for a table."""
    if not found.is_view:
        return
    shown = kept_alias(table_frame(spark, sql_name(found.name)))
    frame, view = aliased(newest_frame(spark, table.snapshot()), shown), quoted(found.name[-1])
    if len(found.name) == 1:
        frame.createOrReplaceTempView(view)
    else:
        frame.createOrReplaceGlobalTempView(view)


def _check_columns(spark: Session, frame: Frame, shown: ShownTable, name: Sequence[str]) -> None:
    columns = open_table(spark, shown.url).snapshot().schema.names
    if frame.columns == columns:
        return
    raise AnalysisError(
        "DELTA_SCHEMA_CHANGE_SINCE_ANALYSIS",
        f"The schema of {shown.url} has changed since the view {sql_name(name)} was made: it has the columns {frame.columns}, "
        f"the table has {columns}.",
        parameters={"view": sql_name(name)},
        hint="Make the view anew.",
    )


def _refused(condition: str, message: str, name: Sequence[str]) -> AnalysisError:
    hint = "Name the table itself, or a view of all of its newest version: SELECT * FROM table."
    return AnalysisError(condition, message, parameters={"view": sql_name(name)}, hint=hint)
