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
    run_and_kill("tests.faults.streaming", tmp_path)
    counted = DeltaTable(tmp_path / "counted").to_pyarrow_table()
    assert counted.sort_by("id").to_pydict() == {"id": list(IDS), "counter": [BATCHES] * len(IDS)}
    check_appended(tmp_path / "appended")


def test_kills_of_a_query_between_tables(tmp_path: Path) -> None:
    """The source is a table with its first rows and commits after them."""
    write_deltalake(tmp_path / "in", pa.table({"id": IDS}))
    for _ in range(BATCHES - 1):
        write_deltalake(tmp_path / "in", pa.table({"id": IDS}), mode="append")
    run_and_kill("tests.faults.streaming_sink", tmp_path)
    check_appended(tmp_path / "sink")


def run_and_kill(module: str, tmp_path: Path) -> None:
    """Run a query over what is there, kill it several times, and let it come to its end."""
    delays = random.Random(22)
    for _ in range(KILLS):
        with Child(module, tmp_path, folder=tmp_path / "child") as child:
            child.hear()
            time.sleep(delays.uniform(0, 1.5))
            child.kill()
    with Child(module, tmp_path, folder=tmp_path / "child") as child:
        said = child.rest()
    assert said[-1:] == ["done"]


def check_appended(path: Path) -> None:
    """Each batch's rows are in the table once, and each was one commit."""
    appended = DeltaTable(path)
    assert sorted(appended.to_pyarrow_table()["id"].to_pylist()) == sorted([*IDS] * BATCHES)
    assert appended.version() == BATCHES - 1
