"""A streaming query that is killed at any moment, and started again, leaves each batch in the table once."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake

from tests.effort import ALL
from tests.faults.processes import Child

IDS = range(5)
KILLS = 20 if ALL else 3
BATCHES = 3 * KILLS


def test_kills_of_a_query(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "counted", pa.table({"id": IDS, "counter": [0] * len(IDS)}))
    (tmp_path / "in").mkdir()
    for number in range(BATCHES):
        pq.write_table(pa.table({"id": IDS}), tmp_path / "in" / f"{number}.parquet")
    delays = random.Random(22)
    for _ in range(KILLS):
        with Child("tests.faults.streaming", tmp_path, folder=tmp_path / "child") as child:
            child.hear()
            time.sleep(delays.uniform(0, 1.5))
            child.kill()
    with Child("tests.faults.streaming", tmp_path, folder=tmp_path / "child") as child:
        said = child.rest()
    assert said[-1:] == ["done"]
    counted = DeltaTable(tmp_path / "counted").to_pyarrow_table()
    assert counted.sort_by("id").to_pydict() == {"id": list(IDS), "counter": [BATCHES] * len(IDS)}
    appended = DeltaTable(tmp_path / "appended").to_pyarrow_table()
    assert sorted(appended["id"].to_pylist()) == sorted([*IDS] * BATCHES)
