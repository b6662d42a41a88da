"""Commits whose answer got lost: what may still land keeps its files, what can't is a lost race or a refusal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from deltamerge.errors import CommitStateUnknownError, CorruptTableError, StorageError
from deltamerge.log.commit.transaction import Committed, Proposal, commit, discarding
from deltamerge.log.replay.segment import commit_name
from deltamerge.log.replay.table import open_log
from deltamerge.protocol.table.actions import AddFile
from deltamerge.storage import AlreadyExists, ObjectInfo, Store, open_store
from deltamerge.storage.local import LocalStore
from tests.stores.server import Fault, Front, Late, answered, cut_off, overtaken_by
from tests.unit.log.building import PROTOCOL, create, info, load, metadata, paths

FORBIDDEN = answered("403 Forbidden", "AccessDenied")
WINNER = "".join(
    json.dumps(action) + "\n" for action in (info(txnId="another's"), {"add": {**AddFile("w", {}, 1, 1).to_json()["add"]}})
)


@pytest.fixture
def store(front: Front, front_place: str) -> Store:
    """A table of one version, and a data file that is written for the next."""
    found = open_store(front_place, front.options)
    found.put_if_absent(commit_name(0), "".join(json.dumps(action) + "\n" for action in (PROTOCOL, metadata())).encode())
    found.put("new", b"rows")
    return found


def append(store: Store) -> Committed:
    """Commit the data file; it is deleted if that fails for certain."""
    read = load(store)
    with discarding(read, ["new"]):
        return commit(read, Proposal("WRITE", [AddFile("new", {}, 4, 5)]))


@pytest.mark.parametrize("later", [[FORBIDDEN], [cut_off, FORBIDDEN]])
def test_a_commit_that_lands_late_finds_its_data(front: Front, front_place: str, store: Store, later: Sequence[Fault]) -> None:
    late = Late()
    front.faults += [late, *later]
    with pytest.raises(CommitStateUnknownError) as caught:
        append(store)
    assert caught.value.condition == "DELTAMERGE_COMMIT_STATE_UNKNOWN"
    assert [status[:3] for status in late.land()] == [front.created]
    snapshot = open_log(front_place, front.options).snapshot()
    assert (snapshot.version, paths(snapshot)) == (1, ["new"])
    assert store.read("new") == b"rows"


def test_a_refusal_is_certain_and_leaves_no_data(front: Front, store: Store) -> None:
    front.faults.append(FORBIDDEN)
    with pytest.raises(StorageError) as caught:
        append(store)
    assert caught.value.condition == "DELTAMERGE_STORAGE_REFUSED"
    assert store.info("new") is None


def test_a_commit_of_another_settles_that_this_one_lost(front: Front, store: Store) -> None:
    late = Late()
    front.faults += [late, overtaken_by(WINNER.encode())]
    done = append(store)
    assert (done.version, done.attempts) == (2, 2)
    assert [status[:3] for status in late.land()] == [front.taken]
    assert paths(load(store)) == ["new", "w"]


class Doubtful(LocalStore):
    """A store whose commits end as `write` says, before which another's may have come."""

    def __init__(self, root: Path, winner: str | None, error: Exception) -> None:
        super().__init__(str(root))
        self._winner, self._error = winner, error

    def put_if_absent(self, name: str, data: bytes) -> ObjectInfo:
        if self._winner is None or super().info(name) is not None or name != commit_name(1):
            return super().put_if_absent(name, data)
        super().put_if_absent(name, self._winner.encode())
        raise self._error


UNKNOWN = CommitStateUnknownError("DELTAMERGE_COMMIT_STATE_UNKNOWN", "It is not known.")


@pytest.mark.parametrize("error", [UNKNOWN, StorageError("DELTAMERGE_STORAGE_REFUSED", "No space.")])
def test_a_failure_behind_which_another_has_won_is_a_lost_race(tmp_path: Path, error: Exception) -> None:
    create(tmp_path)
    done = append(Doubtful(tmp_path, WINNER, error))
    assert (done.version, paths(done.snapshot)) == (2, ["new", "w"])


@pytest.mark.parametrize(("error", "expected"), [(UNKNOWN, CommitStateUnknownError), (AlreadyExists("x"), CorruptTableError)])
def test_a_commit_that_can_not_be_read_settles_nothing(tmp_path: Path, error: Exception, expected: type[Exception]) -> None:
    create(tmp_path)
    store = Doubtful(tmp_path, "{", error)
    store.put("new", b"rows")
    with pytest.raises(expected):
        append(store)
    assert (store.info("new") is not None) == (expected is CommitStateUnknownError)
