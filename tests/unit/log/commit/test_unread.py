"""What was committed after the version that a frame has read."""

from __future__ import annotations

from pathlib import Path

import pytest

from deltamerge.errors import ConcurrentAppendError, ConcurrentDeleteReadError, ConcurrentModificationError, ConcurrentWriteError
from deltamerge.log.commit.conflict import FrameRead, ReadSet
from deltamerge.log.commit.transaction import commit
from deltamerge.log.commit.unread import check_unread
from deltamerge.storage.local import LocalStore
from tests.unit.log.building import Json, add, create, delete_commits, info, load, metadata, remove
from tests.unit.log.building import commit as put
from tests.unit.log.commit.test_transaction import append


def read_all(version: int) -> FrameRead:
    return FrameRead(version, lambda files, _: files.num_rows > 0)


MOVED = (info(operation="OPTIMIZE"), remove("a", dataChange=False), add("b", dataChange=False))


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return create(tmp_path, add("a"))


@pytest.mark.parametrize(
    ("actions", "expected"),
    [
        ((info(isBlindAppend=True), add("b")), ConcurrentAppendError),
        ((info(operation="UPDATE"), remove("a"), add("b")), ConcurrentAppendError),
        ((info(operation="DELETE"), remove("a")), ConcurrentDeleteReadError),
        (MOVED, None),
        ((info(operation="SET TBLPROPERTIES"), metadata(properties={"a": "b"})), None),
    ],
)
def test_data_is_what_a_reader_misses(
    store: LocalStore, tmp_path: Path, actions: tuple[Json, ...], expected: type[ConcurrentModificationError] | None
) -> None:
    put(tmp_path, 1, *actions)
    snapshot = load(store)
    check_unread(snapshot, None)
    check_unread(snapshot, read_all(1))
    if expected is None:
        check_unread(snapshot, read_all(0))
        return
    with pytest.raises(expected, match=r"(?s)after version 0, .* committed version 1 .*Hint: Read the table again") as caught:
        check_unread(snapshot, read_all(0))
    assert not caught.value.runs_again


def test_what_is_committed_after_the_snapshot_is_for_the_commit_to_check(store: LocalStore, tmp_path: Path) -> None:
    put(tmp_path, 1, *MOVED)
    snapshot = load(store)
    put(tmp_path, 2, info(), add("c"))
    check_unread(snapshot, read_all(0))
    proposal = append("d", read=ReadSet(frame=read_all(0)))
    with pytest.raises(ConcurrentAppendError, match=r"(?s)committed version 2 .*Hint: Read the table again") as caught:
        commit(snapshot, proposal)
    assert not caught.value.runs_again
    commit(snapshot, append("d"))


def test_commits_that_are_gone_are_a_conflict(store: LocalStore, tmp_path: Path) -> None:
    put(tmp_path, 1, *MOVED)
    put(tmp_path, 2, *MOVED[:1])
    snapshot = load(store)
    delete_commits(tmp_path, 2)
    check_unread(snapshot, read_all(1))
    with pytest.raises(ConcurrentWriteError, match=r"version 0 .* no longer in the log") as caught:
        check_unread(snapshot, read_all(0))
    assert not caught.value.runs_again
