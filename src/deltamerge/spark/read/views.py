"""Queries over Delta tables: a temporary view stands for each that Spark does not read itself."""

from __future__ import annotations

import uuid
from types import TracebackType
from typing import Self

from deltamerge.errors import AnalysisError
from deltamerge.spark.expressions.queries import NO_SOURCE, query_frame
from deltamerge.spark.read.catalog import NamedTable, source_named
from deltamerge.spark.read.snapshot import snapshot_frame
from deltamerge.spark.read.travel import snapshot_at
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.sql.tables import StandIn, TableName, tables_in, with_stand_ins


class TableViews:
    """Temporary views that stand for Delta tables in queries, dropped on leaving."""

    def __init__(self, spark: Session) -> None:
        self._spark = spark
        self._views: dict[tuple[tuple[str, ...], str | None, str | None], str] = {}
        self._tables: dict[tuple[str, ...], NamedTable | None] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for view in self._views.values():
            self._spark.catalog.dropTempView(view)

    def query(self, text: str) -> Frame:
        """The rows of a query, lazily. Raises AnalysisError."""
        try:
            return query_frame(self._spark, self.named(text))
        except AnalysisError as error:
            read_here = self.named(text, unread=True) if error.condition == NO_SOURCE else text
            if read_here == text:
                raise
        return query_frame(self._spark, read_here)

    def named(self, text: str, unread: bool = False) -> str:
        """The text with a view in place of each delta.`path`, and of each Delta table at a version or time.

        Also of the Delta tables that this session's Spark can't read, if `unread`.
        """
        found = [self._stand_in(table) for table in tables_in(text, plain=unread)]
        return with_stand_ins(text, [view for view in found if view is not None])

    def _stand_in(self, table: TableName) -> StandIn | None:
        if table.parts not in self._tables:
            self._tables[table.parts] = source_named(self._spark, table.parts)
        found = self._tables[table.parts]
        if found is None or (table.is_plain and found.is_read_by_spark):
            return None
        key = (table.parts, table.version, table.timestamp)
        if key not in self._views:
            name = f"__deltamerge_{uuid.uuid4().hex}"
            snapshot = snapshot_at(self._spark, found.location, table.version, table.timestamp)
            snapshot_frame(self._spark, snapshot).createOrReplaceTempView(name)
            self._views[key] = name
        return StandIn(table, found.name, self._views[key])
