"""A table that a race of merges has made reads the same everywhere, and holds what the merges reported."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

import deltamerge
from deltamerge.exceptions import DeltaConcurrentModificationException
from deltamerge.tables import DeltaTable
from tests.oracle.readers import by_delta_rs, by_delta_spark, by_deltamerge, by_duckdb

WRITERS = 8
ROUNDS = 3


def test_every_reader_agrees_on_a_table_that_was_raced_for(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    deltamerge.write(spark.createDataFrame(pa.table({"id": [0], "p": ["shared"], "n": [0]})), str(path), partition_by=["p"])

    def write(writer: int) -> list[int]:
        """Merge the shared row and one of the writer's own, some times; the keys of the merges that were committed."""
        committed = []
        for key in range(1 + writer * ROUNDS, 1 + (writer + 1) * ROUNDS):
            rows = pa.table({"id": [0, key], "p": ["shared", f"writer {writer}"], "n": [1, 1]})
            table = DeltaTable.forPath(spark, str(path)).alias("t")
            merge = table.merge(spark.createDataFrame(rows).alias("s"), "t.id = s.id and t.p = s.p")
            try:
                merge.whenMatchedUpdate(set={"n": "t.n + s.n"}).whenNotMatchedInsertAll().execute()
                committed.append(key)
            except DeltaConcurrentModificationException:
                pass
        return committed

    with ThreadPoolExecutor(WRITERS) as pool:
        committed = [key for keys in pool.map(write, range(WRITERS)) for key in keys]
    expected = Counter({("0", "shared", str(len(committed))): 1})
    expected.update((str(key), f"writer {(key - 1) // ROUNDS}", "1") for key in committed)
    assert committed
    assert by_delta_spark(spark, path) == expected
    assert by_deltamerge(spark, path) == expected
    assert by_delta_rs(path) == expected
    assert by_duckdb(path) == expected
