"""Tables by name: through the session's catalog, or as delta.`path`, which this library reads itself."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from pyspark.errors import AnalysisException

from deltamerge.errors import AnalysisError, DeltaMergeError, TableNotFoundError
from deltamerge.spark.analysis import plain_message
from deltamerge.spark.expression import quoted
from deltamerge.spark.frames import Frame, Session
from deltamerge.spark.reading import snapshot_frame
from deltamerge.spark.sqltext import paths_in
from deltamerge.spark.storage import open_table


def location_of(spark: Session, name: Sequence[str]) -> str:
    """Where the Delta table of this name lies: delta.`path`, or a table of the catalog. Raises AnalysisError."""
    found = _path_in(name) or _catalog_location(spark, name)
    if found is None:
        raise AnalysisError(
            "DELTA_TABLE_ONLY_OPERATION",
            f"{_text(name)} is not a Delta table. MERGE is only supported for Delta tables.",
            parameters={"tableName": _text(name), "operation": "MERGE"},
            hint="Name a Delta table of the session's catalog, or a path as delta.`path`.",
        )
    return found


def named_frame(spark: Session, name: Sequence[str]) -> Frame:
    """The rows of a table or view by name; a Delta table is read by this library. Raises AnalysisError."""
    try:
        location = _path_in(name) or _catalog_location(spark, name)
    except AnalysisError:  # a file by its format, as in parquet.`path`, or nothing: the query says which
        location = None
    if location is not None:
        return snapshot_frame(spark, open_table(spark, location).snapshot())
    return query_frame(spark, f"TABLE {_text(name)}").alias(name[-1])


def query_frame(spark: Session, query: str) -> Frame:
    """The rows of a query, lazily. Raises AnalysisError."""
    try:
        frame: Frame = spark.sql(query)
        frame.schema  # noqa: B018 - a Connect client analyses only when asked
        return frame
    except AnalysisException as error:
        raise _analysis(error) from error


class PathViews:
    """Temporary views that stand for delta.`path` in queries, dropped on leaving."""

    def __init__(self, spark: Session) -> None:
        self._spark = spark
        self._views: dict[str, str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for view in self._views.values():
            self._spark.catalog.dropTempView(view)

    def named(self, text: str) -> str:
        """The text with each delta.`path` replaced by a view of the table there."""
        for first, behind, path in reversed(paths_in(text)):
            text = text[:first] + self._view(path) + text[behind:]
        return text

    def _view(self, path: str) -> str:
        if path not in self._views:
            name = f"__deltamerge_{uuid.uuid4().hex}"
            snapshot_frame(self._spark, open_table(self._spark, path).snapshot()).createOrReplaceTempView(name)
            self._views[path] = name
        return self._views[path]


def _path_in(name: Sequence[str]) -> str | None:
    """The path in delta.`path`, None for other names."""
    return name[1] if len(name) == 2 and name[0].lower() == "delta" else None


def _catalog_location(spark: Session, name: Sequence[str]) -> str | None:
    """The location of a catalog's Delta table; None for views and tables of other formats."""
    try:
        rows = spark.sql(f"DESCRIBE TABLE EXTENDED {_text(name)}").collect()
    except AnalysisException as error:
        raise _analysis(error) from error
    details = {row[0]: row[1] for row in rows}
    if "Location" not in details:
        return None
    location = str(details["Location"])
    try:
        open_table(spark, location).snapshot()
    except TableNotFoundError:
        return None
    except DeltaMergeError:
        return location if str(details.get("Provider", "")).lower() == "delta" else None
    return location


def _analysis(error: AnalysisException) -> AnalysisError:
    return AnalysisError(
        error.getCondition() or "DELTAMERGE_ANALYSIS_FAILED",
        plain_message(str(error)),
        parameters=dict(error.getMessageParameters() or {}),
    )


def _text(name: Sequence[str]) -> str:
    return ".".join(map(quoted, name))
