"""OPTIMIZE by delta-spark and by deltamerge, each on its own copy of one table: the same files, rows, ids and history."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import deltamerge
from deltamerge.log.replay.table import DeltaLog
from deltamerge.storage.local import LocalStore
from tests.oracle.engines import copy_table

# What depends on the writer's encoding, on the moment, and on the machine.
NOT_COMPARED = ("filesAdded", "startTimeMs", "totalClusterParallelism")
TOLD = ("numAddedFiles", "numRemovedFiles", "numRemovedBytes", "numDeletionVectorsRemoved")


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("optimize") / "made"
    name = f"delta.`{path}`"
    spark.sql(
        f"CREATE TABLE {name} (id BIGINT, p STRING, s STRUCT<x: INT, y: STRING>) USING delta PARTITIONED BY (p) "
        "TBLPROPERTIES (delta.enableDeletionVectors = true, delta.enableRowTracking = true, delta.columnMapping.mode = 'name')"
    )
    for start in (0, 10, 20):
        rows = f"SELECT id, CAST(id % 2 AS STRING), struct(CAST(id AS INT), CAST(id AS STRING)) FROM range({start}, {start + 10})"
        spark.sql(f"INSERT INTO {name} {rows}")
    spark.sql(f"DELETE FROM {name} WHERE id = 3")
    return path


def state(spark: SparkSession, path: Path) -> dict[str, Any]:
    """The newest version's rows with their ids, how many files each partition has, and what history says."""
    files = DeltaLog(LocalStore(str(path))).snapshot().files.table()
    rows = spark.read.format("delta").load(str(path)).select("*", "_metadata.row_id", "_metadata.row_commit_version")
    told = deltamerge.DeltaTable.forPath(spark, str(path)).history(1).collect()[0]
    return {
        "files": sorted(map(str, files["partitionValues"].to_pylist())),
        "rows": sorted(map(str, rows.collect())),
        "history": (told.operation, told.isolationLevel, told.isBlindAppend, told.readVersion),
        "parameters": told.operationParameters,
        "metrics": {key: told.operationMetrics.get(key) for key in TOLD},
        "names": sorted(told.operationMetrics),
    }


@pytest.mark.parametrize("clause", ["", "WHERE p = '1' AND P LIKE '_'", "ZORDER BY (id, s.x)"])
def test_the_optimized_table_is_delta_sparks(spark: SparkSession, made: Path, tmp_path: Path, clause: str) -> None:
    found = {}
    for name, sql in {"theirs": spark.sql, "ours": lambda text: deltamerge.sql(spark, text)}.items():
        copy_table(made, tmp_path / name)
        frame = sql(f"OPTIMIZE delta.`{tmp_path / name}` {clause}")
        (row,) = frame.collect()
        metrics = row.metrics.asDict(recursive=True)
        kept = {key: value for key, value in metrics.items() if key not in NOT_COMPARED}
        place = row.path.removesuffix(name)
        found[name] = {"type": frame.schema.simpleString(), "row": (place, kept), **state(spark, tmp_path / name)}
    assert found["ours"] == found["theirs"]


@pytest.mark.parametrize(
    "clause", ["WHERE id = 1", "FULL", "ZORDER BY (p)", "ZORDER BY (nope)", "WHERE nope = 1", "WHERE p = 1 ZORDER BY (q.x)"]
)
def test_what_is_refused_has_delta_sparks_condition(spark: SparkSession, made: Path, clause: str) -> None:
    conditions = []
    for sql in (spark.sql, lambda text: deltamerge.sql(spark, text)):
        with pytest.raises(PySparkException) as caught:
            sql(f"OPTIMIZE delta.`{made}` {clause}").collect()
        conditions.append(caught.value.getCondition())
    assert conditions[0] == conditions[1]


def test_a_clustered_table_is_delta_sparks(spark: SparkSession, tmp_path: Path) -> None:
    made = tmp_path / "made"
    spark.sql(f"CREATE TABLE delta.`{made}` (id BIGINT, s STRUCT<x: BIGINT>) USING delta CLUSTER BY (s.x, id)")
    for start in (0, 10):
        spark.sql(f"INSERT INTO delta.`{made}` SELECT id, struct(-id) FROM range({start}, {start + 10})")
    found: dict[str, Any] = {}
    for name, sql in {"theirs": spark.sql, "ours": lambda text: deltamerge.sql(spark, text)}.items():
        copy_table(made, tmp_path / name)
        rows = []
        for clause in ("", "", "FULL"):
            (row,) = sql(f"OPTIMIZE delta.`{tmp_path / name}` {clause}").collect()
            rows.append({key: value for key, value in row.metrics.asDict(recursive=True).items() if key == "numFilesAdded"})
            rows[-1]["clustering"] = {
                key: value["numFiles"] if isinstance(value, dict) else value
                for key, value in row.metrics.clusteringStats.asDict(recursive=True).items()
            }
        (file,) = DeltaLog(LocalStore(str(tmp_path / name))).snapshot().files.table().to_pylist()
        tags = {key: value for key, value in dict(file["tags"]).items() if key != "ZCUBE_ID"}
        history = deltamerge.DeltaTable.forPath(spark, str(tmp_path / name)).history(1).collect()[0]
        found[name] = (rows, tags, file["clusteringProvider"], history.operation, history.operationParameters)
    assert found["ours"] == found["theirs"]
    # Each engine knows what the other one has laid out.
    for sql, name in ((spark.sql, "ours"), (lambda text: deltamerge.sql(spark, text), "theirs")):
        assert sql(f"OPTIMIZE delta.`{tmp_path / name}`").collect()[0].metrics.numFilesAdded == 0
