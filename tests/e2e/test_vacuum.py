"""VACUUM by the builder's method and by SQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException, ParseException
from pyspark.sql import SparkSession

import deltamerge
from deltamerge.tables import DeltaTable
from tests.e2e.tables import by_delta_rs, conf, content, make, version

UNCHECKED = {"spark.databricks.delta.retentionDurationCheck.enabled": "false"}
INVENTORY = "path string, length long, isDir boolean, modificationTime long"
TOLD = {"spark.databricks.delta.vacuum.logging.enabled": "true"}


@pytest.fixture(params=[False, True], ids=["copy-on-write", "vectors"])
def table(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> DeltaTable:
    """A table with changes, each of which leaves files that no longer belong to it."""
    feed = {"delta.enableChangeDataFeed": "true"}
    rows = [(id, id % 2) for id in range(10)]
    found = make(spark, tmp_path / "t", "id long, p long", rows, vectors=request.param, properties=feed, partition_by=["p"])
    found.update("id < 2", {"id": "id + 100"})
    found.delete("id = 4")
    found.delete("p = 1")
    (tmp_path / "t" / "orphan.parquet").write_bytes(b"of no commit")
    return found


@pytest.fixture(autouse=True)
def settings(spark: SparkSession) -> Iterator[None]:
    with conf(spark, {**UNCHECKED, **TOLD}):
        yield


def test_what_the_newest_version_does_not_need_goes(spark: SparkSession, table: DeltaTable, tmp_path: Path) -> None:
    path = tmp_path / "t"
    place, before = f"delta.`{path}`", version(path)
    rows = content(spark, path)
    tried = [row.path for row in deltamerge.sql(spark, f"VACUUM {place} RETAIN 0 HOURS DRY RUN").collect()]
    assert any(name.endswith("/orphan.parquet") for name in tried)
    has_feed = "changeDataFeed" in table.detail().collect()[0].tableFeatures
    assert has_feed == any("/_change_data/" in name for name in tried)
    assert version(path) == before
    done = deltamerge.sql(spark, f"VACUUM {place} FULL RETAIN 0 HOURS")
    assert [row.path for row in done.collect()] == [tried[0][: tried[0].index("/t/") + 2]]
    assert content(spark, path) == by_delta_rs(path, "SELECT * FROM t") == rows
    assert not (path / "orphan.parquet").exists()
    end, start = table.history(2).collect()
    assert (start.operation, start.operationParameters["specifiedRetentionMillis"]) == ("VACUUM START", "0")
    assert int(start.operationMetrics["numFilesToDelete"]) >= len(tried)
    assert (end.operation, end.operationParameters) == ("VACUUM END", {"status": "COMPLETED"})
    with pytest.raises(IllegalArgumentException, match="DELTAMERGE_RESTORE_MISSING_FILES"):
        table.restoreToVersion(0)
    table.alias("t").delete("id = 2")
    assert len(content(spark, path)) == len(rows) - 1


def test_the_builder_keeps_what_is_young(spark: SparkSession, table: DeltaTable, tmp_path: Path) -> None:
    frame = table.vacuum()
    assert (frame.columns, frame.collect()) == ([], [])
    table.vacuum(0.5)
    with pytest.raises(ValueError, match="'retentionHours' in vacuum must be a number of hours, found inf"):
        table.vacuum(float("inf"))
    with pytest.raises(ValueError, match="'retentionHours' in vacuum must be a number of hours, found '7 days'"):
        table.vacuum("7 days")
    assert (tmp_path / "t" / "orphan.parquet").exists()
    table.restoreToVersion(0)
    assert len(content(spark, tmp_path / "t")) == 10
    table.vacuum(0)
    assert not (tmp_path / "t" / "orphan.parquet").exists()


@pytest.mark.parametrize(
    ("clause", "error", "condition"),
    [
        ("RETAIN 1 HOURS", IllegalArgumentException, "DELTA_VACUUM_RETENTION_PERIOD_TOO_SHORT"),
        ("RETAIN -1 HOURS DRY RUN", IllegalArgumentException, "DELTA_VACUUM_RETENTION_PERIOD_NEGATIVE"),
        ("DRY RUN USING INVENTORY (SELECT 1)", AnalysisException, "DELTA_INVALID_INVENTORY_SCHEMA"),
        ("FULL FULL", ParseException, "DUPLICATE_CLAUSES"),
        ("DRY RUN RETAIN many HOURS", ParseException, "PARSE_SYNTAX_ERROR"),
        ("RETAIN 1 DAYS", ParseException, "PARSE_SYNTAX_ERROR"),
        ("LIGHT", ParseException, "PARSE_SYNTAX_ERROR"),
    ],
)
def test_what_is_not_possible_is_named(
    spark: SparkSession, tmp_path: Path, clause: str, error: type[Exception], condition: str
) -> None:
    make(spark, tmp_path / "t", "id long", [(1,)])
    with conf(spark, {next(iter(UNCHECKED)): "true"}), pytest.raises(error, match=condition):
        deltamerge.sql(spark, f"VACUUM '{tmp_path / 't'}' {clause}")
    assert version(tmp_path / "t") == 0


def test_the_log_tells_what_was_removed(spark: SparkSession, table: DeltaTable, tmp_path: Path) -> None:
    path, named = tmp_path / "t", f"delta.`{tmp_path / 't'}`"
    before = content(spark, path)
    listed = deltamerge.sql(spark, f"VACUUM {named} LITE DRY RUN RETAIN 0 HOURS").collect()
    assert listed
    assert all((path / row.path.rpartition("/t/")[2]).exists() for row in listed)
    with conf(spark, {"spark.databricks.delta.vacuum.lite.enabled": "true"}):
        deltamerge.sql(spark, f"VACUUM {named} RETAIN 0 HOURS")
    assert not any((path / row.path.rpartition("/t/")[2]).exists() for row in listed)
    assert (path / "orphan.parquet").exists()
    assert content(spark, path) == before
    assert deltamerge.sql(spark, f"VACUUM {named} LITE DRY RUN RETAIN 0 HOURS").collect() == []
    deltamerge.sql(spark, f"VACUUM {named} FULL RETAIN 0 HOURS")
    assert not (path / "orphan.parquet").exists()


def test_a_log_that_does_not_reach_back_tells_too_little(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = make(spark, path, "id long", [(1,)], properties={"delta.checkpointInterval": "1"})
    table.delete("id = 1")
    (path / "_delta_log" / f"{0:020}.json").unlink()
    with conf(spark, UNCHECKED), pytest.raises(IllegalArgumentException, match="DELTA_CANNOT_VACUUM_LITE"):
        deltamerge.sql(spark, f"VACUUM delta.`{path}` LITE RETAIN 0 HOURS")


def test_an_inventory_is_gone_by(spark: SparkSession, table: DeltaTable, tmp_path: Path) -> None:
    path = tmp_path / "t"
    before, root = content(spark, path), table.detail().collect()[0].location
    rows = [(f"{root}/{name}", 1, False, 1) for name in ("orphan.parquet", "_hidden", "gone.parquet", "../x")]
    frame = spark.createDataFrame([*rows, ("elsewhere/orphan.parquet", 1, False, 1)], INVENTORY)
    frame.createOrReplaceTempView("vacuum_inventory")
    text = f"VACUUM delta.`{path}` USING INVENTORY vacuum_inventory RETAIN 0 HOURS"
    listed = deltamerge.sql(spark, f"{text} DRY RUN").collect()
    assert [row.path.rpartition("/")[2] for row in listed] == ["gone.parquet", "orphan.parquet"]
    deltamerge.sql(spark, text)
    assert not (path / "orphan.parquet").exists()
    assert content(spark, path) == before


def test_what_is_no_delta_table_is_named(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(1).createOrReplaceTempView("vacuum_view")
    with pytest.raises(AnalysisException, match=r"DELTA_TABLE_ONLY_OPERATION.*VACUUM is only supported"):
        deltamerge.sql(spark, "VACUUM vacuum_view")
    with pytest.raises(AnalysisException, match="DELTA_MISSING_DELTA_TABLE"):
        deltamerge.sql(spark, f"VACUUM '{tmp_path / 'nothing'}' DRY RUN")
