"""Merges whose source rows are sent to the tasks that own the files: the same rows, counts and errors as by a join."""

from __future__ import annotations

import os
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import deltamerge
from deltamerge.budgets import using
from deltamerge.errors import DeltaMergeError, StorageError
from deltamerge.exceptions import DeltaMultipleMatchException
from deltamerge.merge import run
from deltamerge.merge.execute import execute, routed
from deltamerge.merge.plan import routing
from deltamerge.merge.plan.routing import Route
from deltamerge.spark.source import source_files
from deltamerge.spark.source.source import Source
from deltamerge.tables import DeltaMergeBuilder, DeltaTable
from deltamerge.worker.join import owned as owned_module
from deltamerge.worker.join.pairs import few_of_each
from tests.e2e.counting import jobs_of
from tests.e2e.tables import LARGE_SOURCES, conf, content, make, noted

DAY = date(2024, 2, 27)
ROUTED = {"spark.deltamerge.strategy": "route"}
MET = {"spark.deltamerge.strategy": "meet"}
WAYS = {"straight": ROUTED, "met": MET}
JOINED = {"spark.deltamerge.strategy": "join"}
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
    by_source: bool
    vectors: bool
    properties: dict[str, str]

    @property
    def condition(self) -> str:
        return " AND ".join(f"t.{key} = s.{key}" for key in self.keys)


KINDS = {
    "k long, v int, w string": ("k",),
    "k int, j string, v int, w string": ("k", "j"),
    "d date, k short, v int, w string": ("d", "k"),
    "w string, v int, k timestamp": ("k",),
    "k timestamp_ntz, v int, w string": ("k",),
}


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
        parts = {name: key if at == 0 or key is None else key % 3 for at, name in enumerate(keys)}
        if key is not None and len(keys) > 1:
            parts = {keys[0]: key // 3, keys[1]: key % 3}
        return tuple(value(name, parts.get(name, tag)) for name in types)

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
    matched, inserts = rng.choice(("none", "update", "some", "null", "delete")), rng.choice(("none", "all", "some"))
    by_source = rng.random() < 0.4
    if matched == inserts == "none" and not by_source:
        matched = "update"
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
    match given.inserts:
        case "all":
            merge = merge.whenNotMatchedInsertAll()
        case "some":
            merge = merge.whenNotMatchedInsert(values={**values, "v": "s.v"})
    return merge.whenNotMatchedBySourceDelete() if given.by_source else merge


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
    make(spark, folder / "made", given.schema, given.rows, files=given.files, vectors=given.vectors, properties=given.properties)
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


@pytest.mark.parametrize("seed", range(12))
def test_random_merges(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: Callable[..., None], seed: int
) -> None:
    given = random_merge(seed)
    check(spark, tmp_path, monkeypatch, limit, given, seed)


def check(
    spark: SparkSession, folder: Path, monkeypatch: pytest.MonkeyPatch, limit: Callable[..., None], given: Random, seed: int
) -> None:
    """The merge comes to the same by a join, with the rows that Spark has, and with those that workers read."""
    joined, *sent = tables(spark, folder, given, ("joined", "sent", "read", "sent to meet", "read to meet"))
    changes = spark.createDataFrame(given.changes, given.schema)
    with conf(spark, JOINED):
        expected = ended(joined, spark, changes, given)
    in_pieces(limit, seed)
    results = noted(monkeypatch, execute, "route_merge")
    source = file_source(spark, folder / "changes", given)
    specs = noted(monkeypatch, routed, "_source_spec")
    for settings, (held, read) in zip(WAYS.values(), (sent[:2], sent[2:]), strict=True):
        with conf(spark, settings):
            assert ended(held, spark, changes, given) == expected
            with using(**READ_BY_WORKERS):
                assert ended(read, spark, source, given) == expected
    if len(expected) > 1 and given.rows and given.changes:
        assert len(results) == 4
        assert len(specs) == 2


SCHEMA = "k long, v int, w string"
ROWS = [(n, 10 * n, f"w{n}") for n in range(40)]
CHANGED = pa.schema([("k", pa.int64()), ("v", pa.int32()), ("w", pa.string())])
CHANGES = [(3, 1, "w3"), (39, 2, "y"), (40, 3, "new"), (-1, 4, "new"), (None, 5, "new")]


def routes(monkeypatch: pytest.MonkeyPatch) -> list[Route | None]:
    """How merges are routed, None where they are not."""
    return noted(monkeypatch, execute, "route_of")


@pytest.fixture
def apart(limit: Callable[..., None]) -> None:
    """Each file is a task's own."""
    limit(range_task_bytes=1)


@pytest.fixture(params=WAYS)
def way(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    """How rows are sent: asked for by the session's setting."""
    with conf(spark, WAYS[request.param]):
        yield request.param


LEGAL = {
    "upsert": lambda merge: merge.whenMatchedUpdateAll().whenNotMatchedInsertAll(),
    "update": lambda merge: merge.whenMatchedUpdate(set={"v": "s.v", "w": "NULL"}),
    "delete": lambda merge: merge.whenMatchedDelete(),
    "sync": lambda merge: merge.whenNotMatchedInsertAll().whenNotMatchedBySourceDelete(),
}
OTHER = {
    "condition": lambda merge: merge.whenMatchedUpdateAll("s.v > 1"),
    "two clauses": lambda merge: merge.whenMatchedDelete("s.v > 1").whenMatchedUpdateAll(),
    "expression": lambda merge: merge.whenMatchedUpdate(set={"v": "s.v + 1"}),
    "target's value": lambda merge: merge.whenMatchedUpdate(set={"w": "t.w"}),
    "cast": lambda merge: merge.whenMatchedUpdate(set={"w": "s.v"}),
    "update by source": lambda merge: merge.whenNotMatchedBySourceUpdate(set={"v": "0"}),
    "delete by source of some": lambda merge: merge.whenNotMatchedBySourceDelete("t.v > 3"),
    "unchanged": lambda merge: merge.whenMatchedUpdateAll().skipUnchanged(),
}


@pytest.mark.parametrize("name", [*LEGAL, *OTHER])
def test_which_clauses_are_routed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, apart: None, name: str, way: str
) -> None:
    found = routes(monkeypatch)
    table = make(spark, tmp_path / "t", SCHEMA, ROWS, files=3)
    merge = (LEGAL | OTHER)[name](table.merge(spark.createDataFrame(CHANGES, SCHEMA).alias("s"), "t.k = s.k"))
    text = "rows are sent by k" if way == "straight" else "rows of both sides meet by k"
    assert (text in merge.explain()) is (name in LEGAL)
    assert merge.preview().strategy == (WAYS[way]["spark.deltamerge.strategy"] if name in LEGAL else "arrow")
    merge.execute()
    assert (found[0] is not None) is (name in LEGAL)
    assert found[0] is None or bool(found[0].meetings) is (way == "met")


CONDITIONS = {
    "t.k = s.k": True,
    "t.k = s.k AND t.v = s.v": True,
    "t.w = s.w AND t.k = s.k": True,
    "t.k <=> s.k": False,
    "t.w = s.w": False,
    "t.k = s.k AND t.v > 3": False,
    "t.k = s.k + 1": False,
    "t.k > s.k": False,
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_which_conditions_are_routed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, condition: str
) -> None:
    found = routes(monkeypatch)
    table = make(spark, tmp_path / "t", SCHEMA, ROWS, files=3)
    with conf(spark, ROUTED):
        table.merge(spark.createDataFrame(CHANGES, SCHEMA).alias("s"), condition).whenMatchedDelete().execute()
    assert (found[0] is not None) is CONDITIONS[condition]


@pytest.mark.parametrize(
    ("name", "properties"),
    [
        ("partitioned", {}),
        ("constraint", {"delta.constraints.positive": "v > -1"}),
        ("wider source", {}),
    ],
)
def test_which_tables_are_not_routed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, properties: dict[str, str]
) -> None:
    found = routes(monkeypatch)
    schema = "k int, v int, w string" if name == "wider source" else SCHEMA
    partition_by = ["w"] if name == "partitioned" else []
    table = make(spark, tmp_path / "t", schema, ROWS[:4], partition_by=partition_by, properties=properties)
    with conf(spark, ROUTED):
        merge = table.merge(spark.createDataFrame(CHANGES, SCHEMA).alias("s"), "t.k = s.k")
        merge.whenMatchedUpdate(set={"v": "s.v"}).execute()
    assert found[0] is None
    assert (3, 1, "w3") in content(spark, tmp_path / "t")


