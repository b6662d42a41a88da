"""Commits: put-if-absent of the next version, with conflict checks against whoever came first.

Source: PROTOCOL.md, "Delta Log Entries"; delta-spark's OptimisticTransaction.
"""

from __future__ import annotations

import contextlib
import logging
import random
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce

from deltamerge.errors import (
    CommitStateUnknownError,
    ConcurrentModificationError,
    ConcurrentWriteError,
    CorruptTableError,
    DeltaMergeError,
    InvalidArgumentError,
    StorageError,
    UnsupportedTableError,
)
from deltamerge.log.commit.attempt import commit_bytes
from deltamerge.log.commit.conflict import Isolation, ReadSet, check_conflict, having_read, keeps_rows, sees_appends
from deltamerge.log.commit.dv_files import placed
from deltamerge.log.commit.join import ReadVector, joined, vector_reader
from deltamerge.log.commit.proposal import Proposal
from deltamerge.log.commit.unread import check_frame
from deltamerge.log.replay.commit_file import CommitFile, parse_commit, read_commit
from deltamerge.log.replay.files import FileSet
from deltamerge.log.replay.load import check_in_place, check_sound
from deltamerge.log.replay.net import net_of
from deltamerge.log.replay.segment import LOG, commit_name, commits_after
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.log.turns import KEPT, Turn, in_turn
from deltamerge.progress.operation import committing
from deltamerge.protocol.table.actions import AddFile, Metadata, Protocol, RemoveFile
from deltamerge.protocol.table.deletion_vector import vector_reference
from deltamerge.protocol.table.features import check_writable
from deltamerge.storage import UNSYNCED, AlreadyExists, ObjectInfo, Store, not_synced

__all__ = ["Committed", "Proposal", "check_removable", "commit", "delete_quietly"]

log = logging.getLogger("deltamerge.log")

_ATTEMPTS = 1_000
# So often in a row the next name may be taken, and yet no commit be listed: a listing may be late.
_UNREAD_ATTEMPTS = 50


@dataclass(frozen=True)
class Committed:
    """A version that was made: the snapshot after it, how often the commit was tried, and the metrics that history has of it."""

    snapshot: Snapshot
    attempts: int
    metrics: Mapping[str, int] = field(default_factory=dict)

    @property
    def version(self) -> int:
        """The version that was made."""
        return self.snapshot.version


def commit(read: Snapshot, proposal: Proposal) -> Committed:
    """Commit `proposal`, which was made on `read`, at the first version where it may stand.

    The files that it adds are written, and on a disk synced, by those who made them; their folders are synced here, before.
    The deletion vectors of marked files are written here: where a winner has marked other rows of them, they are joined.
    Raises a ConcurrentModificationError when a commit that came first conflicts, or when another table is at the path by now;
    StorageError when the store refuses, or when what is no commit has the next version's name. The table is then as it was; so it
    is when CorruptTableError tells that `read` contradicts its checksum. Raises CommitStateUnknownError when the store failed and
    does not tell what became of the commit.
    """
    check_sound(read)
    _check_append_only(read, proposal)
    read.store.sync(proposal.new_folders)
    isolation = _isolation(read, proposal)
    txn_id = str(uuid.uuid4())
    current, vectors, read_vector = read, list[str](), vector_reader(read.store)
    with discarding(read, vectors), in_turn(read.store.url) as (turn, waited):
        follow = partial(_follow, turn, isolation, read_vector)
        if waited:
            current, proposal = follow(current, proposal)
        unread = 0
        for attempt in range(1, _ATTEMPTS + 1):
            proposal = _with_vectors(read, proposal, vectors)
            try:
                data = commit_bytes(proposal, read, current, isolation, int(time.time() * 1000), txn_id)
            except UnicodeEncodeError as error:
                raise _unreadable(current, str(error)) from error
            made, after = _read_back(current, data)
            check_in_place(current)
            with committing() as note:
                file = _put(current, data, txn_id)
                if file is not None:
                    note(after.version)
            if file is not None:
                after = after.of_file(file)
                turn.keep(replace(made, file=file), current, after)
                return Committed(after, attempt, proposal.metrics)
            log.info("version %d of %s was taken, checking it for conflicts", current.version + 1, read.store.url)
            before = current
            current, proposal = follow(before, proposal)
            unread = unread + 1 if current is before else 0
            if unread >= _UNREAD_ATTEMPTS and read.store.info(commit_name(before.version + 1)) is None:
                raise _no_commit(before)
            time.sleep(random.uniform(0, 0.01) * min(attempt, 10))
        raise ConcurrentWriteError(
            "DELTA_CONCURRENT_WRITE",
            f"Gave up after {_ATTEMPTS} attempts: each next version of {read.store.url} was taken by another writer.",
            parameters={"tableName": read.store.url, "attempts": _ATTEMPTS},
            hint="Run the operation again when fewer writers are active.",
        )


