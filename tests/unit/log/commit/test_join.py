"""Transactions that delete different rows of one file: which follow each other, and what their commits say."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deltamerge.errors import (
    ConcurrentAppendError,
    ConcurrentDeleteReadError,
    StorageError,
)
from deltamerge.log.commit import join
from deltamerge.log.commit.conflict import FrameRead, ReadSet
from deltamerge.log.commit.dv_files import MarkedFile, with_vector
from deltamerge.log.commit.transaction import Proposal, commit
from deltamerge.log.replay.files import file_key
from deltamerge.log.replay.segment import commit_name
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.protocol.formats.roaring import encode
from deltamerge.protocol.table.actions import AddFile, CdcFile, DeletionVector, RemoveFile
from deltamerge.protocol.table.deletion_vector import INLINE, z85_encode
from deltamerge.storage.local import LocalStore
from tests.unit.log.building import load
from tests.unit.log.marking import (
    ROWS,
    added,
    conflicts,
    create,
    deleted,
    files_of,
    gone,
    mark,
    moved,
    removed,
    rewritten,
    vector_files,
)


def actions(store: LocalStore, version: int, kind: str) -> list[dict[str, Any]]:
    lines = (json.loads(line) for line in store.read(commit_name(version)).splitlines())
    return [line[kind] for line in lines if kind in line]


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return create(tmp_path, "f", "g")


def test_rows_that_two_transactions_mark_are_all_marked(store: LocalStore, tmp_path: Path) -> None:
    read = load(store)
    commit(read, mark(read, {"f": [1, 2]}))
    done = commit(read, mark(read, {"f": [5], "g": [0]}))
    assert deleted(done.snapshot) == deleted(load(store)) == {"f": [1, 2, 5], "g": [0]}
    assert (done.version, done.attempts) == (2, 2)
    (winner,) = actions(store, 1, "add")
    removed = {action["path"]: action for action in actions(store, 2, "remove")}
    after = {action["path"]: action for action in actions(store, 2, "add")}
    assert removed["f"]["deletionVector"] == winner["deletionVector"]
    assert "deletionVector" not in removed["g"]
    assert after["f"]["deletionVector"]["cardinality"] == 3
    assert json.loads(after["f"]["stats"]) == {"numRecords": ROWS, "tightBounds": False}
    assert all(action["dataChange"] for action in (*removed.values(), *after.values()))
    named = {file.deletion_vector.path_or_inline for file in files_of(done.snapshot).values() if file.deletion_vector}
    assert len(vector_files(tmp_path)) == 1 + len(named)  # the winner's, which its version names


def test_the_metrics_tell_of_the_vector_that_was_replaced(store: LocalStore) -> None:
    first = load(store)
    second = commit(first, mark(first, {"g": [9]})).snapshot
    commit(second, mark(second, {"f": [1], "g": [1]}))
    done = commit(second, mark(second, {"f": [2], "g": [2]}))
    expected = {"numDeletionVectorsUpdated": 2, "numDeletionVectorsRemoved": 2, "numDeletedRows": 2}
    assert done.metrics == expected
    (info,) = actions(store, 3, "commitInfo")
    assert info["operationMetrics"] == {name: str(count) for name, count in expected.items()}
    assert (info["readVersion"], info["isolationLevel"], info["isBlindAppend"]) == (1, "Serializable", False)


def test_a_vector_that_nobody_needs_any_more_is_deleted(store: LocalStore, tmp_path: Path) -> None:
    read = load(store)
    for row in range(4):
        commit(read, mark(read, {"f": [row]}))
    assert deleted(load(store))["f"] == [0, 1, 2, 3]
    named = [action["deletionVector"]["pathOrInlineDv"] for version in range(1, 5) for action in actions(store, version, "add")]
    assert len(vector_files(tmp_path)) == len(set(named)) == 4


def test_many_winners_on_the_way_are_followed_one_by_one(store: LocalStore) -> None:
    read = load(store)
    for row in range(3):
        now = load(store)
        commit(now, mark(now, {"f": [row], "g": [row + 5]}))
    done = commit(read, mark(read, {"f": [9]}))
    assert deleted(done.snapshot) == {"f": [0, 1, 2, 9], "g": [5, 6, 7]}
    assert (done.version, done.attempts) == (4, 2)
    assert done.metrics["numDeletionVectorsUpdated"] == 1
    again = conflicts(read, mark(read, {"f": [1]}))
    assert again.parameters["version"] == 2


def test_the_same_row_is_a_conflict(store: LocalStore) -> None:
    read = load(store)
    commit(read, mark(read, {"f": [1, 2]}))
    error = conflicts(read, mark(read, {"f": [2, 3]}))
    assert type(error) is ConcurrentAppendError  # as without joining: the winner has added the file again
    assert "committed version 1" in error.detail


def test_one_row_in_many_files_is_a_conflict(store: LocalStore) -> None:
    read = load(store)
    commit(read, mark(read, {"f": [1], "g": [1]}))
    assert conflicts(read, mark(read, {"f": [2], "g": [1]}))


def test_a_file_that_was_only_read_may_lose_rows(store: LocalStore) -> None:
    read = load(store)
    commit(read, mark(read, {"f": [1]}))
    done = commit(read, mark(read, {"g": [1]}))
    assert deleted(done.snapshot) == {"f": [1], "g": [1]}
    assert [action["path"] for action in actions(store, 2, "add")] == ["g"]
    assert done.metrics["numDeletionVectorsUpdated"] == 0


def test_a_transaction_that_only_adds_follows_one_that_marks(store: LocalStore) -> None:
    read = load(store)
    commit(read, mark(read, {"f": [1]}))
    commit(read, mark(read, {"f": [2]}))
    done = commit(read, mark(read, {}, added("other")))
    assert deleted(done.snapshot) == {"f": [1, 2], "g": [], "other": []}


def test_rows_decide_only_where_something_is_known_of_them(store: LocalStore) -> None:
    read = load(store)
    commit(read, mark(read, {"f": [1]}))
    known = replace(mark(read, {}).read, would_find=None)
    assert conflicts(read, replace(mark(read, {"f": [2]}), read=known))
    assert conflicts(read, replace(mark(read, {}, added("other")), read=known))


@pytest.mark.parametrize("rows", [{"f": [2]}, {}])
def test_a_row_that_was_found_and_left_must_stay(store: LocalStore, rows: dict[str, list[int]]) -> None:
    first = load(store)
    read = commit(first, mark(first, {"f": [7]})).snapshot
    commit(read, mark(read, {"f": [1]}))
    assert conflicts(read, mark(read, rows, added("other"), leaves={"f": [0, 1]}))
    done = commit(read, mark(read, rows, added("other"), leaves={"f": [0, 7], "g": [1]}))
    assert deleted(done.snapshot)["f"] == sorted([1, 7, *rows.get("f", [])])


@pytest.mark.parametrize("level", ["Serializable", "WriteSerializable"])
@pytest.mark.parametrize(("name", "follows"), [("row", False), ("other", True)])
def test_what_the_winner_adds_is_looked_at(tmp_path: Path, level: str, name: str, follows: bool) -> None:
    store = create(tmp_path, "f", delta_isolationLevel=level)
    read = load(store)
    commit(read, mark(read, {"f": [1]}, added(name)))
    mine = mark(read, {"f": [2]})
    if follows:
        assert deleted(commit(read, mine).snapshot) == {"f": [1, 2], name: []}
    else:
        assert type(conflicts(read, mine)) is ConcurrentAppendError


def test_a_commit_that_calls_itself_blind_is_not_joined_with(tmp_path: Path) -> None:
    """What it added would not be looked at."""
    store = create(tmp_path, "f", delta_isolationLevel="WriteSerializable")
    read = load(store)
    commit(read, mark(read, {"f": [1]}, added("row")))
    text = store.read(commit_name(1)).replace(b'"isBlindAppend":false', b'"isBlindAppend":true')
    store.put(commit_name(1), text)
    assert type(conflicts(read, mark(read, {"f": [2]}))) is ConcurrentDeleteReadError


@pytest.mark.parametrize("winner", [rewritten, moved, removed])
def test_a_file_that_is_gone_is_a_conflict(store: LocalStore, winner: Callable[[Snapshot], Proposal]) -> None:
    read = load(store)
    commit(read, winner(read))
    assert isinstance(conflicts(read, mark(read, {"f": [2]})), ConcurrentDeleteReadError)


@pytest.mark.parametrize("loser", [rewritten, removed])
def test_a_file_that_is_removed_or_written_again_can_not_lose_rows(
    store: LocalStore, loser: Callable[[Snapshot], Proposal]
) -> None:
    read = load(store)
    commit(read, mark(read, {"f": [2]}))
    assert type(conflicts(read, loser(read))) is ConcurrentAppendError


def test_rows_that_come_back_are_a_conflict(store: LocalStore) -> None:
    first = load(store)
    second = commit(first, mark(first, {"f": [1, 2]})).snapshot
    third = commit(second, mark(second, {"f": [3]})).snapshot
    older, newer = files_of(second)["f"], files_of(third)["f"]
    commit(third, Proposal("RESTORE", [newer.removed(1), older], ReadSet(whole_table=True), restores=True))
    assert deleted(load(store))["f"] == [1, 2]
    assert conflicts(third, mark(third, {"f": [5]}))
    assert conflicts(third, mark(third, {"g": [5]}))


def test_a_restore_that_only_takes_rows_is_followed(store: LocalStore) -> None:
    first = load(store)
    second = commit(first, mark(first, {"f": [1]})).snapshot
    commit(second, Proposal("RESTORE", [files_of(second)["f"].removed(1), files_of(first)["f"]], restores=True))
    third = load(store)
    plain = files_of(third)["f"]
    commit(third, Proposal("RESTORE", [plain.removed(1), files_of(second)["f"]], ReadSet(whole_table=True), restores=True))
    assert deleted(commit(third, mark(third, {"f": [4]})).snapshot)["f"] == [1, 4]


def test_frames_that_have_read_the_table_do_not_follow(store: LocalStore) -> None:
    read = load(store)
    mine = mark(read, {"f": [2]})
    mine = replace(mine, read=replace(mine.read, frame=FrameRead(0, lambda files, _: files.num_rows > 0)))
    commit(read, mark(read, {"f": [1]}))
    assert conflicts(read, mine)


def test_the_file_is_as_the_winner_left_it(tmp_path: Path) -> None:
    """Row ids, tags and statistics are the winner's; the transaction has only a vector of its own."""
    names = {f"delta_rowTracking_materializedRow{what}ColumnName": what for what in ("Id", "CommitVersion")}
    store = create(tmp_path, "f", features=["rowTracking", "domainMetadata"], delta_enableRowTracking="true", **names)
    read = load(store)
    commit(read, mark(read, {"f": [1]}))
    text = store.read(commit_name(1)).replace(b'"baseRowId":0', b'"baseRowId":40,"tags":{"a":"b"}')
    store.put(commit_name(1), text)
    commit(read, mark(read, {"f": [2]}, added("other")))
    after = {action["path"]: action for action in actions(store, 2, "add")}
    assert (after["f"]["baseRowId"], after["f"]["tags"]) == (40, {"a": "b"})
    assert after["f"]["defaultRowCommitVersion"] == 1
    assert after["other"]["defaultRowCommitVersion"] == 2


