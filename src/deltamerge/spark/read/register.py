"""Delta tables put into the session's catalog under a name, also where this session's Spark does not know the format.

A catalog takes a table of a format that the session knows. A session of its own, which shares the catalog, is told of a format
of this name that does nothing: who reads the table by its name asks this library, or has delta-spark's JAR.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from urllib.parse import unquote
from weakref import WeakKeyDictionary

from pyspark.sql import types as T

from deltamerge.errors import AnalysisError, DeltaMergeError
from deltamerge.protocol.schema.types import StructType
from deltamerge.spark.expressions.queries import NO_SOURCE, asking
from deltamerge.spark.pyspark.adapter import another_session
from deltamerge.spark.pyspark.older import refuse_older
from deltamerge.spark.pyspark.plain import plain_reader, plain_sql
from deltamerge.spark.read.catalog import sql_name
from deltamerge.spark.read.listing import pattern
from deltamerge.spark.session.frames import Session
from deltamerge.spark.session.schema import nullable_schema

# On Spark Connect each takes a request to make, and has to be closed.
_OTHERS: WeakKeyDictionary[Session, Session] = WeakKeyDictionary()
# That session knows one format at a time: what it is told of the columns of one thread's table is not for another thread's.
_TELLING = Lock()
_NO_COLUMNS = StructType(())
_HINT = "Give the table's location and use it by its path, as delta.`path`."


@dataclass(frozen=True, slots=True)
class Registrar:
    """The session by which the catalog takes Delta tables; whether this library tells it what the format is."""

    session: Session
    is_told: bool = False


def whole_name(spark: Session, name: Sequence[str]) -> tuple[str, ...]:
    """The name with its database; Spark's session catalog is the only one that has tables of this library.

    Raises AnalysisError for a name in another one.
    """
    found = tuple(name)
    if len(found) == 1:
        return (str(spark.catalog.currentDatabase()), *found)
    if len(found) == 3 and found[0].lower() == "spark_catalog":
        return found[1:]
    if len(found) == 2:
        return found
    raise AnalysisError(
        "DELTA_OPERATION_NOT_ALLOWED",
        f"Operation not allowed: {sql_name(found)} is no name in Spark's session catalog.",
        parameters={"operation": sql_name(found)},
        hint=_HINT,
    )


def is_listed(spark: Session, name: Sequence[str]) -> bool:
    """Whether the catalog has a table or view of this name, of whatever format. Raises AnalysisError for no database."""
    database, table = whole_name(spark, name)
    with asking(spark):
        found = plain_sql(spark, f"SHOW TABLES IN {sql_name([database])} LIKE '{pattern(table)}'").collect()
    return any(row["tableName"].lower() == table.lower() and not row["isTemporary"] for row in found)


def default_location(spark: Session, name: Sequence[str]) -> str:
    """Where a table of this name lies if nobody says otherwise: within its database's folder. Raises AnalysisError."""
    database, table = whole_name(spark, name)
    with asking(spark):
        rows = plain_sql(spark, f"DESCRIBE DATABASE {sql_name([database])}").collect()
    folder = next(str(row[1]) for row in rows if row[0] == "Location")
    path = unquote(folder.removeprefix("file:")) if folder.startswith("file:") else folder
    return f"{path.rstrip('/')}/{table.lower()}"


def registrar(spark: Session) -> Registrar:
    """Who has the catalog take Delta tables. Raises AnalysisError where there is no such session."""
    try:
        with asking(spark):
            plain_reader(spark).format("delta").load("/").schema  # noqa: B018 - a Connect client analyses only when asked
    except AnalysisError as error:
        return Registrar(_knowing(spark), is_told=True) if error.condition == NO_SOURCE else Registrar(spark)
    except DeltaMergeError:
        pass
    return Registrar(spark)


def register(by: Registrar, name: Sequence[str], columns: StructType = _NO_COLUMNS, location: str | None = None) -> None:
    """Have the catalog list the Delta table at `location` under a name with its database, as one that is not its own to delete.

    Without a location it is the catalog's own, in an empty folder that it makes. A session that knows the format by itself finds
    the columns by itself. Raises AnalysisError for a name that it does not take.
    """
    place = "" if location is None else f" LOCATION '{_escaped(location)}'"
    with _TELLING, asking(by.session):
        if by.is_told:
            _tell(by.session, columns)
        plain_sql(by.session, f"CREATE TABLE {sql_name(name)} USING delta{place}")


def unregister(by: Registrar, name: Sequence[str], purges: bool = False) -> None:
    """Have the catalog forget a Delta table by its name with its database, and delete its folder if that is its own.

    Raises AnalysisError.
    """
    with asking(by.session):
        plain_sql(by.session, f"DROP TABLE {sql_name(name)}{' PURGE' if purges else ''}")


def rename(by: Registrar, name: Sequence[str], other: Sequence[str]) -> None:
    """Have the catalog list a Delta table under another name, and move its folder if that is its own. Raises AnalysisError."""
    with asking(by.session):
        plain_sql(by.session, f"ALTER TABLE {sql_name(name)} RENAME TO {sql_name(other)}")


def _escaped(location: str) -> str:
    return location.replace("\\", "\\\\").replace("'", "\\'")


def _knowing(spark: Session) -> Session:
    """A session with the same catalog that knows a format called delta."""
    refuse_older("A Delta table in the catalog of a Spark without delta-spark's JAR", f"{_HINT} Or use PySpark 4.0 or later.")
    with _TELLING:
        if spark in _OTHERS:
            return _OTHERS[spark]
        try:
            other = another_session(spark)
        except AttributeError as error:
            raise AnalysisError(
                NO_SOURCE,
                "The catalog of this session takes no Delta tables: its Spark does not know the format.",
                hint=f"{_HINT} deltamerge.activate(spark) tells Spark of the format.",
            ) from error
        _tell(other, _NO_COLUMNS)
        _OTHERS[spark] = other
        return other


def _tell(other: Session, columns: StructType) -> None:
    """Tell a session of a format called delta, whose tables have these columns."""
    from pyspark.sql.datasource import DataSource  # an older PySpark has none

    found = nullable_schema(columns)

    class Delta(DataSource):  # within a function, so that it is sent by value
        @classmethod
        def name(cls) -> str:
            return "delta"

        def schema(self) -> T.StructType:
            return found

    other.dataSource.register(Delta)