def _with_vectors(read: Snapshot, proposal: Proposal, written: list[str]) -> Proposal:
    """The proposal with each deletion vector in its place. `written` names the files of these: new ones are added, and those
    that no vector is in any more, because it was joined with a winner's, are deleted.
    """
    marked, names = placed(read.store, proposal.marked)
    if not names:
        return proposal
    written += names
    used = {vector_reference(mark.place, mark.file.path) for mark in marked if mark.place is not None}
    delete_quietly(read, [name for name in written if name not in used])
    written[:] = [name for name in written if name in used]
    return replace(proposal, marked=marked)


def _read_back(current: Snapshot, data: bytes) -> tuple[CommitFile, Snapshot]:
    """A commit and the version that it makes, read from its bytes before they are written: no error may come after.

    Raises InvalidArgumentError for a commit that nobody could read, UnsupportedTableError for one after which the table can't be.
    """
    file = ObjectInfo(commit_name(current.version + 1), len(data), 0, "")
    try:
        made = parse_commit(data, file, current.store)
        return made, current.advance(made)
    except CorruptTableError as error:
        raise _unreadable(current, error.detail) from error


def _unreadable(current: Snapshot, cause: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        "DELTAMERGE_UNREADABLE_COMMIT",
        f"Nobody could read this commit of {current.store.url}. Nothing was committed. {cause}",
        parameters={"tableName": current.store.url, "version": current.version + 1},
        hint="Shorten the texts of the conditions, pass long lists of values as a table, and leave out what is no Unicode.",
    )


def _put(current: Snapshot, data: bytes, txn_id: str) -> ObjectInfo | None:
    """Write the version after `current`; None when another transaction has taken it.

    A store may report a failure, or that the name is taken, although the write went through: whose commit it is, its transaction
    id tells. A commit of another transaction says that this one is not there and never will be. Raises CommitStateUnknownError
    where that can't be read, where the store leaves it open and nothing is there yet, and where a disk does not say that it keeps
    what was written.
    """
    store, name = current.store, commit_name(current.version + 1)
    failure: StorageError | None = None
    try:
        made = store.put_if_absent(name, data)
    except AlreadyExists:
        pass
    except StorageError as error:
        if error.condition == UNSYNCED:
            raise
        failure = error
    else:
        if current.version < 0:
            _keep_folders(store, name)
        return made
    try:
        info = store.info(name)
        found = None if info is None else read_commit(store, info)
    except StorageError as unread:
        raise _unknown(current, failure or unread) from unread
    except CorruptTableError as unread:
        if failure is None:
            raise
        raise _unknown(current, failure) from unread
    if found is None and failure is not None:
        raise failure
    if found is None or found.info.get("txnId") != txn_id:
        return None
    _keep_folders(store, name, above=current.version < 0)
    return found.file


def _keep_folders(store: Store, name: str, above: bool = True) -> None:
    """Sync the folders of a commit, where who made them, or its name in them, may not have done so yet.

    Raises CommitStateUnknownError.
    """
    try:
        store.sync([LOG], above=above)
    except StorageError as error:
        raise not_synced(f"{store.url}/{name}", error.detail) from error


def _follow(
    turn: Turn, isolation: Isolation, read_vector: ReadVector, current: Snapshot, proposal: Proposal
) -> tuple[Snapshot, Proposal]:
    """The newest snapshot, every commit on the way checked for conflicts with the proposal, and the proposal as it follows it.

    Several commits are first checked as the one that `net_of` makes of them. Where the proposal can't follow that one, or
    there is none, each commit is checked by itself.
    """
    check_in_place(current)
    files = commits_after(current.store, current.version)
    winners: Iterable[CommitFile] = (turn.commit_of(current.store, info) for info in files)
    if 2 <= len(files) <= KEPT and isolation is not Isolation.SNAPSHOT and not proposal.renames:
        winners = list(winners)
        net = net_of(winners)
        if net is not None:
            with contextlib.suppress(ConcurrentModificationError):
                return reduce(turn.after, winners, current), _checked(proposal, isolation, read_vector, [(current, net)])
    passed = _Passed(turn, current, winners)
    proposal = _checked(proposal, isolation, read_vector, passed)
    return passed.newest, proposal


class _Passed:
    """Commits in a row, each with the version before it; `newest` is the version after those that were passed."""

    def __init__(self, turn: Turn, current: Snapshot, winners: Iterable[CommitFile]) -> None:
        self.newest, self._turn, self._winners = current, turn, winners

    def __iter__(self) -> Iterator[tuple[Snapshot, CommitFile]]:
        for winner in self._winners:
            yield self.newest, winner
            self.newest = self._turn.after(self.newest, winner)


