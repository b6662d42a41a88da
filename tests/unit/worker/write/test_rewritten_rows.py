"""Which rows a file that is written again keeps, and what the change data feed says of the others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from deltamerge.budgets import using
from deltamerge.worker.scan.scan import FILE, ROW, FileTask
from deltamerge.worker.write.apply import apply_changes
from deltamerge.worker.write.feed import change_file_spec
from deltamerge.worker.write.results import ADD, CHANGE
from deltamerge.worker.write.rewrite import CLAUSE, ChangeSpec, ClauseAction
from tests.unit.worker.data import read_rows, vector_of, write_spec

SCHEMA = pa.schema([("id", pa.int64()), ("word", pa.string())])
CLAUSES = (ClauseAction("delete"), ClauseAction("update", frozenset({"word"})))


def changed(root: Path, spec: ChangeSpec, rows: list[int], clauses: list[int]) -> dict[str, list[tuple[object, ...]]]:
    """The rows of the files of each kind that are written for rows 0 to 5, of which row 1 was deleted before."""
    pq.write_table(pa.table({"id": range(6), "word": list("abcdef")}, schema=SCHEMA), root / "old.parquet")
    hits = {FILE: [0] * len(rows), ROW: rows, CLAUSE: clauses, "word": ["new"] * len(rows)}
    types = {FILE: pa.int32(), ROW: pa.int64(), CLAUSE: pa.int32(), "word": pa.string()}
    batch = pa.record_batch({name: pa.array(values, types[name]) for name, values in hits.items()})
    (told,) = apply_changes(spec, [batch], 0)
    names = {ADD: ["id", "word"], CHANGE: ["id", "word", "_change_type"]}
    return {
        row["kind"]: sorted(read_rows(root, row["name"], {}, names[row["kind"]]), key=str)
        for row in told.to_pylist()
        if row["kind"] in names
    }


def spec_of(root: Path) -> ChangeSpec:
    task = FileTask(0, "old.parquet", {}, vector=vector_of(root, {1}, inline=True), rows=6)
    with using(rewrite_rows=3, small_file_bytes=0, splices=False):
        return ChangeSpec(write_spec(root, SCHEMA), CLAUSES, {0: task})


def test_rows_that_were_deleted_before_stay_deleted_in_batches_with_and_without_changes(tmp_path: Path) -> None:
    assert changed(tmp_path, spec_of(tmp_path), [4], [0]) == {ADD: [(0, "a"), (2, "c"), (3, "d"), (5, "f")]}
    assert changed(tmp_path, spec_of(tmp_path), [0], [0]) == {ADD: [(2, "c"), (3, "d"), (4, "e"), (5, "f")]}


def test_the_feed_tells_deleted_rows_from_those_that_an_update_replaces(tmp_path: Path) -> None:
    spec = spec_of(tmp_path)
    found = changed(tmp_path, replace(spec, feed=change_file_spec(spec.write)), [2, 4], [0, 1])
    assert found[ADD] == [(0, "a"), (3, "d"), (4, "new"), (5, "f")]
    assert found[CHANGE] == [(2, "c", "delete"), (4, "e", "update_preimage"), (4, "new", "update_postimage")]
