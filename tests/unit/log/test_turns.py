"""Commits of one process into one table come one after the other, and none waits for ever."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from deltamerge.log import turns
from deltamerge.log.commit.transaction import Proposal, commit
from deltamerge.log.replay.segment import commits_after
from deltamerge.log.turns import in_turn
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


def test_a_thread_that_waits_too_long_races_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = load(create(tmp_path))
    monkeypatch.setattr(turns, "_MOST_SECONDS", 0.05)
    hangs, goes = threading.Event(), threading.Event()

    def hang() -> None:
        with in_turn(read.store.url):
            hangs.set()
            goes.wait(30)

    with ThreadPoolExecutor(1) as pool:
        hanging = pool.submit(hang)
        hangs.wait(30)
        assert commit(read, append("a")).version == 1
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
    monkeypatch.setattr(turns, "_KEPT", 2)
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


def test_a_version_is_not_taken_from_who_has_read_another_table_at_the_same_path(tmp_path: Path) -> None:
    """A table was deleted and made anew, while a transaction on the old one was open."""
    store = create(tmp_path, add("old"))
    of_old = load(store)
    create(tmp_path, add("new"), id="7d5f6a52-0000-4000-8000-000000000000")
    of_new = load(store)
    written_by_others(tmp_path, 1, add("x"))
    with in_turn(store.url) as (turn, _):
        (info,) = commits_after(store, 0)
        turn.after(of_old, turn.commit_of(store, info))
        found = turn.after(of_new, turn.commit_of(store, info))
        assert paths(found) == ["new", "x"]
        assert found.metadata.id.startswith("7d5f")


def test_a_commit_follows_the_version_that_it_has_read(tmp_path: Path) -> None:
    store = create(tmp_path, add("old"))
    of_old = load(store)
    create(tmp_path, add("new"), id="7d5f6a52-0000-4000-8000-000000000000")
    of_new = load(store)
    written_by_others(tmp_path, 1, add("x"))
    with in_turn(store.url):
        commit(of_old, append("a"))
        done = commit(of_new, append("b")).snapshot
    assert paths(done) == paths(load(store)) == ["a", "b", "new", "x"]
