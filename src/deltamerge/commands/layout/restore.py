"""RESTORE: the newest version gets the files, the schema and the properties of an older one.

Source: delta-spark's RestoreTableCommand and DomainMetadataUtils.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.errors import AnalysisError, InvalidArgumentError
from deltamerge.log.commit.clustering import clustering_changes
from deltamerge.log.commit.conflict import ReadSet
from deltamerge.log.commit.transaction import Committed, Proposal, commit
from deltamerge.log.commit.upkeep import after_commit
from deltamerge.log.replay.files import FileSet, add_files, file_keys
from deltamerge.log.replay.load import check_sound
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.log.replay.table import DeltaLog
from deltamerge.progress.operation import advancing, begin
from deltamerge.progress.value import Amount
from deltamerge.protocol.schema.types import parse_schema, schema_json
from deltamerge.protocol.table.actions import Action, AddFile, Metadata
from deltamerge.protocol.table.column_mapping import MAX_ID
from deltamerge.protocol.table.deletion_vector import vector_reference
from deltamerge.protocol.table.features import check_writable, named_features, upgraded
from deltamerge.protocol.table.identity import with_later_marks
from deltamerge.protocol.values.zones import zone_of
from deltamerge.spark.session.delta_check import check_delta
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.rows import rows_frame
from deltamerge.spark.session.running import operation
from deltamerge.spark.session.settings import author, setting, time_zone
from deltamerge.storage.open import locate

log = logging.getLogger("deltamerge.commands")

_IGNORE_MISSING = "spark.sql.files.ignoreMissingFiles"
_WITHIN_RETENTION = "spark.databricks.delta.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration"
_AT_ONCE = 32
_MOST_NAMED = 100
_HOUR = 3_600_000
# Conditions of time travel, and the ones that a RESTORE has for the same cause.
_CONDITIONS = {
    "DELTA_VERSION_NOT_FOUND": "DELTA_CANNOT_RESTORE_TABLE_VERSION",
    "DELTA_TIMESTAMP_EARLIER_THAN_COMMIT_RETENTION": "DELTA_CANNOT_RESTORE_TIMESTAMP_EARLIER",
    "DELTA_TIMESTAMP_GREATER_THAN_COMMIT": "DELTA_CANNOT_RESTORE_TIMESTAMP_GREATER",
}


@dataclass(frozen=True, slots=True)
class Restored:
    """What a RESTORE did, as delta-spark counts it: files, and their sizes in bytes."""

    size_after: int
    files_after: int
    removed: int
    restored: int
    removed_bytes: int
    restored_bytes: int

    @property
    def metrics(self) -> dict[str, int]:
        """The operation's metrics in the table's history."""
        return {
            "tableSizeAfterRestore": self.size_after,
            "numOfFilesAfterRestore": self.files_after,
            "numRemovedFiles": self.removed,
            "numRestoredFiles": self.restored,
            "removedFilesSize": self.removed_bytes,
            "restoredFilesSize": self.restored_bytes,
        }


def restore_table(spark: Session, table: DeltaLog, version: int | None = None, timestamp: int | None = None) -> Restored | None:
    """Make a version that is as `version`, or as the newest one at `timestamp` in ms; None if the newest one is meant.

    Raises AnalysisError for a version or time that can't be restored, InvalidArgumentError when data files are gone,
    UnsupportedTableError, ConcurrentModificationError; the table is then as it was.
    """
    with operation(spark, "RESTORE", table.store.url):
        check_delta(spark, "RESTORE")
        return _restored_to(spark, table, version, timestamp)


def _restored_to(spark: Session, table: DeltaLog, version: int | None, timestamp: int | None) -> Restored | None:
    begin("comparing the versions")
    newest = table.snapshot()
    target = _target(table, newest, version, timestamp)
    if target.version == newest.version:
        return None
    _check_retention(spark, target, newest)
    protocol = upgraded(newest.protocol, named_features(target.protocol))
    metadata = _metadata(target, newest)
    check_writable(newest.protocol, newest.metadata, table.store.url)
    check_writable(protocol, metadata, table.store.url)
    check_sound(newest)
    removed, restored = _differences(newest.files, target.files)
    if setting(spark, _IGNORE_MISSING, "false").lower() != "true":
        _check_there(target, restored)
    done = _restored(target, removed, restored)
    now = int(time.time() * 1000)
    actions: list[Action] = [metadata, *([protocol] if protocol is not newest.protocol else [])]
    actions += [file.removed(now) for file in removed]
    actions += [*restored, *clustering_changes(newest, target)]
    proposal = Proposal(
        operation="RESTORE",
        actions=actions,
        read=ReadSet(whole_table=True, would_read=lambda files: np.ones(len(files), np.bool_)),
        parameters={"version": version, "timestamp": None if timestamp is None else _java_text(timestamp, time_zone(spark))},
        metrics=done.metrics,
        author=author(spark),
        restores=True,
    )
    begin("committing")
    committed: Committed = commit(newest, proposal)
    table.remember(committed.snapshot)
    after_commit(committed.snapshot)
    log.info("restored version %d of %s as version %d", target.version, table.store.url, committed.version)
    return done


_RESTORED = {
    "table_size_after_restore": "size_after",
    "num_of_files_after_restore": "files_after",
    "num_removed_files": "removed",
    "num_restored_files": "restored",
    "removed_files_size": "removed_bytes",
    "restored_files_size": "restored_bytes",
}
_SCHEMA = pa.schema([(name, pa.int64()) for name in _RESTORED])


def restored_frame(spark: Session, done: Restored | None) -> Frame:
    """The result of a RESTORE as delta-spark gives it: one row, none where the newest version was meant."""
    rows = [] if done is None else [{name: getattr(done, field) for name, field in _RESTORED.items()}]
    return rows_frame(spark, pa.Table.from_pylist(rows, _SCHEMA))


def _target(table: DeltaLog, newest: Snapshot, version: int | None, timestamp: int | None) -> Snapshot:
    """The version to be restored. Raises AnalysisError with RESTORE's conditions."""
    try:
        return newest if version == newest.version else table.snapshot(version, timestamp)
    except AnalysisError as error:
        condition = _CONDITIONS.get(error.condition)
        if condition is None:
            raise
        message = error.detail.replace("time travel", "restore table")
        raise AnalysisError(condition, message, parameters=error.parameters, hint=error.hint) from error


