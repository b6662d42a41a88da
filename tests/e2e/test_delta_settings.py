"""Settings of delta-spark's that a session has: what they do here."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import deltamerge
from deltamerge.errors import DeltaMergeError
from deltamerge.spark.session import delta_check
from deltamerge.spark.session.delta_settings import REFUSED
from deltamerge.spark.session.file_sizes import gathering
from deltamerge.tables import DeltaTable
from tests.e2e.tables import conf, content, make, version

DELTA = "spark.databricks.delta."
NOTE = f"{DELTA}commitInfo.userMetadata"


@pytest.fixture
def active(spark: SparkSession) -> Iterator[SparkSession]:
    """A session in which Spark's methods answer for Delta tables."""
    deltamerge.activate(spark)
    yield spark
    deltamerge.deactivate(spark)


def notes(spark: SparkSession, path: Path) -> list[str | None]:
    """What history shows as the user's, oldest version first."""
    rows = DeltaTable.forPath(spark, str(path)).history().collect()
    return [row.userMetadata for row in sorted(rows, key=lambda row: row.version)]


STATEMENTS = (
    "INSERT INTO {t} VALUES (1, 10), (2, 20)",
    "DELETE FROM {t} WHERE id = 1",
    "UPDATE {t} SET n = 0 WHERE id = 2",
    "MERGE INTO {t} t USING (SELECT 7 AS id, 7 AS n) s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *",
    "INSERT INTO {t} REPLACE WHERE id = 7 SELECT 7 AS id, 8 AS n",
    "INSERT OVERWRITE {t} VALUES (2, 20)",
    "ALTER TABLE {t} SET TBLPROPERTIES ('k' = 'v')",
    "ALTER TABLE {t} ADD CONSTRAINT positive CHECK (id > 0)",
    "ALTER TABLE {t} ADD COLUMNS (w INT)",
    "RESTORE TABLE {t} TO VERSION AS OF 0",
    "CREATE OR REPLACE TABLE {t} USING delta AS SELECT 1 AS id, 1 AS n",
    "TRUNCATE TABLE {t}",
)


