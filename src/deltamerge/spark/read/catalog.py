"""Tables by name: through the session's catalog, or as delta.`path`. This library reads Delta tables itself, Spark all others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from deltamerge.errors import AnalysisError, DeltaMergeError, TableNotFoundError
from deltamerge.spark.expressions.queries import NO_SOURCE, asking, table_frame
from deltamerge.spark.plans.attributes import quoted
from deltamerge.spark.pyspark.plain import plain_sql
from deltamerge.spark.read.listing import Listed, described, pattern, shown
from deltamerge.spark.read.travel import table_at
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.storage import open_table

CATALOG = "spark_catalog"
_HINT = "Name a Delta table of the session's catalog, or a path as delta.`path`."


@dataclass(frozen=True)
class NamedTable:
    """Where a Delta table lies, and all parts of its name: its columns are qualified by them.

    Whether this session's Spark has what it needs to read it, whether the catalog deletes the folder with the table, and whether
    the name is that of a temporary view that shows the table.
    """

    location: str
    name: tuple[str, ...]
    is_read_by_spark: bool
    is_managed: bool = False
    is_view: bool = False


@dataclass(frozen=True)
class NotDelta:
    """Why a name is no Delta table's, and what to name instead; whether it is a view, or another format's over a Delta table's
    files.
    """

    reason: str
    hint: str
    is_over_delta: bool = False
    is_view: bool = False


def table_named(spark: Session, name: Sequence[str]) -> NamedTable:
    """The Delta table of this name: delta.`path`, or a table of the catalog. Raises TableNotFoundError for any other name."""
    try:
        found = delta_named(spark, name)
    except AnalysisError as error:
        found = NotDelta(error.detail, error.hint or _HINT)
    if isinstance(found, NamedTable):
        return found
    raise TableNotFoundError(
        "DELTA_MISSING_DELTA_TABLE",
        f"{sql_name(name)} is not a Delta table: {found.reason}",
        parameters={"tableName": sql_name(name)},
        hint=found.hint,
    )


def target_named(spark: Session, name: Sequence[str], operation: str) -> NamedTable:
    """The Delta table of this name, for an operation as SQL names it. Raises AnalysisError for what is none or is not there."""
    found = delta_named(spark, name)
    if isinstance(found, NamedTable):
        return found
    raise table_only(name, found, operation)


def table_only(name: Sequence[str], found: NotDelta, operation: str) -> AnalysisError:
    """The error for an operation, as SQL names it, on what is no Delta table."""
    return AnalysisError(
        "DELTA_TABLE_ONLY_OPERATION",
        f"{sql_name(name)} is not a Delta table: {found.reason} {operation} is only supported for Delta tables.",
        parameters={"tableName": sql_name(name), "operation": operation},
        hint=found.hint,
    )


def delta_named(spark: Session, name: Sequence[str]) -> NamedTable | NotDelta:
    """The Delta table of this name, or why it is a view's or another format's. Raises AnalysisError for what is not there."""
    if is_path(name):
        return NamedTable(name[1], (CATALOG, *name), is_read_by_spark=False)
    found = listed_table(spark, name)
    if found.is_delta and found.location is not None:
        return NamedTable(found.location, found.name, found.is_read_by_spark, found.is_managed)
    if found.is_view:
        return NotDelta("it is a view.", _HINT, is_view=True)
    if found.location is None or not _is_delta_folder(spark, found.location):
        return NotDelta(f"the catalog has it as a table of the format {found.provider or 'hive'}.", _HINT)
    return NotDelta(
        f"the catalog has it as {found.provider}, though a Delta table lies at {found.location}.",
        f"Name the Delta table by its path, delta.`{found.location}`, or create it in the catalog USING delta.",
        is_over_delta=True,
    )


def source_named(spark: Session, name: Sequence[str]) -> NamedTable | None:
    """The Delta table of this name; None for what is none, or is not there: Spark's query says which.

    Raises AnalysisError for another format's table over a Delta table's files: it would have the rows of all versions.
    """
    try:
        found = delta_named(spark, name)
    except AnalysisError:
        return None
    if isinstance(found, NotDelta) and found.is_over_delta:
        raise AnalysisError(
            "DELTA_INVALID_FORMAT",
            f"{sql_name(name)} can't be read: {found.reason} It would have rows that were deleted.",
            parameters={"tableName": sql_name(name)},
            hint=found.hint,
        )
    return found if isinstance(found, NamedTable) else None


def named_frame(spark: Session, name: Sequence[str]) -> tuple[Frame, tuple[str, ...]]:
    """The rows of a table or view by name, and the name that qualifies its columns; () for what Spark reads, whose frame has it.

    Raises AnalysisError.
    """
    found = source_named(spark, name)
    if found is None:
        return table_frame(spark, sql_name(name)), ()
    return table_at(spark, found.location), found.name


def is_path(name: Sequence[str]) -> bool:
    """Whether a name is delta.`path`."""
    return len(name) == 2 and name[0].lower() == "delta"


def sql_name(name: Sequence[str]) -> str:
    """A name as SQL text, each part between backquotes."""
    return ".".join(map(quoted, name))


def listed_table(spark: Session, name: Sequence[str]) -> Listed:
    """What the catalog says of a table or view. Raises AnalysisError when it is not there, or nothing can be told of it."""
    try:
        with asking(spark):
            found = described(name, plain_sql(spark, f"DESCRIBE TABLE EXTENDED {sql_name(name)}").collect())
    except AnalysisError as error:
        instead = _shown(spark, name) if error.condition == NO_SOURCE else None
        if instead is None:
            raise
        return instead
    if found.is_view or found.location is not None:
        return found
    # Of a format that is written in Python Spark's description says neither its name nor where the table lies.
    return replace(_shown(spark, name) or found, is_read_by_spark=True)


def _shown(spark: Session, name: Sequence[str]) -> Listed | None:
    """What the catalog says of a table where describing it fails or says too little: listing it needs no format.

    None where the catalog can't list it, or lists what can't be told apart.
    """
    within = f" IN {sql_name(name[:-1])}" if len(name) > 1 else ""
    try:
        with asking(spark):
            rows = plain_sql(spark, f"SHOW TABLE EXTENDED{within} LIKE '{pattern(name[-1])}'").collect()
    except AnalysisError:
        return None
    return shown(name, [row.asDict() for row in rows])


def _is_delta_folder(spark: Session, location: str) -> bool:
    try:
        return open_table(spark, location).exists()
    except DeltaMergeError:  # a place that this library can't read: Spark may
        return False
