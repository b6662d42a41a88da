"""Commits of one process into one table, one after the other.

Threads that race each other for the next version do the work of all losers again: they look at the winners' rows, join and sync
their deletion vectors. One that waits follows those before it once. Other processes are raced as ever.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakValueDictionary

from deltamerge.log.replay.commit_file import CommitFile, read_commit
from deltamerge.log.replay.segment import commit_version
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.storage import ObjectInfo, Store

_MOST_SECONDS = 5.0  # after which a thread races the others: the store may hang for one of them
KEPT = 64
"""Commits that are not read again by each thread that follows them, and are looked at together."""


class Turn:
    """Who commits into a table, and what those who wait need not read anew; held by those who do, or wait for it."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._kept: OrderedDict[int, tuple[CommitFile, Snapshot, Snapshot]] = OrderedDict()

    def commit_of(self, store: Store, info: ObjectInfo) -> CommitFile:
        """The commit in a file. Raises CorruptTableError, StorageError."""
        found, *_ = self._kept.get(commit_version(info), (None,))
        return found if found is not None and found.file.etag and found.file == info else read_commit(store, info)

    def after(self, current: Snapshot, commit: CommitFile) -> Snapshot:
        """The version after `current` that `commit` made. Raises UnsupportedTableError."""
        found, before, after = self._kept.get(commit.version, (None, current, current))
        if found is not commit or not _is_same(before, current):
            after = current.advance(commit)
            self.keep(commit, current, after)
        return after

    def keep(self, commit: CommitFile, before: Snapshot, after: Snapshot) -> None:
        """Keep a commit, and the versions before it and after it, for those who follow it."""
        self._kept[commit.version] = commit, before, after
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)


def _is_same(kept: Snapshot, current: Snapshot) -> bool:
    """Whether both are one version of one table: another one may have been made at its path since."""
    if kept.store is not current.store or kept.metadata.id != current.metadata.id:
        return False
    return kept is current or (kept.tip is not None and current.tip is not None and kept.tip.etag == current.tip.etag != "")


_turns: WeakValueDictionary[str, Turn] = WeakValueDictionary()
_turns_lock = threading.Lock()


@contextmanager
def in_turn(url: str) -> Iterator[tuple[Turn, bool]]:
    """Within, no other thread of this process commits into the table of that URL, unless it has waited too long. Gives what is
    kept of the commits before, and whether this thread has waited, so that there are such commits.
    """
    with _turns_lock:
        turn = _turns.get(url) or Turn()
        _turns[url] = turn
    waited = not turn.lock.acquire(blocking=False)
    is_ours = not waited or turn.lock.acquire(timeout=_MOST_SECONDS)
    try:
        yield turn, waited
    finally:
        if is_ours:
            turn.lock.release()
