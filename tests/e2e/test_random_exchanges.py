"""Random merges come to the same by an exchange, whoever reads the source, and by a join."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import deltamerge
from deltamerge.budgets import using
from deltamerge.errors import DeltaMergeError
from deltamerge.merge.execute.attempts import Ran
from deltamerge.merge.plan.physical import Exchange, Reader
from deltamerge.tables import DeltaMergeBuilder, DeltaTable
from tests.e2e.exchanges import JOIN, WAYS
from tests.e2e.tables import LARGE_SOURCES, conf, content, make
from tests.effort import ALL

DAY = date(2024, 2, 27)
# Several clauses with conditions, such that call functions, and such for which Spark computes columns of the source.
CHOSEN, COMPUTED = ("chosen", "called"), "computed"
CASE = "CASE WHEN s.w IS NULL THEN t.w WHEN s.v > t.v THEN s.w ELSE 'none' END"
CALLED = "if(s.v > t.v, ifnull(s.w, 'none'), coalesce(t.w, s.w, 'neither'))"
COUNTS = ("Inserted", "Updated", "Deleted", "Copied")


@dataclass(frozen=True)
class Random:
    """A random merge: the table's schema, keys and rows, the changes, and what is done with them."""

    schema: str
    keys: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    changes: list[tuple[Any, ...]]
    files: int
    matched: str
    inserts: str
    by_source: str
    vectors: bool
    properties: dict[str, str]
    partition_by: tuple[str, ...] = ()

    @property
    def condition(self) -> str:
        return " AND ".join(f"t.{key} = s.{key}" for key in self.keys)


KINDS = {
    "k long, v int, w string": ("k",),
    "k int, j string, v int, w string": ("k", "j"),
    "d date, k short, v int, w string": ("d", "k"),
    "w string, v int, k timestamp": ("k",),
    "k timestamp_ntz, v int, w string": ("k",),
    "k long, p string, v int, w string": ("k",),
    "p string, k long, q int, v int, w string": ("k", "p"),
}
# The columns of a kind by which a table may be partitioned; p is not always the one that a key has in another row.
PARTITIONS = {"k int, j string, v int, w string": ("j",), "d date, k short, v int, w string": ("d",)}


