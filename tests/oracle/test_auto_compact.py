"""Auto compaction and optimized writes by delta-spark and by deltamerge: the same files and the same history."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import deltamerge
from deltamerge.log.replay.table import DeltaLog
from deltamerge.storage.local import LocalStore
from tests.e2e.tables import conf

AUTO = "spark.databricks.delta.autoCompact."
STATEMENTS = (
    *(f"INSERT INTO {{t}} SELECT id, id % 2 FROM range({10 * n}, {10 * n + 10}, 1, 1)" for n in range(4)),
    "UPDATE {t} SET id = -id WHERE id = 5",
    "MERGE INTO {t} t USING (SELECT id FROM range(7, 9, 1, 1)) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET id = -t.id",
    "DELETE FROM {t} WHERE id = 3",
    "INSERT INTO {t} REPLACE WHERE p = 1 SELECT id, 1 FROM range(50, 60, 1, 1)",
    "INSERT INTO {t} SELECT id, 0 FROM range(10)",
    "OPTIMIZE {t}",
    "INSERT OVERWRITE {t} SELECT id, id % 2 FROM range(0, 20, 1, 1)",
)


def told(spark: SparkSession, path: Path) -> list[tuple[Any, ...]]:
    """What history says of each compaction, and the version that it followed."""
    found = []
    for row in deltamerge.DeltaTable.forPath(spark, str(path)).history().collect():
        if row.operation == "OPTIMIZE":
            parameters = dict(row.operationParameters)
            parameters["predicate"] = sorted(re.findall(r"'p <=> cast\(\d as bigint\)", parameters["predicate"]))
            counts = {key: row.operationMetrics[key] for key in ("numAddedFiles", "numRemovedFiles")}
            found.append((row.version, parameters, counts, row.isolationLevel, row.isBlindAppend))
    return found


@pytest.mark.parametrize("partitioned", ["", "PARTITIONED BY (p)"], ids=["whole", "partitioned"])
def test_compactions_are_delta_sparks(spark: SparkSession, tmp_path: Path, partitioned: str) -> None:
    found: dict[str, Any] = {}
    for name, sql in {"theirs": spark.sql, "ours": lambda text: deltamerge.sql(spark, text)}.items():
        path = tmp_path / name
        properties = "TBLPROPERTIES (delta.autoOptimize.autoCompact = true, delta.enableDeletionVectors = true)"
        sql(f"CREATE TABLE delta.`{path}` (id BIGINT, p BIGINT) USING delta {partitioned} {properties}")
        with conf(spark, {f"{AUTO}minNumFiles": "3"}):
            counts = []
            for statement in STATEMENTS:
                sql(statement.format(t=f"delta.`{path}`"))
                counts.append(len(DeltaLog(LocalStore(str(path))).snapshot().files))
        with conf(spark, {f"{AUTO}enabled": "false", f"{AUTO}minNumFiles": "1"}):
            sql(f"INSERT INTO delta.`{path}` VALUES (1, 1)")
        rows = sorted(map(tuple, spark.read.format("delta").load(str(path)).collect()))
        found[name] = (counts, told(spark, path), rows)
    assert len(found["theirs"][1]) > 3
    assert found["ours"] == found["theirs"]


@pytest.mark.parametrize("partitioned", ["", "PARTITIONED BY (p)"], ids=["whole", "partitioned"])
def test_optimized_writes_make_as_few_files(spark: SparkSession, tmp_path: Path, partitioned: str) -> None:
    found = {}
    for name, sql in {"theirs": spark.sql, "ours": lambda text: deltamerge.sql(spark, text)}.items():
        table = f"delta.`{tmp_path / name}`"
        properties = "TBLPROPERTIES (delta.autoOptimize.optimizeWrite = true)"
        rows = "SELECT id, id % 2 AS p FROM range(0, {}, 1, 4)"
        sql(f"CREATE TABLE {table} USING delta {partitioned} {properties} AS {rows.format(100)}")
        sql(f"INSERT INTO {table} {rows.format(100)}")
        match = "t.id = s.id AND t.p = s.p WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        sql(f"MERGE INTO {table} t USING ({rows.format(300)}) s ON {match}")
        with conf(spark, {"spark.databricks.delta.optimizeWrite.enabled": "false"}):
            sql(f"INSERT INTO {table} SELECT id, 1 FROM range(0, 100, 1, 2)")
        history = spark.sql(f"DESCRIBE HISTORY {table}").collect()
        counted = ("numFiles", "numTargetFilesAdded")
        found[name] = [(row.operation, [row.operationMetrics.get(key) for key in counted]) for row in history]
    assert found["ours"] == found["theirs"]


def test_what_the_property_can_not_be_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    made = "CREATE TABLE delta.`{}` (a INT) USING delta TBLPROPERTIES (delta.autoOptimize.autoCompact = 'auto')"
    for name, sql in {"theirs": spark.sql, "ours": lambda text: deltamerge.sql(spark, text)}.items():
        with pytest.raises(PySparkException, match="autoCompact"):
            sql(made.format(tmp_path / name))
