"""The change data feed: what merges, deletes and updates write of it, by either strategy, with and without vectors."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import deltamerge
from deltamerge.errors import DeltaMergeError
from deltamerge.merge import commit as commit_step
from tests.e2e.feeds import VECTORS, change_files, changes, feed_table
from tests.e2e.tables import content, parquet_at, source, version
from tests.e2e.vectors import actions_of, vectors_of

SCHEMA = "id int, name string, p string"
ROWS = [(number, f"row {number}", "ab"[number % 2]) for number in range(12)]

pytestmark = pytest.mark.usefixtures("strategy")


@pytest.fixture(params=[{}, VECTORS], ids=["copy-on-write", "vectors"])
def properties(request: pytest.FixtureRequest) -> dict[str, str]:
    return dict(request.param)


@pytest.fixture(params=[False, True], ids=["driver", "tasks"])
def tasks(request: pytest.FixtureRequest, limit: Callable[..., None]) -> None:
    """Files are changed in this process, or by Spark's tasks."""
    if request.param:
        limit(driver_write_bytes=-1)


@pytest.mark.usefixtures("tasks")
def test_every_kind_of_change_of_a_merge(spark: SparkSession, tmp_path: Path, properties: dict[str, str]) -> None:
    path = tmp_path / "t"
    table = feed_table(spark, path, SCHEMA, ROWS, ["p"], **properties)
    rows = source(spark, SCHEMA, [(1, "drop", "b"), (2, "new", "b"), (3, "new", "b"), (99, "added", "c")])
    merge = table.merge(rows, "t.id = s.id").whenMatchedDelete("s.name = 'drop'").whenMatchedUpdateAll()
    report = merge.whenNotMatchedInsertAll().run()
    expected = [
        (1, "row 1", "b", "delete"),
        (99, "added", "c", "insert"),
        (2, "new", "b", "update_postimage"),
        (3, "new", "b", "update_postimage"),
        (2, "row 2", "a", "update_preimage"),
        (3, "row 3", "b", "update_preimage"),
    ]
    assert changes(spark, path, 1) == expected
    actions = actions_of(path, 1, "cdc")
    assert {name.rpartition("/")[0] for name in change_files(path, 1)} == {f"_change_data/p={p}" for p in "abc"}
    for action in actions:
        assert action["path"].rpartition("/")[2].startswith("cdc-0")
        assert (action["dataChange"], action["size"]) == (False, (path / action["path"]).stat().st_size)
        assert parquet_at(path / action["path"]).schema_arrow.names == ["id", "name", "_change_type"]
        assert set(action["partitionValues"]) == {"p"}
    metrics = report.metrics
    assert metrics["numTargetChangeFilesAdded"] == len(actions)
    assert metrics["numTargetChangeFileBytes"] == sum(action["size"] for action in actions)
    assert len(content(spark, path)) == 12


def test_versions_and_times_of_changes(spark: SparkSession, tmp_path: Path, properties: dict[str, str]) -> None:
    path = tmp_path / "t"
    table = feed_table(spark, path, SCHEMA, ROWS, **properties)
    table.merge(source(spark, "id int", [(1,)]), "t.id = s.id").whenMatchedUpdate(set={"name": "'x'"}).execute()
    frame = deltamerge.read_changes(spark, str(path), 0)
    types = [(field.name, field.dataType.simpleString()) for field in frame.schema]
    extra = [("_change_type", "string"), ("_commit_version", "bigint"), ("_commit_timestamp", "timestamp")]
    assert types == [("id", "int"), ("name", "string"), ("p", "string"), *extra]
    times = {row.version: row.timestamp for row in table.history().collect()}
    rows = frame.collect()
    assert len(rows) == 14
    assert {(row._commit_version, row._commit_timestamp) for row in rows} == set(times.items())
    assert {row._change_type for row in rows if row._commit_version == 0} == {"insert"}


def test_inserts_alone_write_no_change_files(
    spark: SparkSession, tmp_path: Path, properties: dict[str, str], strategy: str
) -> None:
    path = tmp_path / "t"
    table = feed_table(spark, path, SCHEMA, ROWS, **properties)
    rows = source(spark, SCHEMA, [(1, "known", "a"), (20, "added", "c")])
    table.merge(rows, "t.id = s.id").whenNotMatchedInsertAll().execute()
    upsert = table.merge(rows.where("id > 5").selectExpr("id + 1 AS id", "name", "p").alias("s"), "t.id = s.id")
    upsert.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert changes(spark, path, 1, 2) == [(20, "added", "c", "insert"), (21, "added", "c", "insert")]
    assert change_files(path, 1) == []
    assert strategy == "join" or change_files(path, 2) == []


def test_a_row_deleted_by_several_source_rows_is_one_change(
    spark: SparkSession, tmp_path: Path, properties: dict[str, str]
) -> None:
    path = tmp_path / "t"
    table = feed_table(spark, path, SCHEMA, ROWS, **properties)
    table.merge(source(spark, "id int", [(1,), (1,), (5,)]), "t.id = s.id").whenMatchedDelete().execute()
    assert changes(spark, path, 1) == [(1, "row 1", "b", "delete"), (5, "row 5", "b", "delete")]
    assert len(change_files(path, 1)) == 1


def test_not_matched_by_source(spark: SparkSession, tmp_path: Path, properties: dict[str, str]) -> None:
    path = tmp_path / "t"
    table = feed_table(spark, path, SCHEMA, ROWS, files=2, **properties)
    merge = table.merge(source(spark, "id int", [(number,) for number in range(1, 11)]), "t.id = s.id")
    merge = merge.whenNotMatchedBySourceUpdate("t.id = 0", {"name": "'gone'"}).whenNotMatchedBySourceDelete()
    merge.execute()
    assert changes(spark, path, 2) == [
        (11, "row 11", "b", "delete"),
        (0, "gone", "a", "update_postimage"),
        (0, "row 0", "a", "update_preimage"),
    ]


