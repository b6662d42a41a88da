"""Reading the change data feed of tables that were changed in all the ways a log can tell."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql import SparkSession

import deltamerge
from deltamerge.tables import DeltaTable
from tests.e2e.feeds import FEED, VECTORS, changes, feed_table
from tests.e2e.tables import content
from tests.e2e.vectors import actions_of

SCHEMA = "id int, p string"
ROWS = [(1, "a"), (2, "a"), (3, "b%2F")]


def test_appends_and_overwrites(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    feed_table(spark, path, SCHEMA, ROWS, ["p"])
    deltamerge.write(spark.createDataFrame([(4, None)], SCHEMA), str(path), mode="overwrite")
    assert changes(spark, path, 0) == [(1, "a", "insert"), (2, "a", "insert"), (3, "b%2F", "insert")]
    expected = [(1, "a", "delete"), (2, "a", "delete"), (3, "b%2F", "delete"), (4, None, "insert")]
    assert changes(spark, path, 1) == expected


def test_rows_that_come_back_from_a_vector(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = feed_table(spark, path, SCHEMA, ROWS, **VECTORS)
    for id in (1, 2):
        table.delete(f"id = {id}")
    (first,), (second,) = actions_of(path, 1, "add"), actions_of(path, 2, "add")
    (gone,) = actions_of(path, 2, "remove")
    back = {**gone, "deletionVector": second["deletionVector"]}
    lines = [{"remove": back}, {"add": first}]
    (path / "_delta_log" / f"{3:020d}.json").write_text("\n".join(map(json.dumps, lines)) + "\n")
    assert content(spark, path) == [(2, "a"), (3, "b%2F")]
    assert changes(spark, path, 1) == [(1, "a", "delete")]
    assert changes(spark, path, 2) == [(2, "a", "delete")]
    assert changes(spark, path, 3) == [(2, "a", "insert")]
    table.delete()
    assert changes(spark, path, 4) == [(2, "a", "delete"), (3, "b%2F", "delete")]


def test_a_table_that_was_partitioned_otherwise(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    feed_table(spark, path, SCHEMA, ROWS, ["p"])
    (metadata,) = actions_of(path, 0, "metaData")
    lines = [{"remove": removed(action)} for action in actions_of(path, 0, "add")]
    lines.append({"metaData": {**metadata, "partitionColumns": ["id"]}})
    (path / "_delta_log" / f"{1:020d}.json").write_text("\n".join(map(json.dumps, lines)) + "\n")
    DeltaTable.forPath(spark, str(path)).merge(
        spark.createDataFrame([(7, "q")], SCHEMA).alias("s"), "false"
    ).whenNotMatchedInsertAll().execute()
    assert [row[:2] for row in changes(spark, path, 0)] == ROWS
    assert [row[:2] for row in changes(spark, path, 1)] == ROWS
    assert changes(spark, path, 2) == [(7, "q", "insert")]


def removed(action: dict[str, object]) -> dict[str, object]:
    kept = {key: action[key] for key in ("path", "partitionValues", "size", "dataChange")}
    return {**kept, "deletionTimestamp": 1, "extendedFileMetadata": True}


def test_times_choose_versions(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = feed_table(spark, path, SCHEMA, ROWS, files=3, **{"delta.enableInCommitTimestamps": "true"})
    times = [row.timestamp for row in table.history().orderBy("version").collect()]

    def ids(start: datetime | str, end: datetime | str | None = None) -> list[int]:
        frame = deltamerge.read_changes(spark, str(path), starting_timestamp=start, ending_timestamp=end)
        return sorted(row.id for row in frame.collect())

    tick = timedelta(milliseconds=1)
    assert ids(times[0] - timedelta(days=1)) == [1, 2, 3]
    assert ids(times[1]) == [2, 3]
    assert ids(times[1], times[2] - tick) == [2]
    assert ids(str(times[2].astimezone(UTC))) == [3]
    empty = deltamerge.read_changes(spark, str(path), starting_timestamp=times[0] + tick, ending_timestamp=times[1] - tick)
    full = deltamerge.read_changes(spark, str(path), 0)
    if times[1] - times[0] > tick:
        assert (empty.count(), empty.dtypes) == (0, full.dtypes)


def test_errors_are_sparks(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    feed_table(spark, path, SCHEMA, ROWS, files=2)
    with pytest.raises(IllegalArgumentException, match="DELTA_INVALID_CDC_RANGE"):
        deltamerge.read_changes(spark, str(path), 1, ending_version=0)
    with pytest.raises(IllegalArgumentException, match="DELTA_CDC_START_VERSION_AFTER_LATEST"):
        deltamerge.read_changes(spark, str(path), 5)
    with pytest.raises(AnalysisException, match="DELTA_NO_START_FOR_CDC_READ"):
        deltamerge.read_changes(spark, str(path))
    plain = tmp_path / "plain"
    deltamerge.write(spark.createDataFrame(ROWS, SCHEMA), str(plain))
    with pytest.raises(AnalysisException, match="DELTA_MISSING_CHANGE_DATA"):
        deltamerge.read_changes(spark, str(plain), 0)


def test_columns_of_the_feed_are_kept_for_it(spark: SparkSession, tmp_path: Path) -> None:
    frame = spark.createDataFrame([(1, "x")], "id int, _Change_Type string")
    with pytest.raises(AnalysisException, match="DELTA_TABLE_ALREADY_CONTAINS_CDC_COLUMNS"):
        deltamerge.write(frame, str(tmp_path / "t"), properties=FEED)
    assert deltamerge.write(frame, str(tmp_path / "t")) == 0


@pytest.mark.classic
def test_the_frame_is_lazy(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    feed_table(spark, path, SCHEMA, ROWS)
    frame = deltamerge.read_changes(spark, str(path), 0).where("id > 1")
    for file in path.glob("*.parquet"):
        file.unlink()
    assert frame.columns == ["id", "p", "_change_type", "_commit_version", "_commit_timestamp"]
