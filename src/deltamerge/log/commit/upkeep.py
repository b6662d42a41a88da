"""What follows a commit: its checksum, a checkpoint when it is due, and log clean-up. It never fails the commit."""

from __future__ import annotations

import logging
import time

import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.errors import InvalidArgumentError
from deltamerge.log.commit.checkpoint_write import write_checkpoint
from deltamerge.log.commit.cleanup import clean_up
from deltamerge.log.replay.checksum import write_checksum
from deltamerge.log.replay.snapshot import Snapshot

log = logging.getLogger("deltamerge.log")


def after_commit(snapshot: Snapshot) -> None:
    """Write the checksum of `snapshot`, and when `delta.checkpointInterval` says so a checkpoint; then clean the log up.

    A failure is logged, not raised.
    """
    write_checksum(snapshot)
    if snapshot.version == 0 or snapshot.version % snapshot.properties.checkpoint_interval:
        return
    try:
        checkpoint(snapshot)
        clean_up(snapshot, int(time.time() * 1000))
    except Exception as error:  # whatever it is, the commit has happened
        log.warning("the checkpoint of version %d of %s failed: %s", snapshot.version, snapshot.store.url, error)


def _unexpired(snapshot: Snapshot) -> pa.Table:
    """The tombstones that have not expired: all of them where the table's retention can't be read."""
    removed = snapshot.tombstones.table
    try:
        expired = int(time.time() * 1000) - snapshot.properties.tombstone_retention
    except InvalidArgumentError as error:
        log.warning("no tombstone of %s expires: %s", snapshot.store.url, error)
        return removed
    return removed.filter(pc.greater(pc.coalesce(removed["deletionTimestamp"], 0), expired))


def checkpoint(snapshot: Snapshot) -> None:
    """Write a checkpoint of `snapshot`: live files, tombstones that have not expired, and all else in force."""
    kept = _unexpired(snapshot)
    write_checkpoint(snapshot, kept)
    log.info("wrote the checkpoint of version %d of %s", snapshot.version, snapshot.store.url)
