"""Log clean-up: deletes log files that have outlived `delta.logRetentionDuration` and that no kept version needs.

Source: PROTOCOL.md, "Metadata Cleanup"; delta-spark's MetadataCleanup. Times are in ms since 1970.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from deltamerge.errors import CorruptTableError, InvalidArgumentError
from deltamerge.log.replay.checkpoint import SIDECARS, read_checkpoint, sidecars_of
from deltamerge.log.replay.commit_times import ordered_times
from deltamerge.log.replay.segment import (
    LOG,
    CheckpointFiles,
    commit_version,
    compacted_range,
    complete_checkpoints,
    file_version,
    is_checkpoint,
    is_commit,
)
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.protocol.table.actions import Metadata, Protocol
from deltamerge.protocol.table.features import named_features
from deltamerge.storage import ObjectInfo, Store

log = logging.getLogger("deltamerge.log")

_DAY, _MINUTE = 86_400_000, 60_000


def clean_up(snapshot: Snapshot, now: int) -> list[str]:
    """Delete the expired log files of a table and return their names, where its properties allow it. Raises StorageError."""
    protected = "checkpointProtection" in named_features(snapshot.protocol)
    if protected or not snapshot.properties.flag("delta.enableExpiredLogCleanup", True):
        return []
    try:
        cutoff = (now - snapshot.properties.log_retention) // _DAY * _DAY
    except InvalidArgumentError as error:
        log.warning("nothing is cleaned up in the log of %s: %s", snapshot.store.url, error)
        return []
    return _cleaned(snapshot.store, cutoff)


def truncate(snapshot: Snapshot, now: int, retention: int) -> list[str]:
    """Delete the log files that no version of the last `retention` ms needs and return their names, to the minute.

    Nothing where protected checkpoints would go, and not all that they hide (PROTOCOL.md, "Checkpoint Protection"). Raises
    StorageError.
    """
    first = snapshot.properties.number("delta.requireCheckpointProtectionBeforeVersion", 0)
    return _cleaned(snapshot.store, (now - retention) // _MINUTE * _MINUTE, first)


def _cleaned(store: Store, cutoff: int, first: int = 0) -> list[str]:
    """Delete what no version from `cutoff` on needs, where the log then begins with the version `first` or a later one."""
    listed = store.list(LOG, "")
    base = base_checkpoint(listed, cutoff)
    if base is not None and base.version < first:
        return []
    expired = [] if base is None else expired_files(listed, base.version)
    if base is None or not expired or not _is_sound(store, base):
        return []
    for info in expired:
        store.delete(info.name)
    gone = [info.name for info in expired]
    if any(is_checkpoint(info) for info in expired):
        gone += _delete_sidecars(store, [info for info in listed if info not in expired], cutoff - _DAY)
    if gone:
        log.info("deleted %d expired log files of %s", len(gone), store.url)
    return gone


def base_checkpoint(listed: Iterable[ObjectInfo], cutoff: int) -> CheckpointFiles | None:
    """The newest checkpoint that is not newer than the version in force at `cutoff`, None when there is none."""
    files = list(listed)
    commits = ordered_times([info for info in files if is_commit(info)])
    in_force = max((commit_version(info) for info in commits if info.modified <= cutoff), default=-1)
    checkpoints = complete_checkpoints(files)
    base = max((version for version in checkpoints if version <= in_force), default=None)
    return None if base is None else CheckpointFiles(base, checkpoints[base][0])


def expired_files(listed: Iterable[ObjectInfo], base: int) -> list[ObjectInfo]:
    """The log files that no version from `base` on needs, when there is a checkpoint of `base`; oldest first."""
    found = []
    for info in listed:
        version, compacted = file_version(info), compacted_range(info)
        if version is not None and (version < base or (compacted is not None and version <= base)):
            found.append(info)
    return found


def _is_sound(store: Store, base: CheckpointFiles) -> bool:
    """Whether a checkpoint can be read: nothing that it replaces may go before."""
    try:
        others = read_checkpoint(store, base).others
    except CorruptTableError as error:
        log.warning("nothing is cleaned up in the log of %s: %s", store.url, error)
        return False
    return all(any(isinstance(action, kind) for action in others) for kind in (Protocol, Metadata))


def _delete_sidecars(store: Store, kept: Iterable[ObjectInfo], cutoff: int) -> list[str]:
    """Delete the sidecars older than `cutoff` that none of the kept checkpoints refers to."""
    sidecars = store.list(SIDECARS, "")
    if not sidecars:
        return []
    needed = {name for info in kept if is_checkpoint(info) for name in sidecars_of(store, info.name)}
    gone = [info.name for info in sidecars if info.name not in needed and info.modified < cutoff]
    for name in gone:
        store.delete(name)
    return gone
