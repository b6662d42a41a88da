"""The benchmark's rows and tables: keys that exist or don't, statistics that hold, copies that leave the original alone."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmarks.cases import CDC, RANGE, upsert
from benchmarks.data import DATE, KEYS, REGION, Shape
from benchmarks.tables import fresh_copy, table_path

from deltamerge.log.replay.load import load
from deltamerge.storage.local import LocalStore

SHAPE = Shape(4_000, 4)


def keys_of(table: pa.Table) -> set[tuple[int, int]]:
    return set(zip(*(table[key].to_pylist() for key in KEYS), strict=True))


@pytest.mark.parametrize("layout", ["clustered", "scattered"])
def test_a_batch_has_the_matched_and_the_new_rows_that_it_says(tmp_path: Path, layout: str) -> None:
    shape = Shape(4_000, 4, layout=layout)
    batch = pq.read_table(upsert(0.5, 0.1, 0.05).batch(tmp_path, shape))
    known = keys_of(pq.read_table(table_path(tmp_path, shape)))
    assert len(known) == 4_000
    assert len(keys_of(batch) & known) == 200
    assert len(keys_of(batch) - known) == 100


def test_new_rows_lie_among_the_others(tmp_path: Path) -> None:
    batch = pq.read_table(upsert(0.5, 0.0, 0.1).batch(tmp_path, SHAPE))
    assert max(batch[KEYS[1]].to_pylist()) <= max(SHAPE.table(np.arange(4_000))[KEYS[1]].to_pylist())


def test_special_batches_have_what_their_conditions_name(tmp_path: Path) -> None:
    for case in (CDC, RANGE):
        assert set(case.added) < set(pq.read_schema(case.batch(tmp_path, SHAPE)).names)
    batch = pq.read_table(RANGE.batch(tmp_path, SHAPE))
    dates = {key: SHAPE.times(4 * (key - 1))[1] for key in batch[KEYS[0]].to_pylist()}
    inside = [row["date_from"] <= dates[row[KEYS[0]]] <= row["date_to"] for row in batch.to_pylist()]
    assert any(inside)
    assert not all(inside)


def test_order_and_date_are_those_of_the_rows() -> None:
    rows = SHAPE.table(np.array([0, 1_234, 3_999]))
    found = list(zip(rows[KEYS[0]].to_pylist(), rows[DATE].to_pylist(), strict=True))
    assert found == [SHAPE.times(number) for number in (0, 1_234, 3_999)]


def test_the_log_tells_the_truth_about_the_files(tmp_path: Path) -> None:
    path = table_path(tmp_path, SHAPE)
    files = load(LocalStore(str(path))).files.table()
    assert files.num_rows == 4
    for row in files.select(["path", "size", "stats"]).to_pylist():
        rows, stats = pq.read_table(path / row["path"]), json.loads(row["stats"])
        assert (row["size"], stats["numRecords"]) == ((path / row["path"]).stat().st_size, rows.num_rows)
        assert stats["minValues"][KEYS[0]] == min(rows[KEYS[0]].to_pylist())
        assert stats["nullCount"]["wr_sk_0"] == rows["wr_sk_0"].null_count > 0


def test_a_copy_has_the_features_asked_for_and_the_original_stays(tmp_path: Path) -> None:
    path = table_path(tmp_path, SHAPE)
    fresh_copy(path, SHAPE, tmp_path / "copy", vectors=True, feed=True)
    copy, original = (load(LocalStore(str(place))) for place in (tmp_path / "copy", path))
    assert set(copy.metadata.configuration) == {"delta.enableDeletionVectors", "delta.enableChangeDataFeed"}
    assert (original.version, dict(original.metadata.configuration)) == (0, {})
    assert len(copy.files) == len(original.files)


def test_partitions_hold_their_own_region(tmp_path: Path) -> None:
    shape = Shape(1_600, layout="partitioned")
    files = load(LocalStore(str(table_path(tmp_path, shape)))).files.table()
    regions = [dict(values) for values in files["partitionValues"].to_pylist()]
    assert sorted(int(values[REGION]) for values in regions) == list(range(16))
