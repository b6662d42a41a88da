"""Commits: at the next free version, after winners that do not conflict, with what history shall say of them."""

from __future__ import annotations

import errno
import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deltamerge import __version__
from deltamerge.errors import (
    CommitStateUnknownError,
    ConcurrentAppendError,
    ConcurrentDeleteDeleteError,
    ConcurrentWriteError,
    InvalidArgumentError,
    ProtocolChangedError,
    StorageError,
    UnsupportedTableError,
)
from deltamerge.log.commit import transaction as module
from deltamerge.log.commit.conflict import ReadSet
from deltamerge.log.commit.proposal import Author
from deltamerge.log.commit.transaction import Proposal, commit, delete_quietly, discarding
from deltamerge.log.replay.files import FileSet
from deltamerge.log.replay.segment import commit_name
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.protocol.table.actions import Action, AddFile, DeletionVector, Metadata, Protocol, RemoveFile
from deltamerge.storage import AlreadyExists, ObjectInfo
from deltamerge.storage.local import LocalStore
from tests.unit.log import building
from tests.unit.log.building import create, load, paths, schema_text, vector

READ_ALL = ReadSet(whole_table=True, would_read=lambda files: np.ones(len(files), np.bool_))


def append(*names: str, **more: Any) -> Proposal:
    return Proposal("WRITE", [AddFile(name, {}, 10, 5) for name in names], **more)


def lines(store: LocalStore, version: int) -> list[dict[str, Any]]:
    return [json.loads(line) for line in store.read(commit_name(version)).splitlines()]


def commit_info(store: LocalStore, version: int) -> dict[str, Any]:
    return lines(store, version)[0]["commitInfo"]


def log_names(root: Path) -> list[str]:
    return sorted(path.name for path in (root / "_delta_log").iterdir())


def test_a_commit_is_the_next_version(tmp_path: Path) -> None:
    store = create(tmp_path, building.add("a"))
    done = commit(load(store), append("b", "c"))
    assert (done.version, done.attempts) == (1, 1)
    assert paths(done.snapshot) == ["a", "b", "c"]
    assert log_names(tmp_path) == [f"{0:020d}.json", f"{1:020d}.json"]


def test_the_snapshot_of_a_commit_is_the_one_that_a_reader_loads(tmp_path: Path) -> None:
    store = create(tmp_path, building.add("a"))
    done = commit(load(store), Proposal("DELETE", [RemoveFile("a", 5), AddFile("b", {"p": None}, 1, 2, '{"numRecords":1}')]))
    read = load(store)
    assert read.files.table() == done.snapshot.files.table()
    assert read.tombstones.table == done.snapshot.tombstones.table
    assert (read.version, read.timestamp, read.tip) == (done.snapshot.version, done.snapshot.timestamp, done.snapshot.tip)


def test_a_first_commit_creates_the_table(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path / "new"))
    protocol, metadata = Protocol(1, 2), Metadata("id", schema_text(id="long"))
    nothing = Snapshot(store, -1, 0, protocol, metadata, FileSet())
    done = commit(nothing, Proposal("CREATE TABLE", [protocol, metadata]))
    assert done.version == 0
    assert "readVersion" not in commit_info(store, 0)
    assert load(store).metadata == metadata
    with pytest.raises(ProtocolChangedError):
        commit(nothing, Proposal("CREATE TABLE", [protocol, metadata]))


def first(root: Path) -> tuple[Snapshot, Proposal]:
    """No table, and what makes one of it."""
    protocol, metadata = Protocol(1, 2), Metadata("id", schema_text(id="long"))
    return Snapshot(LocalStore(str(root)), -1, 0, protocol, metadata, FileSet()), Proposal("CREATE TABLE", [protocol, metadata])


def test_the_folders_of_a_first_commit_are_synced_whoever_made_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    link = os.link
    monkeypatch.setattr("deltamerge.disk._sync", steps.append)
    monkeypatch.setattr(os, "link", lambda *places: (link(*places), steps.append("link")))
    (tmp_path / "t" / "_delta_log").mkdir(parents=True)
    made = commit(*first(tmp_path / "t")).snapshot
    above = [tmp_path / "t" / "_delta_log", tmp_path / "t", tmp_path, *tmp_path.parents]
    assert set(map(str, above)) <= set(steps[steps.index("link") :])
    steps.clear()
    commit(made, Proposal("WRITE", [AddFile("a", {}, 1, 1)]))
    assert str(tmp_path) not in steps


