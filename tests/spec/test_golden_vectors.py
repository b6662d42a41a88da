"""Tables with deletion vectors that other versions of Delta Lake wrote, read whole."""

from __future__ import annotations

import io
import tarfile
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import zstandard
from pyspark.sql import SparkSession

import deltamerge

GOLDEN = next((found for parent in Path(__file__).parents if (found := parent / "shared" / "golden").exists()), Path("golden"))


@pytest.mark.parametrize("name", ["dv-partitioned-with-checkpoint", "log-replay-dv-key-cases"])
def test_the_living_rows_are_read(spark: SparkSession, tmp_path: Path, name: str) -> None:
    archive = GOLDEN / f"{name}.tar.zst"
    if not archive.exists():
        pytest.skip("the golden tables are not here")
    with archive.open("rb") as file:
        data = zstandard.ZstdDecompressor().stream_reader(file).read()
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        tar.extractall(tmp_path, filter="data")
    (delta,) = tmp_path.rglob("_delta_log")
    (expected,) = tmp_path.rglob("expected")
    wanted = pq.read_table(expected)
    found = deltamerge.read(spark, str(delta.parent)).toArrow().select(wanted.column_names)
    assert Counter(map(str, found.to_pylist())) == Counter(map(str, wanted.to_pylist()))
