"""Delta tables that the session's catalog knows by name, though Spark lacks what it needs to read them: delta-spark's JAR."""

from __future__ import annotations

import atexit
import contextlib
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from deltamerge.spark.pyspark.adapter import is_connect
from deltamerge.spark.pyspark.older import refuse_older


@contextlib.contextmanager
def listed(spark: SparkSession, tables: dict[str, Path | str]) -> Iterator[None]:
    """The catalog has Delta tables by these names at these paths, as it has those of a metastore that others write to."""
    other = _another_session(spark)
    for name, path in tables.items():
        other.sql(f"CREATE TABLE {name} (id INT) USING delta LOCATION '{path}'")
    try:
        yield
    finally:
        for name in tables:
            other.sql(f"DROP TABLE {name}")


@functools.cache
def _another_session(spark: SparkSession) -> SparkSession:
    """A session with the same catalog that knows a format called delta, which is all that a catalog asks for."""

    refuse_older("Another session of the tests")
    from pyspark.sql.datasource import DataSource  # an older PySpark has none

    class Delta(DataSource):  # within a function, so that it is sent by value
        @classmethod
        def name(cls) -> str:
            return "delta"

        def schema(self) -> str:
            return "id INT"

    given: Any = spark
    try:
        other: SparkSession = given.newSession()
    except Exception:  # a Connect client before PySpark 4.3 has no such method
        pytest.skip("this session can't make another one with its catalog")
    other.dataSource.register(Delta)
    if is_connect(other):
        session: Any = other
        # At exit an open client asks for minutes for the server that the shared session has stopped.
        atexit.register(session.client.close)
    return other