@pytest.mark.classic
def test_keys_meet_where_files_have_no_ranges_of_their_own(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: Callable[..., None], apart: None
) -> None:
    limit(**READ_BY_WORKERS, hash_least_tasks=2)
    found = routes(monkeypatch)
    changes = parquet(spark, tmp_path / "changes", CHANGES).alias("s")

    def merged(name: str, rows: list[tuple[Any, ...]], **limits: int) -> tuple[str, str]:
        table = make(spark, tmp_path / name, SCHEMA, rows, files=3)
        with using(**limits):
            merge = LEGAL["upsert"](table.merge(changes, "t.k = s.k"))
            told = merge.explain()
            strategy = merge.preview().strategy
            merge.execute()
        assert content(spark, tmp_path / name) == content(spark, tmp_path / "apart")
        return ("meet by k" if "meet by k" in told else "sent by k" if "sent by k" in told else ""), strategy

    mixed = sorted(ROWS, key=lambda row: row[0] % 7)
    assert merged("apart", ROWS) == ("sent by k", "route")
    assert merged("mixed", mixed) == ("meet by k", "meet")
    assert merged("too wide", mixed, exchange_task_rows_bytes=100)[1] == "join"
    assert merged("tasks by the table's keys", mixed, hash_key_bytes=40 * 20 // 2) == ("meet by k", "meet")
    assert merged("too few different keys", mixed, hash_key_bytes=40 * 20 // 3) == ("", "join")
    assert merged("too few for more tasks", mixed, hash_least_tasks=3) == ("", "join")
    changes = changes.where("v > 0")
    assert merged("read by Spark", mixed) == ("meet by k", "join")
    kinds = ["joined" if route is None else f"met by {route.meetings}" if route.meetings else "straight" for route in found]
    assert kinds == ["straight", "met by 2", "joined", "met by 2", "joined", "joined", "joined"]


@dataclass(frozen=True)
class Left:
    """What becomes of sources that are too large to be held, and small beside the table."""

    sources: list[Source]
    routes: list[Route | None]

    @property
    def last(self) -> str:
        """How the last merge ran: whether the source was left where it is, and how its rows went."""
        kept = "kept" if self.sources[-1].is_kept else "left"
        return f"{kept}, {'joined' if self.routes[-1] is None else 'met' if self.routes[-1].meetings else 'straight'}"


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch, limit: Callable[..., None], apart: None) -> Left:
    """Sources of merges into tables of which each file is a task's own."""
    limit(**LARGE_SOURCES, deferred_share=1e9)
    return Left(noted(monkeypatch, run, "materialize"), routes(monkeypatch))


FEW = [(3, 1, "w3"), (5, 2, "y"), (None, 5, "new"), (12, 2, "y"), (-1, 4, "new")]


def upserted(rows: list[tuple[Any, ...]], changes: list[tuple[Any, ...]]) -> list[str]:
    """The rows of a table after an upsert, by their text."""
    return sorted(str(row) for row in ({row[0]: row for row in rows} | {row[0]: row for row in changes}).values())


@pytest.mark.classic
def test_a_source_that_is_small_beside_the_table_goes_straight_to_its_files(
    spark: SparkSession, tmp_path: Path, left: Left
) -> None:
    changes = parquet(spark, tmp_path / "changes", FEW).alias("s")

    def merged(name: str, rows: list[tuple[Any, ...]] = ROWS, **limits: int) -> str:
        table = make(spark, tmp_path / name, SCHEMA, rows, files=3)
        with using(**limits):
            report = LEGAL["upsert"](table.merge(changes, "t.k = s.k")).run()
        assert sorted(str(row) for row in content(spark, tmp_path / name)) == upserted(ROWS, FEW)
        assert report.metrics["numSourceRows"] == len(FEW)
        assert [step.files for step in report.funnel] == [3, 3, 3 if name == "mixed" else 1]
        return left.last

    assert merged("apart") == "left, straight"
    row = left.sources[-1].bytes // len(FEW)
    fewer = len(ROWS) // 3 - 1  # than a file has
    assert merged("as many changes as can be held", exchange_task_rows_bytes=fewer * row) == "left, straight"
    assert merged("too many changes", exchange_task_rows_bytes=(len(FEW) - 1) * row) == "kept, joined"
    assert merged("mixed", sorted(ROWS, key=lambda row: row[0] % 7)) == "kept, joined"
    with conf(spark, {"spark.deltamerge.conflictRetries": "1"}):
        assert merged("may run again").startswith("kept")


@pytest.mark.classic
@pytest.mark.parametrize("name", ["told by no file", "another type", "ancient", "without a key", "another machine"])
def test_a_source_whose_files_do_not_tell_its_limits_is_kept(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: Left, name: str
) -> None:
    if name == "another machine":
        monkeypatch.setattr(source_files, "is_here", lambda session: False)
    key = pa.array([3, 5], pa.int32() if name == "another type" else pa.int64())
    rows = {"k": key, "v": pa.array([1, 2], pa.int32()), "w": ["a", "b"], "d": pa.array([-200_000, 3], pa.date32())}
    (tmp_path / "changes").mkdir()
    pq.write_table(pa.table(rows), tmp_path / "changes/a.parquet", write_statistics=name != "told by no file")
    made = [(n, n, f"w{n}", DAY + timedelta(days=n)) for n in range(40)]
    make(spark, tmp_path / "t", f"{SCHEMA}, d date", made, files=3)
    source = spark.read.schema(f"{SCHEMA}, d date").parquet(str(tmp_path / "changes")).alias("s")
    pair = {"ancient": "t.d = s.d", "without a key": "t.w = s.w"}.get(name, "t.k = s.k")
    merge = DeltaTable.forPath(spark, str(tmp_path / "t")).alias("t").merge(source, pair)
    merge.whenMatchedUpdate(set={"v": "s.v"}).execute()
    assert len(content(spark, tmp_path / "t")) == 40
    assert left.sources[-1].is_kept


@pytest.mark.classic
@pytest.mark.parametrize("why", ["another file", "too much"])
def test_a_source_that_can_not_be_left_after_all_is_evaluated_by_spark(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: Callable[..., None], left: Left, why: str
) -> None:
    place = tmp_path / "changes.parquet"
    limit(exchange_buffer_bytes=-1 if why == "too much" else 1 << 29)

    def write(rows: list[tuple[Any, ...]], time: int) -> None:
        """The rows in a file that is as long whatever the numbers are."""
        table = pa.Table.from_pylist([dict(zip("kvw", row, strict=True)) for row in rows], CHANGED)
        pq.write_table(table, place, compression="none", use_dictionary=False)
        os.utime(place, (time, time))

    write(FEW, 1_700_000_000)
    moved = [(row[0] and row[0] + 25, *row[1:]) for row in FEW]
    changes = spark.read.parquet(str(place)).alias("s")
    make(spark, tmp_path / "t", SCHEMA, ROWS, files=3)
    route_merge = execute.route_merge

    def later(*given: Any) -> Any:
        monkeypatch.setattr(execute, "route_merge", route_merge)
        if why == "another file":
            write(moved, 1_700_000_009)
        else:
            monkeypatch.setattr(owned_module, "pairs_of", None)  # it is refused before
        return route_merge(*given)

    monkeypatch.setattr(execute, "route_merge", later)
    LEGAL["upsert"](DeltaTable.forPath(spark, str(tmp_path / "t")).alias("t").merge(changes, "t.k = s.k")).execute()
    expected = moved if why == "another file" else FEW
    assert [source.is_kept for source in left.sources] == [False, True]
    assert sorted(str(row) for row in content(spark, tmp_path / "t")) == upserted(ROWS, expected)


@pytest.mark.classic
def test_commits_beyond_a_left_source_s_keys_are_no_conflict(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left: Left
) -> None:
    changes = parquet(spark, tmp_path / "changes", FEW).alias("s")
    make(spark, tmp_path / "t", SCHEMA, ROWS, files=3)
    route_merge = execute.route_merge

    def later(*given: Any) -> Any:
        deltamerge.write(spark.createDataFrame([(1000, 0, "far")], SCHEMA), str(tmp_path / "t"), mode="append")
        DeltaTable.forPath(spark, str(tmp_path / "t")).delete("k = 39")
        return route_merge(*given)

    monkeypatch.setattr(execute, "route_merge", later)
    LEGAL["upsert"](DeltaTable.forPath(spark, str(tmp_path / "t")).alias("t").merge(changes, "t.k = s.k")).execute()
    assert not left.sources[0].is_kept
    found = sorted(str(row) for row in content(spark, tmp_path / "t"))
    assert found == upserted([*ROWS[:-1], (1000, 0, "far")], FEW)


def test_a_row_that_is_hit_twice_is_refused_and_nothing_is_left(
    spark: SparkSession, tmp_path: Path, limit: Callable[..., None], apart: None, way: str
) -> None:
    limit(**READ_BY_WORKERS)
    table = make(spark, tmp_path / "t", SCHEMA, ROWS, files=3)
    files = sorted(tmp_path.rglob("*.parquet"))
    source = parquet(spark, tmp_path / "changes", [*CHANGES, (3, 7, "again")])
    for name in ("upsert", "update"):
        with pytest.raises(DeltaMultipleMatchException, match="1 target row") as caught:
            LEGAL[name](table.merge(source.alias("s"), "t.k = s.k")).execute()
        assert "v=7" in str(caught.value)
    assert sorted((tmp_path / "t").rglob("*.parquet")) == files
    table.merge(source.alias("s"), "t.k = s.k").whenMatchedDelete().execute()
    assert len(content(spark, tmp_path / "t")) == len(ROWS) - 2


def test_few_columns_are_joined_where_spark_reads_them_all(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: Callable[..., None], apart: None
) -> None:
    limit(**READ_BY_WORKERS)
    found = routes(monkeypatch)
    source = parquet(spark, tmp_path / "changes", CHANGES)
    for number, frame in enumerate((source, source.where("v >= 0"))):
        for name in ("upsert", "sync"):
            table = make(spark, tmp_path / f"{name}{number}", SCHEMA, ROWS, files=3)
            LEGAL[name](table.merge(frame.alias("s"), "t.k = s.k")).execute()
    assert [route is not None for route in found] == [True, True, True, False]


def parquet(spark: SparkSession, place: Path, rows: list[tuple[Any, ...]], schema: str = SCHEMA) -> DataFrame:
    """Rows in a Parquet file."""
    spark.createDataFrame(rows, schema).coalesce(1).write.parquet(str(place))
    return spark.read.parquet(str(place))


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch, limit: Callable[..., None]) -> list[DataFrame]:
    """The frames of the sources that Spark had to read."""
    limit(**READ_BY_WORKERS)
    return noted(monkeypatch, routed, "routed_rows")


