"""A commit between the reading of a table and a write of what was read into it is never lost: it is a conflict."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import deltamerge
from deltamerge.commands.rows import dml, replacing
from deltamerge.commands.rows import write as write_module
from deltamerge.exceptions import ConcurrentAppendException, ConcurrentDeleteReadException
from deltamerge.log.replay.table import open_log
from deltamerge.merge import line
from deltamerge.spark.read.snapshot import newest_frame, snapshot_frame
from deltamerge.spark.read.unread import frame_read
from deltamerge.statements.rows import update
from deltamerge.storage import Store
from deltamerge.tables import DeltaTable
from tests.e2e.tables import conf, content, make, version
from tests.stores.paths import StorePath

SCHEMA = "id int, p string"
ROWS = [(1, "a"), (2, "b")]
READ_AGAIN = r"(?s)committed version 1 .*Read the table again"


def version_read(frame: DataFrame, store: Store) -> int | None:
    read = frame_read(frame, store)
    return None if read is None else read.version


def other_writer(spark: SparkSession, path: Path) -> None:
    """A commit of a row, without a job."""
    make(spark, path, SCHEMA, [(9, "x")])


def merge(frame: DataFrame, path: Path) -> None:
    table = DeltaTable.forPath(frame.sparkSession, str(path))
    table.merge(frame.alias("s"), "false").whenNotMatchedInsertAll().retryConflicts(3).execute()


def replace_table(frame: DataFrame, path: Path) -> None:
    text = f"CREATE OR REPLACE TABLE delta.`{path}` USING delta AS SELECT * FROM {{frame}}"
    deltamerge.activate(frame.sparkSession)
    try:
        frame.sparkSession.sql(text, frame=frame)
    finally:
        deltamerge.deactivate(frame.sparkSession)


def insert(frame: DataFrame, path: Path) -> None:
    frame.createOrReplaceTempView("lost_rows")
    deltamerge.sql(frame.sparkSession, f"INSERT INTO delta.`{path}` SELECT * FROM lost_rows")


WRITES: dict[str, Callable[[DataFrame, Path], object]] = {
    "append": lambda frame, path: deltamerge.write(frame, str(path), "append"),
    "overwrite": lambda frame, path: deltamerge.write(frame, str(path), "overwrite"),
    "replace": lambda frame, path: deltamerge.write(
        frame.where("lower(p) = 'a'"), str(path), "overwrite", replace_where="p = 'a'"
    ),
    "dynamic": lambda frame, path: deltamerge.write(frame, str(path), "overwrite", partition_overwrite="dynamic"),
    "insert": insert,
    "merge": merge,
    "new table": replace_table,
}


@pytest.mark.parametrize("write", WRITES)
def test_what_was_read_before_a_commit_is_not_written_after_it(spark: SparkSession, tmp_path: Path, write: str) -> None:
    path = tmp_path / "t"
    make(spark, path, SCHEMA, ROWS, partition_by=["p"])
    frame = deltamerge.read(spark, str(path))
    other_writer(spark, path)
    with pytest.raises(ConcurrentAppendException, match=READ_AGAIN):
        WRITES[write](frame, path)
    assert version(path) == 1
    if not isinstance(path, StorePath):
        assert len(list(path.rglob("*.parquet"))) == 3, "a job ran"
    WRITES[write](deltamerge.read(spark, str(path)), path)
    assert version(path) == 2


@pytest.mark.parametrize("write", ["append", "replace", "merge"])
def test_what_is_committed_while_it_is_written_is_a_conflict(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: str
) -> None:
    path = tmp_path / "t"
    make(spark, path, SCHEMA, ROWS, partition_by=["p"])
    module, name = {"append": (write_module, "written"), "replace": (replacing, "written"), "merge": (line, "run_attempts")}[
        write
    ]
    original = getattr(module, name)
    with monkeypatch.context() as patch:

        def late(*given: Any, **named: Any) -> Any:
            patch.undo()
            other_writer(spark, path)
            return original(*given, **named)

        patch.setattr(module, name, late)
        with (
            conf(spark, {"spark.deltamerge.conflictRetries": "3"}),
            pytest.raises(ConcurrentAppendException, match=READ_AGAIN),
        ):
            WRITES[write](deltamerge.read(spark, str(path)), path)
    assert content(spark, path) == [*ROWS, (9, "x")]


def test_values_that_a_statement_reads_are_those_of_its_version(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t"
    make(spark, path, SCHEMA, ROWS)

    def late(*given: Any) -> Any:
        other_writer(spark, path)
        return dml.update_rows(*given)

    monkeypatch.setattr(update, "update_rows", late)
    with pytest.raises(ConcurrentAppendException, match=READ_AGAIN):
        deltamerge.sql(spark, f"UPDATE delta.`{path}` SET id = (SELECT max(id) FROM delta.`{path}`) WHERE id = 1")
    assert content(spark, path) == [*ROWS, (9, "x")]


def test_a_history_of_its_own_rows_is_not_computed_again(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = make(spark, path, f"{SCHEMA}, valid_from int, valid_to int", [(1, "a", 1, None)])
    changes = table.toDF().selectExpr("t.id", "concat(t.p, '+') p", "5 at")
    table.update("id = 1", {"p": "'b'"})
    with conf(spark, {"spark.deltamerge.conflictRetries": "3"}), pytest.raises(ConcurrentAppendException, match=READ_AGAIN):
        table.mergeHistory(changes, "id", "at")


def test_rows_of_elsewhere_are_appended_beside_other_commits(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, other = tmp_path / "t", tmp_path / "other"
    make(spark, path, SCHEMA, ROWS)
    make(spark, other, SCHEMA, [(5, "e")])
    original = write_module.written

    def late(*given: Any, **named: Any) -> Any:
        monkeypatch.setattr(write_module, "written", original)
        other_writer(spark, path)
        return original(*given, **named)

    monkeypatch.setattr(write_module, "written", late)
    assert deltamerge.write(deltamerge.read(spark, str(other)), str(path), "append") == 2
    assert DeltaTable.forPath(spark, str(path)).history(1).collect()[0]["isBlindAppend"]
    assert deltamerge.write(deltamerge.read(spark, str(path), 0), str(path), "overwrite") == 3  # asked for
    assert content(spark, path) == ROWS


def test_what_filters_leave_out_is_not_missed(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, day = tmp_path / "t", "day = '2024-01-01'"
    schema, rows = "id int, day date", [(1, date(2024, 1, 1)), (2, date(2024, 1, 2))]
    make(spark, path, schema, rows, partition_by=["day"])
    frame = deltamerge.read(spark, str(path)).where(day).selectExpr("id + 10 AS id", "day")
    make(spark, path, schema, [(3, date(2024, 1, 2))])
    original = replacing.written

    def late(*given: Any, **named: Any) -> Any:
        monkeypatch.setattr(replacing, "written", original)
        make(spark, path, schema, [(4, date(2024, 1, 3))])
        return original(*given, **named)

    monkeypatch.setattr(replacing, "written", late)
    assert deltamerge.write(frame, str(path), "overwrite", replace_where=day) == 3
    assert [row[0] for row in content(spark, path)] == [2, 3, 4, 11]
    frame = deltamerge.read(spark, str(path)).where(day)
    DeltaTable.forPath(spark, str(path)).delete("id = 11")
    with pytest.raises(ConcurrentDeleteReadException, match="Read the table again"):
        deltamerge.write(frame, str(path), "append")


def test_only_data_is_missed(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = make(spark, path, SCHEMA, ROWS, files=2)
    frame = deltamerge.read(spark, str(path))
    table.optimize().executeCompaction()
    deltamerge.sql(spark, f"ALTER TABLE delta.`{path}` ADD COLUMNS (n int)")
    at = deltamerge.write(frame, str(path), "append")
    assert not table.history(1).collect()[0]["isBlindAppend"]
    with pytest.raises(ConcurrentAppendException, match=rf"committed version {at} "):
        deltamerge.write(frame, str(path), "append")
    frame = deltamerge.read(spark, str(path))
    table.delete()
    with pytest.raises(ConcurrentDeleteReadException, match=f"(?s)DELETE deleted.*committed version {version(path)} "):
        deltamerge.write(frame, str(path), "overwrite")


def derived(spark: SparkSession, path: Path, frame: DataFrame) -> dict[str, DataFrame]:
    """Frames that read a table in ways that hide it."""
    frame.createOrReplaceTempView("lost_view")
    other = spark.range(3).withColumn("p", F.lit("c"))
    return {
        "view": spark.table("lost_view"),
        "query": spark.sql("WITH q AS (SELECT * FROM lost_view) SELECT * FROM q"),
        "subquery": other.where("id IN (SELECT id FROM lost_view)"),
        "scalar": other.withColumn("id", F.expr("(SELECT max(id) FROM lost_view)")),
        "join": other.join(frame.alias("a"), "id", "left_anti").select("id", "p"),
        "aggregate": frame.groupBy("p").agg(F.max("id").alias("id")),
        "union": other.union(frame.select("id", "p")),
        "arrow": frame.mapInArrow(lambda batches: batches, SCHEMA),
        "sql": deltamerge.sql(spark, f"SELECT a.* FROM delta.`{path}` a CROSS JOIN range(2)"),
        "table": DeltaTable.forPath(spark, str(path)).toDF(),
        "renamed": frame.toDF("x", "y").select(F.col("x").alias("id"), F.lit("k").alias("p")),
        "cached": frame.where("id > 0").cache(),
    }


def test_the_version_is_found_below_whatever_is_made_of_a_frame(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    make(spark, path, SCHEMA, [(1, "a")])
    store = open_log(str(path)).store
    frame = deltamerge.read(spark, str(path))
    found = derived(spark, path, frame)
    assert {name: version_read(made, store) for name, made in found.items()} == dict.fromkeys(found, 0)
    with conf(spark, {"spark.sql.maxPlanStringLength": "60"}):
        assert version_read(found["query"], store) == 0
    others = {
        "version": deltamerge.read(spark, str(path), 0),
        "text": deltamerge.sql(spark, f"SELECT * FROM delta.`{path}@v0`"),
        "checkpoint": frame.localCheckpoint(),
        "rows": spark.createDataFrame([(1, "a")], SCHEMA),
    }
    assert {name: version_read(made, store) for name, made in others.items()} == dict.fromkeys(others)


def test_the_place_of_a_table_is_told_however_it_is_written(spark: SparkSession, tmp_path: Path) -> None:
    path, link = tmp_path / "t", tmp_path / "link"
    if isinstance(path, StorePath):
        pytest.skip("object stores have no links")
    make(spark, path, SCHEMA, ROWS)
    link.symlink_to(path)
    frame = deltamerge.read(spark, f"file://{link}/")
    other_writer(spark, path)
    with pytest.raises(ConcurrentAppendException, match=READ_AGAIN):
        deltamerge.write(frame, str(path), "overwrite")


def test_what_is_filtered_and_chosen_is_still_asked_of_the_files(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    make(spark, path, SCHEMA, ROWS)
    if isinstance(path, StorePath):
        pytest.skip("read by another scan")
    snapshot = open_log(str(path)).snapshot()
    plans = []
    for frame in (newest_frame(spark, snapshot), snapshot_frame(spark, snapshot)):
        hidden: Any = frame.where("id = 1").select("id")
        plan = (
            hidden._explain_string(mode="simple")
            if hasattr(hidden, "_explain_string")
            else hidden._jdf.queryExecution().toString()
        )
        plans.append(plan.rpartition("FileScan")[2])
    assert "PushedFilters: [IsNotNull(id), EqualTo(id,1)], ReadSchema: struct<id:int>" in plans[0]


def test_a_connect_server_is_asked_only_where_a_name_hides_a_plan(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t"
    make(spark, path, SCHEMA, ROWS)
    store, frame = open_log(str(path)).store, deltamerge.read(spark, str(path))
    other = spark.createDataFrame([(1, "a")], SCHEMA)
    if not hasattr(other, "_plan"):
        pytest.skip("classic Spark asks nobody")
    monkeypatch.setattr("deltamerge.spark.pyspark.adapter.analyzed_plan", lambda _: pytest.fail("the server was asked"))
    assert version_read(other.where("id = 1").withColumn("n", F.expr("id + 1")).groupBy("p").count(), store) is None
    assert version_read(other.join(frame.alias("f"), "id").where(F.col("f.p") == "a"), store) == 0
