"""Transactions that can't follow a winner, and may begin anew by themselves, as no row has changed that they look for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from deltamerge.errors import ConcurrentAppendError, ConcurrentDeleteReadError, ConcurrentTransactionError
from deltamerge.log.commit.transaction import Proposal, commit
from deltamerge.log.replay.commit_file import CommitFile
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.protocol.table.actions import Txn
from deltamerge.storage.local import LocalStore
from tests.unit.log.building import load
from tests.unit.log.marking import added, conflicts, create, deleted, files_of, mark, moved, removed, rewritten


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return create(tmp_path, "f", "g")


def test_rows_that_were_only_moved_say_how_far_the_log_was_followed(store: LocalStore) -> None:
    read = load(store)
    commit(read, moved(read))
    commit(load(store), Proposal("WRITE", [added("other")]))
    error = conflicts(read, mark(read, {"f": [2]}))
    assert type(error) is ConcurrentDeleteReadError
    assert (error.parameters["version"], error.followed) == (1, 2)


@pytest.mark.parametrize("same", [True, False])
@pytest.mark.parametrize("winner", [rewritten, removed])
def test_a_transaction_may_begin_anew_where_it_would_find_the_same_rows(
    store: LocalStore, winner: Callable[[Snapshot], Proposal], same: bool
) -> None:
    read = load(store)
    commit(read, winner(read))
    asked: list[tuple[int, frozenset[str]]] = []

    def finds_same(won: CommitFile, keys: frozenset[str]) -> bool:
        asked.append((won.version, keys))
        return same

    mine = mark(read, {"f": [2]})
    error = conflicts(read, replace(mine, read=replace(mine.read, finds_same=finds_same)))
    assert error.followed == (1 if same else None)
    assert asked == [(1, frozenset({"f", "g"}))]


def test_rows_are_compared_with_those_of_the_files_as_they_were_read(store: LocalStore) -> None:
    """Also where the winner has marked rows of one of them, and the transaction follows it there."""
    read = load(store)
    commit(read, mark(read, {"g": [1]}, files_of(read)["f"].removed(1), added("other")))
    asked: list[frozenset[str]] = []

    def finds_same(_: CommitFile, keys: frozenset[str]) -> bool:
        asked.append(keys)
        return True

    mine = mark(read, {"f": [2], "g": [2]})
    conflicts(read, replace(mine, read=replace(mine.read, finds_same=finds_same)))
    assert asked == [mine.read.keys]


@pytest.mark.parametrize("name", ["row", "other"])
def test_no_transaction_stands_before_an_append_and_behind_one_that_has_read_it(tmp_path: Path, name: str) -> None:
    """It has not seen the append, as WriteSerializable lets it, unless the append is nothing to it."""
    store = create(tmp_path, "f", delta_isolationLevel="WriteSerializable")
    read = load(store)
    appended = commit(read, Proposal("WRITE", [added(name)])).snapshot
    commit(appended, mark(appended, {"f": [1]}))
    mine = mark(read, {"f": [2]})
    if name == "other":
        assert deleted(commit(read, mine).snapshot) == {"f": [1, 2], "other": []}
    else:
        assert type(conflicts(read, mine)) is ConcurrentAppendError


def test_other_conflicts_do_not_let_a_transaction_begin_anew(store: LocalStore) -> None:
    """Neither does one that follows a commit after which it might."""
    read = load(store)
    commit(read, Proposal("MERGE", [*moved(read).actions, Txn("app", 1)]))
    known = replace(mark(read, {}).read, finds_same=lambda *_: True, app_ids=frozenset({"app"}))
    error = conflicts(read, replace(mark(read, {"f": [2]}), read=known))
    assert (type(error), error.followed) == (ConcurrentTransactionError, None)


@pytest.mark.parametrize("follower", ["rows of the moved file", "an append", "its removal", "rows of another file"])
def test_what_comes_after_moved_rows_is_looked_at(store: LocalStore, follower: str) -> None:
    """The transaction does not begin anew by itself where rows that it has read were changed, wherever they are."""
    read = load(store)
    now = commit(read, moved(read)).snapshot
    if follower == "rows of the moved file":
        commit(now, mark(now, {"other": [3]}))
    elif follower == "rows of another file":
        commit(now, mark(now, {"g": [3]}))
    elif follower == "an append":
        commit(now, Proposal("WRITE", [added("row")]))
    else:
        commit(now, Proposal("DELETE", [files_of(now)["other"].removed(1)]))
    error = conflicts(read, mark(read, {"f": [2]}))
    assert (error.parameters["version"], error.followed) == (2, None)