@pytest.mark.parametrize("name", ["upsert", "sync"])
def test_a_file_that_spark_may_read_otherwise_is_left_to_spark(
    spark: SparkSession, tmp_path: Path, refused: list[DataFrame], apart: None, name: str, way: str
) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS, files=3)
    place = tmp_path / "changes"
    parquet(spark, place, CHANGES)
    lacking = pa.table({"k": pa.array([7, 77], pa.int64()), "v": pa.array([1, 2], pa.int32())})
    pq.write_table(lacking, place / "lacking.parquet")
    source = spark.read.schema(SCHEMA).parquet(str(place)).alias("s")
    LEGAL[name](table.merge(source, "t.k = s.k")).execute()
    assert len(refused) == 1
    found = content(spark, tmp_path / "t")
    assert (77, 2, None) in found
    assert ((7, 1, None) in found) is (name == "upsert")


ANCIENT = pa.array([-200_000, 3], pa.date32())
ODD = {
    "dates of an unknown calendar": {"d": ANCIENT},
    "times of an unknown calendar": {"t": pa.array([-20 * 10**15, 3], pa.timestamp("us", "UTC"))},
    "milliseconds": {"t": pa.array([2**61, 3], pa.timestamp("ms", "UTC"))},
    "nanoseconds": {"t": pa.array([2**61, 3], pa.timestamp("ns", "UTC"))},
    "times without a zone": {"t": pa.array([3, 4], pa.timestamp("us"))},
    "names that differ in case": {"d": ANCIENT.slice(1).take([0, 0]), "D": ANCIENT.slice(1).take([0, 0])},
    "whole numbers": {"d": pa.array([1, 2], pa.int32())},
}


