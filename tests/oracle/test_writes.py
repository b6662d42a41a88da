"""Writes by delta-spark's writer and by `deltamerge.write`: the same rows, schema, history and change feed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession

import deltamerge
from deltamerge.spark.session.delta_settings import DELTA, REFUSED, SAME, WARNED, Effect, effect_of
from tests.e2e.tables import conf
from tests.oracle.engines import copy_table
from tests.oracle.readers import by_delta_spark, by_deltamerge

SCHEMA = "id int, p string, v int"
ROWS = [(1, "a", 10), (2, "b", 20), (3, "a", 30), (4, None, 40)]
# What delta-spark's option is called here.
NAMES = {
    "mergeSchema": "merge_schema",
    "overwriteSchema": "overwrite_schema",
    "replaceWhere": "replace_where",
    "partitionOverwriteMode": "partition_overwrite",
    "userMetadata": "user_metadata",
    "maxRecordsPerFile": "max_records_per_file",
    "compression": "compression",
    "dataChange": "data_change",
}
METRICS = ("numOutputRows", "numCopiedRows", "numDeletedRows", "numRemovedFiles")


def theirs(frame: DataFrame, path: Path, mode: str, options: dict[str, Any], partition_by: list[str]) -> None:
    writer = frame.write.format("delta").mode(mode)
    for name, value in options.items():
        writer = writer.option(name, value)
    (writer.partitionBy(*partition_by) if partition_by else writer).save(str(path))


def ours(frame: DataFrame, path: Path, mode: str, options: dict[str, Any], partition_by: list[str]) -> None:
    named = {NAMES[name]: value for name, value in options.items()}
    deltamerge.write(frame, str(path), mode, partition_by, **named)


def outcome(write: Callable[..., None], frame: DataFrame, path: Path, *given: Any) -> str | None:
    """The condition of the error that a write ends with."""
    try:
        write(frame, path, *given)
    except Exception as error:
        return str(error.getCondition()) if hasattr(error, "getCondition") else type(error).__name__  # type: ignore[no-any-return]
    return None


CASES: dict[str, tuple[str, list[tuple[Any, ...]], str, dict[str, Any], list[str]]] = {
    "unknown column": ("id int, w int", [(5, 6)], "append", {}, []),
    "added column": ("id int, p string, w int", [(5, "a", 6)], "append", {"mergeSchema": True, "userMetadata": "x"}, []),
    "other partitioning": (SCHEMA, [(5, "a", 1)], "append", {}, ["id"]),
    "overwrite": (SCHEMA, [(5, "a", 1)], "overwrite", {}, []),
    "added column in an overwrite": ("id int, p string, w int", [(5, "a", 6)], "overwrite", {"mergeSchema": True}, []),
    "other schema": ("id string, w int", [("5", 6)], "overwrite", {"overwriteSchema": True}, []),
    "other schema and partitioning": ("id string, w int", [("5", 6)], "overwrite", {"overwriteSchema": True}, ["w"]),
    "partition": (SCHEMA, [(5, "a", 1)], "overwrite", {"replaceWhere": "p = 'a'"}, []),
    "rows": (SCHEMA, [(5, "z", 20)], "overwrite", {"replaceWhere": "v = 20"}, []),
    "rows of all partitions": (SCHEMA, [(5, "z", 70)], "overwrite", {"replaceWhere": "v > 0 AND id > 0"}, []),
    "no rows": (SCHEMA, [(5, "z", 99)], "overwrite", {"replaceWhere": "v > 90"}, []),
    "everything": (SCHEMA, [(5, "z", 99)], "overwrite", {"replaceWhere": "true"}, []),
    "other rows": (SCHEMA, [(5, "z", 21)], "overwrite", {"replaceWhere": "v = 20"}, []),
    "null": (SCHEMA, [(5, "z", None)], "overwrite", {"replaceWhere": "v = 20"}, []),
    "no predicate": (SCHEMA, [(5, "z", 21)], "overwrite", {"replaceWhere": "v = = 20"}, []),
    "a query": (SCHEMA, [(5, "z", 20)], "overwrite", {"replaceWhere": "v IN (SELECT 20)"}, []),
    "unknown column in the predicate": (SCHEMA, [(5, "z", 20)], "overwrite", {"replaceWhere": "zz = 20"}, []),
    "more columns": (f"{SCHEMA}, w int", [(5, "z", 20, 1)], "overwrite", {"replaceWhere": "v = 20", "mergeSchema": True}, []),
    "dynamic": (SCHEMA, [(5, None, 1), (6, "b", 1)], "overwrite", {"partitionOverwriteMode": "dynamic"}, []),
    "dynamic and a predicate": (
        SCHEMA,
        [(5, "a", 1)],
        "overwrite",
        {"partitionOverwriteMode": "dynamic", "replaceWhere": "v = 1"},
        [],
    ),
}

MANY = [(id, "a", id) for id in range(10)]
REARRANGED = {"dataChange": False}
WRITTEN: dict[str, tuple[str, list[tuple[Any, ...]], str, dict[str, Any], list[str]]] = {
    "few rows a file": (SCHEMA, MANY, "append", {"maxRecordsPerFile": 4}, []),
    "any number of rows": (SCHEMA, MANY, "append", {"maxRecordsPerFile": -1}, []),
    "codec": (SCHEMA, MANY, "append", {"compression": "GZIP"}, []),
    "unknown codec": (SCHEMA, MANY, "append", {"compression": "zip"}, []),
    "rearranged append": (SCHEMA, MANY, "append", REARRANGED, []),
    "rearranged": (SCHEMA, ROWS, "overwrite", REARRANGED, []),
    "rearranged partition": (SCHEMA, [ROWS[0], ROWS[2]], "overwrite", {**REARRANGED, "replaceWhere": "p = 'a'"}, []),
    "rearranged rows": (SCHEMA, [ROWS[1]], "overwrite", {**REARRANGED, "replaceWhere": "v = 20"}, []),
    "rearranged, another schema": ("id int, w int", [(1, 2)], "overwrite", {**REARRANGED, "overwriteSchema": True}, []),
    "rearranged, a column more": ("id int, w int", [(1, 2)], "append", {**REARRANGED, "mergeSchema": True}, []),
}
CASES |= WRITTEN


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Path]:
    """Partitioned tables with a change feed, without deletion vectors and with them."""
    found = {vectors: tmp_path_factory.mktemp("made") / "t" for vectors in (False, True)}
    for vectors, path in found.items():
        spark.sql(
            f"CREATE TABLE delta.`{path}` ({SCHEMA}) USING delta PARTITIONED BY (p) TBLPROPERTIES "
            f"('delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = '{str(vectors).lower()}')"
        )
        spark.createDataFrame(ROWS, SCHEMA).coalesce(1).write.format("delta").mode("append").save(str(path))
    return found


# Vectors matter where rows leave files.
TRIED = [(name, True) for name in CASES] + [(name, False) for name in ("rows", "rows of all partitions", "partition")]


@pytest.mark.parametrize(("case", "vectors"), TRIED)
def test_both_write_the_same(spark: SparkSession, made: dict[bool, Path], tmp_path: Path, case: str, vectors: bool) -> None:
    schema, rows, *given = CASES[case]
    frame = spark.createDataFrame(rows, schema).coalesce(1)
    tried = []
    for name, write in (("theirs", theirs), ("ours", ours)):
        path = tmp_path / name
        copy_table(made[vectors], path)
        tried.append((path, outcome(write, frame, path, *given)))
    assert tried[0][1] == tried[1][1]
    paths = [path for path, _ in tried]
    assert by_delta_spark(spark, paths[0]) == by_delta_spark(spark, paths[1]) == by_deltamerge(spark, paths[1])
    news = [spark.sql(f"DESCRIBE HISTORY delta.`{path}` LIMIT 1").collect()[0] for path in paths]
    for field in ("version", "operation", "operationParameters", "isBlindAppend", "isolationLevel", "userMetadata"):
        assert news[0][field] == news[1][field], field
    metrics = [{name: found["operationMetrics"].get(name) for name in METRICS} for found in news]
    known = [name for name, value in metrics[0].items() if value is not None]
    assert [metrics[0][name] for name in known] == [metrics[1][name] for name in known]
    if case in WRITTEN:
        assert files(paths[0], news[0]["version"]) == files(paths[1], news[1]["version"])
    if news[0]["version"] == 2 and "other schema" not in case:
        assert changes(spark, paths[0]) == changes(spark, paths[1])


def files(path: Path, version: int) -> list[Any]:
    """What a commit says of its files: for each whether it is data, and its rows and codec if it is new."""
    lines = (path / "_delta_log" / f"{version:020d}.json").read_text().splitlines()
    found: list[Any] = []
    for action in map(json.loads, lines):
        if "add" in action:
            footer = pq.read_metadata(path / unquote(action["add"]["path"]))
            found.append(("add", action["add"]["dataChange"], footer.num_rows, footer.row_group(0).column(0).compression))
        if "remove" in action:
            found.append(("remove", action["remove"]["dataChange"]))
    return sorted(found)


def changes(spark: SparkSession, path: Path) -> list[str]:
    frame = spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 2).load(str(path))
    return sorted(str(row.asDict()) for row in frame.drop("_commit_timestamp").collect())


def test_a_session_gives_properties_to_new_tables(spark: SparkSession, tmp_path: Path) -> None:
    found = {}
    defaults = "spark.databricks.delta.properties.defaults."
    asked = {"checkpointInterval": "7", "appendOnly": "true", "minWriterVersion": "4", "feature.deletionVectors": "supported"}
    with conf(spark, {f"{defaults}{name}": value for name, value in asked.items()}):
        for name, write in {"theirs": theirs, "ours": ours}.items():
            path = tmp_path / name
            write(spark.range(1), path, "append", {}, [])
            detail = spark.sql(f"DESCRIBE DETAIL delta.`{path}`").collect()[0]
            found[name] = (detail.properties, sorted(detail.tableFeatures), detail.minReaderVersion, detail.minWriterVersion)
    assert found["ours"] == found["theirs"]


REPLACED = "spark.databricks.delta.replaceWhere."
NO_CHECKS, NO_OTHERS = {f"{REPLACED}constraintCheck.enabled": "false"}, {f"{REPLACED}dataColumns.enabled": "false"}
# Settings that the tables of this file are written with, the rows, and which rows they replace.
SET: list[tuple[dict[str, str], list[tuple[Any, ...]], str]] = [
    ({"spark.databricks.delta.commitInfo.userMetadata": "nightly"}, [(5, "a", 30)], "v = 30"),
    ({"spark.databricks.delta.delete.deletionVectors.persistent": "false"}, [(5, "a", 30)], "v = 30"),
    (NO_CHECKS, [(5, "z", 21)], "v = 20"),
    (NO_OTHERS, [(5, "a", 1)], "p = 'a'"),
    (NO_OTHERS, [(5, "b", 1)], "p = 'a'"),
    (NO_OTHERS, [(5, "a", 30)], "v = 30"),
    ({**NO_CHECKS, **NO_OTHERS}, [(5, "b", 1)], "p = 'a'"),
]


@pytest.mark.parametrize(("given", "rows", "where"), SET)
def test_settings_of_replace_where(
    spark: SparkSession, made: dict[bool, Path], tmp_path: Path, given: dict[str, str], rows: list[tuple[Any, ...]], where: str
) -> None:
    frame, found = spark.createDataFrame(rows, SCHEMA).coalesce(1), []
    for name, write in (("theirs", theirs), ("ours", ours)):
        path = tmp_path / name
        copy_table(made[True], path)
        with conf(spark, given):
            failed = outcome(write, frame, path, "overwrite", {"replaceWhere": where}, [])
        news = spark.sql(f"DESCRIBE HISTORY delta.`{path}` LIMIT 1").collect()[0]
        marks = news["operationMetrics"].get("numDeletionVectorsAdded", "0")
        found.append((failed, by_delta_spark(spark, path), news["version"], news["userMetadata"], marks))
    assert found[0] == found[1]


def test_settings_that_are_warned_of_or_refused_have_delta_spark_s_names(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(1).write.format("delta").save(str(tmp_path / "t"))  # loads them
    jvm: Any = spark._jvm
    entries = getattr(getattr(jvm, "org.apache.spark.sql.internal.SQLConf$"), "MODULE$").getConfigEntries().iterator()
    known = set()
    while entries.hasNext():
        known.add(entries.next().key())
    names = {key.removeprefix(DELTA) for key in known if key.startswith(DELTA)}
    assert (SAME | set(REFUSED) | set(WARNED)) - names <= {"properties.defaults", "withEventTimeOrder.enabled"}
    assert [name for name in names if effect_of(name) is Effect.UNKNOWN] == []
