"""DROP FEATURE and REORG by delta-spark and by deltamerge, each on its own copy of one table: the same log and the same rows."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import deltamerge
from tests.e2e.commits import commits_from
from tests.oracle.engines import copy_table

# The properties of a table, what is done to it, and the features that are dropped.
CASES: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "deletionVectors": (
        "delta.enableDeletionVectors = true",
        ("DELETE FROM {t} WHERE id = 3",),
        ("deletionVectors TRUNCATE HISTORY", "deletionVectors", "checkpointProtection", "checkpointProtection TRUNCATE HISTORY"),
    ),
    "columnMapping": (
        "delta.columnMapping.mode = 'name'",
        ("ALTER TABLE {t} RENAME COLUMN s.n TO m", "ALTER TABLE {t} ADD COLUMN c INT", "ALTER TABLE {t} DROP COLUMN c"),
        ("columnMapping TRUNCATE HISTORY", "columnMapping"),
    ),
    "v2Checkpoint": ("delta.checkpointPolicy = 'v2', delta.checkpointInterval = 1", (), ("v2Checkpoint", "v2Checkpoint")),
    "vacuumProtocolCheck": (
        "delta.feature.vacuumProtocolCheck = 'supported'",
        (),
        ("vacuumProtocolCheck TRUNCATE HISTORY", "nope", "appendOnly"),
    ),
    "inCommitTimestamp": ("delta.enableInCommitTimestamps = true", (), ("inCommitTimestamp",)),
    "rowTracking": ("delta.enableRowTracking = true", (), ("domainMetadata", "rowTracking", "domainMetadata")),
    "typeWidening": (
        "delta.enableTypeWidening = true, delta.feature.materializePartitionColumns = 'supported'",
        ("ALTER TABLE {t} ALTER COLUMN s.n TYPE BIGINT", "INSERT INTO {t} VALUES (11, struct(12L))"),
        ("typeWidening", "materializePartitionColumns", "appendOnly"),
    ),
}


def tried(run: Any, text: str) -> str:
    """How a statement ends: with the condition of its error."""
    try:
        run(text).collect()
    except Exception as error:
        found = re.search(r"\[(DELTA\w+)", str(error))
        return found[1] if found else repr(error)
    return "done"


def logged(path: Path, start: int) -> list[list[str]]:
    """What the commits from a version on say and do, in no order within a commit."""
    found = []
    for actions in commits_from(path, start):
        made: list[Any] = []
        for kind, value in actions:
            if kind == "commitInfo":
                made.append((value["operation"], sorted(value["operationParameters"].items())))
            elif kind == "protocol":
                made.append(sorted((key, sorted(part) if isinstance(part, list) else part) for key, part in value.items()))
            elif kind == "metaData":
                made.append((sorted(value["configuration"].items()), json.loads(value["schemaString"])))
            elif kind == "domainMetadata":
                made.append((value["domain"], value["removed"]))
            else:
                made.append((kind, value["dataChange"], value.get("baseRowId"), "deletionVector" in value))
        found.append(sorted(map(repr, made)))
    return found


@pytest.mark.parametrize("name", CASES)
def test_the_log_is_delta_sparks(spark: SparkSession, tmp_path: Path, name: str) -> None:
    properties, done, dropped = CASES[name]
    made = tmp_path / "made"
    spark.sql(f"CREATE TABLE delta.`{made}` (id INT, s STRUCT<n: INT>) USING delta TBLPROPERTIES ({properties})")
    spark.sql(f"INSERT INTO delta.`{made}` SELECT id, struct(id) FROM range(0, 10, 1, 1)")
    for text in done:
        spark.sql(text.format(t=f"delta.`{made}`"))
    start = len(list((made / "_delta_log").glob("0*[0-9].json")))
    found: dict[str, Any] = {}
    for engine, sql in {"theirs": spark.sql, "ours": lambda text: deltamerge.sql(spark, text)}.items():
        path = tmp_path / engine
        copy_table(made, path)
        ends = [tried(sql, f"ALTER TABLE delta.`{path}` DROP FEATURE {text}") for text in dropped]
        rows = sorted(map(str, spark.read.format("delta").load(str(path)).collect()))
        checkpoints = [re.sub(r"\.[0-9a-f-]{36}", "", file.name) for file in (path / "_delta_log").glob("0*.checkpoint*")]
        found[engine] = (ends, logged(path, start), rows, sorted(checkpoints))
    ours, theirs = found["ours"], found["theirs"]
    assert ours[0] == theirs[0]
    assert ours[1] == theirs[1]
    assert ours[2:] == theirs[2:]


def test_a_purge_is_delta_sparks(spark: SparkSession, tmp_path: Path) -> None:
    made = tmp_path / "made"
    properties = "delta.enableDeletionVectors = true, delta.columnMapping.mode = 'name'"
    spark.sql(
        f"CREATE TABLE delta.`{made}` (id INT, p INT, s STRUCT<a: INT, b: INT>) USING delta PARTITIONED BY (p) "
        f"TBLPROPERTIES ({properties})"
    )
    spark.sql(f"INSERT INTO delta.`{made}` SELECT id, id % 3, struct(id, id) FROM range(0, 30, 1, 1)")
    spark.sql(f"DELETE FROM delta.`{made}` WHERE id = 4")
    spark.sql(f"ALTER TABLE delta.`{made}` DROP COLUMN s.b")
    spark.sql(f"INSERT INTO delta.`{made}` SELECT 100, 2, struct(1)")
    found: dict[str, Any] = {}
    for engine, sql in {"theirs": spark.sql, "ours": lambda text: deltamerge.sql(spark, text)}.items():
        path = tmp_path / engine
        copy_table(made, path)
        ends = []
        for clause in ("WHERE p = 1", "", ""):
            (row,) = sql(f"REORG TABLE delta.`{path}` {clause} APPLY (PURGE)").collect()
            ends.append((row.metrics.numFilesRemoved, row.metrics.numFilesAdded, row.metrics.totalConsideredFiles))
        ends += [tried(sql, f"REORG TABLE delta.`{path}` {text}") for text in ("WHERE id = 1 APPLY (PURGE)",)]
        history = deltamerge.DeltaTable.forPath(spark, str(path)).history(2).collect()
        told = [
            (row.operation, row.operationParameters["applyPurge"], row.operationMetrics["numRemovedFiles"]) for row in history
        ]
        found[engine] = (ends, told, sorted(map(str, spark.read.format("delta").load(str(path)).collect())))
    assert found["ours"] == found["theirs"]