@pytest.mark.parametrize("kind", ODD)
def test_values_that_spark_may_read_otherwise_are_left_to_it(
    spark: SparkSession, tmp_path: Path, refused: list[DataFrame], apart: None, kind: str
) -> None:
    (tmp_path / "changes").mkdir()
    pq.write_table(pa.table({"k": pa.array([3, 77]), **ODD[kind]}), tmp_path / "changes" / "odd.parquet")
    name = next(iter(ODD[kind]))
    schema = f"k long, {name} {'timestamp' if name == 't' else 'date'}"
    read = spark.read.schema(schema)
    options = [{}] if kind.startswith("n") else [{}, {"datetimeRebaseMode": "LEGACY"}, {"datetimeRebaseMode": "EXCEPTION"}]
    for number, option in enumerate(options):
        ends = []
        for settings in (ROUTED, JOINED):
            place = tmp_path / f"t{number}{settings == ROUTED}"
            table = make(spark, place, schema, [(3, None), (4, None)], files=2)
            source = read.options(**option).parquet(str(tmp_path / "changes")).alias("s")
            try:
                with conf(spark, settings):
                    LEGAL["upsert"](table.merge(source, "t.k = s.k")).execute()
            except DeltaMergeError as error:
                ends.append((error.condition, None))
            else:
                ends.append(("", [str(row) for row in deltamerge.read(spark, str(place)).toArrow().sort_by("k").to_pylist()]))
        assert ends[0] == ends[1]
    assert len(refused) == len(options)


