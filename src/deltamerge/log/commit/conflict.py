"""May a transaction be placed after a commit that won? The rules of optimistic concurrency.

Source: delta-spark's ConflictChecker and IsolationLevel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np
import pyarrow as pa

from deltamerge.errors import (
    ConcurrentAppendError,
    ConcurrentDeleteDeleteError,
    ConcurrentDeleteReadError,
    ConcurrentModificationError,
    ConcurrentTransactionError,
    MetadataChangedError,
    ProtocolChangedError,
)
from deltamerge.log.commit.row_ids import ROW_TRACKING
from deltamerge.log.replay.commit_file import CommitFile
from deltamerge.log.replay.files import FileSet, Mask, file_keys
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.protocol.table.actions import AddFile, DeletionVector, Metadata, Protocol
from deltamerge.protocol.table.features import FEATURES, named_features
from deltamerge.protocol.table.row_tracking import COLUMN_NAMES, ONLY_TRACKS, TRACKING

_RUN_AGAIN = "Run the operation again: it will read the new version."
READ_AGAIN = "Read the table again, and write what you make of it: a DataFrame keeps the version that it was made of."


class Isolation(Enum):
    """How strictly a transaction is placed, strictest first."""

    SERIALIZABLE = "Serializable"
    WRITE_SERIALIZABLE = "WriteSerializable"
    SNAPSHOT = "SnapshotIsolation"


@dataclass(frozen=True)
class FrameRead:
    """What frames have read of a `version` of a table, which they do not read anew when an operation runs again.

    `has_read` says of files, as a commit adds or removes them, whether rows of some of them may be among what was read, given a
    snapshot with the table's columns.
    """

    version: int
    has_read: Callable[[pa.Table, Snapshot], bool]


@dataclass(frozen=True)
class ReadSet:
    """What a transaction has read: the identities of files, and which other files it would have read.

    `would_read` gives a mask over a FileSet; None means that nothing was read, so that nothing new could have been.
    `whole_table` says that the table was read without any predicate. `frame` is what frames have read, of which it has rows.
    `would_find` says of a file that was read, and of another vector of it, whether this deletes in addition a row without which
    the transaction may do otherwise, as it has found the row and left it as it is; None where nothing is known of rows.
    `finds_same` says of a commit, and of the files that were read, whether the transaction would find the same rows after it.
    """

    keys: frozenset[str] = frozenset()
    would_read: Callable[[FileSet], Mask] | None = None
    whole_table: bool = False
    app_ids: frozenset[str] = frozenset()
    frame: FrameRead | None = None
    would_find: Callable[[AddFile, DeletionVector], bool] | None = None
    finds_same: Callable[[CommitFile, frozenset[str]], bool] | None = None

    @property
    def is_blind(self) -> bool:
        """Whether no data was read."""
        return self.would_read is None and not self.keys and self.frame is None


def everything(files: FileSet) -> Mask:
    """All files."""
    return np.ones(len(files), np.bool_)


def check_conflict(
    read: ReadSet,
    removed: frozenset[str],
    isolation: Isolation,
    winner: CommitFile,
    *,
    table: str,
    protocol: Protocol,
    metadata: Metadata,
    changes_metadata: bool = False,
    changes_protocol: bool = False,
    domains: frozenset[str] = frozenset(),
) -> None:
    """Return when a transaction that read `read` and removes `removed` may follow `winner`; else raise.

    `protocol` and `metadata` are those in force before `winner`; `domains` names the metadata domains that the
    transaction changes.

    Raises a subclass of ConcurrentModificationError, which names the table, the winner's version and its operation.
    """
    hint = _RUN_AGAIN if read.frame is None else READ_AGAIN
    if winner.protocol is not None and (changes_protocol or not _only_allows_more(winner.protocol, protocol, metadata)):
        raise conflict(ProtocolChangedError, "DELTA_PROTOCOL_CHANGED", table, winner, "changed the protocol")
    if winner.metadata is not None and (changes_metadata or not _allows_more(winner, winner.metadata, metadata)):
        raise conflict(MetadataChangedError, "DELTA_METADATA_CHANGED", table, winner, "changed the metadata")
    if any(txn.app_id in read.app_ids for txn in winner.txns):
        cause = "committed for the same application id"
        raise conflict(ConcurrentTransactionError, "DELTA_CONCURRENT_TRANSACTION", table, winner, cause)
    shared = sorted({d.domain for d in winner.domains} & domains - {ROW_TRACKING})
    if shared:
        cause = f"changed the metadata domain {', '.join(shared)}"
        raise conflict(ConcurrentTransactionError, "DELTA_CONCURRENT_TRANSACTION", table, winner, cause)
    if winner.adds.num_rows and read.would_read and sees_appends(isolation, winner, changes_metadata):
        added = FileSet.of(_without(winner.adds, read.keys))
        if read.whole_table or read.would_read(added).any():
            cause = "added data that this transaction would have read"
            raise conflict(ConcurrentAppendError, "DELTA_CONCURRENT_APPEND", table, winner, cause, hint)
    gone = frozenset(winner.removed_keys)
    if gone & read.keys or (gone and read.whole_table):
        cause = "deleted data that this transaction read"
        raise conflict(ConcurrentDeleteReadError, "DELTA_CONCURRENT_DELETE_READ", table, winner, cause, hint)
    if gone & removed:
        cause = "deleted data that this transaction deletes too"
        raise conflict(ConcurrentDeleteDeleteError, "DELTA_CONCURRENT_DELETE_DELETE", table, winner, cause)


_OF_DATA = (ConcurrentAppendError, ConcurrentDeleteReadError, ConcurrentDeleteDeleteError)


def keeps_rows(read: ReadSet, winner: CommitFile, error: ConcurrentModificationError) -> bool:
    """Whether a winner that a transaction can't follow has left all rows that it looks for as they are, in other files maybe."""
    if not isinstance(error, _OF_DATA):
        return False
    return not winner.data_change or (read.finds_same is not None and read.finds_same(winner, read.keys))


