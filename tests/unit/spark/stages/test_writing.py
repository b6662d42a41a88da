"""How changed rows are handed to Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from deltamerge.budgets import Budgets
from deltamerge.spark.stages import writing


class _Frame:
    def mapInArrow(self, *given: Any) -> _Frame:
        return self


@pytest.mark.parametrize(("pieces", "chunks"), [(1, 1), (3, 3), (66, 64)])
def test_pieces_are_handed_over_in_order_and_in_chunks_of_which_spark_makes_tasks(
    monkeypatch: pytest.MonkeyPatch, pieces: int, chunks: int
) -> None:
    given: list[pa.Table] = []

    def local_frame(spark: Any, table: pa.Table, schema: Any) -> _Frame:
        given.append(table)
        return _Frame()

    monkeypatch.setattr(writing, "local_frame", local_frame)
    monkeypatch.setattr(writing, "shipped", lambda work: work)
    monkeypatch.setattr(writing, "payload_map", lambda spec: None)
    nothing: Any = None
    spec: Any = SimpleNamespace(write=SimpleNamespace(budgets=Budgets(payload_tasks=64)))
    writing.payload_frame(nothing, [pa.table({"id": [number]}) for number in range(pieces)], spec)
    (table,) = given
    assert len(table.to_batches()) == chunks
    assert table["number"].to_pylist() == list(range(pieces))
    read = [pa.ipc.open_stream(payload).read_all()["id"].to_pylist() for payload in table["payload"].to_pylist()]
    assert read == [[number] for number in range(pieces)]
