"""VACUUM by delta-spark and by deltamerge, each on its own copy of one table: the same files go, and history says the same."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import deltamerge
from tests.oracle.engines import copy_table

CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"
OLD = ("orphan.parquet", "_hidden/f", ".dot/f", "_x", ".y", "deep/er/f.parquet", "_change_data/c.parquet", "_delta_index/i")
YOUNG = ("young.parquet", "deep/young.parquet")


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("vacuum") / "made"
    name = f"delta.`{path}`"
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT, `_p` STRING) USING delta PARTITIONED BY (`_p`) "
        "TBLPROPERTIES (delta.enableDeletionVectors = true, delta.enableChangeDataFeed = true)"
    )
    for _ in range(2):
        spark.sql(f"INSERT INTO {name} SELECT id, CAST(id % 2 AS STRING) || ' /%' FROM range(10)")
    spark.sql(f"DELETE FROM {name} WHERE id < 2")
    spark.sql(f"DELETE FROM {name} WHERE id < 3")
    spark.sql(f"DELETE FROM {name} WHERE `_p` = '1 /%'")
    for file in (*OLD, *YOUNG):
        (path / file).parent.mkdir(parents=True, exist_ok=True)
        (path / file).write_text("x")
    (path / "empty").mkdir()
    return path


def files(path: Path) -> set[str]:
    below = (place for place in path.rglob("*") if "_delta_log" not in place.parts and not place.name.endswith(".crc"))
    return {str(place.relative_to(path)) for place in below}


def aged(path: Path) -> None:
    """Let all but the young files be older than the retention."""
    young = {path / name for name in YOUNG}
    for place in (*path.rglob("*"), path):
        if "_delta_log" not in place.parts:
            moment = time.time() + (3600 if place in young else -20 * 86_400)
            os.utime(place, (moment, moment))


@pytest.mark.parametrize("clause", ["RETAIN 0 HOURS", "", "LITE RETAIN 0 HOURS", "LITE"])
def test_the_same_files_go(spark: SparkSession, made: Path, tmp_path: Path, clause: str) -> None:
    spark.conf.set(CHECK, "false")
    found: dict[str, Any] = {}
    for name, sql in {"theirs": spark.sql, "ours": lambda text: deltamerge.sql(spark, text)}.items():
        path = tmp_path / name
        copy_table(made, path)
        aged(path)
        dry = {row.path.removeprefix(f"file:{path}") for row in sql(f"VACUUM delta.`{path}` {clause} DRY RUN").collect()}
        result = [row.path.removesuffix(name) for row in sql(f"VACUUM delta.`{path}` {clause}").collect()]
        history = deltamerge.DeltaTable.forPath(spark, str(path)).history(2).collect()
        told = [(row.operation, row.operationParameters, row.operationMetrics, row.isolationLevel) for row in history]
        rows = sorted(map(str, spark.read.format("delta").load(str(path)).collect()))
        found[name] = (dry, result, told, rows, files(path))
    spark.conf.unset(CHECK)
    assert found["ours"] == found["theirs"]


def test_an_inventory_is_gone_by_as_by_delta_spark(spark: SparkSession, made: Path, tmp_path: Path) -> None:
    spark.conf.set(CHECK, "false")
    found: dict[str, Any] = {}
    for name, sql in {"theirs": spark.sql, "ours": lambda text: deltamerge.sql(spark, text)}.items():
        path = tmp_path / name
        copy_table(made, path)
        aged(path)
        places = [place for place in path.rglob("*") if not place.name.endswith(".crc")]
        rows = [(f"file:{place}", 1, place.is_dir(), 1) for place in places]
        frame = spark.createDataFrame(rows, "path string, length long, isDir boolean, modificationTime long")
        frame.createOrReplaceTempView("inventory")
        with pytest.raises(PySparkException, match="DELTA_INVALID_INVENTORY_SCHEMA"):
            sql(f"VACUUM delta.`{path}` USING INVENTORY (SELECT path FROM inventory)").collect()
        sql(f"VACUUM delta.`{path}` USING INVENTORY (SELECT * FROM inventory) RETAIN 0 HOURS").collect()
        # Of folders delta-spark tries each, and those go whose files happen to have gone before: it is not the same twice.
        found[name] = {file for file in files(path) if not (path / file).is_dir()}
        assert not (path / "empty").exists()
    spark.conf.unset(CHECK)
    assert found["ours"] == found["theirs"]