@pytest.mark.parametrize("name", ["sync", "upsert"])
def test_a_file_that_is_replaced_meanwhile_is_not_read_by_places(
    spark: SparkSession,
    tmp_path: Path,
    refused: list[DataFrame],
    apart: None,
    monkeypatch: pytest.MonkeyPatch,
    way: str,
    name: str,
) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS, files=3)
    source = parquet(spark, tmp_path / "changes", CHANGES)
    (file,) = (tmp_path / "changes").glob("*.parquet")
    (tmp_path / "changes" / f".{file.name}.crc").unlink()
    inserted = routed.inserted_frame

    def replacing(*given: Any) -> DataFrame:
        rows = pq.read_table(file)
        file.unlink()
        pq.write_table(rows.take(pa.array(range(rows.num_rows))[::-1]), file)
        return inserted(*given)

    monkeypatch.setattr(routed, "inserted_frame", replacing)
    by_places = name == "sync" or way == "met"
    LEGAL[name](table.merge(source.alias("s"), "t.k = s.k")).execute()
    assert len(refused) == by_places
    found = content(spark, tmp_path / "t")
    kept = [-1, 3, 39, 40] if name == "sync" else range(-1, 41)
    assert sorted(row[0] for row in found if row[0] is not None) == [*kept]
    assert name == "sync" or (3, 1, "w3") in found
    log = deltamerge.read(spark, str(tmp_path / "t")).inputFiles()
    copied = 0 if name == "sync" else 1  # a file without a changed row stays
    assert len(list((tmp_path / "t").glob("*.parquet"))) == 3 + len(set(log)) - copied


def test_a_failure_of_the_second_job_leaves_nothing(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: list[DataFrame], apart: None, way: str
) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS, files=3)
    files = sorted((tmp_path / "t").rglob("*.parquet"))
    source = parquet(spark, tmp_path / "changes", CHANGES).alias("s")
    names = noted(monkeypatch, routed, "_written")

    def full(*given: Any) -> None:
        raise StorageError("DELTAMERGE_STORAGE_REFUSED", "the disk is full")

    monkeypatch.setattr(routed, "inserted_frame", full)
    for name in ("sync", "upsert")[: 2 if way == "met" else 1]:
        with pytest.raises(StorageError):
            LEGAL[name](table.merge(source, "t.k = s.k")).execute()
        assert names.pop()
    assert sorted((tmp_path / "t").rglob("*.parquet")) == files
    assert not refused


