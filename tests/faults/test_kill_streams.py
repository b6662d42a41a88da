"""Streaming queries that are killed at any moment, and started again, leave each batch in their tables once."""

from __future__ import annotations

import random
import shutil
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake

from deltamerge.spark.pyspark.older import IS_OLDER
from tests.effort import ALL
from tests.faults.processes import Child

IDS = range(5)
KILLS = 20 if ALL else 2
BATCHES = 3 * KILLS
# About as many as three batches take.
MOST_CALLS = 200


def test_kills_of_queries(tmp_path: Path) -> None:
    """Every other kill comes before some call that touches the tables, the others after some time."""
    write_deltalake(tmp_path / "counted", pa.table({"id": IDS, "counter": [0] * len(IDS)}))
    (tmp_path / "files").mkdir()
    for number in range(BATCHES):
        pq.write_table(pa.table({"id": IDS}), tmp_path / "files" / f"{number}.parquet")
        write_deltalake(tmp_path / "commits", pa.table({"id": IDS}), mode="append")
    moments = random.Random(22)
    for number in range(KILLS):
        begin_anew(tmp_path)
        call = 0 if number % 2 else round(MOST_CALLS * (number + 1) / KILLS)
        with Child("tests.faults.streaming", tmp_path, call, folder=tmp_path / "child") as child:
            if not call:
                child.hear()
                time.sleep(moments.uniform(0, 1.5))
                child.kill()
            assert not any("done" in line for line in child.rest())
    begin_anew(tmp_path)
    with Child("tests.faults.streaming", tmp_path, 0, folder=tmp_path / "child") as child:
        *_, said = child.rest()
        assert "done" in said, said
        print(f"{KILLS} kills; the last run: {said}")
    counted = DeltaTable(tmp_path / "counted").to_pyarrow_table()
    assert counted.sort_by("id").to_pydict() == {"id": list(IDS), "counter": [BATCHES] * len(IDS)}
    assert check_appended(tmp_path / "appended") <= BATCHES
    if not IS_OLDER:
        assert check_appended(tmp_path / "sink") == BATCHES


def begin_anew(root: Path) -> None:
    """Empty each checkpoint that holds the beginning of its first file alone: Spark 4.3 refuses to go on from there."""
    for offsets in root.glob("*/offsets"):
        if all(path.name.startswith(".") for path in offsets.iterdir()):
            shutil.rmtree(offsets)


def check_appended(path: Path) -> int:
    """Each row is in the table once; how many commits there are, one a batch."""
    appended = DeltaTable(path)
    assert sorted(appended.to_pyarrow_table()["id"].to_pylist()) == sorted([*IDS] * BATCHES)
    return int(appended.version()) + 1
