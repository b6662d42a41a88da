"""Creating, appending, overwriting, reading and describing tables."""

from __future__ import annotations

import json
import os
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import deltalake
import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql import SparkSession

import deltamerge
from deltamerge.exceptions import DeltaAnalysisException
from deltamerge.tables import DeltaTable
from tests.e2e.tables import content, make

SCHEMA = (
    "by tinyint, sh smallint, i int, l bigint, f float, d double, de decimal(20,4), s string, bi binary, da date, ts timestamp, "
    "b boolean, st struct<x:int,y:struct<z:string>>, ar array<struct<q:int>>, m map<string,array<int>>"
)
ROW = (
    1, 2, 3, 4, 1.5, 2.5, Decimal("1.2500"), "é", b"\x00\xff", date(2020, 2, 29), datetime(2020, 1, 2, 3, 4, 5, 6), True,
    (1, ("z",)), [(1,), None], {"k": [1, None]},
)  # fmt: skip


def test_every_type_survives_write_and_read(spark: SparkSession, tmp_path: Path) -> None:
    rows = [ROW, tuple(None for _ in ROW)]
    frame = spark.createDataFrame(rows, SCHEMA)
    assert deltamerge.write(frame, str(tmp_path / "t")) == 0
    found = deltamerge.read(spark, str(tmp_path / "t"))
    assert found.schema == frame.schema
    assert sorted(map(repr, found.collect())) == sorted(map(repr, frame.collect()))