TYPES = (
    "k long, b byte, h short, i int, f float, d double, q boolean, s string, z binary, e decimal(9,2), g decimal(30,5), a date"
)


@pytest.mark.parametrize("kind", ["INT96", "TIMESTAMP_MICROS"])
def test_values_of_all_plain_types_are_read_as_spark_reads_them(
    spark: SparkSession, tmp_path: Path, refused: list[DataFrame], kind: str
) -> None:
    schema = f"{TYPES}, t timestamp, n timestamp_ntz"
    made = spark.range(50).selectExpr(
        "id AS k",
        *[f"CASE WHEN id % 7 = 3 THEN NULL ELSE CAST(id % 50 - 20 AS {kind}) END AS {name}" for name, kind in
          [part.split() for part in TYPES.split(", ")[1:] if part.split()[1] not in ("binary", "boolean", "date")]],
        "id % 3 = 0 AS q",
        "CAST(CONCAT('z', id) AS BINARY) AS z",
        "DATE '1583-01-01' + CAST(id * 3000 AS INT) AS a",
        "TIMESTAMP '1901-02-03 04:05:06.789' + make_interval(id) AS t",
        "TIMESTAMP_NTZ '1901-02-03 04:05:06.789' + make_interval(id) AS n",
    ).select(*[part.split()[0] for part in schema.split(", ")])  # fmt: skip
    with conf(spark, {"spark.sql.parquet.outputTimestampType": kind}):
        made.coalesce(2).write.parquet(str(tmp_path / "changes"))
    source = spark.read.parquet(str(tmp_path / "changes"))
    results = []
    for name, settings in (*WAYS.items(), ("joined", JOINED)):
        deltamerge.write(source.where("k % 4 = 0"), str(tmp_path / name))
        table = DeltaTable.forPath(spark, str(tmp_path / name)).alias("t")
        with conf(spark, settings):
            table.merge(source.alias("s"), "t.k = s.k").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
        results.append(content(spark, tmp_path / name))
    assert results == 3 * [sorted(map(tuple, source.collect()))]
    assert not refused


@pytest.mark.classic
def test_the_jobs_of_a_routed_merge(spark: SparkSession, tmp_path: Path, refused: list[DataFrame], apart: None, way: str) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS, files=3)
    source = parquet(spark, tmp_path / "changes", CHANGES).alias("s")
    jobs = {"update": 2, "upsert": 2, "sync": 3} if way == "straight" else {"update": 3, "upsert": 4, "sync": 4}
    for name, expected in jobs.items():
        merge = LEGAL[name](table.merge(source, "t.k = s.k"))
        merge.explain()
        before = jobs_of(spark)
        merge.execute()
        assert jobs_of(spark) - before == expected, name


def test_what_a_task_may_hold_counts_the_rows_of_its_files(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: Callable[..., None]
) -> None:
    found = routes(monkeypatch)
    table = make(spark, tmp_path / "t", SCHEMA, ROWS, files=4)
    for each, most in ((1, 10), (1 << 30, 36)):
        limit(range_task_bytes=each)
        with conf(spark, ROUTED):
            table.merge(
                spark.createDataFrame([(n, 1, "x") for n in (3, 13, 23, 33)], SCHEMA).alias("s"), "t.k = s.k"
            ).whenMatchedDelete().execute()
        assert found[-1] is not None
        assert found[-1].most == most


def test_inserted_rows_are_put_into_the_files_that_are_written_again(
    spark: SparkSession, tmp_path: Path, limit: Callable[..., None], apart: None
) -> None:
    limit(small_file_bytes=0)
    table = make(spark, tmp_path / "t", SCHEMA, [(2 * key, v, w) for key, v, w in ROWS], files=4)
    changes = spark.createDataFrame([(key, 1, "x") for key in range(79)], SCHEMA).alias("s")
    with conf(spark, ROUTED):
        report = LEGAL["upsert"](table.merge(changes, "t.k = s.k")).run()
    assert [report.metrics[f"numTargetFiles{what}"] for what in ("Added", "Removed")] == [4 + 1, 4]
    assert [row[0] for row in content(spark, tmp_path / "t")] == list(range(79))


