"""What tests of range and hash exchanges share: settings, a table, changes, clauses that may be exchanged and others."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from deltamerge.merge.execute.attempts import Ran
from deltamerge.merge.plan.physical import Exchange
from tests.e2e.tables import LARGE_SOURCES

RANGE, HASH, JOIN = ({"spark.deltamerge.strategy": name} for name in ("range_exchange", "hash_exchange", "spark_join"))
WAYS = {"range": RANGE, "hash": HASH}
# With these limits sources that are files are neither collected nor materialized, however small they are.
READ_BY_WORKERS: Mapping[str, float] = {**LARGE_SOURCES, "deferred_share": 0}

SCHEMA = "k long, v int, w string"
ROWS = [(n, 10 * n, f"w{n}") for n in range(40)]
CHANGED = pa.schema([("k", pa.int64()), ("v", pa.int32()), ("w", pa.string())])
CHANGES = [(3, 1, "w3"), (39, 2, "y"), (40, 3, "new"), (-1, 4, "new"), (None, 5, "new")]
LEGAL = {
    "upsert": lambda merge: merge.whenMatchedUpdateAll().whenNotMatchedInsertAll(),
    "update": lambda merge: merge.whenMatchedUpdate(set={"v": "s.v", "w": "NULL"}),
    "delete": lambda merge: merge.whenMatchedDelete(),
    "sync": lambda merge: merge.whenNotMatchedInsertAll().whenNotMatchedBySourceDelete(),
}
CHOOSING = {
    "condition": lambda merge: merge.whenMatchedUpdateAll("s.v > 1"),
    "two clauses": lambda merge: merge.whenMatchedDelete("s.v > 1").whenMatchedUpdateAll(),
    "expression": lambda merge: merge.whenMatchedUpdate(set={"v": "s.v + 1"}),
    "target's value": lambda merge: merge.whenMatchedUpdate(set={"w": "t.w"}),
    "update by source": lambda merge: merge.whenNotMatchedBySourceUpdate(set={"v": "0"}),
    "delete by source of some": lambda merge: merge.whenNotMatchedBySourceDelete("t.v > 3"),
    "value of another type": lambda merge: merge.whenMatchedUpdate(set={"w": "s.v"}),
}
# Spark computes columns of the source for these.
PROJECTED = {
    "call in a condition": lambda merge: merge.whenMatchedUpdateAll("abs(s.v) > 1"),
    "call in a value": lambda merge: merge.whenMatchedUpdate(set={"v": "abs(s.v)"}),
    "one of two clauses": lambda merge: merge.whenMatchedDelete("s.v > 1").whenMatchedUpdate("length(s.w) > 1", {"v": "s.v"}),
    "cast": lambda merge: merge.whenMatchedUpdate(set={"w": "cast(s.v AS string)"}),
    "inserted values": lambda merge: merge.whenNotMatchedInsert(
        "upper(s.w) = 'NEW'", {"k": "s.k", "v": "s.v / 2", "w": "reverse(s.w)"}
    ),
    "Column": lambda merge: merge.whenMatchedUpdate(F.length("s.w") > 1, {"v": F.abs("s.v") + 1, "w": "t.w"}),
    "beside a value of both": lambda merge: merge.whenMatchedUpdate("length(s.w) > 1", {"v": "t.v + s.v", "w": "upper(s.w)"}),
}
OTHER = {
    "call of both": lambda merge: merge.whenMatchedUpdateAll("abs(s.v - t.v) > 1"),
    "call of the target": lambda merge: merge.whenMatchedUpdate("length(t.w) > 1", {"v": "s.v"}),
    "one clause about both": lambda merge: merge.whenMatchedDelete("abs(s.v) > 1").whenMatchedUpdate(
        set={"v": "greatest(s.v, t.v)"}
    ),
    "chance": lambda merge: merge.whenMatchedUpdate(set={"v": "cast(rand() * s.v AS int)"}),
    "query": lambda merge: merge.whenMatchedUpdate(set={"v": "s.v + (SELECT 1)"}),
    "unchanged": lambda merge: merge.whenMatchedUpdateAll().skipUnchanged(),
}


def parquet(spark: SparkSession, place: Path, rows: list[tuple[Any, ...]], schema: str = SCHEMA) -> DataFrame:
    """Rows in a Parquet file."""
    spark.createDataFrame(rows, schema).coalesce(1).write.parquet(str(place))
    return spark.read.parquet(str(place))


def exchanges_of(runs: list[Ran]) -> list[Exchange | None]:
    """The first exchange of each plan, None where there is none."""
    return [next((a for a in run.plan.attempts if isinstance(a, Exchange)), None) for run in runs]
