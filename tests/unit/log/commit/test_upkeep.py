"""After a commit: a checkpoint when it is due, of what is still in force, and never an error."""

from __future__ import annotations

import errno
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltamerge.log.commit import upkeep as module
from deltamerge.log.commit.transaction import Proposal, commit
from deltamerge.log.commit.upkeep import after_commit, checkpoint
from deltamerge.log.replay.checkpoint import read_checkpoint
from deltamerge.log.replay.last_checkpoint import LAST_CHECKPOINT
from deltamerge.log.replay.segment import find_segment
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.protocol.table.actions import AddFile
from deltamerge.storage.local import LocalStore
from tests.unit.log import building
from tests.unit.log.building import add, create, delete_commits, load, paths, remove

NOW = int(time.time() * 1000)
DAY = 86_400_000


def checkpoints(root: Path) -> list[int]:
    return sorted(int(path.name[:20]) for path in (root / "_delta_log").glob("*.checkpoint.parquet"))


def grow(store: LocalStore, commits: int) -> Snapshot:
    snapshot = load(store)
    for number in range(commits):
        snapshot = commit(snapshot, Proposal("WRITE", [AddFile(f"f{number}", {}, 1, 1)])).snapshot
        after_commit(snapshot)
    return snapshot


@pytest.mark.parametrize(
    ("properties", "expected"),
    [({}, [10, 20]), ({"delta.checkpointInterval": "4"}, [4, 8, 12, 16, 20]), ({"delta.checkpointInterval": "100"}, [])],
)
def test_a_checkpoint_is_written_every_interval(tmp_path: Path, properties: dict[str, str], expected: list[int]) -> None:
    grow(create(tmp_path, properties=properties), 21)
    assert checkpoints(tmp_path) == expected


def test_the_first_version_gets_no_checkpoint(tmp_path: Path) -> None:
    after_commit(load(create(tmp_path, properties={"delta.checkpointInterval": "1"})))
    assert checkpoints(tmp_path) == []


def test_a_checkpoint_stands_in_for_the_commits_before(tmp_path: Path) -> None:
    store = create(tmp_path, add("a"), properties={"delta.checkpointInterval": "3"})
    snapshot = grow(store, 4)
    delete_commits(tmp_path, 4)
    found = load(store)
    assert found.checkpoint_version == 3
    assert paths(found) == paths(snapshot)
    assert store.info(LAST_CHECKPOINT) is not None


@pytest.mark.parametrize(
    ("properties", "kept"),
    [
        ({}, ["day", "hour"]),
        ({"delta.deletedFileRetentionDuration": "interval 2 hours"}, ["hour"]),
        ({"delta.deletedFileRetentionDuration": "interval 30 days"}, ["day", "hour", "week"]),
        ({"delta.deletedFileRetentionDuration": "1 month"}, ["ages", "day", "hour", "undated", "week"]),
    ],
)
def test_expired_tombstones_are_dropped(tmp_path: Path, properties: dict[str, str], kept: list[str]) -> None:
    ages = {"hour": DAY // 24, "day": DAY, "week": 8 * DAY, "ages": NOW}
    store = create(tmp_path, *(add(name) for name in [*ages, "live", "undated"]), properties=properties)
    removed = [remove(name, deletionTimestamp=NOW - age) for name, age in ages.items()]
    building.commit(tmp_path, 1, *removed, {"remove": {"path": "undated", "dataChange": True}})
    checkpoint(load(store))
    segment = find_segment(store)
    assert segment.checkpoint is not None
    state = read_checkpoint(store, segment.checkpoint)
    assert sorted(state.removes["path"].to_pylist()) == kept
    assert [chunk.table["path"].to_pylist() for chunk in state.adds] == [["live"]]


def failing(error: Exception) -> Any:
    def fail(*args: object, **kwargs: object) -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    "error",
    [OSError(errno.ENOSPC, "No space left"), pa.ArrowInvalid("offset overflow"), TypeError("not a string"), MemoryError()],
    ids=repr,
)
def test_a_failing_checkpoint_does_not_fail_the_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    store = create(tmp_path, properties={"delta.checkpointInterval": "1"})
    monkeypatch.setattr(module, "write_checkpoint", failing(error))
    with caplog.at_level("WARNING", "deltamerge.log"):
        snapshot = grow(store, 1)
    assert paths(load(store)) == paths(snapshot) == ["f0"]
    assert checkpoints(tmp_path) == []
    (record,) = caplog.records
    assert f"the checkpoint of version 1 of {tmp_path} failed" in record.getMessage()


def test_a_full_disk_leaves_no_part_of_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = create(tmp_path, add("a"), properties={"delta.checkpointInterval": "1"})
    snapshot = commit(load(store), Proposal("WRITE", [AddFile("b", {}, 1, 1)])).snapshot
    before = sorted(path.name for path in (tmp_path / "_delta_log").iterdir())
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", failing(OSError(errno.ENOSPC, "No space left on device")))
        after_commit(snapshot)
    assert sorted(path.name for path in (tmp_path / "_delta_log").iterdir()) == before
    assert paths(load(store)) == ["a", "b"]