def test_delete_and_update(spark: SparkSession, tmp_path: Path, properties: dict[str, str]) -> None:
    path = tmp_path / "t"
    table = feed_table(spark, path, SCHEMA, ROWS, ["p"], **properties)
    table.delete("id IN (1, 2)")
    table.update("id = 3", {"p": "'a'"})
    table.delete("p = 'b'")
    table.delete()
    assert changes(spark, path, 1) == [(1, "row 1", "b", "delete"), (2, "row 2", "a", "delete")]
    assert changes(spark, path, 2) == [(3, "row 3", "a", "update_postimage"), (3, "row 3", "b", "update_preimage")]
    assert changes(spark, path, 3) == [(n, f"row {n}", "b", "delete") for n in (11, 5, 7, 9)]
    assert sorted(row[0] for row in changes(spark, path, 4)) == [0, 3, 4, 6, 8, 10]
    assert [bool(change_files(path, number)) for number in (1, 2, 3, 4)] == [not properties, True, False, False]
    for number, name in ((1, "DELETE"), (2, "UPDATE")):
        (found,) = [row for row in table.history().collect() if row.version == number]
        assert (found.operation, found.operationMetrics["numAddedChangeFiles"]) == (name, str(len(change_files(path, number))))


def test_a_delete_marks_more_than_half_of_a_file_for_the_feed(spark: SparkSession, tmp_path: Path) -> None:
    table = feed_table(spark, tmp_path / "t", SCHEMA, ROWS, **VECTORS)
    table.delete("id < 9")
    assert list(vectors_of(tmp_path / "t").values()) == [9]
    table.delete("id = 10")
    assert changes(spark, tmp_path / "t", 2) == [(10, "row 10", "a", "delete")]
    assert len(changes(spark, tmp_path / "t", 1)) == 9


def test_marked_and_rewritten_files_in_one_commit(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = feed_table(spark, path, SCHEMA, ROWS, files=2, **VECTORS)
    table.delete("id = 8")
    gone = [0, 1, 2, 3, 7]
    table.merge(source(spark, "id int", [(n,) for n in gone]), "t.id = s.id").whenMatchedDelete().execute()
    assert sorted(vectors_of(path).values()) == [2]
    assert len(actions_of(path, 3, "add")) == len(actions_of(path, 3, "remove")) == 2
    assert [row[0] for row in changes(spark, path, 3)] == gone


@pytest.mark.parametrize("mode", ["name", "id"])
def test_mapped_columns(spark: SparkSession, tmp_path: Path, properties: dict[str, str], mode: str) -> None:
    path = tmp_path / "t"
    schema = "`the id` int, s struct<`a b`: int>, `p,q` string"
    rows = [(1, (1,), "x"), (2, (2,), "y")]
    table = feed_table(spark, path, schema, rows, ["p,q"], **properties, **{"delta.columnMapping.mode": mode})
    changed = source(spark, schema, [(2, (5,), "x"), (3, None, None)])
    table.merge(changed, "t.`the id` = s.`the id`").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert [(row[0], row[1] and row[1][0], *row[2:]) for row in changes(spark, path, 1)] == [
        (3, None, None, "insert"),
        (2, 5, "x", "update_postimage"),
        (2, 2, "y", "update_preimage"),
    ]
    physical = {field["name"]: field["metadata"]["delta.columnMapping.physicalName"] for field in schema_fields(path)}
    for action in actions_of(path, 1, "cdc"):
        assert set(action["partitionValues"]) == {physical["p,q"]}
        names = parquet_at(path / action["path"]).schema_arrow.names
        assert names == [physical["the id"], physical["s"], "_change_type"]


def schema_fields(path: Path) -> list[dict[str, Any]]:
    (metadata,) = actions_of(path, 0, "metaData")
    found: list[dict[str, Any]] = json.loads(metadata["schemaString"])["fields"]
    return found


@pytest.mark.usefixtures("tasks")
def test_nothing_is_left_of_a_merge_that_fails(
    spark: SparkSession, tmp_path: Path, properties: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t"
    table = feed_table(spark, path, SCHEMA, ROWS, files=3, **properties)
    before = sorted(path.rglob("*.parquet"))

    def refuse(*_: Any) -> None:
        raise DeltaMergeError("DELTAMERGE_TEST", "no")

    monkeypatch.setattr(commit_step, "commit", refuse)
    merge = table.merge(source(spark, SCHEMA, [(1, "x", "a"), (9, "y", "b"), (50, "z", "c")]), "t.id = s.id")
    with pytest.raises(DeltaMergeError, match="DELTAMERGE_TEST"):
        merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert sorted(path.rglob("*.parquet")) == before
    assert version(path) == 2


def test_nothing_is_left_of_a_merge_with_collisions(spark: SparkSession, tmp_path: Path, properties: dict[str, str]) -> None:
    path = tmp_path / "t"
    table = feed_table(spark, path, SCHEMA, ROWS, files=3, **properties)
    before = sorted(path.rglob("*.parquet"))
    merge = table.merge(source(spark, SCHEMA, [(1, "x", "a"), (9, "y", "b"), (9, "z", "c")]), "t.id = s.id")
    with pytest.raises(DeltaMergeError, match="MULTIPLE_SOURCE_ROW"):
        merge.whenMatchedUpdateAll().execute()
    assert sorted(path.rglob("*.parquet")) == before
