"""Clustered tables, and tables whose checkpoints are protected, are still that for delta-spark after our merges."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import deltamerge
from deltamerge.log.replay.table import open_log
from tests.oracle.engines import copy_table
from tests.oracle.readers import by_delta_spark, by_deltamerge

DAY = 86_400


def clustered(spark: SparkSession, path: Path, vectors: str) -> None:
    """A table that is clustered by a column beyond those with statistics and one in a struct; its files are clustered."""
    names = ", ".join(f"c{number} INT" for number in range(3))
    properties = f"'delta.dataSkippingNumIndexedCols' = '5', 'delta.enableDeletionVectors' = '{vectors}'"
    spark.sql(
        f"CREATE TABLE delta.`{path}` ({names}, s STRUCT<x: INT, y: INT>) USING delta "
        f"CLUSTER BY (c2, s.x) TBLPROPERTIES ({properties}, 'delta.columnMapping.mode' = 'name')"
    )
    spark.sql(f"INSERT INTO delta.`{path}` SELECT id, id, id % 3, named_struct('x', id, 'y', id) FROM range(20)")
    spark.sql(f"OPTIMIZE delta.`{path}`")


def changes(spark: SparkSession) -> None:
    rows = spark.range(15, 25).selectExpr("CAST(id AS INT) c0", "-1 c1", "7 c2", "named_struct('x', CAST(id AS INT), 'y', 0) s")
    rows.where("c0 % 4 = 0 OR c0 > 20").createOrReplaceTempView("s")


def last_adds(path: Path) -> list[dict[str, Any]]:
    newest = max((path / "_delta_log").glob("*.json"))
    return [action["add"] for action in map(json.loads, newest.read_text().splitlines()) if "add" in action]


@pytest.mark.parametrize("vectors", ["false", "true"])
def test_a_clustered_table_stays_one(spark: SparkSession, tmp_path: Path, vectors: str) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    clustered(spark, theirs, vectors)
    copy_table(theirs, ours)
    changes(spark)
    spark.conf.set("spark.deltamerge.strategy", "auto")
    spark.conf.set("spark.deltamerge.rewriteShare", "1")
    merge = "t USING s ON t.c0 = s.c0 WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    spark.sql(f"MERGE INTO delta.`{theirs}` {merge}")
    deltamerge.sql(spark, f"MERGE INTO delta.`{ours}` {merge}")
    assert by_delta_spark(spark, ours) == by_delta_spark(spark, theirs) == by_deltamerge(spark, ours)
    details = [spark.sql(f"DESCRIBE DETAIL delta.`{path}`").collect()[0].clusteringColumns for path in (theirs, ours)]
    assert details[0] == details[1] == ["c2", "s.x"]
    assert deltamerge.DeltaTable.forPath(spark, str(ours)).detail().collect()[0].clusteringColumns == details[0]
    domains = [open_log(str(path)).snapshot().domains["delta.clustering"] for path in (theirs, ours)]
    assert domains[0] == domains[1]
    providers = [sorted(str(add.get("clusteringProvider")) for add in last_adds(path)) for path in (theirs, ours)]
    assert set(providers[0]) == set(providers[1]) == ({"liquid", "None"} if vectors == "true" else {"None"})
    schema = open_log(str(ours)).snapshot().schema
    column, struct = schema.find("c2"), schema.find("s")
    assert column is not None
    assert struct is not None
    for add in last_adds(ours):
        found = json.loads(add["stats"])["minValues"]
        assert column.physical_name in found
        assert struct.physical_name in found
    spark.sql(f"OPTIMIZE delta.`{ours}` FULL")
    assert by_delta_spark(spark, ours) == by_delta_spark(spark, theirs)


def test_protected_checkpoints_stay(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    retention = ", ".join(f"'delta.{of}RetentionDuration' = 'interval 1 days'" for of in ("log", "deletedFile"))
    properties = "'delta.feature.checkpointProtection' = 'supported', 'delta.checkpointInterval' = '2'"
    spark.sql(f"CREATE TABLE delta.`{path}` (id INT) USING delta TBLPROPERTIES ({properties}, {retention})")
    spark.range(2).selectExpr("CAST(id AS INT) id").createOrReplaceTempView("s")
    log = path / "_delta_log"
    for version in range(1, 6):
        for file in log.iterdir():
            os.utime(file, (time.time() - (20 - version) * DAY,) * 2)
        deltamerge.sql(spark, f"MERGE INTO delta.`{path}` t USING s ON t.id = s.id + {version} WHEN NOT MATCHED THEN INSERT *")
    assert (log / f"{0:020d}.json").exists()
    assert len(list(log.glob("*.checkpoint*.parquet"))) == 2
    assert "checkpointProtection" in (open_log(str(path)).snapshot().protocol.writer_features or ())
    assert by_delta_spark(spark, path) == by_deltamerge(spark, path)
    assert spark.sql(f"SELECT * FROM delta.`{path}`").count() == 10
