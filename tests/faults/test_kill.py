"""A driver killed at any moment leaves the table at one complete version, and nothing in the way of the next merge."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.effort import ALL
from tests.faults.counting import FIRST_ROWS, PARTITIONS
from tests.faults.processes import READY, Child

SEED = 20
MOST_FILES = 40


@pytest.fixture
def path(tmp_path: Path) -> Path:
    ids = range(FIRST_ROWS)
    rows = {"id": ids, "part": [id % PARTITIONS for id in ids], "counter": [0] * len(ids)}
    write_deltalake(tmp_path / "t", pa.table(rows), partition_by=["part"])
    return tmp_path / "t"


def test_kills_of_a_connect_client(path: Path, tmp_path: Path, server: str) -> None:
    delays = random.Random(SEED)
    interrupted = [
        kill_one(path, tmp_path, delays.uniform(0, 0.9 if slow else 0.4), "auto", 0.03 if slow else 0, server)
        for slow in [False, True] * (8 if ALL else 3)
    ]
    assert any(interrupted), "every kill fell between two merges"


def test_kills_of_a_classic_driver_with_its_jvm_and_workers(path: Path, tmp_path: Path) -> None:
    delays = random.Random(SEED)
    for strategy in ("auto", "join") * (2 if ALL else 1):
        kill_one(path, tmp_path, delays.uniform(0, 1.0), strategy, 0.01)


def kill_one(path: Path, folder: Path, wait: float, strategy: str, delay: float, *remote: str) -> list[str]:
    """Let a process merge, kill it `wait` seconds after its first merge, and check the table; the steps of the merge it died in.

    That the process has done a merge shows that the kill before it left nothing in the way.
    """
    before = merges(path)
    with Child("tests.faults.counting", path, before, strategy, delay, *remote, folder=folder / "child") as child:
        said = []
        while READY not in said:
            said.append(child.hear())
        time.sleep(wait)
        child.kill()
        said += child.rest()
    done = said.count(READY)
    steps = said[len(said) - said[::-1].index(READY) :]
    found = merges(path)
    assert before + done <= found <= before + done + ("committing" in steps), f"{done} merges reported, {found - before} found"
    check_content(path, found)
    check_log(path)
    compact(path)
    return steps


def merges(path: Path) -> int:
    """How many merges are committed."""
    commits = [json.loads(line) for file in (path / "_delta_log").glob("*.json") for line in file.read_text().splitlines()]
    return sum(commit.get("commitInfo", {}).get("operation") == "MERGE" for commit in commits)


def check_content(path: Path, merges: int) -> None:
    """Every row has seen all merges, and each merge has left its row; read by delta-rs."""
    rows = DeltaTable(path).to_pyarrow_table()
    assert sorted(rows["id"].to_pylist()) == list(range(FIRST_ROWS + merges))
    assert set(rows["counter"].to_pylist()) == {merges}
    assert rows["part"].to_pylist() == [id % PARTITIONS for id in rows["id"].to_pylist()]


def check_log(path: Path) -> None:
    """Every commit file is whole, they are contiguous, and others are temporary files, checksums or checkpoints."""
    names = sorted(file.name for file in (path / "_delta_log").iterdir())
    commits = [name for name in names if name.endswith(".json")]
    assert commits == [f"{version:020d}.json" for version in range(len(commits))]
    for name in commits:
        data = (path / "_delta_log" / name).read_text()
        assert data.splitlines()
        assert all(isinstance(json.loads(line), dict) for line in data.splitlines())
    others = [name for name in names if name not in commits and not name.startswith(".")]
    assert all(name == "_last_checkpoint" or ".checkpoint." in name or name.endswith(".crc") for name in others), others


def compact(path: Path) -> None:
    """Bring the files together when the merges have made many, so that merges stay short."""
    table = DeltaTable(path)
    if len(table.file_uris()) > MOST_FILES:
        table.optimize.compact()
