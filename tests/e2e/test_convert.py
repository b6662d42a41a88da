"""Folders of Parquet files that become Delta tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import types as T

import deltamerge
from deltamerge.log.replay.table import open_log
from deltamerge.tables import DeltaTable
from tests.e2e.tables import by_delta_rs

pytestmark = pytest.mark.local(reason="the files are written to a folder")


def files(path: Path, tables: Mapping[str, Mapping[str, Any]]) -> str:
    """Parquet files in folders of these names below `path`; its name for a conversion."""
    for number, (folder, columns) in enumerate(tables.items()):
        (path / folder).mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(dict(columns)), path / folder / f"{number}.parquet")
    return f"parquet.`{path}`"


def stats(path: Path) -> list[dict[str, Any]]:
    texts = open_log(str(path)).snapshot().files.column("stats").to_pylist()
    return [json.loads(text) for text in texts if text is not None]


def told(spark: SparkSession, path: Path) -> tuple[str, Mapping[str, Any], Mapping[str, Any]]:
    row = DeltaTable.forPath(spark, str(path)).history(1).collect()[0]
    return row.operation, row.operationParameters, row.operationMetrics


@pytest.mark.parametrize("by_workers", [False, True])
def test_a_folder(spark: SparkSession, tmp_path: Path, limit: Callable[..., None], by_workers: bool) -> None:
    if by_workers:
        limit(driver_compact_bytes=0)
    path = tmp_path / "t"
    texts = "string(id) s", "if(id = 5, double('NaN'), id / 3) d", "timestamp_millis(id * 1000) t", "array(id) a"
    rows = spark.range(6).selectExpr("cast(id as short) n", *texts)
    rows.coalesce(1).write.parquet(str(path))
    before = sorted(map(repr, spark.read.parquet(str(path)).collect()))
    table = DeltaTable.convertToDelta(spark, f"parquet.`{path}`")
    assert table.toDF().dtypes == rows.dtypes
    assert sorted(map(repr, table.toDF().collect())) == before
    (found,) = stats(path)
    assert (found["numRecords"], found["minValues"]["t"]) == (6, "1970-01-01T00:00:00.000Z")
    assert [found[key][name] for key, name in (("maxValues", "n"), ("maxValues", "d"), ("nullCount", "a"))] == [5, "NaN", 0]
    told_of = {"numFiles": "1", "partitionedBy": "[]", "collectStats": "true", "sourceFormat": "parquet"}
    assert told(spark, path) == ("CONVERT", told_of, {"numConvertedFiles": "1"})
    DeltaTable.convertToDelta(spark, f"parquet.`{path}`")
    DeltaTable.convertToDelta(spark, f"delta.`{path}`")
    table.delete("n = 1")
    assert open_log(str(path)).snapshot().version == 1
    assert len(by_delta_rs(path, "SELECT * FROM t")) == 5


@pytest.mark.parametrize("how", ["text", "types", "statement"])
def test_partitions(spark: SparkSession, tmp_path: Path, how: str) -> None:
    path = tmp_path / "a b%"
    name = files(
        path,
        {
            "p=x y%25%2F/q=2020-01-01/one": {"id": [1]},
            "p=__HIVE_DEFAULT_PARTITION__/Q=2020-01-02": {"id": [2], "n": [20]},
            "_hidden/x": {"id": [3]},
            "p=1/.x": {"id": [4]},
        },
    )
    if how == "statement":
        deltamerge.sql(spark, f"CONVERT TO DELTA {name} NO STATISTICS PARTITIONED BY (p STRING, q DATE)")
        assert stats(path) == []
    else:
        types = T.StructType().add("p", T.StringType()).add("q", T.DateType())
        DeltaTable.convertToDelta(spark, name, "p STRING, q DATE" if how == "text" else types)
        assert [found["numRecords"] for found in stats(path)] == [1, 1]
    found = deltamerge.read(spark, str(path)).selectExpr("id", "n", "p", "string(q)")
    assert sorted(map(tuple, found.collect())) == [(1, None, "x y%/", "2020-01-01"), (2, 20, None, "2020-01-02")]
    assert told(spark, path)[1]["partitionedBy"] == '["p","q"]'
    assert len(by_delta_rs(path, "SELECT * FROM t WHERE p IS NULL")) == 1


REFUSED: dict[str, tuple[dict[str, dict[str, Any]], str | None, str]] = {
    "no files": ({}, None, "DELTA_PATH_DOES_NOT_EXIST"),
    "only hidden files": ({"_x": {"a": [1]}}, None, "DELTA_EMPTY_DIRECTORY"),
    "unknown partitions": ({"p=1": {"a": [1]}}, None, "DELTA_UNEXPECTED_NUM_PARTITION_COLUMNS_FROM_FILE_NAME"),
    "a file outside": ({"p=1": {"a": [1]}, "": {"a": [1]}}, "p INT", "DELTA_UNEXPECTED_NUM_PARTITION_COLUMNS_FROM_FILE_NAME"),
    "other order": ({"p=1/q=1": {"a": [1]}}, "q INT, p INT", "DELTA_UNEXPECTED_PARTITION_COLUMN_FROM_FILE_NAME"),
    "other type": ({"p=x": {"a": [1]}}, "p INT", "DELTA_FAILED_CAST_PARTITION_VALUE"),
    "no schema": ({"p=x": {"a": [1]}}, "p INTT", "UNSUPPORTED_DATATYPE"),
    "no type of Spark's": ({"": {"a": pa.array([1], pa.timestamp("ns"))}}, None, "DELTA_FAILED_INFER_SCHEMA"),
    "differing types": ({"x": {"a": [1]}, "y": {"a": ["1"]}}, None, "DELTA_FAILED_TO_MERGE_FIELDS"),
    "a name with a blank": ({"": {"a b": [1]}}, None, "DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_can_not_become_a_table(spark: SparkSession, tmp_path: Path, case: str) -> None:
    tables, partitions, condition = REFUSED[case]
    name = files(tmp_path / "t", tables)
    with pytest.raises(PySparkException) as caught:
        DeltaTable.convertToDelta(spark, name, partitions)
    assert caught.value.getCondition() == condition
    assert not (tmp_path / "t" / "_delta_log").exists()


def test_other_formats_and_arguments(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a\n1\n")
    for name, condition in {
        f"`{tmp_path}`": "DELTA_MISSING_PROVIDER_FOR_CONVERT",
        f"iceberg.`{tmp_path}`": "DELTA_MISSING_ICEBERG_CLASS",
        f"orc.`{tmp_path}`": "DELTA_CONVERT_NON_PARQUET_TABLE",
        f"delta.`{tmp_path}`": "DELTA_MISSING_DELTA_TABLE",
        f"parquet.`{tmp_path}`": "DELTAMERGE_CORRUPT_DATA_FILE",
        "nothing_of_this_name": "TABLE_OR_VIEW_NOT_FOUND",
    }.items():
        with pytest.raises(PySparkException) as caught:
            DeltaTable.convertToDelta(spark, name)
        assert caught.value.getCondition() == condition
    for arguments in ((1,), ("a", 1)):
        with pytest.raises(TypeError, match="in convertToDelta must be"):
            DeltaTable.convertToDelta(spark, *arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("default", "condition"),
    [
        ("columnMapping.mode = name", "DELTA_CONVERSION_UNSUPPORTED_COLUMN_MAPPING"),
        ("enableRowTracking = true", "DELTA_CONVERT_TO_DELTA_ROW_TRACKING_WITHOUT_STATS"),
    ],
)
def test_defaults_of_the_session(spark: SparkSession, tmp_path: Path, default: str, condition: str) -> None:
    name, value = default.split(" = ")
    spark.conf.set(f"spark.databricks.delta.properties.defaults.{name}", value)
    try:
        with pytest.raises(PySparkException) as caught:
            deltamerge.sql(spark, f"CONVERT TO DELTA {files(tmp_path / 't', {'x': {'a': [1]}})} NO STATISTICS")
    finally:
        spark.conf.unset(f"spark.databricks.delta.properties.defaults.{name}")
    assert caught.value.getCondition() == condition


@pytest.fixture
def active(spark: SparkSession) -> Iterator[SparkSession]:
    deltamerge.activate(spark)
    try:
        spark.newSession()
    except Exception:  # a Connect client before PySpark 4.3 has no such method: the catalog takes no tables
        deltamerge.deactivate(spark)
        pytest.skip("this session can't make another one with its catalog")
    yield spark
    for row in spark.sql("SHOW TABLES LIKE 'raw_*'").collect():
        spark.sql(f"DROP TABLE {row.tableName}")
    deltamerge.deactivate(spark)


def test_tables_of_the_catalog(active: SparkSession, tmp_path: Path) -> None:
    files(tmp_path / "t", {"p=1": {"id": [1]}, "p=2": {"id": [2]}})
    place = f"PARTITIONED BY (p) LOCATION '{tmp_path / 't'}'"
    active.sql(f"CREATE TABLE raw_t (id BIGINT, p INT) USING parquet {place} TBLPROPERTIES ('k' = 'v')")
    active.sql("ALTER TABLE raw_t ADD PARTITION (p = 1)")
    active.sql("CREATE TABLE raw_own USING parquet AS SELECT 1 AS id")
    active.sql("CREATE TEMP VIEW raw_view AS SELECT 1 AS id")
    for name, partitions, condition in [
        ("raw_t", "p STRING", "DELTA_UNEXPECTED_PARTITION_SCHEMA_FROM_USER"),
        ("raw_own", None, "DELTA_OPERATION_NOT_ALLOWED_DETAIL"),
        ("raw_view", None, "DELTA_OPERATION_NOT_ALLOWED_DETAIL"),
    ]:
        with pytest.raises(PySparkException) as caught:
            DeltaTable.convertToDelta(active, name, partitions)
        assert caught.value.getCondition() == condition
    active.catalog.dropTempView("raw_view")
    active.sql("CONVERT TO DELTA raw_t")
    assert [tuple(row) for row in active.table("raw_t").collect()] == [(1, 1)]
    detail = active.sql("DESCRIBE DETAIL raw_t").first()
    assert (detail.format, detail.partitionColumns, detail.properties) == ("delta", ["p"], {"k": "v"})
    assert told(active, tmp_path / "t")[1]["catalogTable"] == "`spark_catalog`.`default`.`raw_t`"
    assert DeltaTable.convertToDelta(active, "raw_t").toDF().count() == 1