def random_merge(seed: int) -> Random:
    """Files whose ranges of keys touch, overlap, nest or lie apart; keys that are in several files, in none, and null."""
    rng = random.Random(seed)
    schema, keys = rng.choice(list(KINDS.items()))
    types = dict(part.split() for part in schema.split(", "))
    span = rng.choice((10, 40, 200))

    def value(name: str, number: int | None) -> Any:
        if number is None:
            return None
        match types[name]:
            case "date":
                return DAY + timedelta(days=number)
            case "timestamp" | "timestamp_ntz":
                return pa.scalar(number * 1_000_000_007, pa.timestamp("us")).as_py()
            case "string":
                return f"{name}{number}"
            case _:
                return number

    def row(key: int | None, tag: int) -> tuple[Any, ...]:
        few = {"p": None if tag % 7 == 0 else tag % 3, "q": tag % 2}
        parts = {name: key if at == 0 or key is None else key % 3 for at, name in enumerate(keys)}
        if key is not None and len(keys) > 1:
            parts = {keys[0]: key // 3, keys[1]: key % 3}
        return tuple(value(name, parts.get(name, few.get(name, tag))) for name in types)

    def key(least: int, most: int) -> int | None:
        return None if rng.random() < 0.06 else rng.randint(least, most)

    held = [key(0, span) for _ in range(rng.choice((0, 6, 60)))]
    held = sorted((k for k in held if k is not None), key=lambda k: k + rng.choice((0, 0, span // 5))) + [None] * held.count(None)
    sent = [key(-span // 4, span + span // 4) for _ in range(rng.choice((0, 8, 60)))]
    unique = rng.random() < 0.85
    sent = list(dict.fromkeys(sent)) if unique else sent
    rng.shuffle(sent)
    properties = {}
    if rng.random() < 0.3:
        properties["delta.enableChangeDataFeed"] = "true"
    if rng.random() < 0.2:
        properties["delta.enableRowTracking"] = "true"
    matched, inserts = (
        rng.choice(("none", "update", "some", "null", "delete", *CHOSEN, COMPUTED)),
        rng.choice(("none", "all", "some", *CHOSEN, COMPUTED)),
    )
    by_source = rng.choice(("none", "none", "none", "delete", *CHOSEN))
    if matched == inserts == by_source == "none":
        matched = "update"
    partition_by = tuple(name for name in types if name in "pq") or PARTITIONS.get(schema, ())
    return Random(
        schema,
        keys,
        [row(k, n) for n, k in enumerate(held)],
        [row(k, 1000 + n) for n, k in enumerate(sent)],
        rng.randint(1, 5),
        matched,
        inserts,
        by_source,
        rng.random() < 0.4,
        properties,
        partition_by if rng.random() < 0.6 else (),
    )


def with_clauses(merge: DeltaMergeBuilder, given: Random) -> DeltaMergeBuilder:
    values = {key: f"s.{key}" for key in given.keys}
    match given.matched:
        case "update":
            merge = merge.whenMatchedUpdateAll()
        case "some":
            merge = merge.whenMatchedUpdate(set={"v": "s.v"})
        case "null":
            merge = merge.whenMatchedUpdate(set={"v": "s.v", "w": "NULL"})
        case "delete":
            merge = merge.whenMatchedDelete()
        case "chosen":
            merge = merge.whenMatchedDelete("s.v % 7 = 0 OR t.w = s.w")
            merge = merge.whenMatchedUpdate("t.v < 20 AND NOT s.v IN (1001, 1002)", set={"v": "t.v + s.v", "w": CASE})
            merge = merge.whenMatchedUpdateAll("s.v BETWEEN 1010 AND 1030")
        case "called":
            merge = merge.whenMatchedDelete("coalesce(s.v, t.v, 1050) > 1040")
            merge = merge.whenMatchedUpdate("coalesce(t.w, s.w) <> 'w5'", set={"v": "t.v + coalesce(s.v, 0)", "w": CALLED})
        case "computed":
            merge = merge.whenMatchedDelete("substring(s.w, 3) > '040' OR s.v % 5 = 0")
            merge = merge.whenMatchedUpdate("length(s.w) % 2 = 1", set={"v": "abs(s.v) % 100", "w": "concat(s.w, '!')"})
            merge = merge.whenMatchedUpdate("t.v > 3", set={"v": "t.v + s.v", "w": "upper(s.w)"})
    match given.inserts:
        case "all":
            merge = merge.whenNotMatchedInsertAll()
        case "some":
            merge = merge.whenNotMatchedInsert(values={**values, "v": "s.v"})
        case "chosen":
            merge = merge.whenNotMatchedInsert("s.v % 2 = 0", values={**values, "v": "s.v * 2"})
            merge = merge.whenNotMatchedInsertAll("s.w > 'w1015'")
        case "called":
            merge = merge.whenNotMatchedInsert("coalesce(s.w, 'w') > 'w1004'", values={**values, "v": "if(s.v % 3 = 0, s.v, 0)"})
        case "computed":
            merge = merge.whenNotMatchedInsert("upper(s.w) > 'W1004'", values={**values, "v": "s.v / 2", "w": "initcap(s.w)"})
            merge = merge.whenNotMatchedInsertAll("length(s.w) > 1")
    match given.by_source:
        case "delete":
            merge = merge.whenNotMatchedBySourceDelete()
        case "chosen":
            merge = merge.whenNotMatchedBySourceUpdate("t.v % 2 = 0", set={"v": "t.v + 1", "w": "'alone'"})
            merge = merge.whenNotMatchedBySourceDelete("t.v > 5")
        case "called":
            merge = merge.whenNotMatchedBySourceUpdate(
                "coalesce(t.v, 4) < 9", set={"v": "coalesce(t.v, 1)", "w": "nvl(t.w, 'x')"}
            )
    return merge


def ended(table: Path, spark: SparkSession, source: DataFrame, given: Random) -> tuple[Any, ...]:
    """What a merge comes to: the rows, its counts and its changes, or the condition of its error."""
    target = DeltaTable.forPath(spark, str(table)).alias("t")
    before = target.history(1).collect()[0]["version"]
    try:
        with_clauses(target.merge(source.alias("s"), given.condition), given).execute()
    except DeltaMergeError as error:
        assert target.history(1).collect()[0]["version"] == before
        return (error.condition,)
    newest = target.history(1).collect()[0]
    if newest["version"] == before:
        return content(spark, table), None, None
    counts = {name: newest["operationMetrics"].get(f"numTargetRows{name}") for name in COUNTS}
    counts["Source"] = newest["operationMetrics"]["numSourceRows"]
    changes = None
    if given.properties.get("delta.enableChangeDataFeed"):
        feed = deltamerge.read_changes(spark, str(table), newest["version"])
        changes = sorted(str(tuple(row)[:-2]) for row in feed.collect())
    return content(spark, table), counts, changes


def tables(spark: SparkSession, folder: Path, given: Random, names: tuple[str, ...]) -> list[Path]:
    """Copies of the merge's table."""
    kept = {"vectors": given.vectors, "properties": given.properties, "partition_by": given.partition_by}
    make(spark, folder / "made", given.schema, given.rows, files=given.files, **kept)
    for name in names:
        shutil.copytree(folder / "made", folder / name)
    return [folder / name for name in names]


def in_pieces(limit: Callable[..., None], seed: int) -> None:
    """Files are several tasks', and rows come in more than one piece and are matched in more than one chunk."""
    limit(range_task_bytes=(1, 2_000, 1 << 20)[seed % 3], chunk_rows=(5, 1 << 20)[seed // 3 % 2])


def file_source(spark: SparkSession, place: Path, given: Random, parts: int = 2) -> DataFrame:
    """The changes in Parquet files."""
    spark.createDataFrame(given.changes, given.schema).repartition(parts).write.parquet(str(place))
    return spark.read.parquet(str(place))


# With these limits sources that are files are never held, nor kept, however small they are.
READ_BY_WORKERS = {**LARGE_SOURCES, "deferred_share": 0}


@pytest.mark.parametrize("seed", range(16 if ALL else 6))
def test_random_merges(spark: SparkSession, tmp_path: Path, limit: Callable[..., None], runs: list[Ran], seed: int) -> None:
    check(spark, tmp_path, limit, runs, random_merge(seed), seed)


def check(spark: SparkSession, folder: Path, limit: Callable[..., None], runs: list[Ran], given: Random, seed: int) -> None:
    """The merge comes to the same by a join, with the rows that Spark has, and with those that workers read."""
    joined, *sent = tables(spark, folder, given, ("joined", "by range", "by range, files", "by hash", "by hash, files"))
    changes = spark.createDataFrame(given.changes, given.schema)
    with conf(spark, JOIN):
        expected = ended(joined, spark, changes, given)
    in_pieces(limit, seed)
    source = file_source(spark, folder / "changes", given)
    runs.clear()
    for settings, (held, read) in zip(WAYS.values(), (sent[:2], sent[2:]), strict=True):
        with conf(spark, settings):
            assert ended(held, spark, changes, given) == expected
            with using(**READ_BY_WORKERS):
                assert ended(read, spark, source, given) == expected
    if len(expected) > 1 and given.rows and given.changes:
        attempts = [run.attempt for run in runs]
        readers = (Reader.SPARK, Reader.SPARK if COMPUTED in (given.matched, given.inserts) else Reader.WORKERS)
        assert [isinstance(a, Exchange) and (a.strategy.value, a.reader) for a in attempts] == [
            (name, reader) for name in ("range_exchange", "hash_exchange") for reader in readers
        ]