@pytest.mark.parametrize("version", [0, 1])
def test_a_commit_that_the_disk_may_not_keep_is_not_reported_as_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    (tmp_path / "_delta_log").mkdir()
    read, proposal = first(tmp_path)
    if version:
        read, proposal = commit(read, proposal).snapshot, Proposal("WRITE", [AddFile("a", {}, 1, 1)])
    (tmp_path / "a").write_text("rows")
    places = [str(tmp_path / "_delta_log" if version else tmp_path.parent)]

    def sync(path: str) -> None:
        if path in places:
            places.clear()  # a disk may forget what it could not write, and succeed the next time
            raise OSError(errno.EIO, "no answer", path)

    monkeypatch.setattr("deltamerge.disk._sync", sync)
    with pytest.raises(CommitStateUnknownError, match="DELTAMERGE_COMMIT_NOT_SYNCED"), discarding(read, ["a"]):
        commit(read, proposal)
    assert (tmp_path / "a").exists()
    assert load(LocalStore(str(tmp_path))).version == version


class LateStore(LocalStore):
    """A store that says of each name that it has written that it was taken before."""

    def put_if_absent(self, name: str, data: bytes) -> ObjectInfo:
        self.put(name, data)
        raise AlreadyExists(name)


def test_the_folder_of_an_own_commit_that_was_found_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create(tmp_path)
    steps: list[str] = []
    put = LateStore.put
    monkeypatch.setattr("deltamerge.disk._sync", steps.append)
    monkeypatch.setattr(LateStore, "put", lambda self, name, data: (put(self, name, data), steps.append("put")))
    monkeypatch.setattr(LateStore, "info", lambda self, name: (steps.append("found"), LocalStore.info(self, name))[1])
    assert commit(load(LateStore(str(tmp_path))), append("a")).version == 1
    assert str(tmp_path / "_delta_log") in steps[len(steps) - steps[::-1].index("found") :]


def test_commit_info_comes_first_and_tells_all(tmp_path: Path) -> None:
    store = create(tmp_path, building.add("a"), properties={"delta.isolationLevel": "WriteSerializable"})
    before = int(time.time() * 1000)
    proposal = Proposal(
        "MERGE",
        [RemoveFile("a", 5), AddFile("b", {}, 1, 2)],
        read=ReadSet(frozenset({"a"}), READ_ALL.would_read),
        parameters={"predicate": '["t.id = s.id"]'},
        metrics={"numSourceRows": 3, "numOutputRows": 0},
        user_metadata="nightly ä",
        author=Author("Apache-Spark/4.0.0"),
    )
    commit(load(store), proposal)
    info = commit_info(store, 1)
    assert [next(iter(line)) for line in lines(store, 1)] == ["commitInfo", "remove", "add"]
    assert before <= info.pop("timestamp") <= int(time.time() * 1000)
    assert len(info.pop("txnId")) == 36
    assert info == {
        "operation": "MERGE",
        "operationParameters": {"predicate": '["t.id = s.id"]'},
        "readVersion": 0,
        "isolationLevel": "WriteSerializable",
        "isBlindAppend": False,
        "operationMetrics": {"numSourceRows": "3", "numOutputRows": "0"},
        "engineInfo": f"Apache-Spark/4.0.0 deltamerge/{__version__}",
        "userMetadata": "nightly ä",
    }


@pytest.mark.parametrize(
    ("own", "noted", "shown"),
    [(None, None, None), (None, "job 7", "job 7"), ("by hand", "job 7", "by hand"), ("", "job 7", ""), (None, "", "")],
)
def test_a_write_s_own_note_comes_before_that_of_the_author(
    tmp_path: Path, own: str | None, noted: str | None, shown: str | None
) -> None:
    store = create(tmp_path, building.add("a"))
    commit(load(store), append("b", user_metadata=own, author=Author(user_metadata=noted)))
    assert commit_info(store, 1).get("userMetadata") == shown


def test_every_commit_has_an_id_of_its_own(tmp_path: Path) -> None:
    store = create(tmp_path)
    first = commit(load(store), append("a"))
    commit(first.snapshot, append("b"))
    assert commit_info(store, 1)["txnId"] != commit_info(store, 2)["txnId"]
    assert "userMetadata" not in commit_info(store, 1)


