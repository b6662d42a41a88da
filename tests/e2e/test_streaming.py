"""Micro-batches of a stream, each merged or appended once, also where Spark runs one again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from deltamerge import streaming
from deltamerge.tables import DeltaMergeBuilder, DeltaTable
from tests.e2e.tables import content, make, version

pytestmark = pytest.mark.local(reason="the stream's files and its checkpoint are on a local disk")


def arrive(folder: Path, number: int, rows: list[tuple[int, int]]) -> None:
    folder.mkdir(exist_ok=True)
    ids, values = zip(*rows, strict=True)
    pq.write_table(pa.table({"id": pa.array(ids, pa.int32()), "v": pa.array(values, pa.int32())}), folder / f"{number}.parquet")


def run(spark: SparkSession, tmp_path: Path, function: Callable[[DataFrame, int], None]) -> None:
    """Run the query on all files that have arrived, one file a batch."""
    rows = spark.readStream.schema("id int, v int").option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    writer = rows.writeStream.foreachBatch(function).option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()


def forget_last_batch(tmp_path: Path) -> None:
    """As if the process had died after the table's commit, before Spark noted that the batch was finished."""
    for file in (tmp_path / "checkpoint" / "commits").glob("*"):
        if file.name.strip(".").split(".")[0] == "1":
            file.unlink()


def with_deletes(builder: DeltaMergeBuilder) -> DeltaMergeBuilder:
    return builder.whenMatchedDelete("s.v < 0").whenMatchedUpdateAll().whenNotMatchedInsertAll("s.v >= 0")


def test_each_batch_is_merged_once(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", "id int, v int", [(1, 10), (2, 20)])
    arrive(tmp_path / "in", 0, [(2, 21), (3, 30), (3, 31)])
    arrive(tmp_path / "in", 1, [(1, -1), (4, 40)])
    function = streaming.upsert(str(tmp_path / "t"), "id", "orders", latest_by="v", clauses=with_deletes)
    run(spark, tmp_path, function)
    assert content(spark, tmp_path / "t") == [(2, 21), (3, 31), (4, 40)]
    table.delete("id = 4")
    forget_last_batch(tmp_path)
    run(spark, tmp_path, function)
    assert content(spark, tmp_path / "t") == [(2, 21), (3, 31)]
    assert version(tmp_path / "t") == 3


def test_each_batch_is_appended_once(spark: SparkSession, tmp_path: Path) -> None:
    arrive(tmp_path / "in", 0, [(1, 10)])
    arrive(tmp_path / "in", 1, [(2, 20)])
    function = streaming.append(str(tmp_path / "t"), "orders")
    run(spark, tmp_path, function)
    forget_last_batch(tmp_path)
    run(spark, tmp_path, function)
    assert content(spark, tmp_path / "t") == [(1, 10), (2, 20)]
    assert version(tmp_path / "t") == 1
    arrive(tmp_path / "in", 2, [(3, 30)])
    run(spark, tmp_path, function)
    assert content(spark, tmp_path / "t") == [(1, 10), (2, 20), (3, 30)]


def test_a_batch_that_fails_stops_the_query(spark: SparkSession, tmp_path: Path) -> None:
    make(spark, tmp_path / "t", "id int, v int", [(1, 10)])
    arrive(tmp_path / "in", 0, [(1, 11), (1, 12)])
    with pytest.raises(StreamingQueryException, match="DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE"):
        run(spark, tmp_path, streaming.upsert(str(tmp_path / "t"), ["id"], "orders"))
    assert content(spark, tmp_path / "t") == [(1, 10)]


@pytest.mark.parametrize(("keys", "app_id", "error"), [([], "a", ValueError), ("id", "", TypeError), ("id", None, TypeError)])
def test_a_function_needs_keys_and_a_name(keys: Any, app_id: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        streaming.upsert("/t", keys, app_id)
    if keys:
        with pytest.raises(error):
            streaming.append("/t", app_id)


def test_a_table_goes_by_its_path_or_its_name(spark: SparkSession, tmp_path: Path) -> None:
    make(spark, tmp_path / "t", "id int, v int", [(1, 10)])
    rows = spark.createDataFrame([(1, 11)], "id int, v int")
    streaming.upsert(f"delta.`{tmp_path / 't'}`", "id", "orders")(rows, 0)
    streaming.append(f"delta.`{tmp_path / 't'}`", "others")(rows, 0)
    assert content(spark, tmp_path / "t") == [(1, 11), (1, 11)]
    assert DeltaTable.forPath(spark, str(tmp_path / "t")).history().count() == 3
