"""What merges can do beyond delta-spark's: previews, batches merged once, the latest row of a key, another run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, NumberFormatException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from deltamerge.exceptions import (
    DeltaConcurrentModificationException,
    DeltaExecutionException,
    DeltaIllegalArgumentException,
    DeltaMultipleMatchException,
    MetadataChangedException,
)
from deltamerge.merge import line, settings
from deltamerge.tables import DeltaTable
from tests.e2e.meanwhile import RUN, interrupting
from tests.e2e.refusals import files_below, refused
from tests.e2e.tables import LARGE_SOURCES, conf, content, make, source, version

SCHEMA = "id int, v string, n int"
ROWS = [(1, "a", 10), (2, "b", 20), (3, "c", 30)]


@pytest.mark.parametrize("strategy", ["auto", "join"])
def test_a_preview_says_what_the_merge_then_does(spark: SparkSession, tmp_path: Path, strategy: str) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS, files=3)
    changes = source(spark, SCHEMA, [(1, "x", 0), (2, "y", 2), (7, "z", 7), (8, "z", 8)])
    merge = (
        table.merge(changes, "t.id = s.id")
        .whenMatchedDelete("s.n = 0")
        .whenMatchedUpdate(set={"v": "upper(s.v)"})
        .whenNotMatchedInsertAll("s.id < 8")
    )
    before = files_below(tmp_path)
    with conf(spark, {"spark.deltamerge.strategy": strategy}):
        found = merge.preview()
    assert files_below(tmp_path) == before
    assert found.strategy == ("spark_join" if strategy == "join" else "broadcast")
    assert [(c.action, c.rows) for c in found.clauses] == [("delete", 1), ("update", 1), ("insert", 1)]
    assert (found.version, found.source_rows, found.touched_files) == (2, 4, 2)
    assert 0 < found.touched_bytes < found.funnel[0].bytes
    delete, update, insert = (clause.sample[0] for clause in found.clauses)
    assert (delete.before, delete.after) == ({"id": 1}, None)
    assert (update.before, update.after) == ({"id": 2, "v": "b"}, {"v": "Y"})
    assert (insert.before, insert.after) == (None, {"id": 7, "v": "z", "n": 7})
    assert "WHEN MATCHED AND s.n = 0 THEN DELETE: 1 row" in str(found)
    report = merge.run()
    assert (report.deleted, report.updated, report.inserted) == (found.deleted, found.updated, found.inserted)


@pytest.mark.parametrize("strategy", ["auto", "join"])
def test_a_preview_shows_five_rows_and_counts_all(spark: SparkSession, tmp_path: Path, strategy: str) -> None:
    table = make(spark, tmp_path / "t", "id long", [(n,) for n in range(50)])
    merge = table.merge(spark.range(20, 120).alias("s"), "t.id = s.id").whenMatchedDelete().whenNotMatchedInsertAll()
    with conf(spark, {"spark.deltamerge.strategy": strategy}):
        found = merge.preview()
    assert [(clause.rows, len(clause.sample)) for clause in found.clauses] == [(30, 5), (70, 5)]
    assert {change.before["id"] for change in found.clauses[0].sample if change.before} <= set(range(20, 50))


@pytest.mark.parametrize("strategy", ["auto", "join"])
def test_a_preview_meets_the_collisions_that_the_merge_would(spark: SparkSession, tmp_path: Path, strategy: str) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS)
    merge = table.merge(source(spark, SCHEMA, [(1, "x", 1), (1, "y", 2)]), "t.id = s.id")
    with conf(spark, {"spark.deltamerge.strategy": strategy}):
        name = "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE"
        with refused(tmp_path, DeltaMultipleMatchException, name, "1 target row"):
            merge.whenMatchedUpdateAll("s.n = 1").whenMatchedDelete().preview()
        assert merge.whenMatchedDelete().preview().deleted == 1


def test_a_batch_is_merged_once(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS)
    changes = source(spark, SCHEMA, [(2, "B", 1), (9, "z", 90)])
    merge = table.merge(changes, "t.id = s.id").whenMatchedUpdate(set={"n": "t.n + s.n"}).whenNotMatchedInsertAll()
    first = merge.withTransaction("feed", 7).run()
    again = merge.withTransaction("feed", 7).run()
    older = merge.withTransaction("feed", 6).run()
    assert (first.version, first.affected, first.merged_before) == (1, 2, False)
    assert (again.version, again.affected, again.merged_before) == (None, 0, True)
    assert older.merged_before
    assert merge.withTransaction("feed", 7).execute().collect() == [(0, 0, 0, 0)]
    assert merge.withTransaction("other", 7).run().version == 2
    assert merge.withTransaction("feed", 8).run().version == 3
    assert content(spark, tmp_path / "t")[1] == (2, "b", 23)
    commit = (tmp_path / "t" / "_delta_log" / f"{1:020}.json").read_text().splitlines()
    (txn,) = [json.loads(line)["txn"] for line in commit if '"txn":' in line]
    assert (txn["appId"], txn["version"]) == ("feed", 7)


def test_a_batch_that_changes_nothing_is_recorded(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS)
    merge = table.merge(source(spark, SCHEMA, [(9, "z", 90)]), "t.id = s.id").whenMatchedDelete().withTransaction("feed", 1)
    assert (merge.run().version, merge.run().merged_before) == (1, True)
    assert content(spark, tmp_path / "t") == ROWS


def test_a_batch_may_be_named_by_the_session_as_for_delta_spark(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS)
    app, number = "spark.databricks.delta.write.txnAppId", "spark.databricks.delta.write.txnVersion"
    with conf(spark, {app: "feed", number: "3"}):
        table.update(set={"n": "n + 1"})
        table.update(set={"n": "n + 1"})
        table.delete("id = 1")
        with conf(spark, {f"{number}.autoReset.enabled": "true"}):
            table.delete("id = 2")
            assert spark.conf.get(number, None) is None
    assert content(spark, tmp_path / "t") == [(id, v, n + 1) for id, v, n in ROWS]
    for wrong in ({app: "feed"}, {number: "3"}, {app: "feed", number: "three"}):
        with conf(spark, wrong), refused(tmp_path, DeltaIllegalArgumentException, "DELTA_INVALID_IDEMPOTENT_WRITES_OPTIONS"):
            table.delete("id = 1")


def test_the_latest_source_row_of_a_key_is_merged(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS)
    rows = [(1, "old", 1), (1, "new", 5), (1, "undated", None), (4, "x", 2), (4, "y", 3), (None, "p", 1), (None, "q", 2)]
    changes = source(spark, SCHEMA, rows)
    merge = table.merge(changes, "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll()
    with pytest.raises(DeltaMultipleMatchException):
        merge.execute()
    report = merge.keepLatest(by="n").run()
    assert (report.updated, report.inserted, report.metrics["numSourceRows"]) == (1, 3, 4)
    assert content(spark, tmp_path / "t")[:4] == [(1, "new", 5), (2, "b", 20), (3, "c", 30), (4, "y", 3)]


def test_the_latest_by_several_orders_and_given_keys(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS)
    changes = source(spark, SCHEMA, [(1, "a", 1), (1, "b", 1), (2, "a", 9), (2, "c", 3)])
    merge = table.merge(changes, "upper(t.id) = upper(s.id)").whenMatchedUpdate(set={"v": "s.v"})
    with refused(tmp_path, DeltaIllegalArgumentException, "DELTAMERGE_NO_KEYS", hint="keepLatest"):
        merge.keepLatest("n").execute()
    merge.keepLatest([F.col("n"), "s.v"], keys=["id"]).execute()
    assert content(spark, tmp_path / "t") == [(1, "b", 10), (2, "a", 20), (3, "c", 30)]


def test_keys_and_orders_that_are_no_source_columns_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS)
    merge = table.merge(source(spark, SCHEMA, [(1, "x", 5)]), "t.id = s.id").whenMatchedDelete()
    for wrong in (merge.keepLatest("n", keys=["idd"]), merge.keepLatest("s.idd"), merge.keepLatest("t.n")):
        with refused(tmp_path, AnalysisException, "DELTA_MERGE_UNRESOLVED_EXPRESSION", "keepLatest", "s.id"):
            wrong.execute()
    assert merge.keepLatest("S.N", keys=["ID"]).run().deleted == 1


def test_ties_for_the_latest_row_are_told(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS)
    changes = source(spark, SCHEMA, [(1, "x", 5), (1, "y", 5)])
    with pytest.raises(DeltaMultipleMatchException):
        table.merge(changes, "t.id = s.id").whenMatchedUpdateAll().keepLatest("n").execute()


def test_a_conflict_leads_to_another_run(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS)
    other = DeltaTable.forPath(spark, str(tmp_path / "t"))
    changes = source(spark, SCHEMA, [(1, "x", 1), (2, "y", 2)])
    merge = table.merge(changes, "t.id = s.id").whenMatchedUpdate(set={"n": "t.n + s.n"})

    def increment() -> None:
        other.update("id = 1", {"n": "n + 100"})

    interrupting(monkeypatch, increment)
    with pytest.raises(DeltaConcurrentModificationException):
        merge.execute()
    interrupting(monkeypatch, increment, increment)
    with pytest.raises(DeltaConcurrentModificationException):
        merge.retryConflicts(1).execute()
    interrupting(monkeypatch, increment, increment)
    assert merge.retryConflicts(2).run().updated == 2
    interrupting(monkeypatch, increment)
    with conf(spark, {settings.RETRIES: "1"}):
        merge.execute()
    assert content(spark, tmp_path / "t") == [(1, "a", 10 + 600 + 2), (2, "b", 24), (3, "c", 30)]
    data = {Path(f).name for f in files_below(tmp_path / "t") if f.endswith(".parquet") and "_delta_log" not in f}
    log = "".join(f.read_text() for f in (tmp_path / "t" / "_delta_log").glob("*.json"))
    assert {name for name in data if name not in log} == set()


def test_a_batch_that_lands_meanwhile_is_not_merged_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS)
    changes = source(spark, SCHEMA, [(1, "x", 1)])
    merge = table.merge(changes, "t.id = s.id").whenMatchedUpdate(set={"n": "t.n + s.n"}).withTransaction("feed", 1)
    interrupting(monkeypatch, merge.execute)
    assert merge.retryConflicts(3).run().merged_before
    assert (version(tmp_path / "t"), content(spark, tmp_path / "t")[0]) == (1, (1, "a", 11))


def test_changed_metadata_is_not_run_over(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS)
    merge = table.merge(source(spark, SCHEMA, [(1, "x", 1)]), "t.id = s.id").whenMatchedDelete().retryConflicts(3)

    def describe() -> None:
        log = tmp_path / "t" / "_delta_log"
        (line,) = [line for line in (log / f"{0:020}.json").read_text().splitlines() if '"metaData":' in line]
        action = json.loads(line)
        action["metaData"]["description"] = "changed"
        (log / f"{1:020}.json").write_text(json.dumps(action) + "\n")

    interrupting(monkeypatch, describe)
    with pytest.raises(MetadataChangedException):
        merge.execute()


@pytest.mark.parametrize("value", ["-1", "often"])
def test_a_wrong_number_of_runs_is_refused(spark: SparkSession, tmp_path: Path, value: str) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS)
    merge = table.merge(source(spark, SCHEMA, [(1, "x", 1)]), "t.id = s.id").whenMatchedDelete()
    setting = conf(spark, {settings.RETRIES: value})
    with setting, refused(tmp_path, DeltaIllegalArgumentException, "DELTAMERGE_INVALID_RETRIES", value):
        merge.execute()
    with pytest.raises(ValueError, match="times"):
        merge.retryConflicts(-1)
    for arguments in (("", 1), (None, 1), ("a", "1"), ("a", True)):
        with pytest.raises(TypeError, match="withTransaction"):
            merge.withTransaction(*arguments)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="keepLatest"):
        merge.keepLatest([])


def _losing(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, times: int) -> list[int]:
    """Drop the blocks of every materialized source before it is merged, `times` times; the losses so far."""
    losses: list[int] = []

    def run_attempts(*arguments: object) -> object:
        if len(losses) < times:
            losses.append(1)
            for rdd in spark._jsc.getPersistentRDDs().values():  # type: ignore[attr-defined]
                rdd.unpersist(True)
        return RUN(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(line, "run_attempts", run_attempts)
    return losses


@pytest.mark.parametrize(("times", "works"), [(2, True), (3, False)])
def test_a_lost_source_is_evaluated_again_at_most_three_times(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: Callable[..., None], times: int, works: bool
) -> None:
    if not hasattr(spark, "_jsc"):
        pytest.skip("a Connect client can't drop the server's blocks")
    table = make(spark, tmp_path / "t", SCHEMA, ROWS)
    limit(**LARGE_SOURCES)
    changes = spark.range(1, 3).select(F.col("id").cast("int")).alias("s")
    merge = table.merge(changes, "t.id = s.id").whenMatchedDelete()
    losses = _losing(spark, monkeypatch, times)
    if works:
        assert merge.run().deleted == 2
    else:
        name = "DELTA_MERGE_MATERIALIZE_SOURCE_FAILED_REPEATEDLY"
        with refused(tmp_path, DeltaExecutionException, name, "3 times"):
            merge.execute()
    assert len(losses) == times


def test_a_large_source_that_fails_says_so_in_this_librarys_terms(
    spark: SparkSession, tmp_path: Path, limit: Callable[..., None]
) -> None:
    limit(**LARGE_SOURCES)
    table = make(spark, tmp_path / "t", SCHEMA, ROWS)
    wrong = spark.range(3).selectExpr("CAST(concat('a', id) AS INT) AS id").groupBy("id").count().alias("s")
    merge = table.merge(wrong, "t.id = s.id").whenMatchedDelete()
    with refused(tmp_path, NumberFormatException, "CAST_INVALID_INPUT", "The value 'a", hint="Nothing was committed"):
        merge.execute()
