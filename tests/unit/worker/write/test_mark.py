"""Rows marked in a file beside those that were marked before."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltamerge.budgets import using
from deltamerge.protocol.formats.roaring import decode
from deltamerge.worker.scan.scan import FILE, ROW, FileTask
from deltamerge.worker.write.apply import apply_changes
from deltamerge.worker.write.results import ADD, MARKED, unpack_partition
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


def test_a_row_that_moves_leaves_the_file_of_its_partition(tmp_path: Path) -> None:
    schema = SCHEMA.append(pa.field("p", pa.string()))
    pq.write_table(pa.table({"id": range(3)}, schema=SCHEMA), tmp_path / "old.parquet")
    task = FileTask(0, "old.parquet", {"p": pa.scalar("a")}, rows=3)
    hits = {FILE: pa.array([0], pa.int32()), ROW: pa.array([1]), CLAUSE: pa.array([0], pa.int32()), "p": ["b"]}
    with using(small_file_bytes=0, splices=False):
        spec = ChangeSpec(write_spec(tmp_path, schema, ["p"]), (ClauseAction("update", frozenset({"p"})),), {0: task})
        (batch,) = apply_changes(spec, [pa.record_batch(hits)], 0)
    added = [row for row in batch.to_pylist() if row["kind"] == ADD]
    assert sorted((unpack_partition(row["partition"])["p"].as_py(), row["rows"]) for row in added) == [("a", 2), ("b", 1)]


@pytest.mark.parametrize("known", [None, 4, 3], ids=["not counted", "counted", "counted as too few"])
@pytest.mark.parametrize(("gone", "kind"), [([0, 1], MARKED), ([0, 1, 3], ADD)], ids=["half", "more than half"])
def test_a_file_of_which_more_than_the_share_is_gone_is_written_again(
    tmp_path: Path, known: int | None, gone: list[int], kind: str
) -> None:
    pq.write_table(pa.table({"id": range(4)}, schema=SCHEMA), tmp_path / "old.parquet")
    task = FileTask(0, "old.parquet", {}, rows=known)
    spec = ChangeSpec(write_spec(tmp_path, SCHEMA), (ClauseAction("delete"),), {0: task}, rewrite_share=0.5)
    hits = {FILE: pa.array([0] * len(gone), pa.int32()), ROW: gone, CLAUSE: pa.array([0] * len(gone), pa.int32())}
    (batch,) = apply_changes(spec, [pa.record_batch(hits)], 0)
    (made,) = [row for row in batch.to_pylist() if row["kind"] in (MARKED, ADD)]
    assert made["kind"] == kind
    new = [path for path in tmp_path.iterdir() if path.suffix == ".parquet" and path.name != "old.parquet"]
    assert [pq.read_table(path)["id"].to_pylist() for path in new] == ([[2]] if kind == ADD else [])
