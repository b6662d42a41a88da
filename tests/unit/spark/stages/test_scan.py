"""What the tasks that look for matches may bring."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from deltamerge.budgets import Budgets
from deltamerge.protocol.values.predicate import ALWAYS
from deltamerge.spark.stages import scan

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
