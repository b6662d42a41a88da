"""One attempt at a commit: its text, with what depends on the version at which it is tried.

Source: delta-spark's OptimisticTransaction; PROTOCOL.md, "In-Commit Timestamps" and "Row Tracking".
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from deltamerge._version import __version__
from deltamerge.errors import CorruptTableError, restore_action
from deltamerge.log.commit.conflict import Isolation
from deltamerge.log.commit.proposal import Proposal
from deltamerge.log.commit.row_ids import assigned
from deltamerge.log.replay.commit_times import ENABLEMENT_TIMESTAMP, ENABLEMENT_VERSION
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.protocol.table.actions import Action, AddFile, CommitInfo, Metadata, Protocol, RemoveFile, action_line
from deltamerge.protocol.table.features import assigns_row_ids, in_commit_timestamps
from deltamerge.protocol.table.row_tracking import tracking_columns

_PRESERVED = "delta.rowTracking.preserved"


def commit_bytes(proposal: Proposal, read: Snapshot, current: Snapshot, isolation: Isolation, now: int, txn_id: str) -> bytes:
    """The commit file of the version after `current` for a proposal made on `read`, at `now` in ms.

    Raises AnalysisError when a file's rows can't be given ids, CorruptTableError where no later time is left.
    """
    version = current.version + 1
    actions: Sequence[Action] = proposal.actions_at(now)
    protocol = next((a for a in actions if isinstance(a, Protocol)), current.protocol)
    metadata = next((a for a in actions if isinstance(a, Metadata)), current.metadata)
    info = _info(proposal, actions, read, isolation, now, txn_id)
    if proposal.tags:
        info["tags"] = dict(proposal.tags)
    elif tracking_columns(protocol, metadata) is not None:
        # Rows that were written before a commit of another writer began to track them are told by no ids of their own.
        began = metadata is current.metadata and tracking_columns(read.protocol, read.metadata) is None
        info["tags"] = {_PRESERVED: "false" if began else "true"}
    made = None
    if in_commit_timestamps(protocol, metadata):
        made = max(now, current.timestamp + 1)
        if made >= 1 << 63:
            raise CorruptTableError(
                "DELTAMERGE_CORRUPT_COMMIT",
                f"No later time can follow the inCommitTimestamp of version {current.version} of {read.store.url}.",
                parameters={"table": read.store.url, "version": current.version},
                hint=restore_action("commitInfo"),
            )
        info = {"inCommitTimestamp": made, **info}
    actions = [_since(a, current, made) if isinstance(a, Metadata) else a for a in actions]
    if assigns_row_ids(protocol, metadata):
        actions = assigned(actions, current.domains, version)
    return _lines((CommitInfo(info), *actions))


def _lines(actions: Iterable[Action]) -> bytes:
    """The actions as a commit has them. No list of their texts: a commit may have a million."""
    text = io.BytesIO()
    for action in actions:
        text.write(action_line(action).encode() + b"\n")
    return text.getvalue()


def _info(
    proposal: Proposal, actions: Sequence[Action], read: Snapshot, isolation: Isolation, now: int, txn_id: str
) -> dict[str, Any]:
    only_adds = all(isinstance(a, AddFile) for a in actions if isinstance(a, AddFile | RemoveFile))
    value: dict[str, Any] = {
        "timestamp": now,
        "operation": proposal.operation,
        "operationParameters": dict(proposal.parameters),
        "readVersion": read.version,
        "isolationLevel": isolation.value,
        "isBlindAppend": only_adds and proposal.read.is_blind,
        "operationMetrics": {name: str(count) for name, count in proposal.metrics.items()},
        "engineInfo": f"{proposal.author.engine} deltamerge/{__version__}",
        "txnId": txn_id,
    }
    if read.version < 0 and not proposal.tells_no_version:
        del value["readVersion"]
    if proposal.note is not None:
        value["userMetadata"] = proposal.note
    return value


def _since(metadata: Metadata, current: Snapshot, made: int | None) -> Metadata:
    """Metadata that says rightly since when commits carry their own timestamps, as the next one does if it was `made` at a time.

    What it says itself may be of an older version or of another table: a RESTORE, a CLONE or a REPLACE has it from there.
    """
    if current.version < 0:
        since = {}  # All commits carry them, or none.
    elif made is None:
        return metadata
    elif current.in_commit_timestamps:
        known = current.metadata.configuration
        since = {key: known[key] for key in (ENABLEMENT_VERSION, ENABLEMENT_TIMESTAMP) if key in known}
    else:
        since = {ENABLEMENT_VERSION: str(current.version + 1), ENABLEMENT_TIMESTAMP: str(made)}
    others = {k: v for k, v in metadata.configuration.items() if k not in (ENABLEMENT_VERSION, ENABLEMENT_TIMESTAMP)}
    return replace(metadata, configuration={**others, **since})
