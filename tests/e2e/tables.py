"""Small tables for tests, and their rows in comparable form."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import deltamerge
from deltamerge.spark import source as source_module
from deltamerge.tables import DeltaTable
from tests.e2e.vectors import ask_for_vectors
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
    """A new table with alias t, its rows spread over `files` files in order; merges mark rows if `vectors`."""
    step = max(1, -(-len(rows) // files))
    for start in range(0, max(1, len(rows)), step):
        frame = spark.createDataFrame(list(rows[start : start + step]), schema).coalesce(1)
        deltamerge.write(frame, str(path), mode="append", partition_by=partition_by, properties=properties)
        if vectors and not start:
            ask_for_vectors(path)
    return DeltaTable.forPath(spark, str(path)).alias("t")


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


def hold_no_source(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every source counts as too large to be held by the driver."""
    for name in ("_TRUSTED_BYTES", "COLLECTED_BYTES"):
        monkeypatch.setattr(source_module, name, -1)


def noted(monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str) -> list[Any]:
    """What a module's function gives from now on, call by call."""
    function, found = getattr(module, name), list[Any]()

    def run(*given: Any) -> Any:
        found.append(function(*given))
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
