"""Statements on the one Spark session of the process."""

from __future__ import annotations

import datetime as dt
import os
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from dbt.adapters.spark.connections import SparkConnectionWrapper
from pyspark import SparkContext
from pyspark.sql import DataFrame, Row, SparkSession

import deltamerge

_LOCK = threading.Lock()
_sessions: list[SparkSession] = []


def session(settings: Mapping[str, str]) -> SparkSession:
    """The Spark session of this process, with deltamerge active on it. A session that runs already keeps its catalog."""
    # Workers have to run the Python of this environment, not the first one on the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with _LOCK:
        if _sessions and _sessions[0].sparkContext is SparkContext._active_spark_context:
            return _sessions[0]
        builder = SparkSession.builder.enableHiveSupport()
        for name, value in settings.items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
        deltamerge.activate(spark)
        _sessions[:] = [spark]
    return spark


def parameter(value: Any) -> Any:
    """A value of a seed as a parameter. A time goes as a text, which Spark reads in the session's zone, not in the process's."""
    return value.isoformat(" ") if isinstance(value, dt.datetime) else value


class SessionHandle(SparkConnectionWrapper):
    """A connection as dbt wants it. Spark has no transactions: what a statement has done is done."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._spark = session(settings)
        self._frame: DataFrame | None = None
        self._rows: list[Row] | None = None

    def cursor(self) -> SessionHandle:
        self._frame = self._rows = None
        return self

    def execute(self, sql: str, bindings: Sequence[Any] | None = None) -> None:
        text = sql.strip().removesuffix(";")
        self._rows = None
        self._frame = self._spark.sql(text, [parameter(value) for value in bindings]) if bindings else self._spark.sql(text)

    @property
    def description(self) -> list[tuple[str, Any, None, None, None, None, bool]]:
        fields = self._frame.schema.fields if self._frame is not None else []
        return [(field.name, field.dataType.simpleString(), None, None, None, None, field.nullable) for field in fields]

    def fetchall(self) -> list[Row]:
        if self._rows is None:
            self._rows = self._frame.collect() if self._frame is not None else []
        return self._rows

    def fetchmany(self, size: int) -> list[Row]:
        """The first rows, which dbt asks for where it only shows some."""
        if self._frame is None:
            return []
        return self._frame.limit(size).collect()

    def fetchone(self) -> Row | None:
        rows = self.fetchmany(1)
        return rows[0] if rows else None

    def cancel(self) -> None:
        """Stop what runs: Ctrl-C must not leave jobs behind."""
        self._spark.sparkContext.cancelAllJobs()

    def close(self) -> None:
        self._frame = self._rows = None

    def rollback(self) -> None:
        """There is nothing to take back."""