@pytest.mark.parametrize(
    ("actions", "read", "expected"),
    [
        ([AddFile("b", {}, 1, 1)], ReadSet(), True),
        ([], ReadSet(), True),
        ([AddFile("b", {}, 1, 1)], READ_ALL, False),
        ([AddFile("b", {}, 1, 1)], ReadSet(frozenset({"a"})), False),
        ([AddFile("b", {}, 1, 1), RemoveFile("a", 1)], ReadSet(), False),
    ],
)
def test_a_blind_append_adds_files_and_has_read_none(
    tmp_path: Path, actions: list[Action], read: ReadSet, expected: bool
) -> None:
    store = create(tmp_path, building.add("a"))
    commit(load(store), Proposal("WRITE", actions, read=read))
    assert commit_info(store, 1)["isBlindAppend"] is expected


@pytest.mark.parametrize(
    ("level", "data_change", "expected"),
    [
        ("Serializable", True, "Serializable"),
        ("WriteSerializable", True, "WriteSerializable"),
        ("writeserializable", True, "WriteSerializable"),
        ("Serializable", False, "SnapshotIsolation"),
    ],
)
def test_the_isolation_level_is_the_tables_but_for_a_rearrangement(
    tmp_path: Path, level: str, data_change: bool, expected: str
) -> None:
    store = create(tmp_path, properties={"delta.isolationLevel": level})
    commit(load(store), Proposal("OPTIMIZE", [AddFile("b", {}, 1, 1, data_change=data_change)]))
    assert commit_info(store, 1)["isolationLevel"] == expected


def test_a_commit_follows_winners_that_do_not_conflict(tmp_path: Path) -> None:
    store = create(tmp_path)
    read = load(store)
    commit(read, append("first"))
    commit(read, append("second"))
    done = commit(read, append("mine"))
    assert done.version == 3
    assert done.attempts == 2
    assert paths(done.snapshot) == paths(load(store)) == ["first", "mine", "second"]
    assert commit_info(store, 3)["readVersion"] == 0


def test_a_conflict_leaves_the_table_as_the_winner_made_it(tmp_path: Path) -> None:
    store = create(tmp_path, properties={"delta.isolationLevel": "Serializable"})
    read = load(store)
    commit(read, append("first"))
    with pytest.raises(ConcurrentAppendError, match="concurrent WRITE"):
        commit(read, append("mine", read=READ_ALL))
    assert log_names(tmp_path) == [f"{0:020d}.json", f"{1:020d}.json"]
    assert paths(load(store)) == ["first"]


def test_nothing_follows_a_winner_after_which_nobody_here_may_write(tmp_path: Path) -> None:
    store = create(tmp_path)
    read = load(store)
    building.commit(tmp_path, 1, {"protocol": {"minReaderVersion": 1, "minWriterVersion": 8, "writerFeatures": ["invariants"]}})
    with pytest.raises((UnsupportedTableError, ProtocolChangedError)):
        commit(read, append("a"))
    assert not (tmp_path / commit_name(2)).exists()


def test_write_serializable_follows_a_blind_append(tmp_path: Path) -> None:
    store = create(tmp_path, properties={"delta.isolationLevel": "WriteSerializable"})
    read = load(store)
    commit(read, append("first"))
    assert commit(read, append("mine", read=READ_ALL)).version == 2


def test_every_winner_on_the_way_is_checked(tmp_path: Path) -> None:
    store = create(tmp_path, building.add("a"))
    read = load(store)
    commit(read, append("first"))
    commit(read, Proposal("DELETE", [RemoveFile("a", 1)]))
    commit(read, append("third"))
    with pytest.raises(ConcurrentDeleteDeleteError) as caught:
        commit(read, Proposal("DELETE", [RemoveFile("a", 2)]))
    assert caught.value.parameters["version"] == 2


@pytest.mark.parametrize("offset", [None, 1])
def test_removing_a_marked_file_meets_its_concurrent_removal(tmp_path: Path, offset: int | None) -> None:
    store = create(tmp_path, building.add("a", deletionVector=vector("v", offset)))
    read = load(store)
    remove = RemoveFile("a", 1, deletion_vector=DeletionVector("u", "v", 36, 1, offset))
    done = commit(read, Proposal("DELETE", [remove]))
    assert paths(done.snapshot) == []
    with pytest.raises(ConcurrentDeleteDeleteError):
        commit(read, Proposal("DELETE", [remove]))


