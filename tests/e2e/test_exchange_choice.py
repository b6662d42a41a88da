"""Which merges are exchanged: by clauses, conditions, tables, files and sources."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import deltamerge
from deltamerge.budgets import using
from deltamerge.merge.execute.attempts import Ran
from deltamerge.merge.plan.logical import Strategy
from tests.e2e.counting import jobs_of
from tests.e2e.exchanges import (
    CHANGES,
    CHOOSING,
    JOIN,
    LEGAL,
    OTHER,
    PROJECTED,
    RANGE,
    READ_BY_WORKERS,
    ROWS,
    SCHEMA,
    exchanges_of,
    parquet,
)
from tests.e2e.tables import conf, content, make


@pytest.mark.parametrize("name", [*LEGAL, *CHOOSING, *PROJECTED, *OTHER])
def test_which_clauses_are_exchanged(
    spark: SparkSession, tmp_path: Path, runs: list[Ran], apart: None, name: str, way: str
) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS, files=3)
    merge = (LEGAL | CHOOSING | PROJECTED | OTHER)[name](
        table.merge(spark.createDataFrame(CHANGES, SCHEMA).alias("s"), "t.k = s.k")
    )
    is_exchanged = name not in OTHER
    strategy = f"{way}_exchange" if is_exchanged else "broadcast"
    assert (f"1. {way} exchange by k" in merge.explain()) is is_exchanged
    assert ("computed by Spark:" in merge.explain()) is (name in PROJECTED)
    assert merge.preview().strategy == strategy
    assert merge.run().strategy == strategy
    assert [(exchange is not None) is is_exchanged for exchange in exchanges_of(runs)] == [True, True]


def test_rows_without_a_match_change_while_a_second_job_inserts(
    spark: SparkSession, tmp_path: Path, runs: list[Ran], apart: None, way: str
) -> None:
    """The first job has the keys of the source alone, and what NOT MATCHED BY SOURCE clauses set."""
    source = parquet(spark, tmp_path / "changes", CHANGES).alias("s")
    for name, settings in (("joined", JOIN), ("exchanged", {})):
        merge = make(spark, tmp_path / name, SCHEMA, ROWS, files=3).merge(source, "t.k = s.k")
        merge = merge.whenNotMatchedInsertAll().whenNotMatchedBySourceUpdate("t.v > 3", {"v": "t.v + 1"})
        with conf(spark, settings), using(**READ_BY_WORKERS):
            merge.execute()
    assert exchanges_of(runs)[-1] is not None
    assert runs[-1].attempt.key_only  # type: ignore[attr-defined]
    assert content(spark, tmp_path / "exchanged") == content(spark, tmp_path / "joined")


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
def test_which_conditions_are_exchanged(spark: SparkSession, tmp_path: Path, condition: str) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS, files=3)
    with conf(spark, RANGE):
        report = table.merge(spark.createDataFrame(CHANGES, SCHEMA).alias("s"), condition).whenMatchedDelete().run()
    assert (report.strategy == "range_exchange") is CONDITIONS[condition]


@pytest.mark.parametrize(
    ("name", "properties"),
    [
        ("constraint", {"delta.constraints.positive": "v > -1"}),
        ("wider source", {}),
    ],
)
def test_which_tables_are_not_exchanged(spark: SparkSession, tmp_path: Path, name: str, properties: dict[str, str]) -> None:
    schema = "k int, v int, w string" if name == "wider source" else SCHEMA
    table = make(spark, tmp_path / "t", schema, ROWS[:4], properties=properties)
    with conf(spark, RANGE):
        merge = table.merge(spark.createDataFrame(CHANGES, SCHEMA).alias("s"), "t.k = s.k")
        report = merge.whenMatchedUpdate(set={"v": "s.v"}).run()
    assert report.strategy in ("broadcast", "spark_join")
    assert (3, 1, "w3") in content(spark, tmp_path / "t")


def test_rows_are_sent_by_their_partition_and_the_ranges_in_it(
    spark: SparkSession, tmp_path: Path, limit: Callable[..., None]
) -> None:
    limit(**READ_BY_WORKERS, range_task_bytes=1, exchange_insert_task_bytes=1)
    rows = [(k, p, k) for p in "abcd" for k in range(10)]
    changes = [(k, p, -k) for p in "bd" for k in range(5, 15)] + [(k, "z", -k) for k in range(20)] + [(1, None, -1)]
    schema = "k long, p string, v int"
    source = parquet(spark, tmp_path / "changes", changes, schema).alias("s")
    merge = make(spark, tmp_path / "t", schema, rows, partition_by=["p"])
    merge = LEGAL["upsert"](merge.merge(source, "t.k = s.k AND t.p = s.p"))
    assert "1. range exchange by p, k, files read by workers, because a source row goes to 1.0 tasks" in merge.explain()
    report = merge.run()
    assert (report.strategy, report.updated, report.inserted) == ("range_exchange", 10, 31)
    new = {(k, p): v for k, p, v in changes}
    wanted = {(k, p): v for k, p, v in rows} | new
    assert Counter(content(spark, tmp_path / "t")) == Counter((k, p, v) for (k, p), v in wanted.items())
    files = Counter(
        file.rpartition("/")[0].rpartition("=")[2] for file in deltamerge.read(spark, str(tmp_path / "t")).inputFiles()
    )
    # New rows beyond a partition's ranges are written beside those that change; those of a new partition by one task.
    assert [files[name] for name in ("a", "b", "c", "d", "z")] == [1, 2, 1, 2, 1]


@pytest.mark.classic
def test_keys_are_hashed_where_files_have_no_ranges_of_their_own(
    spark: SparkSession, tmp_path: Path, limit: Callable[..., None], runs: list[Ran], apart: None
) -> None:
    limit(**READ_BY_WORKERS, hash_least_tasks=2)
    changes = parquet(spark, tmp_path / "changes", CHANGES).alias("s")

    def merged(name: str, rows: list[tuple[Any, ...]], **limits: int) -> str:
        table = make(spark, tmp_path / name, SCHEMA, rows, files=3)
        with using(**limits):
            merge = LEGAL["upsert"](table.merge(changes, "t.k = s.k"))
            plan = merge.explain()
            strategy = merge.preview().strategy
            report = merge.run()
        assert content(spark, tmp_path / name) == content(spark, tmp_path / "apart")
        assert Strategy(report.strategy).text in plan
        assert report.strategy == strategy
        return strategy

    mixed = sorted(ROWS, key=lambda row: row[0] % 7)
    assert merged("apart", ROWS) == "range_exchange"
    assert merged("mixed", mixed) == "hash_exchange"
    assert merged("too wide", mixed, exchange_task_rows_bytes=100) == "spark_join"
    assert merged("tasks by the table's keys", mixed, hash_key_bytes=40 * 20 // 2) == "hash_exchange"
    assert merged("too few different keys", mixed, hash_key_bytes=40 * 20 // 3) == "spark_join"
    assert merged("too few for more tasks", mixed, hash_least_tasks=3) == "spark_join"
    changes = changes.where("v > 0")
    assert merged("read by Spark", mixed) == "spark_join"
    tasks = [None if found is None else found.hash_tasks for found in exchanges_of(runs[1::2])]
    assert tasks == [0, 2, None, 2, None, None, None]


def test_few_columns_are_joined_where_spark_reads_them_all(
    spark: SparkSession, tmp_path: Path, limit: Callable[..., None], runs: list[Ran], apart: None
) -> None:
    limit(**READ_BY_WORKERS)
    source = parquet(spark, tmp_path / "changes", CHANGES)
    for number, frame in enumerate((source, source.where("v >= 0"))):
        for name in ("upsert", "sync"):
            table = make(spark, tmp_path / f"{name}{number}", SCHEMA, ROWS, files=3)
            LEGAL[name](table.merge(frame.alias("s"), "t.k = s.k")).execute()
    assert [exchange is not None for exchange in exchanges_of(runs)] == [True, True, True, False]


@pytest.mark.classic
def test_the_jobs_of_an_exchange(
    spark: SparkSession, tmp_path: Path, read_by_spark: list[DataFrame], apart: None, way: str
) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS, files=3)
    source = parquet(spark, tmp_path / "changes", CHANGES).alias("s")
    jobs = {"update": 2, "upsert": 2, "sync": 3} if way == "range" else {"update": 3, "upsert": 4, "sync": 4}
    for name, expected in jobs.items():
        merge = LEGAL[name](table.merge(source, "t.k = s.k"))
        merge.explain()
        before = jobs_of(spark)
        merge.execute()
        assert jobs_of(spark) - before == expected, name


@pytest.mark.classic
def test_one_column_of_the_keys_is_enough_if_it_has_many_values(
    spark: SparkSession, tmp_path: Path, limit: Callable[..., None], runs: list[Ran], apart: None
) -> None:
    limit(**READ_BY_WORKERS)
    for number, step in enumerate((1, 1 << 10, 1 << 15)):
        rows = sorted(((n * step, v, w) for n, v, w in ROWS), key=lambda row: row[1] % 7)
        table = make(spark, tmp_path / str(number), SCHEMA, rows, files=3)
        changes = parquet(spark, tmp_path / f"s{number}", [(n * step, 10 * n, f"w{n}x") for n in (0, 9, 39)]).alias("s")
        for condition in ("t.k = s.k AND t.w = s.w", "t.w = s.w AND t.v = s.v AND t.k = s.k"):
            table.merge(changes, condition).whenMatchedDelete().execute()
    keys = [None if found is None else set(found.hash_keys) for found in exchanges_of(runs)]
    by_k, by_both = {("k", "k")}, {("v", "v"), ("k", "k")}
    assert keys == [None, None, None, by_both, by_k, by_k]
