"""`activate` and `deactivate`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from typing import Any
from weakref import WeakSet

from pyspark.sql import DataFrame, DataFrameReader, DataFrameWriter, DataFrameWriterV2, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter

from deltamerge.activation.catalog import METHODS
from deltamerge.activation.patches import put_back, replace_attribute
from deltamerge.activation.reader import table_of_session, with_delta
from deltamerge.activation.sessions import Scope, make_active, make_inactive, scope_of
from deltamerge.activation.stream_reader import ReadingStream
from deltamerge.activation.stream_writer import WritingStream
from deltamerge.activation.writer import Writing
from deltamerge.activation.writer import with_delta as with_delta_writes
from deltamerge.activation.writer_v2 import WritingV2
from deltamerge.commands.rows.merge_text import run_merge_text
from deltamerge.exceptions import catchable
from deltamerge.spark.pyspark.plain import plain_sql
from deltamerge.spark.session.storage import check_session
from deltamerge.statements.run import run_sql

# While there is any, PySpark's classes have our methods. Sessions that are gone leave by themselves.
_ACTIVE: WeakSet[SparkSession] = WeakSet()
_LOCK = Lock()

log = logging.getLogger("deltamerge.activation")


@catchable
def activate(spark: SparkSession) -> None:
    """Have Spark's methods answer for Delta tables by this library: `spark.sql`, `.table`, `.read`, `.readStream`, `.catalog`,
    `df.write`, `df.writeTo`, `df.writeStream`.

    All else stays Spark's.

    It holds for this session and those that Spark clones from it, until `deactivate`; once more changes nothing. Where the
    session has delta-spark's extension only MERGE is answered, and the log `deltamerge.activation` says so.
    """
    check_session(spark)
    scope = make_active(spark)
    with _LOCK:
        _ACTIVE.add(spark)
        replace_attribute(type(spark), "sql", _sql)
        replace_attribute(type(spark), "table", _table)
        replace_attribute(type(spark), "read", _read)
        replace_attribute(type(spark), "readStream", _read_stream)
        frames = type(spark.range(0))
        replace_attribute(frames, "write", _write)
        replace_attribute(frames, "writeTo", _write_to)
        replace_attribute(frames, "writeStream", _write_stream)
        for name, make in METHODS.items():
            if hasattr(type(spark.catalog), name):  # older versions of PySpark have fewer
                replace_attribute(type(spark.catalog), name, make)
    if scope is Scope.MERGE:
        log.warning("The session has delta-spark's extension: deltamerge answers MERGE, all else is left to delta-spark.")


@catchable
def deactivate(spark: SparkSession) -> None:
    """Have a session's methods as they were; nothing to do for a session that is not active."""
    check_session(spark)
    make_inactive(spark)
    with _LOCK:
        _ACTIVE.discard(spark)
        if not _ACTIVE:
            put_back()


def _sql(plain: Callable[..., DataFrame]) -> Callable[..., DataFrame]:
    def sql(self: SparkSession, sqlQuery: str, args: Mapping[str, Any] | Sequence[Any] | None = None, **kwargs: Any) -> DataFrame:
        scope = scope_of(self) if isinstance(sqlQuery, str) else None
        if scope is None:
            return plain(self, sqlQuery, args, **kwargs)
        return _answered(self, scope, sqlQuery, args, kwargs)

    return sql


def _table(plain: Callable[..., DataFrame]) -> Callable[..., DataFrame]:
    def table(self: SparkSession, tableName: str) -> DataFrame:
        is_ours = isinstance(tableName, str) and scope_of(self) is Scope.ALL
        return table_of_session(self, tableName) if is_ours else plain(self, tableName)

    return table


def _read(plain: Callable[..., DataFrameReader]) -> Callable[..., DataFrameReader]:
    def read(self: SparkSession) -> DataFrameReader:
        reader = plain(self)
        return with_delta(self, reader) if scope_of(self) is Scope.ALL else reader

    return read


def _read_stream(plain: Callable[..., DataStreamReader]) -> Callable[..., DataStreamReader]:
    def readStream(self: SparkSession) -> DataStreamReader:
        reader = plain(self)
        return with_delta(self, reader, ReadingStream) if scope_of(self) is Scope.ALL else reader

    return readStream


def _write(plain: Callable[..., DataFrameWriter]) -> Callable[..., DataFrameWriter]:
    def write(self: DataFrame) -> DataFrameWriter:
        writer = plain(self)
        return with_delta_writes(self, writer, Writing) if scope_of(self.sparkSession) is Scope.ALL else writer

    return write


def _write_to(plain: Callable[..., DataFrameWriterV2]) -> Callable[..., DataFrameWriterV2]:
    def writeTo(self: DataFrame, table: str) -> DataFrameWriterV2:
        writer = plain(self, table)
        is_ours = isinstance(table, str) and scope_of(self.sparkSession) is Scope.ALL
        return with_delta_writes(self, writer, WritingV2, deltamerge_name=table) if is_ours else writer

    return writeTo


def _write_stream(plain: Callable[..., DataStreamWriter]) -> Callable[..., DataStreamWriter]:
    def writeStream(self: DataFrame) -> DataStreamWriter:
        writer = plain(self)
        return with_delta_writes(self, writer, WritingStream) if scope_of(self.sparkSession) is Scope.ALL else writer

    return writeStream


@catchable
def _answered(
    spark: SparkSession, scope: Scope, text: str, args: Mapping[str, Any] | Sequence[Any] | None, values: Mapping[str, Any]
) -> DataFrame:
    if scope is Scope.ALL:
        return run_sql(spark, text, args, values)
    found = None if values else run_merge_text(spark, text, args)
    return plain_sql(spark, text, args, **values) if found is None else found
