"""Rows that were read from an older version of a table may be written into it only where nothing was committed that they miss."""

from __future__ import annotations

from deltamerge.errors import ConcurrentAppendError, ConcurrentDeleteReadError, ConcurrentWriteError, CorruptTableError
from deltamerge.log.commit.conflict import READ_AGAIN, FrameRead, conflict, to_read_again
from deltamerge.log.replay.commit_file import CommitFile, has_vanished, read_commits
from deltamerge.log.replay.segment import all_commits, commit_version
from deltamerge.log.replay.snapshot import Snapshot


def check_unread(snapshot: Snapshot, read: FrameRead | None) -> None:
    """Raise a ConcurrentModificationError where data that frames have read was changed between their version and the snapshot."""
    if read is None or read.version >= snapshot.version:
        return
    winners = _since(snapshot, read.version)
    if any(winner.metadata is not None for winner in winners):  # columns may have had other names
        read = FrameRead(read.version, lambda *_: True)
    for winner in winners:
        check_frame(read, winner, snapshot)


def check_frame(read: FrameRead | None, winner: CommitFile, snapshot: Snapshot, sees_appends: bool = True) -> None:
    """Raise a ConcurrentModificationError where a commit has changed data that frames have read of a table with these columns.

    Rows that were only moved, and metadata, are nothing that a frame has missed.
    """
    if read is None or not winner.data_change:
        return
    since = f"data after version {read.version}, from which rows of this transaction were read"
    url = snapshot.store.url
    if sees_appends and read.has_read(winner.adds, snapshot):
        raise conflict(ConcurrentAppendError, "DELTA_CONCURRENT_APPEND", url, winner, f"added {since}", READ_AGAIN)
    if read.has_read(winner.removes, snapshot):
        raise conflict(ConcurrentDeleteReadError, "DELTA_CONCURRENT_DELETE_READ", url, winner, f"deleted {since}", READ_AGAIN)


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
    unknown = ConcurrentWriteError(
        "DELTA_CONCURRENT_WRITE",
        f"Rows of this transaction were read from version {version} of {store.url}. What was committed since can't be told: "
        "commits of it are no longer in the log.",
        parameters={"tableName": store.url, "version": version},
        hint=READ_AGAIN,
    )
    raise to_read_again(unknown)