def test_concurrent_appends_all_land(tmp_path: Path) -> None:
    store = create(tmp_path)
    writers, each = 8, 5

    def write(writer: int) -> None:
        snapshot = load(store)
        for number in range(each):
            snapshot = commit(snapshot, append(f"{writer}-{number}")).snapshot

    with ThreadPoolExecutor(writers) as pool:
        list(pool.map(write, range(writers)))
    final = load(store)
    assert final.version == writers * each
    assert paths(final) == sorted(f"{writer}-{number}" for writer in range(writers) for number in range(each))


class TakenStore(LocalStore):
    """A store where every name is taken."""

    tries = 0

    def put_if_absent(self, name: str, data: bytes) -> ObjectInfo:
        self.tries += 1
        raise AlreadyExists(name)


def test_a_commit_gives_up_in_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create(tmp_path)
    store = TakenStore(str(tmp_path))
    monkeypatch.setattr(module, "_ATTEMPTS", 3)
    with pytest.raises(ConcurrentWriteError) as caught:
        commit(load(store), append("a"))
    assert store.tries == 3
    assert caught.value.condition == "DELTA_CONCURRENT_WRITE"
    assert caught.value.parameters == {"tableName": str(tmp_path), "attempts": 3}
    assert caught.value.retryable


class FullStore(LocalStore):
    """A store that refuses each write and each deletion."""

    def put_if_absent(self, name: str, data: bytes) -> ObjectInfo:
        raise StorageError("DELTAMERGE_STORAGE_REFUSED", "No space left.")

    def delete(self, name: str) -> None:
        raise StorageError("DELTAMERGE_STORAGE_REFUSED", f"Cannot delete {name}.")


def test_a_refusing_store_is_not_asked_twice(tmp_path: Path) -> None:
    create(tmp_path)
    with pytest.raises(StorageError, match="No space left"):
        commit(load(FullStore(str(tmp_path))), append("a"))
    assert log_names(tmp_path) == [f"{0:020d}.json"]


def test_an_append_only_table_refuses_to_remove_rows(tmp_path: Path) -> None:
    store = create(tmp_path, building.add("a"), properties={"delta.appendOnly": "true"})
    with pytest.raises(UnsupportedTableError) as caught:
        commit(load(store), Proposal("DELETE", [RemoveFile("a", 1)]))
    assert caught.value.condition == "DELTA_CANNOT_MODIFY_APPEND_ONLY"
    assert "delta.appendOnly" in (caught.value.hint or "")
    assert log_names(tmp_path) == [f"{0:020d}.json"]


def test_an_append_only_table_takes_appends_and_rearrangements(tmp_path: Path) -> None:
    store = create(tmp_path, building.add("a"), properties={"delta.appendOnly": "true"})
    appended = commit(load(store), append("b")).snapshot
    rearranged = [RemoveFile("a", 1, data_change=False), AddFile("c", {}, 1, 1, data_change=False)]
    assert paths(commit(appended, Proposal("OPTIMIZE", rearranged)).snapshot) == ["b", "c"]


def test_uncommitted_files_are_deleted_as_far_as_possible(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = create(tmp_path)
    store.put("a", b"")
    delete_quietly(load(store), ["a", "gone"])
    assert store.info("a") is None
    with caplog.at_level("WARNING", "deltamerge.log"):
        delete_quietly(load(FullStore(str(tmp_path))), ["x", "y"])
    assert [record.args[0] for record in caplog.records if record.args] == ["x", "y"]


def test_a_proposal_names_what_it_removes() -> None:
    marked = RemoveFile("b", 1, deletion_vector=DeletionVector("u", "v", 36, 1, 1))
    proposal = Proposal("DELETE", [RemoveFile("a", 1), marked, AddFile("c", {}, 1, 1)])
    assert proposal.removed_keys == {"a", "b\0u\0v\x001"}
    assert proposal.has(RemoveFile)
    assert not proposal.has(Metadata)


@pytest.mark.parametrize("text", ["x" * 20_000_100, "\ud800"])
def test_a_commit_that_nobody_could_read_is_never_made(tmp_path: Path, text: str) -> None:
    store = create(tmp_path)
    (tmp_path / "new.parquet").write_bytes(b"rows")
    with pytest.raises(InvalidArgumentError, match="Nothing was committed") as caught, discarding(load(store), ["new.parquet"]):
        commit(load(store), append("new.parquet", parameters={"predicate": text}))
    assert caught.value.condition == "DELTAMERGE_UNREADABLE_COMMIT"
    assert store.info(commit_name(1)) is None
    assert load(store).version == 0
    assert commit(load(store), append("other.parquet")).version == 1
