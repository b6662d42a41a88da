"""What follows a commit: a checkpoint when it is due. It never fails the commit that it follows."""

from __future__ import annotations

import logging
import time

import pyarrow.compute as pc

from deltamerge.log.checkpoint_write import write_checkpoint
from deltamerge.log.checksum import write_checksum
from deltamerge.log.snapshot import Snapshot
from deltamerge.protocol.actions import Action

log = logging.getLogger("deltamerge.log")


def after_commit(snapshot: Snapshot) -> None:
    """Write the checksum of `snapshot`, and a checkpoint when `delta.checkpointInterval` says so.

    A failure is logged, not raised.
    """
    write_checksum(snapshot)
    if snapshot.version == 0 or snapshot.version % snapshot.properties.checkpoint_interval:
        return
    try:
        checkpoint(snapshot)
    except Exception as error:  # whatever it is, the commit has happened
        log.warning("the checkpoint of version %d of %s failed: %s", snapshot.version, snapshot.store.url, error)


def checkpoint(snapshot: Snapshot) -> None:
    """Write a checkpoint of `snapshot`: live files, tombstones that have not expired, and all else in force."""
    expired = int(time.time() * 1000) - snapshot.properties.tombstone_retention
    times = pc.coalesce(snapshot.tombstones.table["deletionTimestamp"], 0)
    kept = snapshot.tombstones.table.filter(pc.greater(times, expired))
    others: list[Action] = [snapshot.protocol, snapshot.metadata]
    others += [*snapshot.txns.values(), *snapshot.domains.values()]
    write_checkpoint(snapshot.store, snapshot.version, snapshot.files.table(), kept, others)
    log.info("wrote the checkpoint of version %d of %s", snapshot.version, snapshot.store.url)
