"""Commits: put-if-absent of the next version, with conflict checks against whoever came first.

Source: PROTOCOL.md, "Delta Log Entries"; delta-spark's OptimisticTransaction.
"""

from __future__ import annotations

import logging
import random
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deltamerge._version import __version__
from deltamerge.errors import AnalysisError, ConcurrentWriteError, StorageError
from deltamerge.log.commit_file import parse_commit, read_commit
from deltamerge.log.conflict import Isolation, ReadSet, check_conflict
from deltamerge.log.segment import commit_name, commits_after
from deltamerge.log.snapshot import Snapshot
from deltamerge.protocol.actions import (
    Action,
    AddFile,
    CommitInfo,
    Metadata,
    Protocol,
    RemoveFile,
    action_line,
)
from deltamerge.storage import AlreadyExists

log = logging.getLogger("deltamerge.log")

_ATTEMPTS = 1_000


@dataclass(frozen=True)
class Proposal:
    """What a transaction wants to commit: its actions, what it read, and what history shall say of it."""

    operation: str
    actions: Sequence[Action]
    read: ReadSet = field(default_factory=ReadSet)
    parameters: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, int] = field(default_factory=dict)
    user_metadata: str | None = None
    engine: str = "deltamerge"

    @property
    def removed_keys(self) -> frozenset[str]:
        """Identities of the files that the transaction removes."""
        return frozenset(_key(a) for a in self.actions if isinstance(a, RemoveFile))

    def has(self, kind: type[Action]) -> bool:
        """Whether an action of this kind is proposed."""
        return any(isinstance(a, kind) for a in self.actions)


@dataclass(frozen=True)
class Committed:
    """A version that was made: the snapshot after it, and how often the commit was tried."""

    snapshot: Snapshot
    attempts: int

    @property
    def version(self) -> int:
        """The version that was made."""
        return self.snapshot.version


def commit(read: Snapshot, proposal: Proposal) -> Committed:
    """Commit `proposal`, which was made on `read`, at the first version where it may stand.

    Raises a ConcurrentModificationError when a commit that came first conflicts, StorageError when the store refuses;
    the table is then as it was.
    """
    _check_append_only(read, proposal)
    isolation = _isolation(read, proposal)
    current = read
    for attempt in range(1, _ATTEMPTS + 1):
        version = current.version + 1
        now = int(time.time() * 1000)
        data = _commit_bytes(proposal, read, isolation, now)
        try:
            info = read.store.put_if_absent(commit_name(version), data)
        except AlreadyExists:
            log.info("version %d of %s was taken, checking it for conflicts", version, read.store.url)
            current = _follow(current, proposal, isolation)
            time.sleep(random.uniform(0, 0.01) * min(attempt, 10))
            continue
        return Committed(current.advance(parse_commit(data, info, read.store)), attempt)
    raise ConcurrentWriteError(
        "DELTA_CONCURRENT_WRITE",
        f"Gave up after {_ATTEMPTS} attempts: each next version of {read.store.url} was taken by another writer.",
        parameters={"tableName": read.store.url, "attempts": _ATTEMPTS},
        hint="Run the operation again when fewer writers are active.",
    )


def _follow(current: Snapshot, proposal: Proposal, isolation: Isolation) -> Snapshot:
    """The newest snapshot, every commit on the way checked for conflicts with the proposal."""
    for info in commits_after(current.store, current.version):
        winner = read_commit(current.store, info)
        check_conflict(
            proposal.read,
            proposal.removed_keys,
            isolation,
            winner,
            table=current.store.url,
            changes_metadata=proposal.has(Metadata),
            changes_protocol=proposal.has(Protocol),
        )
        current = current.advance(winner)
    return current


def _commit_bytes(proposal: Proposal, read: Snapshot, isolation: Isolation, now: int) -> bytes:
    only_adds = all(isinstance(a, AddFile) for a in proposal.actions if isinstance(a, AddFile | RemoveFile))
    value: dict[str, Any] = {
        "timestamp": now,
        "operation": proposal.operation,
        "operationParameters": dict(proposal.parameters),
        "readVersion": read.version,
        "isolationLevel": isolation.value,
        "isBlindAppend": only_adds and proposal.read.would_read is None and not proposal.read.keys,
        "operationMetrics": {name: str(count) for name, count in proposal.metrics.items()},
        "engineInfo": f"{proposal.engine} deltamerge/{__version__}",
        "txnId": str(uuid.uuid4()),
    }
    if read.version < 0:
        del value["readVersion"]
    if proposal.user_metadata is not None:
        value["userMetadata"] = proposal.user_metadata
    lines = [action_line(action) for action in (CommitInfo(value), *proposal.actions)]
    return ("\n".join(lines) + "\n").encode()


def _isolation(read: Snapshot, proposal: Proposal) -> Isolation:
    files = [a for a in proposal.actions if isinstance(a, AddFile | RemoveFile)]
    if files and not any(a.data_change for a in files):
        return Isolation.SNAPSHOT
    level = read.properties.values.get("delta.isolationLevel", "Serializable")
    return Isolation.WRITE_SERIALIZABLE if level.lower() == "writeserializable" else Isolation.SERIALIZABLE


def _check_append_only(read: Snapshot, proposal: Proposal) -> None:
    removes = any(isinstance(a, RemoveFile) and a.data_change for a in proposal.actions)
    if removes and read.properties.append_only:
        raise AnalysisError(
            "DELTA_CANNOT_MODIFY_APPEND_ONLY",
            f"The table {read.store.url} only allows appends.",
            parameters={"table_name": read.store.url, "config": "delta.appendOnly"},
            hint="To permit updates and deletes set the table property delta.appendOnly to false.",
        )


def _key(action: RemoveFile) -> str:
    vector = action.deletion_vector
    if vector is None:
        return action.path
    offset = "" if vector.offset is None else str(vector.offset)
    return f"{action.path}\0{vector.storage_type}\0{vector.path_or_inline}\0{offset}"


def delete_quietly(read: Snapshot, names: Sequence[str]) -> None:
    """Best-effort removal of data files that no commit names; what is left is an orphan for vacuum."""
    for name in names:
        try:
            read.store.delete(name)
        except (OSError, StorageError) as error:
            log.warning("could not delete the uncommitted file %s: %s", name, error)