def _check_retention(spark: Session, target: Snapshot, newest: Snapshot) -> None:
    """Raise AnalysisError for a version older than the table keeps removed files, unless the session allows that."""
    retention = newest.properties.tombstone_retention
    allowed = setting(spark, _WITHIN_RETENTION, "true").lower() == "false"
    if allowed or target.timestamp >= int(time.time() * 1000) - retention:
        return
    raise AnalysisError(
        "DELTA_UNSUPPORTED_TIME_TRAVEL_BEYOND_DELETED_FILE_RETENTION_DURATION",
        f"Version {target.version} of {target.store.url} is older than delta.deletedFileRetentionDuration "
        f"({retention // _HOUR} hours), for which the table keeps removed files.",
        parameters={"deletedFileRetention": retention // _HOUR, "version": target.version},
        hint=f"Restore a newer version. If no VACUUM has deleted its files, set {_WITHIN_RETENTION} to false.",
    )


def _metadata(target: Snapshot, newest: Snapshot) -> Metadata:
    """The metadata of the older version; identity columns and ids of columns go on where they are: none is given twice."""
    before, after = parse_schema(target.metadata.schema_string), parse_schema(newest.metadata.schema_string)
    schema = with_later_marks(before, after)
    text = target.metadata.schema_string if schema is before else schema_json(schema)
    configuration = dict(target.metadata.configuration)
    if MAX_ID in configuration:
        configuration[MAX_ID] = str(max(snapshot.properties.number(MAX_ID, 0) for snapshot in (target, newest)))
    return replace(target.metadata, schema_string=text, configuration=configuration)


def _differences(newest: FileSet, target: FileSet) -> tuple[list[AddFile], list[AddFile]]:
    """The files that are only in the newest version, and those only in the one that is restored."""
    after, before = newest.table(), target.table()
    new_keys, old_keys = file_keys(after), file_keys(before)
    removed = after.filter(pc.invert(pc.is_in(new_keys, old_keys)))
    restored = before.filter(pc.invert(pc.is_in(old_keys, new_keys)))
    return add_files(removed), add_files(restored)


def _restored(target: Snapshot, removed: Sequence[AddFile], restored: Sequence[AddFile]) -> Restored:
    sizes = [sum(file.size for file in files) for files in (removed, restored)]
    return Restored(target.files.total_bytes, len(target.files), len(removed), len(restored), sizes[0], sizes[1])


def _check_there(target: Snapshot, files: Sequence[AddFile]) -> None:
    """Raise InvalidArgumentError when a data file, or its deletion vector, is no longer in the store."""
    references = dict.fromkeys(reference for file in files for reference in _references(file))
    if not references:
        return
    begin("looking for the files", lambda: Amount(len(references)))
    advance = advancing()

    def is_there(reference: str) -> bool:
        found = _is_there(target, reference)
        advance(lambda: Amount(1))
        return found

    with ThreadPoolExecutor(min(_AT_ONCE, len(references))) as pool:
        found = dict(zip(references, pool.map(is_there, references), strict=True))
    missing = [reference for reference, there in found.items() if not there]
    if not missing:
        return
    more = f" and {len(missing) - _MOST_NAMED} others" if len(missing) > _MOST_NAMED else ""
    raise InvalidArgumentError(
        "DELTAMERGE_RESTORE_MISSING_FILES",
        f"Version {target.version} of {target.store.url} can't be restored: not all of its files are there. Missing are "
        f"{', '.join(missing[:_MOST_NAMED])}{more}.",
        parameters={"version": target.version, "files": missing[:_MOST_NAMED], "count": len(missing)},
        hint=f"Restore a newer version. {_IGNORE_MISSING} = true restores what is there; reading the rest will fail.",
    )


def _references(file: AddFile) -> list[str]:
    vector = None if file.deletion_vector is None else vector_reference(file.deletion_vector, file.path)
    return [file.path] if vector is None else [file.path, vector]


def _is_there(target: Snapshot, reference: str) -> bool:
    store, name = locate(target.store, reference)
    return store.info(name) is not None


def _java_text(milliseconds: int, zone: str) -> str:
    """A time as Java's Timestamp prints it, in a time zone: at least one digit of a second's fraction, no needless ones."""
    moment = datetime.fromtimestamp(milliseconds / 1000, zone_of(zone))
    fraction = f"{milliseconds % 1000:03d}".rstrip("0") or "0"
    return f"{moment:%Y-%m-%d %H:%M:%S}.{fraction}"
