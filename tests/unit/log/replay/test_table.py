"""A table's log: the newest snapshot is kept, caught up, and given up when the table is another one."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from deltamerge.errors import AnalysisError, CorruptTableError, TableNotFoundError
from deltamerge.log.commit.transaction import Proposal
from deltamerge.log.commit.transaction import commit as commit_proposal
from deltamerge.log.commit.upkeep import checkpoint
from deltamerge.log.replay import table as module
from deltamerge.log.replay.commit_file import CommitFile
from deltamerge.log.replay.table import DeltaLog, open_log
from deltamerge.protocol.table.actions import AddFile
from deltamerge.storage.local import LocalStore
from tests.unit.log.building import add, commit, create, delete_commits, log_file, metadata, paths, remove


class Reading:
    """Names of the log files that were read."""

    def __init__(self, store: LocalStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self.names: list[str] = []
        real = LocalStore.read

        def read(inner: LocalStore, name: str) -> bytes:
            self.names.append(name.rpartition("/")[2])
            return real(inner, name)

        monkeypatch.setattr(LocalStore, "read", read)

    def taken(self) -> list[str]:
        found, self.names = self.names, []
        return found


def file_name(version: int) -> str:
    return f"{version:020d}.json"


def test_the_snapshot_is_kept_while_nothing_was_committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = DeltaLog(create(tmp_path, add("a")))
    first = log.snapshot()
    reading = Reading(log.store, monkeypatch)
    assert log.snapshot() is first
    assert reading.taken() == []


@pytest.mark.parametrize("older_gone", [False, True])
def test_a_snapshot_from_a_checkpoint_is_kept_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, older_gone: bool) -> None:
    store = create(tmp_path, add("a"))
    commit(tmp_path, 1, add("b"))
    checkpoint(DeltaLog(store).snapshot())
    if older_gone:
        delete_commits(tmp_path, 1)
    log = DeltaLog(store)
    first = log.snapshot()
    assert first.checkpoint_version == 1
    reading = Reading(store, monkeypatch)
    assert log.snapshot() is first
    assert reading.taken() == []


def test_catching_up_reads_the_newer_commits_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = DeltaLog(create(tmp_path, add("a")))
    commit(tmp_path, 1, add("b"))
    log.snapshot()
    commit(tmp_path, 2, remove("a"))
    commit(tmp_path, 3, add("c"))
    reading = Reading(log.store, monkeypatch)
    found = log.snapshot()
    assert found.version == 3
    assert paths(found) == ["b", "c"]
    assert reading.taken() == [file_name(2), file_name(3)]


def test_catching_up_does_not_need_the_older_commits(tmp_path: Path) -> None:
    log = DeltaLog(create(tmp_path, add("a")))
    commit(tmp_path, 1, add("b"))
    checkpoint(log.snapshot())
    commit(tmp_path, 2, add("c"))
    delete_commits(tmp_path, 1)
    assert paths(log.snapshot()) == ["a", "b", "c"]


def test_without_its_own_commit_a_kept_snapshot_is_loaded_anew(tmp_path: Path) -> None:
    log = DeltaLog(create(tmp_path, add("a")))
    commit(tmp_path, 1, add("b"))
    log.snapshot()
    commit(tmp_path, 2, add("c"))
    checkpoint(DeltaLog(log.store).snapshot())
    delete_commits(tmp_path, 3)
    found = log.snapshot()
    assert (found.version, found.checkpoint_version) == (2, 2)
    assert paths(found) == ["a", "b", "c"]


def test_a_gap_is_noticed_while_catching_up(tmp_path: Path) -> None:
    log = DeltaLog(create(tmp_path, add("a")))
    log.snapshot()
    commit(tmp_path, 2, add("c"))
    with pytest.raises(CorruptTableError, match="no version 1"):
        log.snapshot()


def test_other_json_files_are_not_commits(tmp_path: Path) -> None:
    log = DeltaLog(create(tmp_path, add("a")))
    first = log.snapshot()
    log_file(tmp_path, f"{0:020d}.{1:020d}.compacted.json").write_text("{}")
    log_file(tmp_path, "1.json").write_text("{}")
    assert log.snapshot() is first


@pytest.mark.parametrize("versions", [1, 2, 3])
def test_a_table_made_anew_in_its_place_is_noticed(tmp_path: Path, versions: int) -> None:
    log = DeltaLog(create(tmp_path, add("old0")))
    commit(tmp_path, 1, add("old1"))
    log.snapshot()
    shutil.rmtree(tmp_path / "_delta_log")
    create(tmp_path, add("new0"), id="another")
    for version in range(1, versions):
        commit(tmp_path, version, add(f"new{version}"))
    found = log.snapshot()
    assert found.version == versions - 1
    assert found.metadata.id == "another"
    assert paths(found) == [f"new{version}" for version in range(versions)]


def test_a_deleted_table_is_noticed(tmp_path: Path) -> None:
    log = DeltaLog(create(tmp_path, add("a")))
    log.snapshot()
    shutil.rmtree(tmp_path / "_delta_log")
    with pytest.raises(TableNotFoundError):
        log.snapshot()


def test_time_travel(tmp_path: Path) -> None:
    log = DeltaLog(create(tmp_path, add("a")))
    commit(tmp_path, 1, remove("a"), add("b"))
    commit(tmp_path, 2, add("c"))
    assert [paths(log.snapshot(version)) for version in (0, 1, 2)] == [["a"], ["b"], ["b", "c"]]
    with pytest.raises(AnalysisError, match="version 3"):
        log.snapshot(3)


def test_time_travel_does_not_change_what_is_newest(tmp_path: Path) -> None:
    log = DeltaLog(create(tmp_path, add("a")))
    commit(tmp_path, 1, add("b"))
    newest = log.snapshot()
    log.snapshot(0)
    assert log.snapshot() is newest
    assert log.snapshot(1) is newest


def test_a_remembered_commit_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = DeltaLog(create(tmp_path, add("a")))
    made = commit_proposal(log.snapshot(), Proposal("WRITE", [AddFile("b", {}, 1, 1)])).snapshot
    log.remember(made)
    reading = Reading(log.store, monkeypatch)
    assert log.snapshot() is made
    assert reading.taken() == []


def test_an_older_snapshot_is_not_remembered(tmp_path: Path) -> None:
    log = DeltaLog(create(tmp_path, add("a")))
    commit(tmp_path, 1, add("b"))
    newest = log.snapshot()
    log.remember(log.snapshot(0))
    assert log.snapshot() is newest


def test_commits_are_newest_first(tmp_path: Path) -> None:
    log = DeltaLog(create(tmp_path))
    for version in (1, 2, 3):
        commit(tmp_path, version, add(f"f{version}"))
    assert [found.version for found in log.commits()] == [3, 2, 1, 0]
    assert [found.version for found in log.commits(2)] == [3, 2]
    assert log.commits(1)[0].adds["path"].to_pylist() == ["f3"]


def test_no_table_has_no_commits(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError):
        DeltaLog(LocalStore(str(tmp_path))).commits()


def test_the_same_place_is_the_same_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    log = open_log(str(tmp_path / "t"))
    assert open_log(f"file://{tmp_path}/t/") is log
    assert open_log("t") is log
    assert open_log(str(tmp_path / "other")) is not log
    assert open_log(str(tmp_path / "t"), {"key": "1"}) is not log


def test_the_logs_least_lately_opened_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_KEPT", 2)
    first, second = open_log(str(tmp_path / "1")), open_log(str(tmp_path / "2"))
    assert open_log(str(tmp_path / "1")) is first
    open_log(str(tmp_path / "3"))
    assert open_log(str(tmp_path / "1")) is first
    assert open_log(str(tmp_path / "2")) is not second


def test_threads_share_one_replay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = DeltaLog(create(tmp_path, *(add(f"f{number}") for number in range(100))))
    reading = Reading(log.store, monkeypatch)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: log.snapshot(), range(8)))
    assert all(snapshot is found[0] for snapshot in found)
    assert reading.taken().count(file_name(0)) == 1


def test_a_commit_file_tells_of_its_metadata(tmp_path: Path) -> None:
    log = DeltaLog(create(tmp_path))
    commit(tmp_path, 1, metadata(properties={"k": "v"}))
    newest: CommitFile = log.commits(1)[0]
    assert newest.metadata is not None
    assert newest.metadata.configuration == {"k": "v"}


def test_whether_there_is_a_table_is_told_without_reading_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = DeltaLog(create(tmp_path / "t", add("a")))
    commit(tmp_path / "t", 2, add("b"))
    log_file(tmp_path / "other", "readme.txt").write_text("")
    reading = Reading(log.store, monkeypatch)
    assert log.exists(), "a damaged table is one: its version 1 is missing"
    assert not DeltaLog(LocalStore(str(tmp_path / "other"))).exists()
    assert not DeltaLog(LocalStore(str(tmp_path / "nothing"))).exists()
    assert not {file_name(0), file_name(2)} & set(reading.taken())


def test_the_folder_of_a_partition_is_told_from_a_table(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError, match="WHERE p = '1' AND q = 'a b'") as caught:
        open_log(str(tmp_path / "t" / "p=1" / "q=a b")).snapshot()
    assert f"the table at {tmp_path / 't'}, WHERE" in (caught.value.hint or "")