@pytest.mark.parametrize("read", ["Spark", "workers"])
@pytest.mark.parametrize("name", ["insert", "upsert", "sync"])
def test_rows_in_the_ranges_of_several_files_are_inserted_once(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    limit: Callable[..., None],
    apart: None,
    name: str,
    read: str,
    way: str,
) -> None:
    held = [0, 10, 20, 5, 15, 25, 12, 13, 40]
    sent = [7, 10, 15, 14, 22, 13, 30, 50, -1, 25, 0]
    table = make(spark, tmp_path / "t", SCHEMA, [(key, 0, "old") for key in held], files=3)
    changes = [(key, 1, "new") for key in sent]
    source = parquet(spark, tmp_path / "changes", changes) if read == "workers" else spark.createDataFrame(changes, SCHEMA)
    found = routes(monkeypatch)
    if read == "workers":
        limit(**READ_BY_WORKERS)
    merge = table.merge(source.alias("s"), "t.k = s.k")
    (merge.whenNotMatchedInsertAll() if name == "insert" else LEGAL[name](merge)).execute()
    assert found[0] is not None
    assert len(found[0].ranges.files) == 3
    expected = {key: "new" for key in sent if key not in held}
    expected |= {key: "new" if name == "upsert" and key in sent else "old" for key in held if name != "sync" or key in sent}
    assert [(key, w) for key, _, w in content(spark, tmp_path / "t")] == sorted(expected.items())


@pytest.mark.classic
def test_keys_that_both_sides_repeat_are_not_multiplied(
    spark: SparkSession, tmp_path: Path, limit: Callable[..., None], apart: None, way: str
) -> None:
    limit(chunk_rows=300)
    rows = [(3, n, "w") for n in range(200)] + [(9, n, "w") for n in range(3)]
    changes = spark.createDataFrame(
        [(3, n, "x") for n in range(1000)] + [(5, 1, "new"), (5, 2, "new"), (9, 1, "x")], SCHEMA
    ).alias("s")
    for name, expected in (("delete", {}), ("sync", {3: 200, 5: 2, 9: 3})):
        for files in (1, 2):
            place = tmp_path / f"{name}{files}"
            LEGAL[name](make(spark, place, SCHEMA, rows, files=files).merge(changes, "t.k = s.k")).execute()
            assert Counter(key for key, _, _ in content(spark, place)) == expected
    with pytest.raises(DeltaMultipleMatchException, match="200 target rows"):
        LEGAL["upsert"](make(spark, tmp_path / "upsert", SCHEMA, rows, files=2).merge(changes, "t.k = s.k")).execute()
    hits = pa.array([0, 0, 0, 1, None, 1, 0], pa.int64())
    assert few_of_each(hits, 2).to_pylist() == [0, 0, None, 1, None, 1, None]
    assert few_of_each(hits, 4) is hits


@pytest.mark.parametrize("name", ["upsert", "sync"])
def test_files_without_statistics_may_have_every_key(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, apart: None, name: str, way: str
) -> None:
    found = routes(monkeypatch)
    rows = [(key, 0, "old") for key in range(-30, 0)]
    table = make(spark, tmp_path / "t", SCHEMA, rows, files=3, properties={"delta.dataSkippingNumIndexedCols": "0"})
    changes = spark.createDataFrame([(n, 1, "x") for n in (-27, -17, -7, 3)], SCHEMA).alias("s")
    LEGAL[name](table.merge(changes, "t.k = s.k")).execute()
    assert found[0] is not None
    assert found[0].overlap == 3
    assert found[0].span == 0
    expected = [*range(-30, 0), 3] if name == "upsert" else [-27, -17, -7, 3]
    assert [row[0] for row in content(spark, tmp_path / "t")] == expected


MOVED = {
    "upsert": (LEGAL["upsert"], True),
    "update all": (lambda merge: merge.whenMatchedUpdateAll(), True),
    "the same by name": (
        lambda merge: merge.whenMatchedUpdate(set={"k": "s.k", "v": "s.v", "w": "NULL"}).whenNotMatchedInsert(
            values={"k": "s.k", "v": "s.v"}
        ),
        True,
    ),
    "others are inserted": (
        lambda merge: merge.whenMatchedUpdateAll().whenNotMatchedInsert(values={"k": "s.k", "v": "s.v"}),
        False,
    ),
    "a column is kept": (lambda merge: merge.whenMatchedUpdate(set={"k": "s.k", "v": "s.v"}).whenNotMatchedInsertAll(), False),
    "sync": (LEGAL["sync"], False),
    "all three": (lambda merge: LEGAL["upsert"](merge).whenNotMatchedBySourceDelete(), True),
}


@pytest.mark.classic
@pytest.mark.parametrize("vectors", [False, True])
@pytest.mark.parametrize("name", MOVED)
def test_updated_rows_of_which_nothing_is_kept_may_move(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: list[DataFrame], name: str, vectors: bool
) -> None:
    clauses, moves = MOVED[name]
    found = routes(monkeypatch)
    results = []
    source = parquet(spark, tmp_path / "changes", [*CHANGES, *((n, 7, "y") for n in range(10, 30))]).alias("s")
    for settings in (MET, JOINED):
        place = tmp_path / settings["spark.deltamerge.strategy"]
        table = make(spark, place, SCHEMA, ROWS, files=3, vectors=vectors)
        with conf(spark, settings):
            report = clauses(table.merge(source, "t.k = s.k")).run()
        counts = {what: report.metrics[f"numTargetRows{what}"] for what in ("Inserted", "Updated", "Deleted")}
        results.append((content(spark, place), counts))
    assert results[0] == results[1]
    assert found[0] is not None
    assert found[0].moves is moves
    assert not refused


