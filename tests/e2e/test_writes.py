"""What a write may do beside adding rows: change the schema, replace some rows, be made only once."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import deltalake
import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException, UnsupportedOperationException
from pyspark.sql import Row, SparkSession

import deltamerge
from deltamerge.commands.rows.request import WriteRequest
from deltamerge.commands.rows.write import write_table
from deltamerge.errors import AnalysisError
from deltamerge.tables import DeltaTable
from tests.e2e.tables import conf, content, make

FEED = {"delta.enableChangeDataFeed": "true"}


def write(
    spark: SparkSession, path: Path, rows: list[tuple[Any, ...]], schema: str, mode: str = "append", **more: Any
) -> int | None:
    return deltamerge.write(spark.createDataFrame(rows, schema).coalesce(1), str(path), mode, **more)


def last(spark: SparkSession, path: Path) -> Row:
    found: Row = DeltaTable.forPath(spark, str(path)).history(1).collect()[0]
    return found


def feed(spark: SparkSession, path: Path, version: int) -> list[tuple[Any, ...]]:
    rows = deltamerge.read_changes(spark, str(path), version).drop("_commit_version", "_commit_timestamp").collect()
    return sorted(map(tuple, rows))


def test_columns_are_added_where_the_write_says_so(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    make(spark, path, "id int, s struct<a: int>", [(1, (1,))])
    nested = ([(2, (2, 3), 4)], "id int, s struct<a: int, b: int>, more int")
    with pytest.raises(AnalysisException, match=r"(?s)DELTA_METADATA_MISMATCH.*no column s\.b, more.*merge the schema"):
        write(spark, path, *nested)
    assert write(spark, path, *nested, merge_schema=True) == 1
    assert write(spark, path, [(3, (5,))], "id int, s struct<a: int>") == 2
    assert content(spark, path) == [(1, (1, None), None), (2, (2, 3), 4), (3, (5, None), None)]
    assert last(spark, path)["isolationLevel"] == "Serializable"
    found = DeltaTable.forPath(spark, str(path)).history(2).collect()[1]
    assert found["operationParameters"] == {"mode": "Append", "partitionBy": "[]", "canMergeSchema": "true"}
    assert found["isBlindAppend"]


def test_an_overwrite_gives_the_table_another_schema(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    make(spark, path, "id int, p string", [(1, "a")], partition_by=["p"], properties={"delta.columnMapping.mode": "name"})
    other = ([(1.5, "x")], "id double, q string", "overwrite")
    with pytest.raises(AnalysisException, match="DELTA_METADATA_MISMATCH"):
        write(spark, path, *other)
    with pytest.raises(AnalysisException, match=r"DELTA_METADATA_MISMATCH.*partitioned by \['p'\]"):
        write(spark, path, [(1, "a")], "id int, p string", "overwrite", partition_by="id")
    assert write(spark, path, *other, overwrite_schema=True, partition_by="q") == 1
    assert content(spark, path) == [(1.5, "x")]
    assert DeltaTable.forPath(spark, str(path)).detail().collect()[0]["partitionColumns"] == ["q"]
    assert content(spark, path, version=0) == [(1, "a")]
    with pytest.raises(IllegalArgumentException, match="DELTA_OVERWRITE_SCHEMA_WITH_DYNAMIC_PARTITION_OVERWRITE"):
        write(spark, path, *other, overwrite_schema=True, partition_by="q", partition_overwrite="dynamic")


@pytest.mark.parametrize("vectors", [False, True])
def test_rows_are_replaced_where_a_predicate_holds(spark: SparkSession, tmp_path: Path, vectors: bool) -> None:
    path, schema = tmp_path / "t", "id int, p string, v int"
    rows = [(1, "a", 10), (2, "b", 20), (3, "a", 30), (4, "b", 40)]
    make(spark, path, schema, rows, files=2, vectors=vectors, properties=FEED)
    before = last(spark, path)["version"]
    assert write(spark, path, [(9, "z", 20)], schema, "overwrite", replace_where="v = 20 AND p < 'zz'") == before + 1
    assert content(spark, path) == [(1, "a", 10), (3, "a", 30), (4, "b", 40), (9, "z", 20)]
    assert feed(spark, path, before + 1) == [(2, "b", 20, "delete"), (9, "z", 20, "insert")]
    found = last(spark, path)
    assert (found["operation"], found["isBlindAppend"]) == ("WRITE", False)
    assert found["operationParameters"]["predicate"] == "v = 20 AND p < 'zz'"
    assert (found["operationMetrics"]["numDeletedRows"], found["operationMetrics"]["numOutputRows"]) == ("1", "2")
    assert found["operationMetrics"]["numAddedChangeFiles"] == ("0" if vectors else "2")
    with pytest.raises(AnalysisException, match=r"(?s)DELTA_REPLACE_WHERE_MISMATCH.*'v = 20'.*v : 21"):
        write(spark, path, [(9, "z", 21)], schema, "overwrite", replace_where="v = 20")
    with pytest.raises(AnalysisException, match="DELTA_FAILED_RECOGNIZE_PREDICATE"):
        write(spark, path, [(9, "z", 21)], schema, "overwrite", replace_where="v = = 20")
    with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
        write(spark, path, [(9, "z", 21)], schema, "overwrite", replace_where="none = 20")
    assert last(spark, path)["version"] == before + 1
    assert deltalake.DeltaTable(str(path)).version() == before + 1
    names = {file.name for file in path.rglob("*.parquet")}
    live = {Path(file).name for file in deltamerge.read(spark, str(path)).inputFiles()} if not vectors else set()
    assert live <= names


def test_only_partitions_that_get_rows_are_overwritten(spark: SparkSession, tmp_path: Path) -> None:
    path, schema = tmp_path / "t", "id int, p string, t timestamp"
    times = datetime(2020, 1, 1), datetime(2020, 1, 2)
    rows = [(1, "a", times[0]), (2, "a", times[1]), (3, None, times[0]), (4, "b", times[0])]
    make(spark, path, schema, rows, partition_by=["p", "t"])
    new = ([(9, "a", times[0]), (8, None, times[0])], schema, "overwrite")
    assert write(spark, path, *new, partition_overwrite="dynamic") == 1
    assert content(spark, path) == [(2, "a", times[1]), (4, "b", times[0]), (8, None, times[0]), (9, "a", times[0])]
    assert last(spark, path)["operationParameters"]["isDynamicPartitionOverwrite"] == "true"
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "DYNAMIC")
    assert write(spark, path, [(7, "b", times[0])], schema, "overwrite") == 2
    spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert [row[0] for row in content(spark, path)] == [2, 7, 8, 9]
    assert write(spark, path, [(6, "b", times[0])], schema, "overwrite", replace_where="p = 'b'") == 3
    assert [row[0] for row in content(spark, path)] == [2, 6, 8, 9]


def test_a_transaction_is_written_once(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    assert write(spark, path, [(1,)], "id int", txn_app_id="job", txn_version=3, user_metadata="nightly") == 0
    assert last(spark, path)["userMetadata"] == "nightly"
    for mode in ("append", "overwrite", "error"):
        assert write(spark, path, [(2,)], "id int", mode, txn_app_id="job", txn_version=2) is None
    assert write(spark, path, [(2,)], "id int", "overwrite", replace_where="id = 2", txn_app_id="job", txn_version=3) is None
    assert write(spark, path, [(3,)], "id int", "overwrite", replace_where="id = 3", txn_app_id="job", txn_version=4) == 1
    assert write(spark, path, [(4,)], "id int", txn_app_id="other", txn_version=1) == 2
    assert content(spark, path) == [(1,), (3,), (4,)]
    assert deltalake.DeltaTable(str(path)).transaction_version("job") == 4


def test_a_table_is_clustered_when_it_is_made(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    assert write(spark, path, [(1, "a")], "id int, p string", cluster_by=["p", "id"]) == 0
    assert write(spark, path, [(2, "b")], "id int, p string", cluster_by=["p", "id"]) == 1
    with pytest.raises(AnalysisException, match="DELTA_CLUSTERING_COLUMNS_MISMATCH"):
        write(spark, path, [(2, "b")], "id int, p string", cluster_by="id")
    assert write(spark, path, [(3, "c")], "id int, p string", "overwrite") == 2
    assert DeltaTable.forPath(spark, str(path)).detail().collect()[0]["clusteringColumns"] == ["p", "id"]
    assert write(spark, path, [(3, 4)], "id int, n int", "overwrite", overwrite_schema=True, cluster_by="n") == 3
    assert DeltaTable.forPath(spark, str(path)).detail().collect()[0]["clusteringColumns"] == ["n"]


def test_columns_may_be_taken_by_position(spark: SparkSession, tmp_path: Path) -> None:
    make(spark, tmp_path / "t", "id int, s struct<a: int, b: string>", [(1, (1, "x"))])
    request = WriteRequest("append", by_position=True)
    frame = spark.createDataFrame([(2, (3, "y"))], "s int, id struct<b: int, a: string>")
    assert write_table(frame, str(tmp_path / "t"), request) == 1
    assert content(spark, tmp_path / "t") == [(1, (1, "x")), (2, (3, "y"))]
    for few in (frame.select("s"), spark.createDataFrame([(2, (3,))], "s int, id struct<b: int>")):
        with pytest.raises(AnalysisError, match="DELTA_INSERT_COLUMN_ARITY_MISMATCH"):
            write_table(few, str(tmp_path / "t"), request)
    with pytest.raises(AnalysisException, match="DELTAMERGE_NOT_CLUSTERED"):
        deltamerge.write(frame, str(tmp_path / "t"), "overwrite", overwrite_schema=True, cluster_by="s")


def test_rows_of_an_append_only_table_stay(spark: SparkSession, tmp_path: Path) -> None:
    make(spark, tmp_path / "t", "id int", [(1,)], properties={"delta.appendOnly": "true"})
    for more in ({}, {"replace_where": "id = 1"}):
        with pytest.raises(UnsupportedOperationException, match="DELTA_CANNOT_MODIFY_APPEND_ONLY"):
            write(spark, tmp_path / "t", [(2,)], "id int", "overwrite", **more)
    assert write(spark, tmp_path / "t", [(2,)], "id int", partition_by=None) == 1


def test_a_session_gives_properties_to_new_tables(spark: SparkSession, tmp_path: Path) -> None:
    path, defaults = str(tmp_path / "t"), "spark.databricks.delta.properties.defaults."
    with conf(spark, {f"{defaults}checkpointInterval": "7", f"{defaults}enableDeletionVectors": "true"}):
        deltamerge.write(spark.range(1), path, properties={"delta.checkpointInterval": "8"})
    (row,) = deltamerge.DeltaTable.forPath(spark, path).detail().collect()
    assert row.properties == {"delta.checkpointInterval": "8", "delta.enableDeletionVectors": "true"}
    assert "deletionVectors" in row.tableFeatures