def having_read(read: ReadSet, moved: CommitFile) -> ReadSet:
    """What a transaction has read when the rows of files that it has read were moved to others: these, whole."""
    return replace(read, keys=read.keys | frozenset(file_keys(moved.adds).to_pylist()), would_find=None)


def _without(files: pa.Table, keys: frozenset[str]) -> pa.Table:
    """The files but for those of `keys`, which are no news to who has read them."""
    names = file_keys(files).to_pylist()
    return files if keys.isdisjoint(names) else files.filter(pa.array([name not in keys for name in names]))


def _only_allows_more(protocol: Protocol, before: Protocol, metadata: Metadata) -> bool:
    """Whether a protocol adds to another one only features that ask nothing of a transaction made without them.

    Most ask something only of tables whose metadata uses them, and metadata that changed is a conflict by itself. Row ids
    and in-commit timestamps are given to a commit when it is tried, by the protocol that is then in force.
    """
    names, known = named_features(protocol), named_features(before)
    return known <= names and not any(_binds(name, metadata) for name in names - known)


def _allows_more(winner: CommitFile, metadata: Metadata, before: Metadata) -> bool:
    """Whether the metadata that a winner set are those before it, or says only that rows are tracked from now on.

    A transaction that was made without it gives its rows ids when it is tried, none of which they had before, and says so.
    Source: delta-spark's RowTracking.canResolveMetadataUpdateConflict.
    """
    was, now = before.configuration, metadata.configuration
    changed = {key for key in (*was, *now) if was.get(key) != now.get(key)}
    tags = winner.info.get("tags")
    if not isinstance(tags, dict) or tags.get(ONLY_TRACKS) != "true" or changed & was.keys() & {*COLUMN_NAMES}:
        return metadata == before
    return changed <= {TRACKING, *COLUMN_NAMES} and replace(metadata, configuration=was) == before


def _binds(name: str, metadata: Metadata) -> bool:
    feature = FEATURES.get(name)
    return feature is None or (not feature.concurrent and feature.active(metadata))


def sees_appends(isolation: Isolation, winner: CommitFile, changes_metadata: bool) -> bool:
    """Whether files that `winner` added count as data that the transaction missed.

    Rows that were only moved come from removed files: those that were read conflict as deleted, the others hold no row
    that the transaction looks for.
    """
    if isolation is Isolation.SNAPSHOT or not winner.data_change:
        return False
    return not winner.is_blind_append or isolation is not Isolation.WRITE_SERIALIZABLE or changes_metadata


def conflict(
    kind: type[ConcurrentModificationError],
    condition: str,
    table: str,
    winner: CommitFile,
    cause: str,
    hint: str = _RUN_AGAIN,
) -> ConcurrentModificationError:
    """The error of a transaction that can't follow `winner`; one that has to read again does not run again by itself."""
    operation = winner.info.get("operation", "transaction")
    error = kind(
        condition,
        f"Transaction conflict: a concurrent {operation} {cause}; it committed version {winner.version} of {table}.",
        parameters={"tableName": table, "version": winner.version, "operation": operation},
        hint=hint,
    )
    return to_read_again(error) if hint == READ_AGAIN else error


def to_read_again(error: ConcurrentModificationError) -> ConcurrentModificationError:
    """The error as one after which a merge does not run again by itself: its rows would be the same."""
    error.runs_again = False
    return error
