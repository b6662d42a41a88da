"""What a local store syncs, and when."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from deltamerge import disk
from deltamerge.disk import SYNC
from deltamerge.errors import CommitStateUnknownError, StorageError
from deltamerge.storage import open_store
from deltamerge.storage.local import LocalStore


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths that are synced, in order; links by their targets."""
    found: list[str] = []
    fsync, link = os.fsync, os.link

    def noted_fsync(handle: int) -> None:
        found.append(os.readlink(f"/proc/self/fd/{handle}"))
        fsync(handle)

    def noted_link(source: Path, target: Path) -> None:
        link(source, target)
        found.append(f"-> {target}")

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "link", noted_link)
    return found


def test_content_before_name_before_folder(tmp_path: Path, synced: list[str]) -> None:
    LocalStore(str(tmp_path)).put_if_absent("a", b"x")
    temporary, *others = synced
    assert temporary.startswith(str(tmp_path / ".a."))
    assert others == [f"-> {tmp_path / 'a'}", str(tmp_path)]
    synced.clear()
    LocalStore(str(tmp_path)).put("a", b"y")
    assert synced[1:] == [str(tmp_path)]


def test_all_folders_above_a_new_one_are_synced_and_none_above_an_old_one(tmp_path: Path, synced: list[str]) -> None:
    store = LocalStore(str(tmp_path / "new/table"))
    store.put_if_absent("log/0", b"")
    above = {str(tmp_path / "new/table"), str(tmp_path / "new"), *map(str, tmp_path.parents), str(tmp_path)}
    assert {path for path in synced[:-3] if path != "/"} == above - {"/"}
    synced.clear()
    store.put_if_absent("log/1", b"")
    assert len(synced) == 3


def test_folders_are_synced_with_those_between_them_and_the_root(tmp_path: Path, synced: list[str]) -> None:
    (tmp_path / "p=1/q=1").mkdir(parents=True)
    (tmp_path / "p=1/q=2").mkdir()
    store = LocalStore(str(tmp_path))
    store.sync([])
    assert synced == []
    store.sync(["p=1/q=1", "p=1/q=2"])
    assert sorted(synced) == [str(tmp_path / name) for name in ("", "p=1", "p=1/q=1", "p=1/q=2")]
    with pytest.raises(StorageError, match="p=3"):
        store.sync(["p=3"])


def test_the_folders_above_the_table_are_synced_if_they_are_asked_for(tmp_path: Path, synced: list[str]) -> None:
    (tmp_path / "log").mkdir()
    LocalStore(str(tmp_path)).sync(["log"], above=True)
    assert set(synced) | {"/"} == {str(tmp_path / "log"), str(tmp_path), *map(str, tmp_path.parents)}


def test_a_store_that_leaves_it_to_the_system_syncs_nothing(tmp_path: Path, synced: list[str]) -> None:
    store = open_store(str(tmp_path), None, {SYNC: "false"})
    assert store.spec.options == {SYNC: "false"}
    store.put_if_absent("log/0", b"")
    store.put("log/1", b"")
    store.sync(["log"])
    assert [step for step in synced if not step.startswith("->")] == []


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EIO])
def test_only_what_can_be_synced_must_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """A folder that may not be listed, or a file system without a sync, is no reason to fail; a broken disk is."""
    monkeypatch.setattr(os, "fsync", _failing(code))
    store = LocalStore(str(tmp_path))
    (tmp_path / "file").write_bytes(b"")
    if code == errno.EIO:
        with pytest.raises(StorageError, match=str(tmp_path)):
            store.sync([""])
    else:
        store.sync([""])
    if code in (errno.EIO, errno.EACCES):
        with pytest.raises(OSError, match="file"):
            disk.sync_files([str(tmp_path / "file")])
    else:
        disk.sync_files([str(tmp_path / "file")])


def test_the_first_failure_of_many_syncs_comes_out(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"{number}").write_bytes(b"")
    disk.sync_files(str(tmp_path / f"{number}") for number in range(20))
    with pytest.raises(FileNotFoundError, match="gone"):
        disk.sync_files([*(str(tmp_path / f"{number}") for number in range(20)), str(tmp_path / "gone")])


def _failing(code: int) -> Callable[..., None]:
    def fail(*args: object) -> None:
        raise OSError(code, os.strerror(code))

    return fail


def test_a_name_that_the_disk_may_not_keep_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.fsync

    def fsync(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            raise OSError(errno.EIO, "no answer")
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    store = LocalStore(str(tmp_path))
    with pytest.raises(CommitStateUnknownError, match=r"DELTAMERGE_COMMIT_NOT_SYNCED.*was written.*no answer"):
        store.put_if_absent("a", b"content")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("a", b"content")]