def test_change_files_are_kept(store: LocalStore, tmp_path: Path) -> None:
    (tmp_path / "_change_data").mkdir()
    read = load(store)
    commit(read, mark(read, {"f": [1]}))
    commit(read, mark(read, {"f": [2]}, CdcFile("_change_data/c", {}, 1)))
    assert [action["path"] for action in actions(store, 2, "cdc")] == ["_change_data/c"]


def test_inline_vectors_are_joined(store: LocalStore) -> None:
    read = load(store)
    data = encode(np.array([1, 7]))
    inline = DeletionVector(INLINE, z85_encode(data + bytes(-len(data) % 4)), len(data), 2)
    plain = files_of(read)["f"]
    commit(read, Proposal("DELETE", [plain.removed(1), with_vector(plain, inline, ROWS)], ReadSet()))
    assert deleted(commit(read, mark(read, {"f": [2]})).snapshot)["f"] == [1, 2, 7]
    assert conflicts(read, mark(read, {"f": [7]}))


def broken(root: Path, what: str) -> None:
    for path in root.glob("deletion_vector_*.bin"):
        if what == "missing":
            path.unlink()
        elif what == "damaged":
            path.write_bytes(path.read_bytes()[:-1])


@pytest.mark.parametrize("what", ["missing", "damaged", "large", "many rows"])
def test_a_vector_that_can_not_be_read_is_a_conflict(
    store: LocalStore, tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = load(store)
    commit(read, mark(read, {"f": [1, 2, 3]}))
    broken(tmp_path, what)
    if what == "large":
        monkeypatch.setattr(join, "_MOST_BYTES", 8)
    elif what == "many rows":
        monkeypatch.setattr(join, "_MOST_ROWS", 2)
    with pytest.raises(ConcurrentAppendError):
        commit(read, mark(read, {"f": [4]}))


def changed(read: Snapshot, vector: DeletionVector) -> Proposal:
    plain = files_of(read)["f"]
    return Proposal("DELETE", [plain.removed(1), replace(plain, deletion_vector=vector)], ReadSet())


def test_a_vector_elsewhere_or_of_another_file_is_a_conflict(store: LocalStore) -> None:
    read = load(store)
    commit(read, changed(read, DeletionVector("p", "file:///elsewhere/v.bin", 36, 1, 1)))
    assert conflicts(read, mark(read, {"f": [4]}))
    data = encode(np.array([ROWS]))  # a row that the file does not have
    inline = DeletionVector(INLINE, z85_encode(data + bytes(-len(data) % 4)), len(data), 1)
    now = load(store)
    now = commit(now, Proposal("RESTORE", [files_of(now)["f"].removed(1), files_of(read)["f"]], restores=True)).snapshot
    commit(now, changed(now, inline))
    assert conflicts(now, mark(now, {"f": [4]}))


def test_a_vector_that_forgets_rows_of_before_is_a_conflict(store: LocalStore) -> None:
    first = load(store)
    read = commit(first, mark(first, {"f": [1]})).snapshot
    file = files_of(read)["f"]
    wrong = replace(mark(read, {}), marked=(MarkedFile(file, ROWS, encode(np.array([5]))),))
    commit(read, mark(read, {"f": [2]}))
    assert conflicts(read, wrong)


def test_two_spellings_of_one_path_are_one_file(tmp_path: Path) -> None:
    store = create(tmp_path, "a%20b")
    read = load(store)
    commit(read, mark(read, {"a%20b": [1]}))
    text = store.read(commit_name(1)).replace(b"a%20b", b"./a%20b")
    store.put(commit_name(1), text)
    assert list(deleted(commit(read, mark(read, {"a%20b": [2]})).snapshot).values()) == [[1, 2]]


def test_a_file_that_the_winner_has_twice_is_a_conflict(store: LocalStore) -> None:
    read = load(store)
    plain = files_of(read)["f"]
    twice: list[AddFile | RemoveFile] = [plain.removed(1)]
    for rows in ([1], [1, 3]):
        data = encode(np.array(rows))
        inline = DeletionVector(INLINE, z85_encode(data + bytes(-len(data) % 4)), len(data), len(rows))
        twice.append(replace(plain, deletion_vector=inline))
    commit(read, Proposal("DELETE", twice, ReadSet()))
    assert conflicts(read, mark(read, {"f": [4]}))


def test_a_store_that_fails_leaves_no_vector(store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = load(store)
    commit(read, mark(read, {"f": [1]}))
    before, put = vector_files(tmp_path), store.put
    calls: list[str] = []

    def failing(name: str, data: bytes) -> None:
        calls.append(name)
        if len(calls) == 2:
            raise StorageError("DELTAMERGE_STORAGE_REFUSED", "full")
        put(name, data)

    monkeypatch.setattr(store, "put", failing)
    with pytest.raises(StorageError):
        commit(read, mark(read, {"f": [2]}))
    assert len(calls) == 2
    assert vector_files(tmp_path) == before


def test_a_file_is_known_by_its_vector(store: LocalStore) -> None:
    read = load(store)
    done = commit(read, mark(read, {"f": [1]})).snapshot
    assert file_key(files_of(done)["f"]) != file_key(files_of(read)["f"])
    assert gone(done, files_of(done)["f"].deletion_vector, "f") == [1]


def test_a_marked_file_has_the_ids_that_it_was_given_meanwhile(tmp_path: Path) -> None:
    """By a commit that begins to track rows: it names the file again, and moves nothing."""
    store = create(tmp_path, "f", features=["rowTracking", "domainMetadata"])
    read = load(store)
    commit(read, Proposal("ROW TRACKING BACKFILL", [replace(files_of(read)["f"], data_change=False)], renames=True))
    (named,) = actions(store, 1, "add")
    assert named["baseRowId"] == 0
    commit(read, mark(read, {"f": [2]}))
    for kind in ("remove", "add"):
        (action,) = actions(store, 2, kind)
        assert (action["baseRowId"], action["defaultRowCommitVersion"]) == (0, 1)


def test_a_marked_file_keeps_its_ids_beside_a_winner_with_others(tmp_path: Path) -> None:
    """A winner that adds a file, to which it gives ids, says nothing of the ids of others."""
    store = create(tmp_path, "f", features=["rowTracking", "domainMetadata"])
    read = load(store)
    read = commit(read, Proposal("BACKFILL", [replace(files_of(read)["f"], data_change=False)], renames=True)).snapshot
    commit(read, Proposal("WRITE", [added("other")], ReadSet()))
    commit(read, mark(read, {"f": [2]}))
    for kind in ("remove", "add"):
        (action,) = actions(store, 3, kind)
        assert (action["baseRowId"], action["defaultRowCommitVersion"]) == (0, 1)
