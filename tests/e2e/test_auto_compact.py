"""Auto compaction and optimized writes: small files are put together after writes, and rows before them."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession

import deltamerge
from deltamerge.commands.layout import auto_compact
from deltamerge.tables import DeltaTable
from tests.e2e.tables import conf, content, make, version

AUTO = "spark.databricks.delta.autoCompact."
COMPACTING = {"delta.autoOptimize.autoCompact": "true"}


def operations(table: DeltaTable) -> list[str]:
    """The operations of the table, the oldest first."""
    return [row.operation for row in table.history().collect()][::-1]


def test_writes_and_merges_compact_what_they_touch(spark: SparkSession, tmp_path: Path) -> None:
    path, rows = tmp_path / "t", [(id, id % 2) for id in range(4)]
    with conf(spark, {f"{AUTO}minNumFiles": "3"}):
        table = make(spark, path, "id long, p long", rows, files=1, partition_by=["p"], properties=COMPACTING)
        for id in (10, 12):
            make(spark, path, "id long, p long", [(id, 0)], files=1)
        assert operations(table) == ["WRITE", "WRITE", "WRITE", "OPTIMIZE"]
        new = spark.createDataFrame([(14, 0), (16, 0), (15, 1)], "id long, p long").repartition(3, "id").alias("s")
        report = table.alias("t").merge(new, "t.id = s.id").whenNotMatchedInsertAll().run()
        assert report.version == 4
        make(spark, path, "id long, p long", [(18, 0)], files=1)
    assert operations(table)[4:] == ["MERGE", "WRITE", "OPTIMIZE"]
    assert {row[0] for row in content(spark, path)} == {0, 1, 2, 3, 10, 12, 14, 15, 16, 18}


def test_a_compaction_that_fails_leaves_the_write(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*given: object) -> None:
        raise RuntimeError("no room")

    monkeypatch.setattr(auto_compact, "optimized", fails)
    with caplog.at_level(logging.WARNING, "deltamerge.commands"):
        table = make(spark, tmp_path / "t", "id long", [(1,), (2,)], files=2, properties=COMPACTING)
    assert "failed: no room" in caplog.text
    assert (set(operations(table)), len(content(spark, tmp_path / "t"))) == ({"WRITE"}, 2)


def test_settings_that_can_not_be_are_refused_before_the_write(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", "id long", [(1,)])
    for key, value in ((f"{AUTO}enabled", "auto"), (f"{AUTO}maxFileSize", "big")):
        with conf(spark, {key: value}):
            with pytest.raises(IllegalArgumentException, match=f"DELTAMERGE_INVALID_OPTIMIZE_SETTING.*{key}"):
                deltamerge.write(spark.range(1), str(tmp_path / "t"), "append")
            with pytest.raises(IllegalArgumentException, match="DELTAMERGE_INVALID_OPTIMIZE_SETTING"):
                table.delete("id = 1")
    assert version(tmp_path / "t") == 0


def test_optimized_writes_make_few_files(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    deltamerge.write(spark.range(0, 100, 1, 4), path, properties={"delta.autoOptimize.optimizeWrite": "true"})
    with conf(spark, {"spark.databricks.delta.optimizeWrite.enabled": "false"}):
        deltamerge.write(spark.range(0, 100, 1, 4), path, "append")
    files = [row.operationMetrics["numFiles"] for row in DeltaTable.forPath(spark, path).history().collect()]
    assert files == ["4", "1"]