def test_modes(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    one = spark.createDataFrame([(1, "a")], "id int, v string")
    assert deltamerge.write(one, path) == 0
    with pytest.raises(AnalysisException, match="DELTA_PATH_EXISTS"):
        deltamerge.write(one, path)
    assert deltamerge.write(one, path, mode="ignore") is None
    assert deltamerge.write(spark.createDataFrame([("b", 2)], "v string, id long"), path, mode="append") == 1
    assert content(spark, tmp_path / "t") == [(1, "a"), (2, "b")]
    assert deltamerge.write(one, path, mode="overwrite") == 2
    assert content(spark, tmp_path / "t") == [(1, "a")]
    assert content(spark, tmp_path / "t", version=1) == [(1, "a"), (2, "b")]
    with pytest.raises(IllegalArgumentException, match=r"(?s)DELTAMERGE_INVALID_MODE.*One of"):
        deltamerge.write(one, path, mode="upsert")


def test_append_refuses_what_the_table_does_not_have(spark: SparkSession, tmp_path: Path) -> None:
    make(spark, tmp_path / "t", "id int, v string", [(1, "a")])
    with pytest.raises(AnalysisException, match=r"DELTA_METADATA_MISMATCH.*no column w"):
        deltamerge.write(spark.createDataFrame([(1, "x")], "id int, w string"), str(tmp_path / "t"), mode="append")
    with pytest.raises(deltamerge.exceptions.DeltaArithmeticException, match="column id"):
        deltamerge.write(spark.createDataFrame([(2**40,)], "id long"), str(tmp_path / "t"), mode="append")
    assert content(spark, tmp_path / "t") == [(1, "a")]


def test_partitions_with_odd_values(spark: SparkSession, tmp_path: Path) -> None:
    values = ["plain", "a b", "x/y", "p=q", "100%", "é", "", None, "c:d", "__HIVE_DEFAULT_PARTITION__"]
    rows = [(i, value, date(2020, 1, 1 + i)) for i, value in enumerate(values)]
    make(spark, tmp_path / "t", "id int, p string, d date", rows, partition_by=["p", "d"])
    expected = [(i, value or None, day) for i, value, day in rows]
    assert content(spark, tmp_path / "t") == expected
    found = deltalake.DeltaTable(str(tmp_path / "t")).to_pyarrow_table().select(["id", "p", "d"]).sort_by("id").to_pylist()
    assert [tuple(row.values()) for row in found] == expected


def test_timestamp_and_float_partitions_read_back(spark: SparkSession, tmp_path: Path) -> None:
    rows = [(1, datetime(2020, 1, 2, 3, 4, 5, 678), 1.5, Decimal("1.20")), (2, None, float("inf"), None)]
    make(spark, tmp_path / "t", "id int, ts timestamp, f double, de decimal(5,2)", rows, partition_by=["ts", "f", "de"])
    assert content(spark, tmp_path / "t") == rows


@pytest.mark.local(reason="Spark's own reader is for local disks")
def test_reading_pushes_filters_down(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make(spark, tmp_path / "t", "id int, p int", [(1, 1), (2, 2)], partition_by=["p"])
    deltamerge.read(spark, str(tmp_path / "t")).where("p = 1 and id > 0").explain()
    printed = capsys.readouterr().out
    assert "PartitionFilters: [isnotnull(p" in printed
    assert "PushedFilters: [IsNotNull(id), GreaterThan(id,0)]" in printed


def test_history_and_detail(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", "id int, p int", [(1, 1)], partition_by=["p"])
    changes = spark.createDataFrame([(1, 1), (2, 2)], "id int, p int").alias("s")
    table.merge(changes, "t.id = s.id").whenMatchedDelete("s.id = 7").whenNotMatchedInsertAll().execute()
    newest, oldest = table.history().collect()
    assert (newest["version"], newest["operation"], oldest["operation"]) == (1, "MERGE", "WRITE")
    assert newest["operationMetrics"]["numTargetRowsInserted"] == "1"
    assert newest["operationParameters"]["matchedPredicates"] == '[{"predicate":"s.id = 7","actionType":"delete"}]'
    assert newest["readVersion"] == 0
    assert "deltamerge/" in newest["engineInfo"]
    assert table.history(1).count() == 1
    detail = table.detail().collect()[0]
    assert (detail["format"], detail["partitionColumns"], detail["numFiles"]) == ("delta", ["p"], 2)
    assert detail["sizeInBytes"] == sum(f.stat().st_size for f in (tmp_path / "t").rglob("*.parquet"))


def test_the_times_of_a_merge_are_told_apart(spark: SparkSession, tmp_path: Path, strategy: str) -> None:
    table = make(spark, tmp_path / "t", "id int, n int", [(1, 1), (2, 2)])
    changes = spark.createDataFrame([(2, 3)], "id int, n int").alias("s")
    table.merge(changes, "s.id = t.id").whenMatchedUpdateAll().execute()
    metrics = table.history(1).collect()[0]["operationMetrics"]
    scanning, rewriting = int(metrics["scanTimeMs"]), int(metrics["rewriteTimeMs"])
    assert (scanning > 0) == (strategy == "auto")
    assert rewriting > 0
    assert int(metrics["materializeSourceTimeMs"]) + scanning + rewriting <= int(metrics["executionTimeMs"])


def test_is_delta_table(spark: SparkSession, tmp_path: Path) -> None:
    make(spark, tmp_path / "t", "id int", [(1,)])
    assert DeltaTable.isDeltaTable(spark, str(tmp_path / "t"))
    assert not DeltaTable.isDeltaTable(spark, str(tmp_path / "nothing"))


def test_a_checkpoint_is_written_and_used(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", "id int, v int", [(i, 0) for i in range(5)])
    for n in range(12):
        table.merge(
            spark.createDataFrame([(n % 5, n)], "id int, v int").alias("s"), "t.id = s.id"
        ).whenMatchedUpdateAll().execute()
    log = tmp_path / "t" / "_delta_log"
    assert (log / "00000000000000000010.checkpoint.parquet").exists()
    for old in range(10):
        (log / f"{old:020d}.json").unlink()
    deltamerge.log.replay.table._logs.clear()
    expected = [(0, 10), (1, 11), (2, 7), (3, 8), (4, 9)]
    assert content(spark, tmp_path / "t") == expected
    found = deltalake.DeltaTable(str(tmp_path / "t")).to_pyarrow_table().sort_by("id").to_pylist()
    assert [tuple(row.values()) for row in found] == expected


@pytest.mark.parametrize("names", [["id", "ID"], ["a b"], ["x;y"]])
def test_names_that_no_table_may_have(spark: SparkSession, tmp_path: Path, names: list[str]) -> None:
    frame = spark.createDataFrame([tuple(range(len(names)))], ", ".join(f"`c{i}` int" for i in range(len(names))))
    with pytest.raises(AnalysisException):
        deltamerge.write(frame.toDF(*names), str(tmp_path / "t"))
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("folder", ["a b%20c#", "a[x]", "a{y}", "a?", "a*", "a\\b"])
def test_a_table_below_an_odd_folder_is_read_once(spark: SparkSession, tmp_path: Path, folder: str) -> None:
    path = tmp_path / folder / "t"
    make(spark, path, "id int", [(1,), (2,)], files=2)
    assert content(spark, path) == [(1,), (2,)]


def test_modes_and_partitions_as_spark_takes_them(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.range(4).selectExpr("id", "id % 2 AS part")
    deltamerge.write(rows, str(tmp_path / "t"), mode="Overwrite", partition_by="part")
    assert sorted(path.name for path in (tmp_path / "t").glob("part=*")) == ["part=0", "part=1"]


def test_partition_columns_are_named_once(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(DeltaAnalysisException, match="DELTA_DUPLICATE_COLUMNS_FOUND"):
        deltamerge.write(spark.range(1).selectExpr("id", "id AS p"), str(tmp_path / "t"), partition_by=["p", "P"])


@pytest.mark.parametrize(
    ("partition_by", "condition"),
    [
        (["q"], "DELTA_MISSING_PARTITION_COLUMN"),
        (["st"], "DELTA_INVALID_PARTITION_COLUMN_TYPE"),
        (["id", "st"], "DELTA_INVALID_PARTITION_COLUMN_TYPE"),
        (["ID", "p"], "DELTA_CANNOT_USE_ALL_COLUMNS_FOR_PARTITION"),
    ],
)
def test_columns_that_partition_no_table(spark: SparkSession, tmp_path: Path, partition_by: list[str], condition: str) -> None:
    frame = spark.range(1).selectExpr("id", "id AS p", "struct(id) AS st")
    with pytest.raises(DeltaAnalysisException, match=rf"\[{condition}\]"):
        deltamerge.write(frame.drop("st") if "p" in partition_by else frame, str(tmp_path / "t"), partition_by=partition_by)
    assert not (tmp_path / "t").exists()


def test_a_table_keeps_its_partitioning(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.range(4).selectExpr("id", "id % 2 AS part")
    deltamerge.write(rows, str(tmp_path / "t"), partition_by="part")
    for other in ("id", ["part", "id"]):
        with pytest.raises(DeltaAnalysisException, match=r"\[DELTA_METADATA_MISMATCH\].*by \['part'\]"):
            deltamerge.write(rows, str(tmp_path / "t"), mode="append", partition_by=other)
    assert deltamerge.write(rows, str(tmp_path / "t"), mode="append", partition_by="PART") == 1


def test_rows_without_columns_make_no_table(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(DeltaAnalysisException, match="DELTA_EMPTY_DATA"):
        deltamerge.write(spark.range(3).select(), str(tmp_path / "t"))
    assert not (tmp_path / "t").exists()


@pytest.mark.local(reason="object stores set the time of objects themselves")
def test_a_version_is_read_by_its_time(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    for number in range(3):
        deltamerge.write(spark.range(number + 1), path, mode="append")
        os.utime(tmp_path / "t" / "_delta_log" / f"{number:020d}.json", (1_600_000_000 + number * 60,) * 2)
    deltamerge.log.replay.table._logs.clear()
    moment = datetime(2020, 9, 13, 12, 27, 50, tzinfo=UTC)
    assert deltamerge.read(spark, path, timestamp=moment).count() == 3
    assert deltamerge.read(spark, path, timestamp="2020-09-13 12:26:40").count() == 1
    with pytest.raises(AnalysisException, match="DELTA_TIMESTAMP_GREATER_THAN_COMMIT"):
        deltamerge.read(spark, path, timestamp="2030-01-01")
    with pytest.raises(AnalysisException, match="DELTA_UNSUPPORTED_TIME_TRAVEL_MULTIPLE_FORMATS"):
        deltamerge.read(spark, path, version=1, timestamp="2020-09-13")


@pytest.mark.local(reason="object stores are read by the Arrow scan")
@pytest.mark.parametrize("name", ["_x.parquet", ".x.parquet", "_metadata", "x.parquet._COPYING_", "a%3Ab.parquet"])
def test_files_that_spark_would_take_for_hidden_ones_are_read(spark: SparkSession, tmp_path: Path, name: str) -> None:
    path = tmp_path / "t"
    for row in ((1, "a"), (2, "b")):
        deltamerge.write(spark.createDataFrame([row], "id int, name string"), str(path), mode="append")
    log = path / "_delta_log" / f"{1:020d}.json"
    (old,) = [json.loads(line)["add"]["path"] for line in log.read_text().splitlines() if '"add"' in line]
    (path / old).rename(path / name.replace("%3A", ":"))
    log.write_text(log.read_text().replace(old, name))
    assert content(spark, path) == [(1, "a"), (2, "b")]
    DeltaTable.forPath(spark, str(path)).update("id = 2", {"name": "'c'"})
    assert content(spark, path) == [(1, "a"), (2, "c")]
