"""Merges into tables of many small files: all are looked into, in whatever way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import deltamerge.worker.scan.scan as scan
from deltamerge.budgets import DEFAULTS
from tests.e2e.tables import content, make


@pytest.mark.parametrize("vectors", [False, True])
@pytest.mark.parametrize("rows_per_chunk", [0, DEFAULTS.rows_per_chunk])
def test_keys_are_found_in_many_small_files(
    spark: SparkSession,
    tmp_path: Path,
    limit: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    rows_per_chunk: int,
    vectors: bool,
) -> None:
    limit(rows_per_chunk=rows_per_chunk)
    looked: list[int] = []
    original = scan.may_contain

    def look(file: Any, group: int, *rest: Any) -> bool:
        looked.append(group)
        return original(file, group, *rest)

    monkeypatch.setattr(scan, "may_contain", look)
    schema = "k long, v int"
    table = make(spark, tmp_path / "t", schema, [(n, n) for n in range(120)], files=40, vectors=vectors)
    changes = [(n, -n) for n in range(0, 120, 7)] + [(1000, 1), (1001, 2)]
    source = spark.createDataFrame(changes, schema).alias("s")
    report = table.merge(source, "t.k = s.k").whenMatchedUpdateAll().whenNotMatchedInsertAll().run()
    assert content(spark, tmp_path / "t") == sorted({**{n: n for n in range(120)}, **dict(changes)}.items())
    assert report.metrics["numTargetRowsUpdated"] == 18
    assert bool(looked) is (rows_per_chunk == 0)
