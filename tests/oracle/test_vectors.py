"""Deletion vectors are the bytes that delta-spark writes, and its own are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from deltamerge.log.replay.table import open_log
from deltamerge.protocol.formats.roaring import Positions, decode, encode
from deltamerge.protocol.table.actions import DeletionVector
from deltamerge.protocol.table.deletion_vector import deleted_rows, vector_reference

CONDITIONS = {
    "sparse": lambda ids: ids % 9_973 == 3,
    "dense": lambda ids: ids % 3 == 0,
    "runs": lambda ids: (ids % 50_000) < 9_000,
    "ends": lambda ids: (ids < 2) | (ids > 249_990),
    "all shapes": lambda ids: ((ids < 65_536) & (ids % 2 == 0)) | ((ids > 70_000) & (ids < 200_000)) | (ids % 7_001 == 5),
}
SQL = {
    "sparse": "id % 9973 = 3",
    "dense": "id % 3 = 0",
    "runs": "id % 50000 < 9000",
    "ends": "id < 2 OR id > 249990",
    "all shapes": "(id < 65536 AND id % 2 = 0) OR (id > 70000 AND id < 200000) OR id % 7001 = 5",
}


@pytest.mark.parametrize("shape", SQL)
def test_a_vector_has_the_bytes_of_delta_sparks(spark: SparkSession, tmp_path: Path, shape: str) -> None:
    frame = spark.range(0, 250_000, 1, 1)
    frame.write.format("delta").option("delta.enableDeletionVectors", "true").save(str(tmp_path / "t"))
    spark.sql(f"DELETE FROM delta.`{tmp_path / 't'}` WHERE {SQL[shape]}")
    snapshot = open_log(str(tmp_path / "t")).snapshot()
    (value,) = snapshot.files.column("deletionVector").to_pylist()
    vector = DeletionVector.from_json(value)
    data = snapshot.store.read(vector_reference(vector, "f") or "")
    found = deleted_rows(vector, lambda offset, size: data[offset : offset + size], "f").positions()
    expected = np.flatnonzero(CONDITIONS[shape](np.arange(250_000)))
    assert np.array_equal(found, expected)
    start = vector.offset + 4 if vector.offset else 5
    assert data[start : start + vector.size_in_bytes] == encode(expected)


@pytest.mark.parametrize("positions", [[], [5], [1, 2, 3, 70_000, (1 << 32) + 9, (3 << 32) + 1]], ids=str)
def test_positions_beyond_32_bits_and_the_native_layout(spark: SparkSession, positions: list[int]) -> None:
    package = spark._jvm.org.apache.spark.sql.delta.deletionvectors
    bitmap = package.RoaringBitmapArray()
    for position in positions:
        bitmap.add(position)
    bitmap.runOptimize()
    rows = np.array(positions, np.int64)
    assert serialized(bitmap, package.RoaringBitmapArrayFormat.Portable()) == encode(rows)
    native = serialized(bitmap, package.RoaringBitmapArrayFormat.Native())
    assert np.array_equal(decode(native).positions(), rows)


@pytest.mark.parametrize("rows", [np.arange(100_000), np.flatnonzero(np.arange(200_000) % 5), np.array([0, 1 << 33])])
def test_delta_spark_reads_what_is_encoded(spark: SparkSession, rows: Positions) -> None:
    package = spark._jvm.org.apache.spark.sql.delta.deletionvectors
    bitmap = package.RoaringBitmapArray.readFrom(encode(rows.astype(np.int64)))
    assert bitmap.cardinality() == len(rows)
    assert serialized(bitmap, package.RoaringBitmapArrayFormat.Portable()) == encode(rows.astype(np.int64))


def serialized(bitmap: Any, format: Any) -> bytes:
    return bytes(bitmap.serializeAsByteArray(format))
