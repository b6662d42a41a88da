"""Version checksum files: counts of a version's state, written beside its commit and compared when it is loaded.

Source: PROTOCOL.md, "Version Checksum File". A checksum is a witness, never a source of state.
"""

from __future__ import annotations

import json
import logging
from typing import Any

from deltamerge.errors import DeltaMergeError
from deltamerge.log.replay.segment import checksum_name
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.protocol.table.features import named_features
from deltamerge.storage import AlreadyExists

log = logging.getLogger("deltamerge.log")

_MOST_LISTED = 1_000


def write_checksum(snapshot: Snapshot) -> None:
    """Write the checksum file of a version unless there is one; a failure is logged, not raised."""
    try:
        data = json.dumps(checksum_value(snapshot), separators=(",", ":"), ensure_ascii=False)
        snapshot.store.put_if_absent(checksum_name(snapshot.version), data.encode())
    except AlreadyExists:
        return
    except (DeltaMergeError, OSError, ValueError) as error:
        log.warning("the checksum of version %d of %s was not written: %s", snapshot.version, snapshot.store.url, error)


def checksum_value(snapshot: Snapshot) -> dict[str, Any]:
    """The JSON value of a version's checksum file; sizes in bytes."""
    value: dict[str, Any] = {
        "tableSizeBytes": snapshot.files.total_bytes,
        "numFiles": len(snapshot.files),
        "numMetadata": 1,
        "numProtocol": 1,
        "metadata": snapshot.metadata.to_json()["metaData"],
        "protocol": snapshot.protocol.to_json()["protocol"],
    }
    if snapshot.in_commit_timestamps:
        value["inCommitTimestampOpt"] = snapshot.timestamp
    expires = "delta.setTransactionRetentionDuration" in snapshot.metadata.configuration
    if len(snapshot.txns) <= _MOST_LISTED and not expires:
        value["setTransactions"] = [txn.to_json()["txn"] for txn in snapshot.txns.values()]
    if len(snapshot.domains) <= _MOST_LISTED:
        value["domainMetadata"] = [domain.to_json()["domainMetadata"] for domain in snapshot.domains.values()]
    if "deletionVectors" in named_features(snapshot.protocol):
        value["numDeletionVectorsOpt"], value["numDeletedRecordsOpt"] = snapshot.files.vectors
    return value
