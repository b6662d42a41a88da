"""A transaction commits only into the table that it has read, not into one that was made at its path since."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from deltamerge.errors import MetadataChangedError
from deltamerge.log.commit import transaction
from deltamerge.log.commit.checkpoint_write import write_checkpoint
from deltamerge.log.commit.transaction import Proposal, commit
from deltamerge.log.replay.segment import commit_name
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.protocol.table.actions import AddFile
from deltamerge.storage import ObjectInfo
from deltamerge.storage.local import LocalStore
from tests.unit.log.building import add, create, delete_commits, load, paths
from tests.unit.log.building import commit as written_by_others

OTHER_ID = "7d5f6a52-0000-4000-8000-000000000000"
APPEND = Proposal("WRITE", [AddFile("ours", {}, 10, 5)])


@pytest.fixture
def read(tmp_path: Path) -> Snapshot:
    """Version 2 of a table."""
    store = create(tmp_path, add("old"))
    for version in (1, 2):
        written_by_others(tmp_path, version, add(f"old-{version}"))
    return load(store)


def make_anew(root: Path, newest: int) -> list[Path]:
    """Another table at the path, up to a version; its log's files."""
    shutil.rmtree(root / "_delta_log")
    create(root, add("new"), id=OTHER_ID)
    for version in range(1, newest + 1):
        written_by_others(root, version, add(f"new-{version}"))
    return log_files(root)


def log_files(root: Path) -> list[Path]:
    return sorted((root / "_delta_log").iterdir())


@pytest.mark.parametrize("newest", [0, 1, 2, 3], ids=["much shorter", "shorter", "as long", "longer"])
def test_nothing_is_committed_into_a_table_made_anew(tmp_path: Path, read: Snapshot, newest: int) -> None:
    there = make_anew(tmp_path, newest)
    with pytest.raises(MetadataChangedError, match=r"DELTAMERGE_TABLE_REPLACED.* version 2 of it") as caught:
        commit(read, APPEND)
    assert (caught.value.parameters["version"], caught.value.runs_again) == (2, False)
    assert log_files(tmp_path) == there
    assert "ours" not in paths(load(read.store))


def test_nothing_is_committed_into_a_table_that_was_deleted(tmp_path: Path, read: Snapshot) -> None:
    shutil.rmtree(tmp_path / "_delta_log")
    with pytest.raises(MetadataChangedError, match="DELTAMERGE_TABLE_REPLACED"):
        commit(read, APPEND)
    assert not (tmp_path / "_delta_log").exists()


def test_a_table_that_is_made_anew_while_others_commit_is_not_followed(
    tmp_path: Path, read: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the version that the transaction tries, so that it would follow the commits of the other table."""

    real = transaction._put

    def put(current: Snapshot, data: bytes, txn_id: str) -> ObjectInfo | None:
        if current.version == 2:
            make_anew(tmp_path, 3)
        return real(current, data, txn_id)

    monkeypatch.setattr(transaction, "_put", put)
    with pytest.raises(MetadataChangedError, match="DELTAMERGE_TABLE_REPLACED"):
        commit(read, APPEND)
    assert load(read.store).version == 3


def clean_up(root: Path) -> None:
    """Take the commit file of the version that was read away, as clean-up does once a later version has a checkpoint."""
    written_by_others(root, 3, add("new"))
    newest = load(LocalStore(str(root)))
    write_checkpoint(newest, newest.tombstones.table)
    delete_commits(root, 3)


def copy_back(root: Path) -> None:
    """Replace the log's files by copies."""
    shutil.move(root / "_delta_log", root / "moved")
    shutil.copytree(root / "moved", root / "_delta_log")


def touch(root: Path) -> None:
    for path in log_files(root):
        os.utime(path, (1, 1))


@pytest.mark.parametrize("change", [clean_up, copy_back, touch])
def test_a_log_whose_files_are_gone_or_other_ones_is_still_the_same_table(
    tmp_path: Path, read: Snapshot, change: Callable[[Path], None]
) -> None:
    change(tmp_path)
    done = commit(read, APPEND).snapshot
    assert paths(done) == paths(load(LocalStore(str(tmp_path))))
    assert {"old", "ours"} <= set(paths(done))


def test_a_commit_asks_once_for_the_version_that_it_has_read(
    tmp_path: Path, read: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = list[str]()
    real = LocalStore.info

    def info(store: LocalStore, name: str) -> ObjectInfo | None:
        asked.append(name)
        return real(store, name)

    monkeypatch.setattr(LocalStore, "info", info)
    commit(read, APPEND)
    assert asked == [commit_name(2)]