def _checked(
    proposal: Proposal, isolation: Isolation, read_vector: ReadVector, passed: Iterable[tuple[Snapshot, CommitFile]]
) -> Proposal:
    """The proposal as it follows commits, each with the version before it. Raises a ConcurrentModificationError."""
    moved: ConcurrentModificationError | None = None
    unseen: list[CommitFile] = []
    for before, winner in passed:
        read, sees = proposal.read, sees_appends(isolation, winner, proposal.has(Metadata))
        follower = joined(proposal, winner, read_vector)
        # Once joined it comes after the winner, and can't come before an append that it has not seen and the winner has.
        if follower is not proposal and not any(_would_read(read, append) for append in unseen):
            proposal = follower
        if winner.data_change and not sees:
            unseen.append(winner)
        try:
            check_conflict(
                proposal.read,
                proposal.removed_keys,
                isolation,
                winner,
                table=before.store.url,
                protocol=before.protocol,
                metadata=before.metadata,
                changes_metadata=proposal.has(Metadata),
                changes_protocol=proposal.has(Protocol),
                domains=proposal.domains,
            )
        except ConcurrentModificationError as error:
            if not keeps_rows(read, winner, error):
                raise
            # Whether the transaction may begin anew is up to the commits that follow.
            moved, proposal = moved or error, replace(proposal, read=having_read(proposal.read, winner))
        check_frame(proposal.read.frame, winner, before, sees)
        proposal = proposal.after(winner)
        if winner.protocol is not None:
            check_writable(winner.protocol, winner.metadata or before.metadata, before.store.url)
        followed = winner.version
    if moved is not None:
        moved.followed = followed
        raise moved
    return proposal


def _would_read(read: ReadSet, winner: CommitFile) -> bool:
    return bool(winner.adds.num_rows) and read.would_read is not None and bool(read.would_read(FileSet.of(winner.adds)).any())


def _no_commit(current: Snapshot) -> StorageError:
    name = commit_name(current.version + 1)
    return StorageError(
        "DELTAMERGE_COMMIT_NAME_TAKEN",
        f"{current.store.url}/{name} is there, but it is no file that can be read as a commit.",
        parameters={"tableName": current.store.url, "file": name},
        hint="Look what it is, such as a folder or a link to nothing, and remove it. The table is as it was.",
    )


def _unknown(current: Snapshot, error: StorageError) -> CommitStateUnknownError:
    version = current.version + 1
    return CommitStateUnknownError(
        "DELTAMERGE_COMMIT_STATE_UNKNOWN",
        f"It is not known whether version {version} of {current.store.url} was committed: {error.detail}",
        parameters={"tableName": current.store.url, "version": version},
        hint="When the store answers again, look at DeltaTable.history() before running the operation again.",
    )


def _isolation(read: Snapshot, proposal: Proposal) -> Isolation:
    files = [a for a in proposal.actions if isinstance(a, AddFile | RemoveFile)]
    if not proposal.marked and (not proposal.actions or (files and not any(a.data_change for a in files))):
        return Isolation.SNAPSHOT
    level = read.properties.values.get("delta.isolationLevel", "Serializable")
    return Isolation.WRITE_SERIALIZABLE if level.lower() == "writeserializable" else Isolation.SERIALIZABLE


def _check_append_only(read: Snapshot, proposal: Proposal) -> None:
    removes = any(isinstance(a, RemoveFile) and a.data_change for a in proposal.actions)
    if (removes or proposal.marked) and not proposal.restores:
        check_removable(read)


def check_removable(read: Snapshot) -> None:
    """Raise UnsupportedTableError for a table whose rows must stay."""
    if read.properties.append_only:
        raise UnsupportedTableError(
            "DELTA_CANNOT_MODIFY_APPEND_ONLY",
            f"The table {read.store.url} only allows appends.",
            parameters={"table_name": read.store.url, "config": "delta.appendOnly"},
            hint="To permit updates and deletes set the table property delta.appendOnly to false.",
        )


@contextlib.contextmanager
def discarding(read: Snapshot, names: Sequence[str]) -> Iterator[None]:
    """The files `names` are deleted when what is done within fails, unless the commit may have happened and so names them."""
    try:
        yield
    except CommitStateUnknownError:
        raise
    except DeltaMergeError:
        delete_quietly(read, names)
        raise


def delete_quietly(read: Snapshot, names: Sequence[str]) -> None:
    """Best-effort removal of data files that no commit names; what is left is an orphan for vacuum."""
    for name in names:
        try:
            read.store.delete(name)
        except (OSError, StorageError) as error:
            log.warning("could not delete the uncommitted file %s: %s", name, error)
