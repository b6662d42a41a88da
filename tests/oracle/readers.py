"""A table's rows as independent readers find them, in one comparable form."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import deltalake
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import deltamerge

Rows = Counter[tuple[str, ...]]


def by_delta_spark(spark: SparkSession, path: Path) -> Rows:
    """Read by delta-spark."""
    return counted(spark.read.format("delta").load(str(path)).toArrow())


def by_deltamerge(spark: SparkSession, path: Path) -> Rows:
    """Read by this library."""
    return counted(deltamerge.read(spark, str(path)).toArrow())


def by_delta_rs(path: Path) -> Rows:
    """Read by delta-rs."""
    table = deltalake.DeltaTable(str(path))
    query = deltalake.QueryBuilder().register("t", table).execute("SELECT * FROM t")
    return counted(pa.table(query.read_all()).select([field.name for field in table.schema().fields]))


def by_duckdb(path: Path) -> Rows:
    """The live files that delta-rs names, read by DuckDB, partition values from the log."""
    table = deltalake.DeltaTable(str(path))
    names = [field.name for field in table.schema().fields]
    types = {field.name: field.type for field in pa.schema(table.schema().to_arrow())}
    rows: Rows = Counter()
    actions = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    for action in actions:
        constants = {name: action.get(f"partition.{name}") for name in names if f"partition.{name}" in action}
        held = set(pq.read_schema(_file(path, action)).names)  # a file from before a column was added does not have it
        constants |= {name: None for name in names if name not in constants and name not in held}
        stored = [name for name in names if name not in constants]
        chosen = ", ".join(f'"{name}"' for name in stored) or "1"
        found = duckdb.sql(f"SELECT {chosen} FROM read_parquet($1, hive_partitioning = false)", params=[_file(path, action)])
        for values in found.fetchall():
            row = {**dict(zip(stored, values, strict=False)), **constants}
            rows[tuple(_text(row[name], types[name]) for name in names)] += 1
    return rows


def _file(path: Path, action: dict[str, Any]) -> str:
    from urllib.parse import unquote

    return str(path / unquote(action["path"]).removeprefix("file://").removeprefix("file:"))


def counted(table: pa.Table) -> Rows:
    """Rows of an Arrow table as texts, with their counts."""
    columns = [[_text(value, field.type) for value in table[field.name].to_pylist()] for field in table.schema]
    return Counter(zip(*columns, strict=True)) if columns else Counter()


def _text(value: Any, type: pa.DataType) -> str:
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        return repr(value + 0.0)
    if isinstance(value, datetime):
        moment = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
        return moment.isoformat()
    if isinstance(value, str) and pa.types.is_date(type):
        return value
    if isinstance(value, dict):
        return repr({key: _text(inner, type) for key, inner in value.items()})
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        return repr([_text(inner, type) for inner in value])
    return "null" if value is None else str(value)
