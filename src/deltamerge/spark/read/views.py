"""Queries over Delta tables: a temporary view stands for each that Spark does not read itself."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from deltamerge.errors import AnalysisError
from deltamerge.log.commit.conflict import FrameRead
from deltamerge.spark.expressions.analysis import parsed
from deltamerge.spark.expressions.expression import Expression, from_clause
from deltamerge.spark.expressions.queries import NO_SOURCE, query_frame
from deltamerge.spark.pyspark.plain import plain_sql
from deltamerge.spark.read.catalog import NamedTable, source_named
from deltamerge.spark.read.metadata import METADATA, hidden_name, metadata_frame
from deltamerge.spark.read.snapshot import snapshot_frame
from deltamerge.spark.read.travel import snapshot_at, table_at, travel_of
from deltamerge.spark.read.unread import all_read, frame_read
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.sql.hidden.column import HiddenColumn, Shown
from deltamerge.spark.sql.tables import StandIn, TableName, tables_in, with_ctes, with_stand_ins
from deltamerge.storage import Store


class TableViews:
    """Temporary views that stand for Delta tables in queries, dropped on leaving.

    With `registers` off there are only their names and `frames`, for whoever gives these to Spark by name.
    """

    def __init__(self, spark: Session, registers: bool = True) -> None:
        self._spark = spark
        self._registers = registers
        self.frames: dict[str, Frame] = {}
        self._views: dict[tuple[tuple[str, ...], str | None, str | None, bool], str] = {}
        self._tables: dict[tuple[str, ...], NamedTable | None] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for view in self.frames if self._registers else ():
            self._spark.catalog.dropTempView(view)

    def query(self, text: str) -> Frame:
        """The rows of a query, lazily. Raises AnalysisError."""
        return self._analyzed(text)[0]

    def plan(self, text: str, mode: str) -> str:
        """Spark's plan of a query, by EXPLAIN in a mode. Raises AnalysisError, where EXPLAIN only says that there was one."""
        rows = plain_sql(self._spark, f"EXPLAIN {mode} {self._analyzed(text)[1]}", None).collect()
        return "\n".join(row[0] for row in rows)

    def _analyzed(self, text: str) -> tuple[Frame, str]:
        """The rows of a query, lazily, and its text as Spark reads it."""
        ready = self.named(text)
        try:
            return query_frame(self._spark, ready), ready
        except AnalysisError as error:
            read_here = self.named(text, unread=True) if error.condition == NO_SOURCE else text
            if read_here == text:
                raise
        return query_frame(self._spark, read_here), read_here

    def expression(self, text: str, ctes: str = "") -> Expression:
        """The expression of a text in a statement, whose queries know those of WITH. Raises AnalysisError."""
        return parsed(self.named(with_ctes(text, ctes), unread=True), from_clause)

    def add(self, frame: Frame) -> str:
        """The name of a view that stands for a frame."""
        name = f"__deltamerge_{uuid.uuid4().hex}"
        if self._registers:
            frame.createOrReplaceTempView(name)
        self.frames[name] = frame
        return name

    def read_of(self, store: Store) -> FrameRead | None:
        """What is read of the table at `store` by what stands for tables; None for nothing."""
        return all_read(frame_read(frame, store) for frame in self.frames.values())

    def named(self, text: str, unread: bool = False) -> str:
        """The text with a view in place of each delta.`path`, and of each Delta table at a version or time.

        Also of the Delta tables that this session's Spark can't read, if `unread`.
        """
        tables = tables_in(text, plain=unread)
        shown = self._showing(text, tables) if METADATA in text.lower() else Shown()
        found = [self._stand_in(table, table in shown.tables) for table in tables]
        return with_stand_ins(text, [view for view in found if view is not None], shown.edits)

    def _showing(self, text: str, tables: Sequence[TableName]) -> Shown:
        """The tables of which the text names the column `_metadata`. Raises AnalysisError."""

        def name_beside(table: TableName) -> str | None:
            found = self._known(table)
            if found is None:
                return None
            return hidden_name(snapshot_at(self._spark, found.location, *travel_of(table)).schema)

        return HiddenColumn(text, METADATA, tables).shown(
            lambda table: name_beside(table) == METADATA, lambda table: name_beside(table) not in (None, METADATA)
        )

    def _known(self, table: TableName) -> NamedTable | None:
        """The Delta table that a view is to stand for; None for what Spark reads."""
        if table.parts not in self._tables:
            self._tables[table.parts] = source_named(self._spark, table.parts)
        found = self._tables[table.parts]
        return None if found is None or (table.is_plain and found.is_read_by_spark) else found

    def _stand_in(self, table: TableName, is_shown: bool = False) -> StandIn | None:
        found = self._known(table)
        if found is None:
            return None
        version, timestamp = travel_of(table)
        key = (table.parts, version, timestamp, is_shown)
        if key not in self._views:
            rows = metadata_frame if is_shown else snapshot_frame
            self._views[key] = self.add(table_at(self._spark, found.location, version, timestamp, rows))
        return StandIn(table, found.name, self._views[key])
