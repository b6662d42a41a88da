"""VACUUM: deletes files that no version within the retention needs, and folders in which nothing is.

Everything is listed first, and only then the newest version is read: what a commit names by then stays. Nothing is deleted that
was written within the retention, so what a writer has not committed stays, too. Stopped at any moment, it has deleted nothing
but such files. Source: delta-spark's VacuumCommand and DeltaTableUtils.isHiddenDirectory. Times are in ms since 1970.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from deltamerge.commands.layout.needed import needed_names
from deltamerge.commands.layout.vacuum_sources import Listed, inventory_files, note_vacuum, removed_files
from deltamerge.errors import InvalidArgumentError
from deltamerge.log.commit.transaction import Proposal, commit
from deltamerge.log.commit.upkeep import after_commit
from deltamerge.log.replay.load import check_sound
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.log.replay.table import DeltaLog
from deltamerge.progress.operation import advancing, begin
from deltamerge.progress.value import Amount
from deltamerge.protocol.table.features import check_writable
from deltamerge.spark.session.delta_check import check_delta
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.running import operation
from deltamerge.spark.session.settings import author, setting
from deltamerge.storage import ObjectInfo
from deltamerge.storage.location import scheme_of

log = logging.getLogger("deltamerge.commands")

CHECKED = "spark.databricks.delta.retentionDurationCheck.enabled"
_LITE = "spark.databricks.delta.vacuum.lite.enabled"
_LOGGED = "spark.databricks.delta.vacuum.logging.enabled"
# Where delta-spark's log stores let a VACUUM be told in the log without being asked for it; "" is a local path.
_LOGGED_SCHEMES = ("", "file", "wasb", "wasbs", "abfs", "abfss", "adl", "gs", "az", "azure")
_HOUR = 3_600_000
_PART = 10_000
# Names that begin as hidden ones do and are none: these folders hold files of versions.
_SEEN = ("_delta_index", "_change_data")


@dataclass(frozen=True, slots=True)
class Vacuumed:
    """What a VACUUM deleted, or would delete: names of files and of empty folders within the table, sizes in bytes.

    `folders_seen` counts all folders, the table's own among them.
    """

    names: Sequence[str]
    size: int
    folders_seen: int


@dataclass(frozen=True, slots=True)
class _Found:
    files: Sequence[ObjectInfo]
    folders: Sequence[str]
    folders_seen: int

    @property
    def vacuumed(self) -> Vacuumed:
        names = sorted([*self.folders, *(file.name for file in self.files)])
        return Vacuumed(names, sum(file.size for file in self.files), self.folders_seen)


@dataclass(frozen=True, slots=True)
class VacuumRequest:
    """A VACUUM of what no version of the last `retention_hours` needs (None: of `delta.deletedFileRetentionDuration`).

    `lite` takes from the log what was removed from the table, an `inventory` names all that lies in the folder, which is listed
    otherwise; None leaves `lite` to the session.
    """

    retention_hours: float | None = None
    dry_run: bool = False
    lite: bool | None = None
    inventory: Frame | None = field(default=None, repr=False)


def vacuum_table(spark: Session, table: DeltaLog, request: VacuumRequest) -> Vacuumed:
    """Delete what is asked for.

    Raises InvalidArgumentError for a shorter time than the table's, unless the session allows it, and where the log does not
    tell all that LITE needs; AnalysisError, UnsupportedTableError, StorageError; what was deleted by then was not needed either.
    """
    with operation(spark, "VACUUM", table.store.url):
        check_delta(spark, "VACUUM")
        return _vacuumed(spark, table, request)


def _vacuumed(spark: Session, table: DeltaLog, request: VacuumRequest) -> Vacuumed:
    snapshot = table.snapshot()
    check_writable(snapshot.protocol, snapshot.metadata, table.store.url)
    check_sound(snapshot)
    hours = request.retention_hours
    specified = None if hours is None else round(hours * _HOUR)
    default = snapshot.properties.tombstone_retention
    checked = setting(spark, CHECKED, "true").lower() != "false"
    _check_retention(specified, default, checked)
    retention = default if specified is None else specified
    cutoff = int(time.time() * 1000) - retention
    begin("listing files")
    listed = _listed(spark, table, snapshot, cutoff, request)
    begin("finding what no version needs")
    found = _unneeded(table, listed, cutoff)
    done = found.vacuumed
    where = f"{len(found.files)} files ({done.size} bytes) and {len(found.folders)} empty folders of {table.store.url}"
    if request.dry_run:
        log.info("would delete %s", where)
        return done
    log.info("deleting %s", where)
    parameters: dict[str, Any] = {"retentionCheckEnabled": checked, "defaultRetentionMillis": default}
    if specified is not None:
        parameters["specifiedRetentionMillis"] = specified
    metrics = {"numFilesToDelete": len(done.names), "sizeOfDataToDelete": done.size}
    _tell(spark, table, "VACUUM START", parameters, metrics)
    try:
        deleted = _deleted(table, found)
    except BaseException:
        _tell_end(spark, table, "FAILED", {})
        raise
    _tell_end(spark, table, "COMPLETED", {"numDeletedFiles": deleted, "numVacuumedDirectories": found.folders_seen})
    note_vacuum(table.store, listed.last)
    log.info("deleted %d files and folders of %s", deleted, table.store.url)
    return done


def _check_retention(specified: int | None, default: int, checked: bool) -> None:
    if specified is not None and specified < 0:
        raise InvalidArgumentError(
            "DELTA_VACUUM_RETENTION_PERIOD_NEGATIVE",
            f"Retention period for Vacuum can't be less than 0 hours, found {specified / _HOUR:g}.",
            parameters={"retentionHours": specified / _HOUR},
        )
    if specified is None or specified >= default or not checked:
        return
    raise InvalidArgumentError(
        "DELTA_VACUUM_RETENTION_PERIOD_TOO_SHORT",
        f"A retention period of {specified / _HOUR:g} hours is shorter than the table's {default / _HOUR:g} hours: files that a "
        "running write has made, and those of versions that are still read, may be deleted.",
        parameters={"configuredRetentionHours": -(-default // _HOUR), "retentionHours": specified / _HOUR},
        hint=f"Use at least {-(-default // _HOUR)} hours. If nothing writes or reads older versions, set {CHECKED} to false.",
    )


def _listed(spark: Session, table: DeltaLog, before: Snapshot, cutoff: int, request: VacuumRequest) -> Listed:
    """What lies in the folder, as the request finds it."""
    is_hidden = _hidden(before)
    if request.inventory is not None:
        return inventory_files(table, request.inventory, is_hidden)
    is_lite = setting(spark, _LITE, "false").lower() == "true" if request.lite is None else request.lite
    if is_lite:
        return removed_files(table, cutoff, is_hidden)
    found = list(table.store.walk(is_hidden))
    files = tuple(file for listing in found for file in listing.files)
    return Listed(files, tuple(folder for listing in found for folder in listing.folders))


def _unneeded(table: DeltaLog, listed: Listed, cutoff: int) -> _Found:
    """The files older than `cutoff` that no version since then needs, and the empty folders that are as old."""
    folders = {folder.name: folder.modified for folder in listed.folders}
    holding = {file.name.rpartition("/")[0] for file in listed.files}
    needed = needed_names(table, cutoff)
    files = [file for file in listed.files if file.modified < cutoff and file.name not in needed]
    return _Found(files, _empty(folders, holding, cutoff), len(folders) + 1)


def _empty(folders: Mapping[str, int], holding: set[str], cutoff: int) -> list[str]:
    """The folders older than `cutoff` that hold neither a file nor a folder that stays, those within others first."""
    found = []
    for name in sorted(folders, key=lambda name: -name.count("/")):
        if name not in holding and folders[name] < cutoff:
            found.append(name)
        else:
            holding.add(name.rpartition("/")[0])
    return found


def _hidden(snapshot: Snapshot) -> Callable[[str], bool]:
    """Whether a name is none of the table's data: the log's folder, and others that begin with a point or an underscore.

    Folders of partitions count as data whatever their column is called, and Iceberg's metadata does not.
    """
    names = {*snapshot.partition_columns, *(field.physical_name for field in snapshot.partition_schema)}
    seen = (*_SEEN, *(f"{name}=" for name in names))
    iceberg = "iceberg" in snapshot.properties.values.get("delta.universalFormat.enabledFormats", "").lower()

    def is_hidden(name: str) -> bool:
        return (name.startswith((".", "_")) and not name.startswith(seen)) or (iceberg and name == "metadata")

    return is_hidden


def _deleted(table: DeltaLog, found: _Found) -> int:
    advance, deleted, count = advancing(), 0, len(found.files)
    begin("deleting", partial(_amount, found.files))
    for start in range(0, count, _PART):
        part = found.files[start : start + _PART]
        deleted += table.store.delete_all([file.name for file in part])
        advance(partial(_amount, part))
        log.info("deleted %d of %d files of %s", min(start + _PART, count), count, table.store.url)
    return deleted + table.store.delete_empty_folders(found.folders)


def _amount(files: Sequence[ObjectInfo]) -> Amount:
    return Amount(len(files), sum(file.size for file in files))


def _tell_end(spark: Session, table: DeltaLog, status: str, metrics: dict[str, int]) -> None:
    """Tell how a VACUUM ended. That it can't be told changes nothing about that, and must not hide why it failed."""
    try:
        _tell(spark, table, "VACUUM END", {"status": status}, metrics)
    except Exception as error:
        log.warning("the end of VACUUM (%s) is not in the history of %s: %s", status, table.store.url, error)


def _tell(spark: Session, table: DeltaLog, operation: str, parameters: dict[str, Any], metrics: dict[str, int]) -> None:
    """Make a version that says in the history what VACUUM does, where delta-spark makes one."""
    told = setting(spark, _LOGGED, "").lower()
    if told == "false" or (told != "true" and scheme_of(table.store.url) not in _LOGGED_SCHEMES):
        return
    proposal = Proposal(operation, (), parameters=parameters, metrics=metrics, author=author(spark))
    committed = commit(table.snapshot(), proposal)
    table.remember(committed.snapshot)
    after_commit(committed.snapshot)
