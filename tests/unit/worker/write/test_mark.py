"""Rows marked in a file beside those that were marked before."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltamerge.protocol.values.roaring import decode
from deltamerge.worker.scan.scan import FILE, ROW, FileTask
from deltamerge.worker.write.apply import apply_changes
from deltamerge.worker.write.results import MARKED
from deltamerge.worker.write.rewrite import CLAUSE, ChangeSpec, ClauseAction
from tests.unit.worker.data import vector_of, write_spec

SCHEMA = pa.schema([("id", pa.int64())])


@pytest.mark.parametrize("known", [None, 10, 2], ids=["not counted", "counted", "counted as too few"])
def test_marked_rows_join_those_that_were_marked_before(tmp_path: Path, known: int | None) -> None:
    pq.write_table(pa.table({"id": range(10)}, schema=SCHEMA), tmp_path / "old.parquet")
    task = FileTask(0, "old.parquet", {}, vector=vector_of(tmp_path, {1}, inline=True), rows=known)
    spec = ChangeSpec(write_spec(tmp_path, SCHEMA), (ClauseAction("delete"),), {0: task}, rewrite_share=0.5)
    hits = pa.record_batch({FILE: pa.array([0], pa.int32()), ROW: pa.array([0]), CLAUSE: pa.array([0], pa.int32())})
    (batch,) = apply_changes(spec, [hits], 0)
    (marked,) = [row for row in batch.to_pylist() if row["kind"] == MARKED]
    assert decode(marked["positions"]).positions().tolist() == [0, 1]
    assert marked["rows"] == 10
