"""RESTORE by the builder's methods and by SQL."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException, ParseException
from pyspark.sql import SparkSession

import deltamerge
from deltamerge.exceptions import ConcurrentAppendException
from deltamerge.log.commit import transaction
from deltamerge.protocol.values.partitions import decode_path
from deltamerge.tables import DeltaTable
from tests.e2e.tables import by_delta_rs, conf, content, make, version

TRACKED = {"delta.enableRowTracking": "true", "delta.enableChangeDataFeed": "true"}


@pytest.fixture(params=[False, True], ids=["copy-on-write", "vectors"])
def table(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> DeltaTable:
    """Three versions of rows: a and b, an update, a delete."""
    found = make(spark, tmp_path / "t", "id long, s string", [(1, "a"), (2, "b")], vectors=request.param, properties=TRACKED)
    found.update("id = 1", {"s": "'c'"})
    found.delete("id = 2")
    return found


def test_an_older_version_comes_back_as_a_new_one(spark: SparkSession, table: DeltaTable, tmp_path: Path) -> None:
    path, newest = tmp_path / "t", version(tmp_path / "t")
    assert content(spark, path) == [(1, "c")]
    (row,) = table.restoreToVersion(newest - 1).collect()
    assert content(spark, path) == by_delta_rs(path, "SELECT * FROM t") == [(1, "c"), (2, "b")]
    assert row.num_of_files_after_restore == table.detail().collect()[0].numFiles
    assert row.table_size_after_restore == table.detail().collect()[0].sizeInBytes
    told = table.history(1).collect()[0]
    assert (told.operation, told.operationParameters) == ("RESTORE", {"version": str(newest - 1), "timestamp": None})
    assert int(told.operationMetrics["numRestoredFiles"]) == row.num_restored_files > 0
    feed = deltamerge.read_changes(spark, str(path), newest + 1).select("id", "_change_type").collect()
    assert (2, "insert") in [tuple(change) for change in feed]
    assert deltamerge.sql(spark, f"RESTORE TABLE delta.`{path}` TO VERSION AS OF 0").count() == 1
    assert content(spark, path) == [(1, "a"), (2, "b")]
    table.merge(table.toDF().alias("s"), "t.id = s.id").whenMatchedDelete().execute()
    assert content(spark, path) == []


def test_the_newest_version_needs_no_restore(spark: SparkSession, table: DeltaTable, tmp_path: Path) -> None:
    before = version(tmp_path / "t")
    frame = table.restoreToVersion(before)
    assert (frame.columns[0], frame.collect()) == ("table_size_after_restore", [])
    assert version(tmp_path / "t") == before


def test_a_time_means_the_version_of_then(spark: SparkSession, table: DeltaTable, tmp_path: Path) -> None:
    path = tmp_path / "t"
    made = {row.version: str(row.text) for row in table.history().selectExpr("version", "timestamp AS text").collect()}
    table.restoreToTimestamp(made[0])
    assert content(spark, path) == [(1, "a"), (2, "b")]
    assert table.history(1).collect()[0].operationParameters["timestamp"].startswith(made[0][:19])
    last = max(made)
    deltamerge.sql(spark, f"RESTORE delta.`{path}` FOR SYSTEM_TIME AS OF CAST('{made[last]}' AS TIMESTAMP);")
    assert content(spark, path) == [(1, "c")]


def test_schema_and_properties_come_back_and_the_protocol_stays(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = make(spark, path, "id long", [(1,)])
    with conf(spark, {"spark.databricks.delta.schema.autoMerge.enabled": "true"}):
        source = spark.createDataFrame([(2, "x")], "id long, added string").alias("s")
        table.merge(source, "t.id = s.id").whenNotMatchedInsertAll().execute()
    make(spark, tmp_path / "other", "id long", [(1,)], vectors=True)
    assert table.toDF().columns == ["id", "added"]
    table.restoreToVersion(0)
    assert table.toDF().columns == ["id"]
    assert content(spark, path) == [(1,)]


@pytest.mark.parametrize(
    ("clause", "error", "condition"),
    [
        ("VERSION AS OF 99", AnalysisException, "DELTA_CANNOT_RESTORE_TABLE_VERSION"),
        ("TIMESTAMP AS OF '2001-01-01'", AnalysisException, "DELTA_CANNOT_RESTORE_TIMESTAMP_EARLIER"),
        ("TIMESTAMP AS OF '2999-01-01'", AnalysisException, "DELTA_CANNOT_RESTORE_TIMESTAMP_GREATER"),
        ("TIMESTAMP AS OF 'soon'", AnalysisException, "DELTA_TIMESTAMP_INVALID"),
        ("VERSION AS OF one", ParseException, "PARSE_SYNTAX_ERROR"),
        ("VERSION AS OF 0 1", ParseException, "PARSE_SYNTAX_ERROR"),
        ("VERSION 0", ParseException, "PARSE_SYNTAX_ERROR"),
    ],
)
def test_what_is_not_there_is_named(
    spark: SparkSession, tmp_path: Path, clause: str, error: type[Exception], condition: str
) -> None:
    make(spark, tmp_path / "t", "id long", [(1,), (2,)], files=2)
    with pytest.raises(error, match=condition):
        deltamerge.sql(spark, f"RESTORE delta.`{tmp_path / 't'}` {clause}")
    assert version(tmp_path / "t") == 1


def test_arguments_of_another_type_and_other_tables_are_refused(spark: SparkSession, table: DeltaTable) -> None:
    with pytest.raises(ValueError, match="version needs to be an int but got"):
        table.restoreToVersion("1")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="timestamp needs to be a string but got"):
        table.restoreToTimestamp(1)  # type: ignore[arg-type]
    spark.range(1).createOrReplaceTempView("restore_view")
    with pytest.raises(AnalysisException, match=r"DELTA_TABLE_ONLY_OPERATION.*RESTORE is only supported"):
        deltamerge.sql(spark, "RESTORE restore_view VERSION AS OF 0")


def test_a_version_whose_files_are_gone_is_refused(spark: SparkSession, table: DeltaTable, tmp_path: Path) -> None:
    path = tmp_path / "t"
    log = table._log
    kept = set(log.snapshot().files.table()["path"].to_pylist())
    gone = next(file for file in log.snapshot(0).files.table()["path"].to_pylist() if file not in kept or len(kept) == 1)
    log.store.delete(decode_path(gone))
    table.delete() if gone in kept else None
    before = version(path)
    with pytest.raises(IllegalArgumentException, match=rf"DELTAMERGE_RESTORE_MISSING_FILES.*{gone}"):
        table.restoreToVersion(0)
    assert version(path) == before
    with conf(spark, {"spark.sql.files.ignoreMissingFiles": "true"}):
        assert table.restoreToVersion(0).collect()[0].num_restored_files == 1


def test_a_version_older_than_removed_files_are_kept_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    kept = {"delta.deletedFileRetentionDuration": "interval 0 hours"}
    table = make(spark, tmp_path / "t", "id long", [(1,), (2,)], files=2, properties=kept)
    with pytest.raises(AnalysisException, match="DELTA_UNSUPPORTED_TIME_TRAVEL_BEYOND_DELETED_FILE_RETENTION_DURATION"):
        table.restoreToVersion(0)
    with conf(spark, {"spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration": "false"}):
        table.restoreToVersion(0)
    assert content(spark, tmp_path / "t") == [(1,)]


def test_rows_written_meanwhile_are_not_lost(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t"
    table = make(spark, path, "id long", [(1,), (2,)], files=2)
    put, raced = transaction._put, list[int]()

    def racing(*given: object) -> object:
        if not raced:
            raced.append(1)
            make(spark, path, "id long", [(3,)])
        return put(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(transaction, "_put", racing)
    with pytest.raises(ConcurrentAppendException):
        table.restoreToVersion(0)
    monkeypatch.undo()
    assert content(spark, path) == [(1,), (2,), (3,)]
    table.restoreToVersion(0)
    assert content(spark, path) == [(1,)]
