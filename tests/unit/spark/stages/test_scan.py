"""What the tasks that look for matches may bring."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as T

from deltamerge.budgets import Budgets
from deltamerge.protocol.values.predicate import ALWAYS
from deltamerge.spark.stages import scan
from deltamerge.worker.scan.scan import FileTask

LIMIT, MOST = 2_000_000, 128 << 20


class _Frame:
    def mapInArrow(self, *given: Any) -> _Frame:
        return self


@pytest.mark.parametrize(
    ("tasks", "source_rows", "every", "rows", "size"),
    [
        (1, 10, False, 2 * LIMIT, 2 * MOST),
        (8, 10, False, LIMIT // 4, MOST // 4),
        (1_000, 10, False, 4_000, MOST // 8),  # all together twice the limit
        (1_000, 10_000, False, 40_000, MOST // 8),  # four for each source row
        (1_000, 1_000_000, False, LIMIT // 8, MOST // 8),
        (1_000, 10, True, LIMIT, MOST // 8),
    ],
)
def test_few_source_rows_let_a_task_bring_no_more_than_its_share(
    monkeypatch: pytest.MonkeyPatch, tasks: int, source_rows: int, every: bool, rows: int, size: int
) -> None:
    given: list[tuple[int, int]] = []
    monkeypatch.setattr(scan, "match_map", lambda spec, bins, rows, size, payload: given.append((rows, size)))
    monkeypatch.setattr(scan, "shipped", lambda work: work)
    spark: Any = SimpleNamespace(range=lambda *_: _Frame())
    spec: Any = SimpleNamespace(others=ALWAYS if every else None, schema=pa.schema([]))
    files: list[Any] = list(range(tasks))
    scan.match_frame(spark, spec, files, [64 << 20] * tasks, source_rows, Budgets(match_rows=LIMIT), MOST)
    assert given == [(rows, size)]


@pytest.mark.parametrize(
    ("fields", "size", "rows", "told"),
    [
        ({"k": pa.int64()}, 1 << 30, 1_000, 1_000),
        ({"k": pa.int64(), "w": pa.string()}, 120 << 20, 30_000, (120 << 20) // 40),  # texts of 4,000 bytes
        ({"k": pa.int64(), "w": pa.string()}, 1 << 20, 30_000, 30_000),  # and short ones
        ({"k": pa.int64(), "a": pa.list_(pa.int64())}, 120 << 20, 30_000, (120 << 20) // 40),
        ({"k": pa.int64(), "w": pa.string()}, 120 << 20, 0, 0),  # nothing to join by: Spark must broadcast
    ],
)
def test_spark_takes_long_texts_for_no_less_than_their_files(
    monkeypatch: pytest.MonkeyPatch, fields: dict[str, pa.DataType], size: int, rows: int, told: int
) -> None:
    given: list[int] = []
    monkeypatch.setattr(scan, "scan_map", lambda *_: None)
    monkeypatch.setattr(scan, "shipped", lambda work: work)

    class Numbers(_Frame):
        def where(self, _: Any) -> Numbers:
            return self

    def numbers(start: int, end: int, step: int, parts: int) -> Numbers:
        given.append(end)
        return Numbers()

    monkeypatch.setattr(scan.F, "col", lambda _: 1)
    spark: Any = SimpleNamespace(range=numbers)
    spec: Any = SimpleNamespace(schema=pa.schema(list(fields.items())))
    task: Any = SimpleNamespace()
    scan.scan_frame(spark, spec, T.StructType(), [task], [size], rows)
    assert given == [max(1, told)]


@pytest.mark.parametrize(
    ("sizes", "limits", "expected"),
    [
        ([30] * 4, {"each": 60, "least": 1}, [[0, 3], [1], [2]]),
        ([30] * 4, {"each": 1_000, "least": 1}, [[0, 1, 2, 3]]),
        ([30] * 4, {"each": 1_000, "least": 3}, [[0, 3], [1], [2]]),
        ([90, 30, 30, 30], {"each": 100, "least": 1}, [[0], [1, 2, 3]]),
        ([30] * 4, {}, [[0], [1], [2], [3]]),
        ([0] * 3, {"each": 1, "least": 2}, [[0, 2], [1]]),
        ([], {"each": 1, "least": 2}, []),
    ],
)
def test_files_are_packed_in_bins_of_about_equal_bytes(
    sizes: list[int], limits: dict[str, int], expected: list[list[int]]
) -> None:
    tasks = [FileTask(number, "", {}) for number in range(len(sizes))]
    assert [[task.file for task in own] for own in scan.pack(tasks, sizes, **limits)] == expected
