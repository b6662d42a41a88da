"""What reads the log while log clean-up deletes commits: what was listed may be gone when it is read."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from deltamerge.errors import AnalysisError, CorruptTableError
from deltamerge.log.commit.upkeep import checkpoint
from deltamerge.log.feed.feed import feed_of
from deltamerge.log.feed.range import FeedBounds
from deltamerge.log.replay.commit_times import version_at
from deltamerge.log.replay.table import DeltaLog
from deltamerge.storage.local import LocalStore
from tests.unit.log.building import add, commit, delete_commits, info, load, metadata, paths

PROTOCOL = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["changeDataFeed", "inCommitTimestamp"]}}
PROPERTIES = {"delta.enableChangeDataFeed": "true", "delta.enableInCommitTimestamps": "true"}


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    """A table of versions 0 to 3 with a checkpoint of version 2."""
    commit(tmp_path, 0, info(inCommitTimestamp=0), PROTOCOL, metadata(properties=PROPERTIES))
    for version in range(1, 4):
        commit(tmp_path, version, info(inCommitTimestamp=1000 * version), add(f"f{version}"))
    store = LocalStore(str(tmp_path))
    checkpoint(load(store, 2))
    return store


def before_the_next_read(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], None]) -> None:
    """Let something happen once, when a commit is about to be read."""
    real, lock, pending = LocalStore.read, threading.Lock(), [happens]

    def read(store: LocalStore, name: str) -> bytes:
        with lock:
            if pending and name.endswith(".json"):
                pending.pop()()
        return real(store, name)

    monkeypatch.setattr(LocalStore, "read", read)


def test_a_version_is_loaded_from_what_is_left(store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint, hidden = tmp_path / "_delta_log" / f"{2:020d}.checkpoint.parquet", tmp_path / "hidden"
    checkpoint.rename(hidden)
    (tmp_path / "_delta_log" / "_last_checkpoint").unlink()

    def checkpoint_and_delete() -> None:
        hidden.rename(checkpoint)
        delete_commits(tmp_path, 2)

    before_the_next_read(monkeypatch, checkpoint_and_delete)
    snapshot = DeltaLog(store).snapshot()
    assert (snapshot.version, snapshot.checkpoint_version, paths(snapshot)) == (3, 2, ["f1", "f2", "f3"])


def test_the_history_is_what_is_left(store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before_the_next_read(monkeypatch, lambda: delete_commits(tmp_path, 2))
    assert [found.version for found in DeltaLog(store).commits()] == [3, 2]


def test_a_time_is_looked_up_in_what_is_left(store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    newest = load(store)
    before_the_next_read(monkeypatch, lambda: delete_commits(tmp_path, 2))
    with pytest.raises(AnalysisError, match="before the earliest version"):
        version_at(newest, 1500)
    assert version_at(newest, 2500) == 2


def test_the_feed_names_the_version_that_is_gone(store: LocalStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = DeltaLog(store)
    newest = log.snapshot()
    monkeypatch.setattr(log, "snapshot", lambda _=None: newest)
    before_the_next_read(monkeypatch, lambda: delete_commits(tmp_path, 2))
    with pytest.raises(CorruptTableError) as caught:
        feed_of(log, FeedBounds(1))
    assert caught.value.condition == "DELTA_VERSIONS_NOT_CONTIGUOUS"
