"""Small tables for tests, and their rows in comparable form."""

from __future__ import annotations

import functools
import multiprocessing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

import deltamerge
from deltamerge.commands.rows import write as write_module
from deltamerge.commands.rows.request import WriteRequest
from deltamerge.commands.rows.written import WritePlan, Written
from deltamerge.spark.stages.results import added_files
from deltamerge.spark.stages.target import write_spec
from deltamerge.tables import DeltaTable
from deltamerge.worker.entry import write_map
from tests.e2e.vectors import ask_for_vectors
from tests.older import local_rows
from tests.stores.paths import StorePath


def make(
    spark: SparkSession,
    path: Path,
    schema: str,
    rows: Sequence[tuple[Any, ...]],
    *,
    partition_by: Sequence[str] = (),
    files: int = 1,
    vectors: bool = False,
    properties: Mapping[str, str] | None = None,
) -> DeltaTable:
    """A new table with alias t, its rows spread over `files` files in order; merges mark rows if `vectors`.

    Where no constraint or length asks for Spark, rows are written here: a table costs no job.
    """
    step = max(1, -(-len(rows) // files))
    needs_spark = not rows or "char(" in schema.lower() or any("constraints" in name for name in properties or {})
    for start in range(0, max(1, len(rows)), step):
        part = list(rows[start : start + step])
        if needs_spark:
            frame = spark.createDataFrame(part, schema).coalesce(1)
            deltamerge.write(frame, str(path), mode="append", partition_by=partition_by, properties=properties)
        else:
            _write_here(spark, path, schema, part, partition_by, properties)
        if vectors and not start:
            ask_for_vectors(path)
    return DeltaTable.forPath(spark, str(path)).alias("t")


def _write_here(
    spark: SparkSession,
    path: Path,
    schema: str,
    rows: list[tuple[Any, ...]],
    partition_by: Sequence[str],
    properties: Mapping[str, str] | None,
) -> None:
    """Append rows to a table as `deltamerge.write` does, all but the job: its task runs in this process."""
    types = _schema_of(schema)

    def written(plan: WritePlan) -> Written:
        values = local_rows(rows, types)
        result = pa.Table.from_batches(list(write_map(write_spec(plan.after))(values.to_batches())))
        return Written(tuple(file for _, file in added_files(result, plan.after.schema)))

    frame: Any = SimpleNamespace(schema=types, columns=types.names, sparkSession=spark)
    with patch.object(write_module, "written", written):
        request = WriteRequest("append", tuple(partition_by), properties=properties or {})
        write_module.write_table(frame, str(path), request)


@functools.cache
def _schema_of(text: str) -> T.StructType:
    return T.StructType.fromDDL(text)


@contextmanager
def conf(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Session settings for a block."""
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in settings:
            spark.conf.unset(name)


# With these limits every source is too large for the driver.
LARGE_SOURCES: Mapping[str, int] = {"trusted_estimate_bytes": -1, "collected_bytes": -1}


def noted(monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str) -> list[Any]:
    """What a module's function gives from now on, call by call."""
    function, found = getattr(module, name), list[Any]()

    def run(*given: Any, **named: Any) -> Any:
        found.append(function(*given, **named))
        return found[-1]

    monkeypatch.setattr(module, name, run)
    return found


def source(spark: SparkSession, schema: str, rows: Iterable[tuple[Any, ...]]) -> DataFrame:
    """A source with alias s."""
    return spark.createDataFrame(list(rows), schema).alias("s")


def content(spark: SparkSession, path: Path, version: int | None = None) -> list[tuple[Any, ...]]:
    """All rows of a table, sorted."""
    rows = [tuple(row) for row in deltamerge.read(spark, str(path), version).collect()]
    return sorted(rows, key=lambda row: tuple((value is None, str(type(value)), value) for value in row))


def by_delta_rs(path: Path, query: str) -> list[tuple[Any, ...]]:
    """The rows of a query on the table, there called t, by delta-rs, sorted.

    It holds the interpreter's lock while it waits for a store, so that the tests' server has to run in another process.
    """
    if isinstance(path, StorePath):
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            return pool.submit(_by_delta_rs, str(path), query).result()
    return _by_delta_rs(str(path), query)


def _by_delta_rs(place: str, query: str) -> list[tuple[Any, ...]]:
    reader = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(place)).execute(query)
    return sorted(tuple(row.values()) for row in pa.table(reader.read_all()).to_pylist())


def version(path: Path) -> int:
    """The newest version, by the file names in the log."""
    return max(int(file.name[:20]) for file in (path / "_delta_log").glob("*.json"))


def parquet_at(path: Path) -> pq.ParquetFile:
    """A data file, wherever it is."""
    return pq.ParquetFile(pa.BufferReader(path.read_bytes()))
