"""A table's log, with its newest snapshot kept and caught up by the commits since.

The only mutable thing in this layer; safe to share between threads.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping

from deltamerge.errors import CorruptTableError, TableNotFoundError
from deltamerge.log.replay.commit_file import CommitFile, has_vanished, read_commit
from deltamerge.log.replay.commit_times import ordered_times, version_at
from deltamerge.log.replay.load import differences_of, load
from deltamerge.log.replay.segment import all_commits, checksum_name, commit_version, find_segment, is_commit, log_files
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.storage import ObjectInfo, Store, open_store

_KEPT = 64
_logs: OrderedDict[tuple[object, ...], DeltaLog] = OrderedDict()
_logs_lock = threading.Lock()


class DeltaLog:
    """The transaction log of one table."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._newest: Snapshot | None = None
        self._lock = threading.Lock()

    def snapshot(self, version: int | None = None, timestamp: int | None = None) -> Snapshot:
        """The given version, or the newest at a time in ms; the newest one when neither is given.

        Raises TableNotFoundError, AnalysisError for a version or time that the table doesn't have, CorruptTableError.
        """
        if timestamp is not None:
            version = version_at(self.snapshot(), timestamp)
        newest = self._newest
        if version is not None:
            if newest is not None and newest.version == version:
                return newest
            return load(self.store, version)
        with self._lock:
            self._newest = self._caught_up() or load(self.store)
            return self._newest

    def exists(self) -> bool:
        """Whether there is a Delta table, a damaged one included. Lists the log, and reads no commit and no checkpoint."""
        try:
            find_segment(self.store)
        except TableNotFoundError:
            return False
        except CorruptTableError:
            return True
        return True

    def remember(self, snapshot: Snapshot) -> None:
        """Keep a snapshot that a commit made, so that the next reader need not replay it."""
        with self._lock:
            if self._newest is None or self._newest.version < snapshot.version:
                self._newest = snapshot

    def commits(self, limit: int | None = None) -> list[CommitFile]:
        """The commits that are still in the log, newest first; one that clean-up deletes meanwhile is no longer there."""
        find_segment(self.store)
        newest_first = ordered_times(all_commits(self.store))[::-1]
        return [commit for info in newest_first[:limit] if (commit := self._commit(info)) is not None]

    def _commit(self, info: ObjectInfo) -> CommitFile | None:
        try:
            return read_commit(self.store, info)
        except CorruptTableError as error:
            if not has_vanished(error):
                raise
            return None

    def _caught_up(self) -> Snapshot | None:
        """The kept snapshot with newer commits applied; None when it must be loaded anew."""
        kept = self._newest
        if kept is None or kept.tip is None or kept.contradicted:
            return None
        files = log_files(self.store, kept.version)
        listed = {commit_version(info): info for info in files if is_commit(info)}
        tip = listed.pop(kept.version, None)
        if tip is None or tip.etag != kept.tip.etag:
            return None
        for version in range(kept.version + 1, kept.version + 1 + len(listed)):
            commit = self._commit(listed[version]) if version in listed else None
            if commit is None:
                return None
            kept = kept.advance(commit)
        checksum = next((info for info in files if info.name == checksum_name(kept.version)), None) if listed else None
        return None if differences_of(self.store, checksum, kept) else kept


def open_log(location: str, options: Mapping[str, str] | None = None, settings: Mapping[str, str] | None = None) -> DeltaLog:
    """The log of the table at `location`, opened as `open_store` does; the same object for the same place and credentials, so
    that snapshots are shared.
    """
    store = open_store(location, options, settings)
    key = (store.url, *(frozenset((source or {}).items()) for source in (options, settings, store.spec.options)))
    with _logs_lock:
        found = _logs.setdefault(key, DeltaLog(store))
        _logs.move_to_end(key)
        while len(_logs) > _KEPT:
            _logs.popitem(last=False)
        return found