@pytest.mark.classic
@pytest.mark.parametrize("property", ["delta.enableChangeDataFeed", "delta.enableRowTracking"])
def test_what_is_told_of_a_row_keeps_it_in_its_file(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: list[DataFrame], property: str
) -> None:
    found = routes(monkeypatch)
    table = make(spark, tmp_path / "t", SCHEMA, ROWS, files=3, properties={property: "true"})
    with conf(spark, MET):
        LEGAL["upsert"](table.merge(parquet(spark, tmp_path / "changes", CHANGES).alias("s"), "t.k = s.k")).execute()
    assert found[0] is not None
    assert not found[0].moves
    assert (3, 1, "w3") in content(spark, tmp_path / "t")


@pytest.mark.classic
@pytest.mark.parametrize("name", ["upsert", "update"])
def test_a_task_that_would_hold_too_much_leaves_the_merge_to_spark(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    refused: list[DataFrame],
    apart: None,
    way: str,
    name: str,
) -> None:
    joins = noted(monkeypatch, execute, "written_frame")
    source = parquet(spark, tmp_path / "changes", [(7, 1, "long" * 5_000), (8, 1, "x"), (100, 1, "new")]).alias("s")
    for key in (7, 9):
        joined = key == 7 and name == "upsert"
        table = make(spark, tmp_path / f"t{key}", SCHEMA, [(8, 0, "w"), *((key, n, "w") for n in range(500))], files=2)
        with using(exchange_buffer_bytes=1 << 20):
            LEGAL[name](table.merge(source, "t.k = s.k")).execute()
        assert len(joins) == joined
        joins.clear()
        assert not refused
        found = Counter((k, v, w and w[:4]) for k, v, w in content(spark, tmp_path / f"t{key}"))
        assert found[7, 1, "long" if name == "upsert" else None] == (500 if key == 7 else name == "upsert")
        assert found[8, 1, "x" if name == "upsert" else None] == 1


@pytest.mark.classic
def test_one_column_of_the_keys_is_enough_if_it_has_many_values(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: Callable[..., None], apart: None
) -> None:
    limit(**READ_BY_WORKERS)
    found = routes(monkeypatch)
    for number, step in enumerate((1, 1 << 10, 1 << 15)):
        rows = sorted(((n * step, v, w) for n, v, w in ROWS), key=lambda row: row[1] % 7)
        table = make(spark, tmp_path / str(number), SCHEMA, rows, files=3)
        changes = parquet(spark, tmp_path / f"s{number}", [(n * step, 10 * n, f"w{n}x") for n in (0, 9, 39)]).alias("s")
        for condition in ("t.k = s.k AND t.w = s.w", "t.w = s.w AND t.v = s.v AND t.k = s.k"):
            table.merge(changes, condition).whenMatchedDelete().execute()
    keys = [None if route is None else set(route.keys) for route in found]
    by_k, by_both = {("k", "k")}, {("v", "v"), ("k", "k")}
    assert keys == [None, None, None, by_both, by_k, by_k]


@pytest.mark.classic
@pytest.mark.parametrize("clustered", [False, True])
def test_rows_of_a_clustered_table_stay_where_they_are(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: list[DataFrame], clustered: bool
) -> None:
    found = routes(monkeypatch)
    monkeypatch.setattr(routing, "clustering_columns", lambda snapshot: [("v",)] if clustered else [])
    table = make(spark, tmp_path / "t", SCHEMA, ROWS, files=3)
    with conf(spark, MET):
        LEGAL["upsert"](table.merge(parquet(spark, tmp_path / "changes", CHANGES).alias("s"), "t.k = s.k")).execute()
    assert found[0] is not None
    assert found[0].moves is not clustered
    assert (3, 1, "w3") in content(spark, tmp_path / "t")


@pytest.mark.classic
def test_source_rows_that_stand_for_several_rows_are_sent_to_their_files(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refused: list[DataFrame], apart: None
) -> None:
    runs = noted(monkeypatch, routed, "met_frame")
    table = make(spark, tmp_path / "t", SCHEMA, [*ROWS, (3, 0, "again"), (30, 0, "again")], files=3)
    source = parquet(spark, tmp_path / "changes", CHANGES)
    with conf(spark, MET):
        report = LEGAL["upsert"](table.merge(source.alias("s"), "t.k = s.k")).run()
    assert len(runs) == 2
    assert not refused
    assert report.metrics["numTargetRowsUpdated"] == 3
    found = content(spark, tmp_path / "t")
    assert found.count((3, 1, "w3")) == 2
    assert (30, 0, "again") in found
    names = {name.rpartition("/")[2] for name in deltamerge.read(spark, str(tmp_path / "t")).inputFiles()}
    assert names <= (files := {file.name for file in (tmp_path / "t").glob("*.parquet")})
    assert len(files) == 3 + report.metrics["numTargetFilesAdded"]
