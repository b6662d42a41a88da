"""OPTIMIZE by the builder and by SQL."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pyarrow.compute as pc
import pytest
from pyspark.errors import AnalysisException, ParseException, UnsupportedOperationException
from pyspark.sql import SparkSession

import deltamerge
from deltamerge.tables import DeltaTable
from tests.e2e.tables import by_delta_rs, conf, content, make, parquet_at, version

TRACKED = {"delta.enableRowTracking": "true", "delta.enableChangeDataFeed": "true"}
MOST = "spark.databricks.delta.optimize.maxFileSize"


@pytest.fixture(params=[False, True], ids=["copy-on-write", "vectors"])
def table(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> DeltaTable:
    """Rows in two partitions and several files, some of which were changed."""
    rows = [(id, id % 2, f"s{id * 7 % 60:02d}") for id in range(60)]
    schema = "id long, p long, s string"
    found = make(spark, tmp_path / "t", schema, rows, files=6, partition_by=["p"], vectors=request.param, properties=TRACKED)
    found.delete("id % 10 = 3")
    found.update("id = 20", {"s": "'new'"})
    make(spark, tmp_path / "t", schema, [(id, id % 2, "s") for id in range(60, 70)], files=2, partition_by=["p"])
    return found


def names(table: DeltaTable) -> list[str]:
    return sorted(table._log.snapshot().files.column("path").to_pylist())


@pytest.fixture(params=["in this process", "by a job"])
def where(request: pytest.FixtureRequest, limit: Callable[..., None]) -> str:
    """Where files are written."""
    if request.param == "by a job":
        limit(driver_compact_bytes=0)
    return str(request.param)


def test_files_are_put_together(spark: SparkSession, table: DeltaTable, tmp_path: Path, where: str) -> None:
    path, before = tmp_path / "t", content(spark, tmp_path / "t")
    newest = version(path)
    row = table.optimize().where("p = 1").executeCompaction().collect()[0]
    assert len([name for name in names(table) if name.startswith("p=1/")]) == row.metrics.numFilesAdded == 1
    assert len([name for name in names(table) if name.startswith("p=0/")]) > 1
    assert table.history(1).collect()[0].operationParameters["predicate"] == """["('p = 1)"]"""
    deltamerge.sql(spark, f"OPTIMIZE delta.`{path}`")
    assert len(names(table)) == 2
    assert content(spark, path) == by_delta_rs(path, "SELECT * FROM t") == before
    told = table.history(1).collect()[0]
    assert (told.operation, told.operationParameters["auto"]) == ("OPTIMIZE", "false")
    assert deltamerge.read_changes(spark, str(path), newest + 1).collect() == []
    table.alias("t").update("id = 20", {"s": "'newer'"})
    assert [row[2] for row in content(spark, path) if row[0] == 20] == ["newer"]
    table.restoreToVersion(newest)
    assert content(spark, path) == before


def test_rows_keep_their_ids(spark: SparkSession, tmp_path: Path, where: str) -> None:
    path = tmp_path / "t"
    table = make(spark, path, "id long", [(id,) for id in range(6)], files=3, properties=TRACKED)
    table.delete("id = 2")
    table.optimize().executeCompaction()
    (file,) = names(table)
    rows = parquet_at(path / file).read()
    id_column, version_column = (next(n for n in rows.column_names if n.startswith(p)) for p in ("_row-id-", "_row-commit-"))
    assert sorted(zip(*(rows[name].to_pylist() for name in ("id", id_column)), strict=True)) == [
        (id, id) for id in (0, 1, 3, 4, 5)
    ]
    assert sorted(rows[version_column].to_pylist()) == [0, 0, 1, 2, 2]


def test_rows_are_laid_out_by_columns(spark: SparkSession, table: DeltaTable, tmp_path: Path, where: str) -> None:
    path, before = tmp_path / "t", content(spark, tmp_path / "t")
    row = table.optimize().executeZOrderBy("id", "s").collect()[0]
    assert (row.metrics.numFilesAdded, row.metrics.zOrderStats.strategyName) == (2, "all")
    assert content(spark, path) == by_delta_rs(path, "SELECT * FROM t") == before
    assert table.history(1).collect()[0].operationParameters["zOrderBy"] == '["id","s"]'


def test_rows_of_a_large_partition_come_to_files_by_ranges(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    rows = [(id * 37 % 1000, id) for id in range(1000)]
    table = make(spark, path, "id long, n long", rows, files=2, properties=TRACKED)
    before, size = content(spark, path), table.detail().collect()[0].sizeInBytes
    with conf(spark, {MOST: str(size // 3)}):
        row = deltamerge.sql(spark, f"OPTIMIZE delta.`{path}` ZORDER BY id").collect()[0]
    assert row.metrics.numFilesAdded > 1
    assert content(spark, path) == before
    ranges = [pc.min_max(parquet_at(path / name).read()["id"]).as_py() for name in names(table)]
    ordered = sorted((found["min"], found["max"]) for found in ranges)
    assert all(end < start + 50 for (_, end), (start, _) in pairwise(ordered))


@pytest.mark.parametrize(
    ("clause", "error", "condition"),
    [
        ("WHERE id = 1", AnalysisException, "DELTA_NON_PARTITION_COLUMN_REFERENCE"),
        ("WHERE nope = 1", AnalysisException, "DELTA_NON_PARTITION_COLUMN_REFERENCE"),
        ("WHERE p = ", AnalysisException, "PARSE_SYNTAX_ERROR"),
        ("FULL", UnsupportedOperationException, "DELTA_OPTIMIZE_FULL_NOT_SUPPORTED"),
        ("ZORDER (id)", ParseException, "PARSE_SYNTAX_ERROR"),
        ("ZORDER BY (id) WHERE p = 1", ParseException, "PARSE_SYNTAX_ERROR"),
    ],
)
def test_what_is_not_possible_is_named(
    spark: SparkSession, tmp_path: Path, clause: str, error: type[Exception], condition: str
) -> None:
    make(spark, tmp_path / "t", "id long, p long", [(1, 1), (2, 1)], files=2, partition_by=["p"])
    with pytest.raises(error, match=condition):
        deltamerge.sql(spark, f"OPTIMIZE '{tmp_path / 't'}' {clause}")
    assert version(tmp_path / "t") == 1


def test_arguments_of_another_type_and_other_tables_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    builder = make(spark, tmp_path / "t", "id long", [(1,)]).optimize()
    with pytest.raises(TypeError, match="'partitionFilter' in where must be a string"):
        builder.where(1)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"Z-order column must be str\. Found 1"):
        builder.executeZOrderBy([1])  # type: ignore[list-item]
    spark.range(1).createOrReplaceTempView("optimize_view")
    with pytest.raises(AnalysisException, match=r"DELTA_TABLE_ONLY_OPERATION.*OPTIMIZE is only supported"):
        deltamerge.sql(spark, "OPTIMIZE optimize_view")
