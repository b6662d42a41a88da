"""A statement that other threads overtake again and again makes them wait for it: none of ten writers fails."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from deltamerge.budgets import DEFAULTS
from deltamerge.merge import line
from deltamerge.tables import DeltaTable
from tests.e2e.tables import content, make

ROWS = [(number, "old", 0) for number in range(20)]


def test_others_wait_after_some_conflicts_in_a_row(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t"
    table = make(spark, path, "id int, v string, n int", ROWS, vectors=True)
    other, mine, real = DeltaTable.forPath(spark, str(path)), threading.get_ident(), line.run_attempts
    overtaken = list[bool]()

    def run_attempts(*arguments: object) -> object:
        outcome = real(*arguments)  # type: ignore[arg-type]
        if threading.get_ident() == mine:
            # More than half of the file's rows, so that it is written again, and all rows have moved.
            others = pool.submit(other.update, "id > 8", {"n": "n + 1"})
            overtaken.append(others in wait([others], 2).done)
        return outcome

    with ThreadPoolExecutor(1) as pool:
        monkeypatch.setattr(line, "run_attempts", run_attempts)
        table.update("id = 3", {"v": "'new'"})
    assert overtaken == [True] * DEFAULTS.collisions + [False]
    assert content(spark, path) == [(id, "new" if id == 3 else v, len(overtaken) * (id > 8)) for id, v, _ in ROWS]