def test_each_commit_of_a_session_has_its_note(active: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    with conf(active, {NOTE: "run 7"}):
        active.sql(f"CREATE TABLE delta.`{path}` (id INT, n INT) USING delta")
        for statement in STATEMENTS:
            active.sql(statement.format(t=f"delta.`{path}`"))
    assert notes(active, path) == ["run 7"] * (1 + len(STATEMENTS))


def test_optimize_and_vacuum_and_clones_have_the_note(active: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    make(active, path, "id int", [(1,), (2,)], files=2)
    with conf(active, {NOTE: "upkeep", f"{DELTA}vacuum.logging.enabled": "true"}):
        active.sql(f"OPTIMIZE delta.`{path}`")
        active.sql(f"VACUUM delta.`{path}`")
        DeltaTable.forPath(active, str(path)).clone(str(tmp_path / "c"), isShallow=True)
    assert notes(active, path) == [None, None, "upkeep", "upkeep", "upkeep"]
    assert notes(active, tmp_path / "c") == ["upkeep"]


def test_the_option_of_a_writer_wins(active: SparkSession, tmp_path: Path) -> None:
    path, frame = str(tmp_path / "t"), active.range(1)
    with conf(active, {NOTE: "of the session"}):
        frame.write.format("delta").option("userMetadata", "of the write").save(path)
        frame.write.format("delta").mode("append").save(path)
        frame.write.format("delta").mode("overwrite").option("replaceWhere", "id = 0").option("userMetadata", "here").save(path)
        deltamerge.write(frame, path, mode="append", user_metadata="there")
    frame.write.format("delta").mode("append").save(path)
    assert notes(active, tmp_path / "t") == ["of the write", "of the session", "here", "there", None]


REPLACED = f"{DELTA}replaceWhere."
CHECKS, ANY_COLUMN = f"{REPLACED}constraintCheck.enabled", f"{REPLACED}dataColumns.enabled"
NO_CHECKS, NO_OTHERS = {CHECKS: "false"}, {ANY_COLUMN: "false"}
NO_PARTITION = "DELTA_NON_PARTITION_COLUMN_REFERENCE"
# A table of (1, 1), (2, 2) by `id`; rows that replace others; what is there then, or the condition. As delta-spark 4.4 does it.
REPLACEMENTS: list[tuple[dict[str, str], list[tuple[int, int]], str, list[tuple[int, int]] | str]] = [
    ({}, [(9, 1)], "id = 1", "DELTA_REPLACE_WHERE_MISMATCH"),
    (NO_CHECKS, [(9, 1), (1, 7)], "id = 1", [(1, 7), (2, 2), (9, 1)]),
    (NO_CHECKS, [(9, 1)], "n = 1", [(2, 2), (9, 1)]),
    (NO_OTHERS, [(1, 7)], "id = 1", [(1, 7), (2, 2)]),
    (NO_OTHERS, [(1, 7)], "ID = 1", [(1, 7), (2, 2)]),
    (NO_OTHERS, [(1, 7)], "true", [(1, 7)]),
    (NO_OTHERS, [(1, 7)], "n = 1", NO_PARTITION),
    (NO_OTHERS, [(1, 1)], "id = 1 and n = 1", NO_PARTITION),
    (NO_OTHERS, [(1, 7)], "other = 1", "UNRESOLVED_COLUMN"),  # in delta-spark a column that is no partition column
    ({**NO_CHECKS, **NO_OTHERS}, [(1, 7), (2, 9)], "id = 1", "DELTA_REPLACE_WHERE_MISMATCH"),
]


@pytest.mark.parametrize(("given", "rows", "where", "expected"), REPLACEMENTS)
def test_what_replace_where_checks(
    spark: SparkSession,
    tmp_path: Path,
    given: dict[str, str],
    rows: list[tuple[int, int]],
    where: str,
    expected: list[tuple[int, int]] | str,
) -> None:
    path = tmp_path / "t"
    make(spark, path, "id int, n int", [(1, 1), (2, 2)], partition_by=["id"])
    frame = spark.createDataFrame(rows, "id int, n int")
    with conf(spark, given):
        if isinstance(expected, list):
            deltamerge.write(frame, str(path), mode="overwrite", replace_where=where)
            assert content(spark, path) == expected
            return
        with pytest.raises(DeltaMergeError, match=expected):
            deltamerge.write(frame, str(path), mode="overwrite", replace_where=where)
    assert content(spark, path) == [(1, 1), (2, 2)]


EXCEEDS = f"{DELTA}changeDataFeed.timestampOutOfRange.enabled"
LATE, LATER = "2998-01-01", "2999-01-01"
# Bounds of a feed with versions 0 and 1, and the ids that change within.
BOUNDS: list[tuple[dict[str, Any], list[int]]] = [
    ({"starting_timestamp": LATE}, []),
    ({"starting_timestamp": LATER, "ending_timestamp": LATE}, []),
    ({"starting_version": 0, "ending_timestamp": LATE}, [1, 2]),
    ({"starting_version": 7}, []),
    ({"starting_version": 7, "ending_version": 1}, []),
    ({"starting_version": 7, "ending_timestamp": LATE}, []),
    ({"starting_timestamp": LATE, "ending_version": 1}, []),
]


def test_changes_after_the_newest_version(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    deltamerge.write(spark.createDataFrame([(1,)], "id int"), path, properties={"delta.enableChangeDataFeed": "true"})
    deltamerge.write(spark.createDataFrame([(2,)], "id int"), path, mode="append")
    for bounds, ids in BOUNDS:
        with pytest.raises(DeltaMergeError, match=r"DELTA_TIMESTAMP_GREATER_THAN_COMMIT|DELTA_CDC_START_VERSION_AFTER_LATEST"):
            deltamerge.read_changes(spark, path, **bounds)
        with conf(spark, {EXCEEDS: "true"}):
            assert sorted(row.id for row in deltamerge.read_changes(spark, path, **bounds).collect()) == ids, bounds
    with conf(spark, {EXCEEDS: "true"}), pytest.raises(DeltaMergeError, match="DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION"):
        deltamerge.read_changes(spark, path, starting_timestamp=LATE, ending_timestamp="2000-01-01")


@pytest.mark.parametrize("statement", ["DELETE", "UPDATE", "MERGE"])
def test_statements_without_vectors(active: SparkSession, tmp_path: Path, statement: str) -> None:
    path = tmp_path / "t"
    make(active, path, "id int, n int", [(i, i) for i in range(9)], properties={"delta.enableDeletionVectors": "true"})
    text = {
        "DELETE": "DELETE FROM {t} WHERE id = {id}",
        "UPDATE": "UPDATE {t} SET n = 0 WHERE id = {id}",
        "MERGE": "MERGE INTO {t} t USING (SELECT {id} AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE",
    }[statement]
    active.sql(text.format(t=f"delta.`{path}`", id=3))
    others = {name for name in ("DELETE", "UPDATE", "MERGE") if name != statement}
    with conf(active, {f"{DELTA}{other.lower()}.deletionVectors.persistent": "false" for other in others}):
        active.sql(text.format(t=f"delta.`{path}`", id=4))
    assert [len(marks(path, version)) for version in (1, 2)] == [1, 1]
    with conf(active, {f"{DELTA}{statement.lower()}.deletionVectors.persistent": "false"}):
        active.sql(text.format(t=f"delta.`{path}`", id=5))
    assert not marks(path, 3)


def test_a_constraint_that_is_dropped_twice(active: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    make(active, path, "id int", [(1,)])
    dropping = f"ALTER TABLE delta.`{path}` DROP CONSTRAINT nothing"
    with pytest.raises(DeltaMergeError, match="DELTA_CONSTRAINT_DOES_NOT_EXIST"):
        active.sql(dropping)
    with conf(active, {f"{DELTA}constraints.assumesDropIfExists.enabled": "true"}):
        active.sql(dropping)


def test_a_setting_is_refused_before_the_rows_are_checked(active: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    make(active, path, "id int", [(1,)])
    refused = {f"{DELTA}variant.forceUsePreviewTableFeature": "true"}
    with conf(active, refused), pytest.raises(DeltaMergeError, match="DELTAMERGE_UNSUPPORTED_SETTING"):
        active.sql(f"ALTER TABLE delta.`{path}` ADD CONSTRAINT none CHECK (id > 1)")


def test_what_a_streaming_query_has_written_is_not_converted(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    spark.range(3).write.parquet(str(path))
    (path / "_spark_metadata").mkdir()
    with pytest.raises(DeltaMergeError, match="DELTAMERGE_CONVERT_STREAM_OUTPUT"):
        DeltaTable.convertToDelta(spark, f"parquet.`{path}`")
    with conf(spark, {f"{DELTA}convert.useMetadataLog": "false"}):
        DeltaTable.convertToDelta(spark, f"parquet.`{path}`")
    assert len(content(spark, path)) == 3


def test_a_size_of_gathered_rows(spark: SparkSession, tmp_path: Path) -> None:
    size = f"{DELTA}optimizeWrite.binSize"
    with conf(spark, {size: "few"}), pytest.raises(DeltaMergeError, match="DELTAMERGE_INVALID_OPTIMIZE_SETTING"):
        deltamerge.write(spark.range(3), str(tmp_path / "t"))
    assert not (tmp_path / "t").exists()
    with conf(spark, {size: "1", f"{DELTA}optimizeWrite.enabled": "true"}):
        assert gathering(spark)["spark.sql.adaptive.advisoryPartitionSizeInBytes"] == str(1 << 20)


# A setting with another value than what is done here, and a statement whose result it would change.
REFUSED_ONES = [
    ("merge.preserveNullSourceStructs", "false", STATEMENTS[3]),
    ("resolveMergeUpdateStructsByName.enabled", "false", STATEMENTS[2]),
    ("typeWidening.allowAutomaticWidening", "never", STATEMENTS[0]),
    ("dynamicPartitionOverwrite.enabled", "false", STATEMENTS[5]),
    ("write.utcTimestampPartitionValues", "false", STATEMENTS[1]),
    ("variant.forceUsePreviewTableFeature", "true", STATEMENTS[6]),
    ("restore.protocolDowngradeAllowed", "true", STATEMENTS[9]),
    ("replace.protocolDowngradeAllowed", "true", STATEMENTS[10]),
    ("changeDataFeed.defaultSchemaModeForColumnMappingTable", "latest", "SELECT * FROM table_changes('{t}', 0)"),
]


def test_settings_that_would_change_the_result_are_refused(active: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    make(active, path, "id int, n int", [(1, 1), (2, 2)], properties={"delta.enableChangeDataFeed": "true"})
    before = version(path)
    for name, value, statement in REFUSED_ONES:
        key, text = DELTA + name, statement.format(t=f"delta.`{path}`")
        with conf(active, {key: value}), pytest.raises(DeltaMergeError, match="DELTAMERGE_UNSUPPORTED_SETTING") as caught:
            active.sql(text)
        assert f"{key} is '{value}'" in str(caught.value)
        assert f'spark.conf.unset("{key}")' in str(caught.value)
    assert version(path) == before
    # What is done here anyway, and statements that a setting does not change.
    with conf(active, {DELTA + name: REFUSED[name].value.upper() for name, _, _ in REFUSED_ONES}):
        for statement in STATEMENTS[:6]:
            active.sql(statement.format(t=f"delta.`{path}`"))
    with conf(active, {f"{DELTA}restore.protocolDowngradeAllowed": "true"}):
        active.sql(STATEMENTS[1].format(t=f"delta.`{path}`"))


def test_the_log_tells_of_settings_without_effect(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(delta_check, "_TOLD", set())
    given = {
        f"{DELTA}write.dataFilesToSubdir": "true",
        f"{DELTA}history.metricsEnabled": "TRUE",
        f"{DELTA}snapshotPartitions": "2",
        f"{DELTA}schema.autoMerg.enabled": "true",
    }
    with conf(spark, given), caplog.at_level(logging.WARNING, "deltamerge.settings"):
        for _ in range(2):
            deltamerge.write(spark.range(3), str(tmp_path / "t"), mode="append")
    said = [record.getMessage() for record in caplog.records if record.name == "deltamerge.settings"]
    assert len(said) == 2
    assert f"{DELTA}write.dataFilesToSubdir = true has no effect" in " ".join(said)
    assert f"neither delta-spark 4.4 nor deltamerge has them: {DELTA}schema.autoMerg.enabled." in " ".join(said)


def test_a_flag_that_is_none(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    make(spark, path, "id int", [(1,)])
    with conf(spark, {CHECKS: "maybe"}), pytest.raises(DeltaMergeError, match="DELTAMERGE_INVALID_SETTING"):
        deltamerge.write(spark.createDataFrame([(1,)], "id int"), str(path), mode="overwrite", replace_where="id = 1")
    assert version(path) == 0


def marks(path: Path, version: int) -> list[object]:
    """The vectors that a version makes."""
    text = (path / "_delta_log" / f"{version:020}.json").read_text()
    actions = [json.loads(line) for line in text.splitlines()]
    return [found for action in actions if (found := action.get("add", {}).get("deletionVector"))]
