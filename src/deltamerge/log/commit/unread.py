"""Rows that were read from an older version of a table may be written into it only where nothing was committed that they miss."""

from __future__ import annotations

from deltamerge.errors import ConcurrentAppendError, ConcurrentDeleteReadError, ConcurrentWriteError, CorruptTableError
from deltamerge.log.commit.conflict import READ_AGAIN, conflict
from deltamerge.log.replay.commit_file import CommitFile, has_vanished, read_commits
from deltamerge.log.replay.segment import all_commits, commit_version
from deltamerge.log.replay.snapshot import Snapshot


def check_unread(snapshot: Snapshot, version: int | None) -> None:
    """Raise a ConcurrentModificationError where data was committed after `version`, up to the snapshot; None was not read.

    Rows that were only moved, and metadata, are nothing that a reader of `version` has missed.
    """
    if version is None or version >= snapshot.version:
        return
    for winner in _since(snapshot, version):
        if not winner.data_change:
            continue
        if winner.adds.num_rows:
            cause = f"added data after version {version}, from which rows of this transaction were read"
            raise conflict(ConcurrentAppendError, "DELTA_CONCURRENT_APPEND", snapshot.store.url, winner, cause, READ_AGAIN)
        cause = f"deleted data after version {version}, from which rows of this transaction were read"
        raise conflict(ConcurrentDeleteReadError, "DELTA_CONCURRENT_DELETE_READ", snapshot.store.url, winner, cause, READ_AGAIN)


def _since(snapshot: Snapshot, version: int) -> list[CommitFile]:
    """The commits after `version`, up to the snapshot. Raises ConcurrentWriteError where clean-up has deleted some of them."""
    store = snapshot.store
    found = [info for info in all_commits(store, version + 1) if commit_version(info) <= snapshot.version]
    try:
        if len(found) == snapshot.version - version:
            return read_commits(store, found)
    except CorruptTableError as error:
        if not has_vanished(error):
            raise
    raise ConcurrentWriteError(
        "DELTA_CONCURRENT_WRITE",
        f"Rows of this transaction were read from version {version} of {store.url}. What was committed since can't be told: "
        "commits of it are no longer in the log.",
        parameters={"tableName": store.url, "version": version},
        hint=READ_AGAIN,
    )
