"""Tables by name: through the session's catalog, or as delta.`path`, which this library reads itself."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from pyspark.errors import AnalysisException

from deltamerge.errors import AnalysisError, DeltaMergeError, TableNotFoundError
from deltamerge.spark.expressions.queries import query_frame, refusal
from deltamerge.spark.read.snapshot import snapshot_frame
from deltamerge.spark.read.travel import snapshot_at
from deltamerge.spark.session.attributes import quoted
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.quiet import quietly
from deltamerge.spark.session.storage import open_table
from deltamerge.spark.sql.tables import TableName, tables_in
from deltamerge.spark.sql.text import replaced


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
    location = _location_if_delta(spark, name)
    if location is not None:
        return snapshot_frame(spark, snapshot_at(spark, location))
    return query_frame(spark, f"TABLE {_text(name)}").alias(name[-1])


class PathViews:
    """Temporary views that stand for Delta tables in queries, dropped on leaving."""

    def __init__(self, spark: Session) -> None:
        self._spark = spark
        self._views: dict[tuple[tuple[str, ...], str | None, str | None], str] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for view in self._views.values():
            self._spark.catalog.dropTempView(view)

    def named(self, text: str) -> str:
        """The text with each delta.`path`, and each Delta table at a version or time, replaced by a view of the table there."""
        views = [(table.first, table.behind, self._view(table)) for table in tables_in(text)]
        return replaced(text, [(first, behind, view) for first, behind, view in views if view is not None])

    def _view(self, table: TableName) -> str | None:
        key = (table.parts, table.version, table.timestamp)
        if key not in self._views:
            location = _location_if_delta(self._spark, table.parts)
            if location is None:
                return None
            name = f"__deltamerge_{uuid.uuid4().hex}"
            snapshot = snapshot_at(self._spark, location, table.version, table.timestamp)
            snapshot_frame(self._spark, snapshot).createOrReplaceTempView(name)
            self._views[key] = name
        return self._views[key]


def _location_if_delta(spark: Session, name: Sequence[str]) -> str | None:
    """Where the Delta table of this name lies; None for what is none, or is not there: the query says which."""
    try:
        return _path_in(name) or _catalog_location(spark, name)
    except AnalysisError:
        return None


def _path_in(name: Sequence[str]) -> str | None:
    """The path in delta.`path`, None for other names."""
    return name[1] if len(name) == 2 and name[0].lower() == "delta" else None


def _catalog_location(spark: Session, name: Sequence[str]) -> str | None:
    """The location of a catalog's Delta table; None for views and tables of other formats."""
    try:
        with quietly():
            rows = spark.sql(f"DESCRIBE TABLE EXTENDED {_text(name)}").collect()
    except AnalysisException as error:
        raise refusal(error) from error
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


def _text(name: Sequence[str]) -> str:
    return ".".join(map(quoted, name))
