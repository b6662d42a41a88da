"""A process killed at any moment of RESTORE, OPTIMIZE or VACUUM leaves each row in the table once, and the next run succeeds."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake

from tests.effort import ALL
from tests.faults.processes import READY, Child
from tests.faults.test_kill import check_log
from tests.faults.upkeep import ROWS, rows_of

SEED = 7


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_deltalake(tmp_path / "t", rows_of(0), partition_by=["part"])
    return tmp_path / "t"


def test_kills_of_upkeep(path: Path, tmp_path: Path) -> None:
    delays = random.Random(SEED)
    steps = [kill_one(path, tmp_path, delays.uniform(0, 0.3)) for _ in range(60 if ALL else 4)]
    assert any(steps), "every kill fell between two rounds"


def kill_one(path: Path, folder: Path, wait: float) -> list[str]:
    """Let a process run, kill it `wait` seconds after its first round, and check the table; the steps of the round it died in.

    That the process has done a round shows that the kill before it left nothing in the way.
    """
    before = rounds(path)
    with Child("tests.faults.upkeep", path, before, folder=folder / "child") as child:
        said = []
        while READY not in said:
            said.append(child.hear())
        time.sleep(wait)
        child.kill()
        said += child.rest()
    done = said.count(READY)
    steps = said[len(said) - said[::-1].index(READY) :]
    assert before + done <= rounds(path) <= before + done + 1
    check_log(path)
    return steps


def rounds(path: Path) -> int:
    """How many rounds the table has the rows of, each row once; read by delta-rs."""
    ids = sorted(DeltaTable(path).to_pyarrow_table()["id"].to_pylist())
    assert ids == list(range(len(ids)))
    assert not len(ids) % ROWS
    return len(ids) // ROWS
