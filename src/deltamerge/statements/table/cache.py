"""`REFRESH TABLE`, `UNCACHE TABLE` and `CACHE TABLE` of Delta tables that this library reads.

Each reading begins with the newest version, and Spark keeps no rows of a table by its name: there is nothing to refresh. Rows may
be kept by a frame of one version, `spark.table(name).cache()`.
"""

from __future__ import annotations

from dataclasses import dataclass

from deltamerge.errors import AnalysisError
from deltamerge.spark.read.catalog import NamedTable, delta_named, is_path
from deltamerge.spark.read.travel import table_at
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.rows import no_rows
from deltamerge.spark.sql.reader import Reader
from deltamerge.statements.clauses import any_name
from deltamerge.statements.statement import Statement

_MISSING = ("DELTA_TABLE_NOT_FOUND", "DELTA_MISSING_DELTA_TABLE")


def newest_frame(spark: Session, name: tuple[str, ...]) -> Frame | None:
    """The newest version of the Delta table of a name, if Spark lacks its format; None for all else. Raises AnalysisError."""
    try:
        found = delta_named(spark, name)
    except AnalysisError:  # Spark says what is wrong
        return None
    if not isinstance(found, NamedTable) or found.is_read_by_spark:
        return None
    return table_at(spark, found.location)


def not_cached(name: tuple[str, ...]) -> AnalysisError:
    """The error for rows of a table that Spark should keep by its name: they would be read after the table has changed."""
    return AnalysisError(
        "DELTAMERGE_UNSUPPORTED_STATEMENT",
        "CACHE TABLE is not supported for a Delta table that Spark can't read itself.",
        parameters={"statement": "CACHE TABLE", "tableName": ".".join(name)},
        hint="Keep the rows of one version, and use that frame: df = spark.table(name).cache().",
    )


@dataclass(frozen=True, slots=True)
class Refresh:
    """A table whose newest version is to be read, which is always so; `forgets` the rows that a frame of it keeps.

    With `if_exists` there may be none.
    """

    name: tuple[str, ...]
    forgets: bool = False
    if_exists: bool = False

    def run(self, spark: Session) -> Frame | None:
        """No rows; None for what is no Delta table. Raises AnalysisError where none lies at the path, or at the table's place."""
        try:
            found = newest_frame(spark, self.name)
        except AnalysisError as error:
            if self.if_exists and error.condition in _MISSING:
                return no_rows(spark)
            raise
        if found is None:
            return None
        if self.forgets:
            found.unpersist()
        return no_rows(spark)


@dataclass(frozen=True, slots=True)
class CacheTable:
    """A table whose rows Spark should keep."""

    name: tuple[str, ...]

    def run(self, spark: Session) -> Frame | None:
        """None for what is no Delta table. Raises AnalysisError for one."""
        if is_path(self.name) or newest_frame(spark, self.name) is not None:
            raise not_cached(self.name)
        return None


def parse_refresh(reader: Reader) -> Statement:
    """What follows REFRESH TABLE. Raises ParseError."""
    name = any_name(reader)
    reader.end()
    return Refresh(name)


def parse_uncache(reader: Reader) -> Statement:
    """What follows UNCACHE TABLE. Raises ParseError."""
    if_exists = reader.take("IF")
    if if_exists:
        reader.expect("EXISTS")
    name = any_name(reader)
    reader.end()
    return Refresh(name, forgets=True, if_exists=if_exists)


def parse_cache(reader: Reader) -> Statement | None:
    """What follows CACHE [LAZY] TABLE; None where a query follows the name, which is a view's. Raises ParseError."""
    name = any_name(reader)
    if reader.take("OPTIONS"):
        reader.enclosed()
    return CacheTable(name) if reader.done or reader.sees(";") else None
