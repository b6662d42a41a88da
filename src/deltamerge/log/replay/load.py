"""From a table's log files to a snapshot: damaged files are passed over where others give the same state with certainty.

Source: PROTOCOL.md, "Version Checksum File" (State Validation).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from deltamerge.errors import AnalysisError, CorruptTableError, MetadataChangedError, StorageError, TableNotFoundError
from deltamerge.log.replay.commit_file import listed_again
from deltamerge.log.replay.segment import LogSegment, checksum_name, commit_name, find_segment
from deltamerge.log.replay.snapshot import Snapshot, load_snapshot
from deltamerge.protocol.table.actions import Metadata, Protocol
from deltamerge.storage import NotFound, ObjectInfo, Store

# Of a checksum file, in which a table's metadata is, and up to a thousand of each of a few other actions.
_MOST_BYTES = 32 << 20

log = logging.getLogger("deltamerge.log")


def load(store: Store, version: int | None = None) -> Snapshot:
    """A version of the table, the newest one for None.

    A damaged checkpoint, or one that the version's checksum contradicts, is passed over with a warning when older log
    files tell the state; where none do, the snapshot says that it is contradicted. Raises TableNotFoundError, AnalysisError
    for a version that doesn't exist, CorruptTableError, UnsupportedTableError.
    """
    segment, snapshot = listed_again(lambda: _first_sound(store, find_segment(store, version)))
    differences = differences_of(store, segment.checksum, snapshot)
    if not differences:
        return snapshot
    log.warning("version %d of %s differs from its checksum file in %s", snapshot.version, store.url, ", ".join(differences))
    if segment.replaceable:
        try:
            other, again = _first_sound(store, find_segment(store, segment.version, segment.replaceable))
        except (CorruptTableError, AnalysisError):
            return replace(snapshot, contradicted=tuple(differences))
        if not differences_of(store, other.checksum, again):
            log.warning("the commits agree with the checksum: passing over %s", ", ".join(sorted(segment.replaceable)))
            return again
    return replace(snapshot, contradicted=tuple(differences))


def check_sound(snapshot: Snapshot) -> None:
    """Raise CorruptTableError for a version that its checksum file contradicts: what is written onto it would hide that."""
    if not snapshot.contradicted:
        return
    version, names = snapshot.version, ", ".join(snapshot.contradicted)
    raise CorruptTableError(
        "DELTA_TXN_LOG_FAILED_INTEGRITY",
        f"The transaction log of {snapshot.store.url} has failed integrity checks: version {version} differs from "
        f"{checksum_name(version)} in {names}.",
        parameters={"version": version, "mismatchStringOpt": names},
        hint=f"Restore {commit_name(version)}, or those before it, from a backup. If the commits are right, delete the checksum "
        "file. Nothing was written.",
    )


def check_in_place(snapshot: Snapshot) -> None:
    """Raise MetadataChangedError where the table is gone, or another one was made at its path.

    A commit onto a version of the old table would leave a log that lacks versions, or names files that the new table never had.
    The version's commit file tells, for one request. Where that is gone or another file, the newest version does.
    """
    store, tip = snapshot.store, snapshot.tip
    found = None if tip is None else store.info(tip.name)
    if tip is None or (found is not None and found.etag == tip.etag):
        return
    try:
        newest = load(store)
    except TableNotFoundError as error:
        raise _replaced(snapshot) from error
    if newest.version < snapshot.version or newest.metadata.id != snapshot.metadata.id:
        raise _replaced(snapshot)


def _replaced(snapshot: Snapshot) -> MetadataChangedError:
    return MetadataChangedError(
        "DELTAMERGE_TABLE_REPLACED",
        f"The table at {snapshot.store.url} was deleted, or another one was made in its place, after this operation had read "
        f"version {snapshot.version} of it. Nothing was committed.",
        parameters={"tableName": snapshot.store.url, "version": snapshot.version},
        hint="Run the operation again if it is meant for the table that is there now.",
    )


def _first_sound(store: Store, segment: LogSegment) -> tuple[LogSegment, Snapshot]:
    """The snapshot of a segment, or of the same version by other files when some can't be read."""
    avoid: frozenset[str] = frozenset()
    damage: CorruptTableError | None = None
    while True:
        try:
            return segment, load_snapshot(store, segment)
        except CorruptTableError as error:
            named = {str(error.parameters.get(key)) for key in ("checkpoint", "file")}
            bad = segment.replaceable & named
            damage = damage or error
            if not bad:
                raise damage from damage.__cause__
        avoid |= bad
        log.warning("passing over a damaged file of the log, as others have what it has: %s", damage.detail)
        try:
            segment = find_segment(store, segment.version, avoid)
        except (CorruptTableError, AnalysisError):
            raise damage from damage.__cause__


def differences_of(store: Store, checksum: ObjectInfo | None, snapshot: Snapshot) -> list[str]:
    """What of a snapshot its checksum file contradicts; [] when there is none or it can't be read."""
    if checksum is None:
        return []
    try:
        value = json.loads(store.read(checksum.name, _MOST_BYTES).decode())
        metadata, protocol = Metadata.from_json(value["metadata"]), Protocol.from_json(value["protocol"])
        pairs = {
            "numFiles": (int(value["numFiles"]), len(snapshot.files)),
            "tableSizeBytes": (int(value["tableSizeBytes"]), snapshot.files.total_bytes),
            "protocol": (protocol, snapshot.protocol),
            "metadata": (_essence(metadata), _essence(snapshot.metadata)),
            **_told_of_rows(value, snapshot),
        }
    except NotFound:
        return []
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError, StorageError) as error:
        log.warning("%s of %s is passed over: %s", checksum.name, store.url, error)
        return []
    return [name for name, (theirs, ours) in pairs.items() if theirs != ours]


def _told_of_rows(value: Mapping[str, Any], snapshot: Snapshot) -> dict[str, tuple[object, object]]:
    """What a checksum may tell besides: of deletion vectors, and transactions and metadata domains that the state must have."""
    found: dict[str, tuple[object, object]] = {}
    counts = [value.get("numDeletionVectorsOpt"), value.get("numDeletedRecordsOpt")]
    if None not in counts:
        found["deletion vectors"] = (counts, list(snapshot.files.vectors))
    txns = {txn["appId"]: int(txn["version"]) for txn in value.get("setTransactions") or ()}
    found["setTransactions"] = (txns, {app: snapshot.txns[app].version for app in txns if app in snapshot.txns})
    live = [domain for domain in value.get("domainMetadata") or () if not domain.get("removed")]
    domains = {domain["domain"]: domain["configuration"] for domain in live}
    known = {name: snapshot.domains[name].configuration for name in domains if name in snapshot.domains}
    found["domainMetadata"] = (domains, known)
    return found


def _essence(metadata: Metadata) -> tuple[object, ...]:
    return metadata.id, metadata.schema_string, metadata.partition_columns, dict(metadata.configuration)
