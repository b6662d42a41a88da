"""Rows of a table that has files are tracked by delta-spark and by deltamerge, each on its own copy: the same log and ids."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import deltamerge
from tests.e2e.commits import commits_from
from tests.oracle.engines import copy_table
from tests.oracle.test_drop_feature import tried

ON = "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableRowTracking' = 'true')"
OFF = "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableRowTracking' = 'false')"
SUSPEND = "ALTER TABLE {t} SET TBLPROPERTIES ('delta.rowTrackingSuspended' = '{0}')"
INSERT = "INSERT INTO {t} SELECT /*+ COALESCE(1) */ id, concat('row ', id), if(id % 2 = 0, 'a', 'b') FROM range({0}, {1})"
MOST_FILES = "spark.databricks.delta.backfill.maxNumFiles"
TRACKED_FILES = "spark.databricks.delta.rowTracking.backfill.maxNumFiles"

# What is said of a new table behind its columns, the statements that both engines run, and the session's settings.
CASES: dict[str, tuple[str, tuple[str, ...], dict[str, str]]] = {
    "plain": ("", (ON, ON, OFF, INSERT.format(20, 22, t="{t}"), "UPDATE {t} SET name = 'new' WHERE id = 20", ON), {}),
    "vectors": (
        "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
        ("DELETE FROM {t} WHERE id IN (1, 8)", ON, "DELETE FROM {t} WHERE id = 2"),
        {},
    ),
    "partitions": ("PARTITIONED BY (p)", (ON,), {MOST_FILES: "4"}),
    "batches": ("", (ON, "ALTER TABLE {t} DROP FEATURE rowTracking"), {TRACKED_FILES: "2"}),
    "a whole batch": ("", (ON,), {TRACKED_FILES: "3"}),
    "two settings": ("PARTITIONED BY (p)", (ON,), {MOST_FILES: "5", TRACKED_FILES: "1"}),
    "mapped": ("TBLPROPERTIES ('delta.columnMapping.mode' = 'name')", (ON,), {}),
    "feature": ("TBLPROPERTIES ('delta.feature.rowTracking' = 'supported')", (ON,), {}),
    "feature later": (
        "",
        ("ALTER TABLE {t} SET TBLPROPERTIES ('delta.feature.rowTracking' = 'supported')", INSERT.format(20, 22, t="{t}"), ON),
        {},
    ),
    "suspended": (
        "",
        (
            SUSPEND.format("true", t="{t}"),
            ON,
            SUSPEND.format("false", t="{t}"),
            ON,
            SUSPEND.format("true", t="{t}"),
            OFF,
            SUSPEND.format("true", t="{t}"),
            INSERT.format(20, 22, t="{t}"),
            SUSPEND.format("false", t="{t}"),
            ON,
        ),
        {},
    ),
    "with others": (
        "",
        ("ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableRowTracking' = 'TRUE', 'delta.appendOnly' = 'true', 'k' = 'v')",),
        {},
    ),
    "both": (
        "",
        (
            "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableRowTracking' = 'true', 'delta.rowTrackingSuspended' = 'true')",
            "ALTER TABLE {t} UNSET TBLPROPERTIES ('delta.enableRowTracking')",
        ),
        {},
    ),
    "in-commit timestamps": ("TBLPROPERTIES ('delta.enableInCommitTimestamps' = 'true')", (ON,), {}),
    "empty": ("", ("DELETE FROM {t}", ON), {}),
}


def logged(path: Path, start: int) -> list[list[str]]:
    """What the commits from a version on say and do, in no order within a commit; names of files and columns differ by chance."""
    found = []
    for actions in commits_from(path, start):
        made: list[Any] = []
        for kind, value in actions:
            if kind == "commitInfo":
                tags = {key: tag for key, tag in (value.get("tags") or {}).items() if key == "rowTrackingEnablementOnly"}
                told = {key: text for key, text in value["operationParameters"].items() if key != "newProtocol"}
                told = {} if value["operation"] in ("WRITE", "UPDATE", "DELETE") else told
                blind = value["isBlindAppend"] if "BACKFILL" in value["operation"] else None
                made.append((value["operation"], sorted(told.items()), value["isolationLevel"], blind, tags))
            elif kind == "protocol":
                made.append(sorted((key, sorted(part) if isinstance(part, list) else part) for key, part in value.items()))
            elif kind == "metaData":
                configuration = {
                    key: "" if key.startswith("delta.rowTracking.") else v for key, v in value["configuration"].items()
                }
                made.append(sorted(configuration.items()))
            elif kind == "domainMetadata":
                made.append((value["domain"], json.loads(value["configuration"])["rowIdHighWaterMark"], value["removed"]))
            else:
                kept = "baseRowId" in value, value.get("defaultRowCommitVersion"), "deletionVector" in value
                made.append((kind, value["dataChange"], *kept))
        found.append(sorted(map(repr, made)))
    return found


def ids(spark: SparkSession, path: Path) -> tuple[list[int], Counter[int], list[Any]]:
    """The row ids of a table as delta-spark reads them, how many rows have each commit version, and the rows."""
    frame = spark.read.format("delta").load(str(path))
    rows = frame.select("*", "_metadata.row_id", "_metadata.row_commit_version").collect()
    versions = Counter(row.row_commit_version for row in rows)
    return sorted(row.row_id for row in rows), versions, sorted(tuple(row)[:3] for row in rows)


@pytest.mark.parametrize("name", CASES)
def test_rows_are_tracked_as_delta_spark_tracks_them(spark: SparkSession, tmp_path: Path, name: str) -> None:
    said, statements, settings = CASES[name]
    made = tmp_path / "made"
    spark.sql(f"CREATE TABLE delta.`{made}` (id BIGINT, name STRING, p STRING) USING delta {said}")
    for number in range(3):
        spark.sql(INSERT.format(6 * number, 6 * number + 6, t=f"delta.`{made}`"))
    ends = []
    for engine, run in (("theirs", spark.sql), ("ours", lambda text: deltamerge.sql(spark, text))):
        path = tmp_path / engine
        copy_table(made, path)
        for key, value in settings.items():
            spark.conf.set(key, value)
        try:
            ends.append([tried(run, text.format(t=f"delta.`{path}`")) for text in statements])
        finally:
            for key in settings:
                spark.conf.unset(key)
    assert ends[1] == ends[0]
    theirs, ours = (logged(tmp_path / engine, 4) for engine in ("theirs", "ours"))
    assert ours == theirs
    if statements[-1] == ON:
        assert ids(spark, tmp_path / "ours")[:2] == ids(spark, tmp_path / "theirs")[:2]
        assert ids(spark, tmp_path / "ours")[2] == ids(spark, tmp_path / "theirs")[2]


@pytest.mark.parametrize("first", ["theirs", "ours"])
def test_one_engine_goes_on_where_the_other_was_stopped(spark: SparkSession, tmp_path: Path, first: str) -> None:
    path = tmp_path / "t"
    spark.sql(f"CREATE TABLE delta.`{path}` (id BIGINT, name STRING, p STRING) USING delta")
    for number in range(4):
        spark.sql(INSERT.format(5 * number, 5 * number + 5, t=f"delta.`{path}`"))
    engines = [spark.sql, lambda text: deltamerge.sql(spark, text)]
    one, other = engines if first == "theirs" else engines[::-1]
    spark.conf.set(MOST_FILES, "1")
    try:
        one(ON.format(t=f"delta.`{path}`"))
        for file in (path / "_delta_log").iterdir():  # as if it had been stopped behind two files
            if file.name == "_last_checkpoint" or (file.name[:20].isdecimal() and int(file.name[:20]) > 7):
                file.unlink()
        copied = tmp_path / "copy"
        copy_table(path, copied)
        other(ON.format(t=f"delta.`{copied}`"))
    finally:
        spark.conf.unset(MOST_FILES)
    found, versions, _ = ids(spark, copied)
    assert found == list(range(20))
    assert versions == Counter({6: 5, 7: 5, 8: 5, 9: 5})
