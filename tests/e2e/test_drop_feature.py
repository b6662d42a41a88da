"""DROP FEATURE by SQL and by the table's method, and the REORG that it needs."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import deltamerge
from deltamerge.commands.features import drop as drop_feature
from deltamerge.log.replay.table import DeltaLog
from deltamerge.storage.local import LocalStore
from deltamerge.tables import DeltaTable
from tests.e2e.tables import by_delta_rs, conf, content, make, version

VECTORS = {"delta.enableDeletionVectors": "true"}


def features(table: DeltaTable) -> list[str]:
    """What the table's protocol requires."""
    (row,) = table.detail().collect()
    return list(row.tableFeatures)


def condition_of(spark: SparkSession, path: Path, dropped: str) -> str | None:
    """The condition with which dropping a feature ends."""
    with pytest.raises(AnalysisException) as caught:
        deltamerge.sql(spark, f"ALTER TABLE delta.`{path}` DROP FEATURE {dropped}")
    return caught.value.getCondition()


def test_vectors_leave_and_older_versions_stay(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = make(spark, path, "id long", [(id,) for id in range(9)], vectors=True)
    table.delete("id = 4")
    newest = version(path)
    table.dropFeatureSupport("deletionVectors")
    assert "checkpointProtection" in features(table)
    assert "deletionVectors" not in features(table)
    assert content(spark, path) == by_delta_rs(path, "SELECT * FROM t") == [(id,) for id in range(9) if id != 4]
    assert content(spark, path, newest) == content(spark, path)
    table.delete("id = 5")
    snapshot = DeltaLog(LocalStore(str(path))).snapshot() if isinstance(path, Path) else table._log.snapshot()
    assert snapshot.files.column("deletionVector").null_count == len(snapshot.files)
    assert condition_of(spark, path, "deletionVectors") == "DELTA_FEATURE_DROP_FEATURE_NOT_PRESENT"
    needs = "DELTA_FEATURE_CAN_ONLY_DROP_CHECKPOINT_PROTECTION_WITH_HISTORY_TRUNCATION"
    assert condition_of(spark, path, "checkpointProtection") == needs


def test_history_expires_before_its_features_go(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--store") != "local":
        pytest.skip("the times of commits are those of local files")
    path = tmp_path / "t"
    table = make(spark, path, "id long", [(id,) for id in range(9)], vectors=True)
    table.delete("id = 4")
    dropped = "deletionVectors TRUNCATE HISTORY"
    assert condition_of(spark, path, dropped) == "DELTA_FEATURE_DROP_WAIT_FOR_RETENTION_PERIOD"
    assert condition_of(spark, path, dropped) == "DELTA_FEATURE_DROP_HISTORICAL_VERSIONS_EXIST"
    # All that is there is two days old.
    before = time.time() - 2 * 86_400
    for file in (path / "_delta_log").iterdir():
        os.utime(file, (before, before))
    with conf(spark, {"spark.databricks.delta.tableFeatures.fastDropFeature.enabled": "false"}):
        # Their commits expire after 30 days unless history is truncated.
        assert condition_of(spark, path, "deletionVectors") == "DELTA_FEATURE_DROP_HISTORICAL_VERSIONS_EXIST"
    for file in (path / "_delta_log").iterdir():
        os.utime(file, (before, before))
    DeltaTable.forPath(spark, str(path)).dropFeatureSupport("deletionVectors", True)
    assert not {"deletionVectors", "checkpointProtection"} & set(features(table))
    assert content(spark, path) == by_delta_rs(path, "SELECT * FROM t") == [(id,) for id in range(9) if id != 4]


def test_protected_checkpoints_go_with_what_they_hide(
    spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if request.config.getoption("--store") != "local":
        pytest.skip("the times of commits are those of local files")
    path = tmp_path / "t"
    table = make(spark, path, "id long", [(1,)], properties={"delta.feature.vacuumProtocolCheck": "supported"})
    table.dropFeatureSupport("vacuumProtocolCheck")
    waits = "DELTA_FEATURE_DROP_CHECKPOINT_PROTECTION_WAIT_FOR_RETENTION_PERIOD"
    assert condition_of(spark, path, "checkpointProtection TRUNCATE HISTORY") == waits
    before = time.time() - 2 * 86_400
    for file in (path / "_delta_log").iterdir():
        os.utime(file, (before, before))
    deltamerge.sql(spark, f"ALTER TABLE delta.`{path}` DROP FEATURE checkpointProtection TRUNCATE HISTORY")
    assert features(table) == ["appendOnly", "invariants"]
    assert content(spark, path) == by_delta_rs(path, "SELECT * FROM t") == [(1,)]


def test_features_of_writers_leave_at_once(spark: SparkSession, tmp_path: Path) -> None:
    properties = {"delta.enableRowTracking": "true", "delta.enableInCommitTimestamps": "true"}
    table = make(spark, tmp_path / "t", "id long", [(1,), (2,)], properties=properties)
    assert condition_of(spark, tmp_path / "t", "domainMetadata") == "DELTA_FEATURE_DROP_DEPENDENT_FEATURE"
    for name in ("rowTracking", "domainMetadata", "inCommitTimestamp"):
        table.dropFeatureSupport(name)
    assert features(table) == ["appendOnly", "invariants"]
    table.update("id = 1", {"id": "3"})
    assert content(spark, tmp_path / "t") == [(2,), (3,)]
    for name, condition in [
        ("nope", "DELTA_FEATURE_DROP_UNSUPPORTED_CLIENT_FEATURE"),
        ("appendOnly", "DELTA_FEATURE_DROP_NONREMOVABLE_FEATURE"),
    ]:
        assert condition_of(spark, tmp_path / "t", name) == condition


def test_a_feature_that_is_used_again_stays(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(spark, tmp_path / "t", "id long", [(1,)], properties={"delta.enableInCommitTimestamps": "true"})
    used_again = replace(drop_feature.REMOVALS["inCommitTimestamp"], clean=lambda spark, log: None)
    monkeypatch.setattr(drop_feature, "REMOVALS", {"inCommitTimestamp": used_again})
    assert condition_of(spark, tmp_path / "t", "inCommitTimestamp") == "DELTA_FEATURE_DROP_CONFLICT_REVALIDATION_FAIL"
    assert version(tmp_path / "t") == 0


def test_files_of_older_types_are_written_again(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = make(spark, path, "id int, s array<struct<n: int>>", [(1, [(7,)])], properties={"delta.enableTypeWidening": "true"})
    deltamerge.sql(spark, f"ALTER TABLE delta.`{path}` ALTER COLUMN s.element.n TYPE BIGINT")
    table.dropFeatureSupport("typeWidening")
    assert [row.operation for row in table.history().collect()][-3::-1][:3] == ["UNSET TBLPROPERTIES", "REORG", "DROP FEATURE"]
    assert "typeWidening" not in features(table)
    ((id, (row,)),) = content(spark, path)
    assert (id, row.n) == (1, 7)


def test_mapped_columns_get_their_names(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    properties = {"delta.columnMapping.mode": "id"}
    rows = [(id, id % 2, None if id == 3 else (f"s{id}", [id])) for id in range(8)]
    schema = "id long, `a b` long, s struct<x: string, y: array<int>>"
    table = make(spark, path, schema, rows, partition_by=["a b"], properties=properties)
    assert condition_of(spark, path, "columnMapping") == "DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES"
    deltamerge.sql(spark, f"ALTER TABLE delta.`{path}` RENAME COLUMN `a b` TO p")
    deltamerge.sql(spark, f"ALTER TABLE delta.`{path}` RENAME COLUMN s.x TO z")
    before, newest = content(spark, path), version(path)
    table.dropFeatureSupport("columnMapping")
    assert content(spark, path) == content(spark, path, newest) == before
    assert "columnMapping" not in features(table)
    assert by_delta_rs(path, "SELECT id, p, s.z FROM t WHERE p = 1 AND s IS NOT NULL") == [
        (1, 1, "s1"),
        (5, 1, "s5"),
        (7, 1, "s7"),
    ]
    table.delete("id = 1")
    assert len(content(spark, path)) == 7


def test_rows_that_keep_ids_keep_mapped_columns(spark: SparkSession, tmp_path: Path) -> None:
    properties = {"delta.columnMapping.mode": "name", "delta.enableRowTracking": "true"}
    make(spark, tmp_path / "t", "id long", [(1,)], properties=properties)
    assert condition_of(spark, tmp_path / "t", "columnMapping") == "DELTA_FEATURE_DROP_NONREMOVABLE_FEATURE"


def test_a_reorg_writes_single_files_again(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = make(spark, path, "id long, p long", [(id, id % 2) for id in range(8)], partition_by=["p"], vectors=True)
    table.delete("id IN (2, 3)")
    for clause, files in (("WHERE p = 1", 1), ("", 1), ("", 0)):
        (row,) = deltamerge.sql(spark, f"REORG TABLE delta.`{path}` {clause} APPLY (PURGE)").collect()
        assert row.metrics.numFilesRemoved == files
    assert len(content(spark, path)) == 6
    with pytest.raises(AnalysisException, match=r"DELTAMERGE_UNSUPPORTED_CLAUSE.*UPGRADE UNIFORM"):
        deltamerge.sql(spark, f"REORG TABLE delta.`{path}` APPLY (UPGRADE UNIFORM (ICEBERG_COMPAT_VERSION = 2))")
