"""Queries that Spark answers, with its refusals as this library's errors."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from pyspark.errors import AnalysisException, PySparkException

from deltamerge.errors import AnalysisError, DeltaMergeError
from deltamerge.spark.expressions.analysis import plain_message
from deltamerge.spark.expressions.refused.suggestions import close_tables
from deltamerge.spark.pyspark.older import condition_of
from deltamerge.spark.pyspark.plain import plain_sql, plain_table
from deltamerge.spark.pyspark.quiet import quietly
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.jobs import UNNAMED, condition_in, translated
from deltamerge.worker.scan.outcomes import AttemptEnded

NO_SOURCE = "DATA_SOURCE_NOT_FOUND"
_NO_CATALOG = "CANNOT_LOAD_CATALOG"
_NO_TABLE = "TABLE_OR_VIEW_NOT_FOUND"
# Some versions of Spark give this error no condition, or a legacy one.
_UNLOADED = re.compile(r"Cannot find catalog plugin class .*")
_LEGACY = "_LEGACY_ERROR"
_FORMAT = re.compile(r"data source: (\S+?)\.(?:\s|$)")
_NAME = re.compile(r"`(?:[^`]|``)+`(?:\.`(?:[^`]|``)+`)*")


def query_frame(spark: Session, query: str) -> Frame:
    """The rows of a query, lazily. Raises AnalysisError."""
    with asking(spark):
        frame = plain_sql(spark, query)
        frame.schema  # noqa: B018 - a Connect client analyses only when asked
        return frame


def table_frame(spark: Session, name: str) -> Frame:
    """The rows of a table or view that Spark reads, given as SQL names it, lazily. Raises AnalysisError."""
    with asking(spark):
        frame = plain_table(spark, name)
        frame.schema  # noqa: B018 - a Connect client analyses only when asked
        return frame


@contextlib.contextmanager
def asking(spark: Session) -> Iterator[None]:
    """What Spark refuses within comes out as an AnalysisError, also what PySpark has no class for. It is not logged."""
    try:
        with quietly():
            yield
    except PySparkException as error:
        raise _refusal(spark, error) from error
    except Exception as error:
        if type(error).__name__ == "Py4JJavaError":
            raise _refusal(spark, error) from error
        raise


@contextlib.contextmanager
def asking_for_formats(spark: Session) -> Iterator[None]:
    """A statement that is Spark's, with Spark's errors, but for tables whose format or catalog is not there: as `asking`.

    Spark may have run such a statement in part, so that this library has nothing to say of any other failure.
    """
    try:
        yield
    except Exception as error:
        if _lacks_format(error):
            raise _refusal(spark, error) from error
        raise


def _lacks_format(error: Exception) -> bool:
    condition, _ = condition_in(error)
    return condition.startswith((NO_SOURCE, _NO_CATALOG)) or _unloaded(error, condition) is not None


def _unloaded(error: Exception, condition: str) -> str | None:
    """What an error says of a catalog whose class is not there, where it has no condition for that."""
    found = _UNLOADED.search(str(error)) if condition.startswith((UNNAMED, _LEGACY)) else None
    return None if found is None else found[0]


def _refusal(spark: Session, error: Exception) -> DeltaMergeError | AttemptEnded:
    """The error of this library that says what Spark's says; without a condition it is a failure of Spark."""
    condition, message = condition_in(error)
    unloaded = _unloaded(error, condition)
    if unloaded is not None:
        condition, message = f"{_NO_CATALOG}.PLUGIN_CLASS_NOT_FOUND", unloaded
    elif isinstance(error, AnalysisException):
        condition, message = condition_of(error) or "DELTAMERGE_ANALYSIS_FAILED", plain_message(str(error))
    elif condition == UNNAMED:
        return translated(error)
    found: dict[str, str] = getattr(error, "getMessageParameters", dict)() or {}
    return AnalysisError(condition, message, parameters=found, hint=_hint(spark, condition, message))


def _hint(spark: Session, condition: str, message: str) -> str | None:
    if condition == NO_SOURCE:
        name = _FORMAT.search(message)
        return _WITHOUT_JAR if name is None or name[1].lower() == "delta" else _WITHOUT_FORMAT
    if condition.startswith(_NO_CATALOG):
        return _WITHOUT_CATALOG
    named = _NAME.search(message) if condition == _NO_TABLE else None
    return None if named is None else close_tables(spark, named[0])


_WITHOUT_JAR = (
    "Spark reads Delta tables with delta-spark's JAR only. This library needs none for the tables that a MERGE names; "
    "a view over one needs it: name the table itself, or make a temporary view of deltamerge.read(spark, path)."
)
_WITHOUT_FORMAT = "Add the format's package to the session, as by spark.jars.packages."
_WITHOUT_CATALOG = (
    "Unset the catalog's setting, spark.sql.catalog.spark_catalog for delta-spark's: this library does not need it. "
    "A view that was made with it needs it: name the table itself."
)
