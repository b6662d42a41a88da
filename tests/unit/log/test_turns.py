"""Commits of one process into one table come one after the other, and none waits for ever."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from deltamerge.errors import MetadataChangedError
from deltamerge.log import turns
from deltamerge.log.commit import transaction
from deltamerge.log.commit.transaction import Proposal, commit
from deltamerge.log.replay.segment import commits_after
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.log.turns import Turn, in_turn
from deltamerge.protocol.table.actions import AddFile
from deltamerge.storage.local import LocalStore
from tests.unit.log.building import add, create, load, paths
from tests.unit.log.building import commit as written_by_others

WRITERS = 8


def append(name: str) -> Proposal:
    return Proposal("WRITE", [AddFile(name, {}, 10, 5)])


def test_threads_that_begin_together_lose_one_race_at_most(tmp_path: Path) -> None:
    """One that comes when others have just ended tries their version, follows them, and has its turn."""
    read = load(create(tmp_path))
    together = threading.Barrier(WRITERS)

    def write(number: int) -> int:
        together.wait()
        return commit(read, append(f"{number}")).attempts

    with ThreadPoolExecutor(WRITERS) as pool:
        assert max(pool.map(write, range(WRITERS))) <= 2
    assert paths(load(LocalStore(str(tmp_path)))) == sorted(map(str, range(WRITERS)))


def test_a_thread_that_has_waited_follows_before_it_tries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, begun, real = load(create(tmp_path)), threading.Event(), transaction.in_turn

    def in_turn_told(url: str) -> AbstractContextManager[tuple[Turn, bool]]:
        begun.set()
        return real(url)

    with ThreadPoolExecutor(1) as pool, in_turn(read.store.url):
        commit(read, append("a"))
        monkeypatch.setattr(transaction, "in_turn", in_turn_told)
        waiting = pool.submit(commit, read, append("b"))
        assert begun.wait(30)
        time.sleep(0.3)
    assert (waiting.result().attempts, waiting.result().version) == (1, 2)


def test_a_thread_that_waits_too_long_races_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = load(create(tmp_path))
    monkeypatch.setattr(turns, "_MOST_SECONDS", 0.05)
    hangs, goes = threading.Event(), threading.Event()

    def hang() -> None:
        with in_turn(read.store.url):
            hangs.set()
            goes.wait(20)

    with ThreadPoolExecutor(1) as pool:
        hanging = pool.submit(hang)
        hangs.wait(30)
        assert commit(read, append("a")).version == 1
        assert not hanging.done()
        goes.set()
        hanging.result()


def test_a_commit_may_commit_within() -> None:
    with in_turn("u") as (turn, first), in_turn("u") as (same, second):
        assert (first, second) == (False, False)
        assert same is turn


def test_commits_are_kept_for_those_who_follow_but_no_others_of_their_names(tmp_path: Path) -> None:
    read = load(create(tmp_path))
    with in_turn(read.store.url) as (turn, _):
        done = commit(read, append("a"))
        (info,) = commits_after(read.store, 0)
        kept = turn.commit_of(read.store, info)
        assert turn.commit_of(read.store, info) is kept
        assert turn.after(read, kept) is done.snapshot
        elsewhere = replace(read, store=LocalStore(str(tmp_path)))
        assert turn.after(elsewhere, kept).store is elsewhere.store
        written_by_others(tmp_path, 1, add("b"))
        (other,) = commits_after(read.store, 0)
        assert turn.commit_of(read.store, other).adds["path"].to_pylist() == ["b"]
        assert paths(turn.after(read, turn.commit_of(read.store, other))) == ["b"]


def test_few_commits_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "KEPT", 2)
    read = load(create(tmp_path))
    with in_turn(read.store.url) as (turn, _):
        for name in "abc":
            commit(read, append(name))
        assert sorted(turn._kept) == [2, 3]


def test_tables_do_not_wait_for_each_other_and_are_forgotten() -> None:
    with in_turn("one"):
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(_waits_for, "other").result() is False
        assert "one" in turns._turns
    assert not {"one", "other"} & set(turns._turns)


def _waits_for(url: str) -> bool:
    with in_turn(url) as (_, waited):
        return waited


@pytest.fixture
def of_both(tmp_path: Path) -> tuple[Snapshot, Snapshot]:
    """What a transaction has read of a table that was then deleted, and what another has read of the one made anew at its path,
    into which a third one has committed since.
    """
    store = create(tmp_path, add("old"))
    of_old = load(store)
    create(tmp_path, add("new"), id="7d5f6a52-0000-4000-8000-000000000000")
    of_new = load(store)
    written_by_others(tmp_path, 1, add("x"))
    return of_old, of_new


def test_a_version_is_not_taken_from_who_has_read_another_table_at_the_same_path(of_both: tuple[Snapshot, Snapshot]) -> None:
    of_old, of_new = of_both
    with in_turn(of_new.store.url) as (turn, _):
        (info,) = commits_after(of_new.store, 0)
        turn.after(of_old, turn.commit_of(of_old.store, info))
        found = turn.after(of_new, turn.commit_of(of_new.store, info))
    assert paths(found) == ["new", "x"]
    assert found.metadata.id.startswith("7d5f")


def test_a_commit_follows_the_version_that_it_has_read(of_both: tuple[Snapshot, Snapshot]) -> None:
    of_old, of_new = of_both
    with in_turn(of_new.store.url):
        with pytest.raises(MetadataChangedError, match="DELTAMERGE_TABLE_REPLACED"):
            commit(of_old, append("a"))
        done = commit(of_new, append("b")).snapshot
    assert paths(done) == paths(load(of_new.store)) == ["b", "new", "x"]
