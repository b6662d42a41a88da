"""What becomes of rows that are exchanged: matched once, inserted once, written where they belong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import deltamerge
from deltamerge.budgets import using
from deltamerge.exceptions import DeltaMultipleMatchException
from deltamerge.merge.execute.attempts import Ran
from deltamerge.merge.plan import exchange as plan_exchange
from deltamerge.merge.plan.physical import Exchange
from deltamerge.worker.scan.outcomes import KeysRepeated
from tests.e2e.exchanges import CHANGES, HASH, JOIN, LEGAL, RANGE, READ_BY_WORKERS, ROWS, SCHEMA, exchanges_of, parquet
from tests.e2e.tables import conf, content, make


def test_a_row_that_is_matched_twice_is_refused_and_nothing_is_left(
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


def test_inserted_rows_are_put_into_the_files_that_are_written_again(
    spark: SparkSession, tmp_path: Path, limit: Callable[..., None], apart: None
) -> None:
    limit(small_file_bytes=0)
    table = make(spark, tmp_path / "t", SCHEMA, [(2 * key, v, w) for key, v, w in ROWS], files=4)
    changes = spark.createDataFrame([(key, 1, "x") for key in range(79)], SCHEMA).alias("s")
    with conf(spark, RANGE):
        report = LEGAL["upsert"](table.merge(changes, "t.k = s.k")).run()
    assert [report.metrics[f"numTargetFiles{what}"] for what in ("Added", "Removed")] == [4 + 1, 4]
    assert [row[0] for row in content(spark, tmp_path / "t")] == list(range(79))


@pytest.mark.parametrize("read", ["Spark", "workers"])
@pytest.mark.parametrize("name", ["insert", "upsert", "sync"])
def test_rows_in_the_ranges_of_several_files_are_inserted_once(
    spark: SparkSession,
    tmp_path: Path,
    limit: Callable[..., None],
    runs: list[Ran],
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
    if read == "workers":
        limit(**READ_BY_WORKERS)
    merge = table.merge(source.alias("s"), "t.k = s.k")
    (merge.whenNotMatchedInsertAll() if name == "insert" else LEGAL[name](merge)).execute()
    (exchange,) = exchanges_of(runs)
    assert exchange is not None
    assert len(exchange.ranges.files) == 3
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


@pytest.mark.parametrize("name", ["upsert", "sync"])
def test_files_without_statistics_may_have_every_key(
    spark: SparkSession, tmp_path: Path, runs: list[Ran], apart: None, name: str, way: str
) -> None:
    rows = [(key, 0, "old") for key in range(-30, 0)]
    table = make(spark, tmp_path / "t", SCHEMA, rows, files=3, properties={"delta.dataSkippingNumIndexedCols": "0"})
    changes = spark.createDataFrame([(n, 1, "x") for n in (-27, -17, -7, 3)], SCHEMA).alias("s")
    LEGAL[name](table.merge(changes, "t.k = s.k")).execute()
    (exchange,) = exchanges_of(runs)
    assert exchange is not None
    assert way == "hash" or exchange.reason.startswith("a source row goes to 3.0 tasks")
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
    "under conditions": (
        lambda merge: merge.whenMatchedUpdateAll("t.v > 0 AND t.k % 3 <> 0 OR t.w IS NULL").whenNotMatchedInsertAll("s.k < 25"),
        True,
    ),
    "insert under a condition": (lambda merge: merge.whenMatchedUpdateAll().whenNotMatchedInsertAll("s.k % 2 = 0"), True),
    "update under a condition": (lambda merge: merge.whenMatchedUpdateAll("s.k > 20").whenNotMatchedInsertAll(), True),
    "a value is computed": (lambda merge: merge.whenMatchedUpdate(set={"k": "s.k", "v": "s.v + 1", "w": "s.w"}), False),
    "conditions of most columns": (lambda merge: merge.whenMatchedUpdateAll("s.w <> t.w").whenNotMatchedInsertAll(), False),
    "all three under conditions": (
        lambda merge: (
            merge.whenMatchedUpdateAll("t.w IS NULL OR s.k > t.v OR t.k > 20")
            .whenNotMatchedInsertAll("s.k > 50 OR s.k IS NULL")
            .whenNotMatchedBySourceDelete("t.k > 4")
        ),
        True,
    ),
    "sync": (LEGAL["sync"], False),
    "all three": (lambda merge: LEGAL["upsert"](merge).whenNotMatchedBySourceDelete(), True),
}


@pytest.mark.classic
@pytest.mark.parametrize("vectors", [False, True])
@pytest.mark.parametrize("name", MOVED)
def test_updated_rows_of_which_nothing_is_kept_may_move(
    spark: SparkSession, tmp_path: Path, runs: list[Ran], read_by_spark: list[DataFrame], name: str, vectors: bool
) -> None:
    clauses, moves = MOVED[name]
    results = []
    source = parquet(spark, tmp_path / "changes", [*CHANGES, *((n, 7, "y") for n in range(10, 30))]).alias("s")
    for settings in (HASH, JOIN):
        place = tmp_path / settings["spark.deltamerge.strategy"]
        table = make(spark, place, SCHEMA, ROWS, files=3, vectors=vectors)
        with conf(spark, settings):
            report = clauses(table.merge(source, "t.k = s.k")).run()
        counts = {what: report.metrics[f"numTargetRows{what}"] for what in ("Inserted", "Updated", "Deleted")}
        results.append((content(spark, place), counts))
    assert results[0] == results[1]
    exchange, _ = exchanges_of(runs)
    assert exchange is not None
    assert exchange.update_as_delete_insert is moves
    assert not read_by_spark


ASKED = {
    "update": (
        lambda merge: merge.whenMatchedUpdateAll("s.v > t.v AND t.x <> 60 OR t.y IS NULL").whenNotMatchedInsertAll(),
        ("k", "v"),
    ),
    "insert": (lambda merge: merge.whenMatchedUpdateAll().whenNotMatchedInsertAll("s.w < 'n50' OR s.w IS NULL"), ("k", "w")),
    "both": (
        lambda merge: merge.whenMatchedUpdateAll("s.v < t.z OR s.v > 100").whenNotMatchedInsertAll("s.x % 3 = 0"),
        ("k", "v", "x"),
    ),
}


@pytest.mark.classic
@pytest.mark.parametrize("vectors", [False, True])
@pytest.mark.parametrize("name", ASKED)
def test_columns_that_conditions_need_are_sent_with_the_keys(
    spark: SparkSession,
    tmp_path: Path,
    limit: Callable[..., None],
    runs: list[Ran],
    read_by_spark: list[DataFrame],
    name: str,
    vectors: bool,
) -> None:
    clauses, sent = ASKED[name]
    limit(piece_bytes=100)
    schema = "k long, v int, w string, x int, y int, z int"
    rows = [(n, 10 * n % 70, f"w{n}", n, None if n % 7 == 0 else n, n % 50) for n in range(80)]
    changes = [(2 * n, 7 * n % 120, f"n{n}" if n % 9 else None, n, n, n) for n in range(60)]
    source = parquet(spark, tmp_path / "changes", [*changes, (None, 1, "null", 3, 0, 0)], schema).alias("s")
    results = []
    for settings in (HASH, JOIN):
        place = tmp_path / settings["spark.deltamerge.strategy"]
        with conf(spark, settings):
            table = make(spark, place, schema, rows, files=3, vectors=vectors)
            report = clauses(table.merge(source, "t.k = s.k")).run()
        counts = {what: report.metrics[f"numTargetRows{what}"] for what in ("Inserted", "Updated")}
        results.append((content(spark, place), counts))
    assert results[0] == results[1]
    assert results[0][1]["Inserted"]
    assert results[0][1]["Updated"]
    attempt = runs[0].attempt
    assert isinstance(attempt, Exchange)
    assert (attempt.key_only, attempt.update_as_delete_insert) == (sent, True)
    assert not read_by_spark


@pytest.mark.classic
@pytest.mark.parametrize("property", ["delta.enableChangeDataFeed", "delta.enableRowTracking"])
def test_what_is_recorded_of_a_row_keeps_it_in_its_file(
    spark: SparkSession, tmp_path: Path, runs: list[Ran], read_by_spark: list[DataFrame], property: str
) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS, files=3, properties={property: "true"})
    with conf(spark, HASH):
        LEGAL["upsert"](table.merge(parquet(spark, tmp_path / "changes", CHANGES).alias("s"), "t.k = s.k")).execute()
    (exchange,) = exchanges_of(runs)
    assert exchange is not None
    assert not exchange.update_as_delete_insert
    assert (3, 1, "w3") in content(spark, tmp_path / "t")


@pytest.mark.classic
@pytest.mark.parametrize("name", ["upsert", "update"])
def test_a_task_that_would_buffer_too_much_leaves_the_merge_to_spark(
    spark: SparkSession,
    tmp_path: Path,
    runs: list[Ran],
    read_by_spark: list[DataFrame],
    apart: None,
    way: str,
    name: str,
) -> None:
    source = parquet(spark, tmp_path / "changes", [(7, 1, "long" * 5_000), (8, 1, "x"), (100, 1, "new")]).alias("s")
    for key in (7, 9):
        joined = key == 7 and name == "upsert"
        table = make(spark, tmp_path / f"t{key}", SCHEMA, [(8, 0, "w"), *((key, n, "w") for n in range(500))], files=2)
        with using(exchange_buffer_bytes=1 << 20):
            LEGAL[name](table.merge(source, "t.k = s.k")).execute()
        assert (runs[-1].attempt.strategy.value == "spark_join") is joined
        assert not read_by_spark
        found = Counter((k, v, w and w[:4]) for k, v, w in content(spark, tmp_path / f"t{key}"))
        assert found[7, 1, "long" if name == "upsert" else None] == (500 if key == 7 else name == "upsert")
        assert found[8, 1, "x" if name == "upsert" else None] == 1


@pytest.mark.classic
@pytest.mark.parametrize("clustered", [False, True])
def test_rows_of_a_clustered_table_stay_where_they_are(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    runs: list[Ran],
    read_by_spark: list[DataFrame],
    clustered: bool,
) -> None:
    monkeypatch.setattr(plan_exchange, "clustering_columns", lambda snapshot: [("v",)] if clustered else [])
    table = make(spark, tmp_path / "t", SCHEMA, ROWS, files=3)
    with conf(spark, HASH):
        LEGAL["upsert"](table.merge(parquet(spark, tmp_path / "changes", CHANGES).alias("s"), "t.k = s.k")).execute()
    (exchange,) = exchanges_of(runs)
    assert exchange is not None
    assert exchange.update_as_delete_insert is not clustered
    assert (3, 1, "w3") in content(spark, tmp_path / "t")


@pytest.mark.classic
def test_source_rows_that_stand_for_several_rows_are_sent_to_their_files(
    spark: SparkSession, tmp_path: Path, runs: list[Ran], read_by_spark: list[DataFrame], apart: None
) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, [*ROWS, (3, 0, "again"), (30, 0, "again")], files=3)
    source = parquet(spark, tmp_path / "changes", CHANGES)
    with conf(spark, HASH):
        report = LEGAL["upsert"](table.merge(source.alias("s"), "t.k = s.k")).run()
    ((failed, outcome),) = runs[0].ended
    assert (failed.strategy.value, type(outcome)) == ("hash_exchange", KeysRepeated)
    assert not read_by_spark
    assert report.metrics["numTargetRowsUpdated"] == 3
    found = content(spark, tmp_path / "t")
    assert found.count((3, 1, "w3")) == 2
    assert (30, 0, "again") in found
    names = {name.rpartition("/")[2] for name in deltamerge.read(spark, str(tmp_path / "t")).inputFiles()}
    assert names <= (files := {file.name for file in (tmp_path / "t").glob("*.parquet")})
    assert len(files) == 3 + report.metrics["numTargetFilesAdded"]
