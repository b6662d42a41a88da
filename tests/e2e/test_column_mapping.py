"""Tables whose columns go by other names in their files: read, appended to and merged, by either strategy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import deltamerge
from deltamerge.tables import DeltaTable
from tests.e2e.tables import by_delta_rs, content

SCHEMA = (
    "`the id` int, `a,b` string, `c.d` double, `e``f` int, s struct<x: int, `y z`: struct<w: string>>, "
    "l array<struct<q: int>>, m map<string, struct<v: int>>, p string"
)
ROWS: list[tuple[Any, ...]] = [(n, f"n{n}", n / 2, n, (n, (f"w{n}",)), [(n,)], {"k": (n,)}, f"p {n % 2}") for n in range(6)]


@pytest.fixture(params=["name", "id"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def make(spark: SparkSession, path: Path, mode: str, partition_by: list[str]) -> DeltaTable:
    properties = {"delta.columnMapping.mode": mode}
    frame = spark.createDataFrame(ROWS, SCHEMA).coalesce(1)
    deltamerge.write(frame.where("`the id` < 3"), str(path), partition_by=partition_by, properties=properties)
    deltamerge.write(frame.where("`the id` >= 3"), str(path), mode="append")
    return DeltaTable.forPath(spark, str(path)).alias("t")


def actions(path: Path, kind: str) -> list[dict[str, Any]]:
    lines = [line for file in sorted((path / "_delta_log").glob("*.json")) for line in file.read_text().splitlines()]
    return [found[kind] for found in map(json.loads, lines) if kind in found]


def merged(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """What the merge below makes of the rows."""
    kept = [row for row in rows if row[0] != 5]
    updated = [(*row[:2], row[2] + 1, row[0] + 100, *row[4:]) if row[0] == 1 else row for row in kept]
    return sorted([*updated, (7, "new", None, None, None, None, None, "p,new")], key=lambda row: row[0])


@pytest.mark.parametrize("partition_by", [[], ["p"]], ids=["flat", "partitioned"])
def test_a_mapped_table_is_written_read_and_merged(
    spark: SparkSession, tmp_path: Path, strategy: str, mode: str, partition_by: list[str]
) -> None:
    path = tmp_path / "t"
    table = make(spark, path, mode, partition_by)
    assert content(spark, path) == spark.createDataFrame(ROWS, SCHEMA).collect()
    changes = spark.createDataFrame([(1, "x"), (5, "drop"), (7, "new")], "`the id` int, `a,b` string").alias("s")
    merge = table.merge(changes, "t.`the id` = s.`the id` AND t.`the id` >= 1")
    merge = merge.whenMatchedDelete("s.`a,b` = 'drop' AND t.s.`y z`.w = 'w5'")
    merge = merge.whenMatchedUpdate(set={"`c.d`": "t.`c.d` + 1", "`e``f`": "s.`the id` + 100"})
    merge.whenNotMatchedInsert(values={"`the id`": "s.`the id`", "`a,b`": "s.`a,b`", "p": "'p,new'"}).execute()
    expected = content(spark, path)
    assert expected == merged(content(spark, path, 1))
    check_files(path)
    query = """SELECT "the id", "a,b", "c.d", "e`f", p, s['y z']['w'], l[1]['q'], m['k']['v'] FROM t"""
    assert by_delta_rs(path, query) == [flat(row) for row in expected]


def flat(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """A row, with one value in place of each nested one."""
    *plain, struct, items, mapped, p = row
    return (*plain, p, struct and struct["y z"]["w"], items and items[0]["q"], mapped and mapped["k"]["v"])


def check_files(path: Path) -> None:
    """Files, statistics and partition values go by physical names, and files have the ids of the schema."""
    fields = json.loads(actions(path, "metaData")[0]["schemaString"])["fields"]
    ids = {f["metadata"]["delta.columnMapping.physicalName"]: f["metadata"]["delta.columnMapping.id"] for f in fields}
    assert not set(ids) & {field["name"] for field in fields}
    partition = set(actions(path, "metaData")[0]["partitionColumns"])
    stored = {name: id for (name, id), field in zip(ids.items(), fields, strict=True) if field["name"] not in partition}
    for add in actions(path, "add"):
        schema = pq.read_schema(pa.BufferReader((path / add["path"]).read_bytes()))
        assert {f.name: int(f.metadata[b"PARQUET:field_id"]) for f in schema} == stored
        assert set(json.loads(add["stats"])["minValues"]) <= set(stored)
        assert set(add["partitionValues"]) == set(ids) - set(stored)
        assert len(add["path"].split("/")) == 2
        assert len(add["path"].split("/")[0]) == 2


def test_files_are_skipped_by_statistics_under_physical_names(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    table = make(spark, tmp_path / "t", mode, [])
    changes = spark.createDataFrame([(4, "x")], "`the id` int, `a,b` string").alias("s")
    table.merge(changes, "t.`the id` = s.`the id`").whenMatchedUpdate(set={"`a,b`": "s.`a,b`"}).execute()
    assert table.history(1).collect()[0]["operationMetrics"]["numTargetFilesAfterSkipping"] == "1"


def test_the_mapping_does_not_leak_into_a_copy(spark: SparkSession, tmp_path: Path) -> None:
    make(spark, tmp_path / "t", "name", [])
    frame = deltamerge.read(spark, str(tmp_path / "t"))
    assert all(not field.metadata for field in frame.schema)
    deltamerge.write(frame.select(frame["p"], frame["s"]["x"].alias("x")), str(tmp_path / "copy"))
    assert "columnMapping" not in (tmp_path / "copy" / "_delta_log" / f"{0:020d}.json").read_text()


@pytest.mark.local(reason="Spark's own reader is for local disks")
def test_a_filter_on_a_mapped_column_reaches_the_files(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(spark, tmp_path / "t", "name", [])
    deltamerge.read(spark, str(tmp_path / "t")).where("`the id` > 4").explain()
    assert "GreaterThan(`col-" in capsys.readouterr().out
