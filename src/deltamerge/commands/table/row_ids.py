"""All rows of a table get ids before they are tracked, and lose them before that is dropped: files are named again in the log.

A commit names a bounded number of files, so that none gets too large. What was done before a failure stays: the next run goes on
from there. Source: delta-spark's RowTrackingBackfillCommand and RowTrackingUnBackfillCommand.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.commands.table.change import told_json, writable
from deltamerge.errors import InvalidArgumentError, ProtocolChangedError, UnsupportedTableError
from deltamerge.log.commit.conflict import ReadSet
from deltamerge.log.commit.proposal import Proposal
from deltamerge.log.commit.row_ids import without_count
from deltamerge.log.commit.transaction import commit
from deltamerge.log.commit.upkeep import after_commit
from deltamerge.log.replay.files import FileSet, Mask, add_files
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.log.replay.table import DeltaLog
from deltamerge.log.skipping.statistics import row_counts
from deltamerge.progress.operation import begin
from deltamerge.protocol.table.actions import Protocol
from deltamerge.protocol.table.features import check_writable, named_features, upgraded
from deltamerge.protocol.table.row_tracking import SUSPENDED
from deltamerge.spark.session.delta_settings import DELTA
from deltamerge.spark.session.frames import Session
from deltamerge.spark.session.running import operation
from deltamerge.spark.session.settings import author, flag, setting

_ALLOWED = f"{DELTA}rowTracking.backfill.enabled"
_MOST_FILES = (f"{DELTA}backfill.maxNumFiles", f"{DELTA}rowTracking.backfill.maxNumFiles")
# A commit file of about 100 MB.
_MOST = "22000"


def give_row_ids(spark: Session, log: DeltaLog) -> Snapshot:
    """Have a table's protocol support row tracking, and all its files have row ids; the version in which both is so.

    Other writers may go on meanwhile: with the feature they give ids to what they write. Before anything is done raises
    UnsupportedTableError where row ids are suspended, or the session forbids this, AnalysisError for a file whose rows nobody has
    counted; then ConcurrentModificationError.
    """
    if not flag(spark, _ALLOWED, True):
        raise UnsupportedTableError(
            "DELTAMERGE_ROW_IDS_NOT_ALLOWED",
            f"Cannot enable row tracking on an existing table: the setting {_ALLOWED} is false.",
            parameters={"setting": _ALLOWED},
            hint=f'spark.conf.unset("{_ALLOWED}")',
        )
    before, most = writable(log), _most_files(spark)
    without = _without_ids(before.files)
    _check_counted(before.files, without)
    if without.any() and before.properties.flag(SUSPENDED):
        raise UnsupportedTableError(
            "DELTA_ROW_TRACKING_ILLEGAL_PROPERTY_COMBINATION",
            f"Rows can't be given ids: {SUSPENDED} is set on {log.store.url}.",
            parameters={"property2": SUSPENDED},
            hint=f"Unset {SUSPENDED} by a statement of its own first.",
        )
    with operation(spark, "ROW TRACKING BACKFILL", log.store.url):
        while "rowTracking" not in named_features(before.protocol):
            protocol = upgraded(before.protocol, ["rowTracking"])
            check_writable(protocol, before.metadata, log.store.url)
            told = {"newProtocol": told_json(told_protocol(protocol))}
            with contextlib.suppress(ProtocolChangedError):  # by others, who may have asked for the same
                _committed(log, before, Proposal("UPGRADE PROTOCOL", [protocol], parameters=told, author=author(spark)))
            before = writable(log)
        begin("giving ids to rows")
        return _named_again(spark, log, "ROW TRACKING BACKFILL", _without_ids, most)


def take_row_ids(spark: Session, log: DeltaLog) -> None:
    """Have no file of a table row ids any more, which are suspended already. Raises ConcurrentModificationError."""
    _named_again(spark, log, "ROW TRACKING UNBACKFILL", _with_ids, _most_files(spark))


def told_protocol(protocol: Protocol) -> dict[str, object]:
    """A protocol as history tells of it: features that it can't name are null there."""
    return {
        "minReaderVersion": protocol.min_reader_version,
        "minWriterVersion": protocol.min_writer_version,
        "readerFeatures": None if protocol.reader_features is None else sorted(protocol.reader_features),
        "writerFeatures": None if protocol.writer_features is None else sorted(protocol.writer_features),
    }


def _named_again(spark: Session, log: DeltaLog, name: str, chosen: Callable[[FileSet], Mask], most: int) -> Snapshot:
    """Name the chosen files again, without ids of their own: with those that a commit gives, if it does so.

    Returns the version that has no such files.
    """
    batch, before = 0, log.snapshot()
    while (mask := chosen(before.files)).any():
        mask[np.flatnonzero(mask)[most:]] = False
        files = add_files(before.files.select(mask))
        again = [replace(f, base_row_id=None, default_row_commit_version=None, data_change=False) for f in files]
        # Nothing that others commit meanwhile would have been read: what they have removed or named is left out.
        read = ReadSet(would_read=_nothing)
        _committed(log, before, Proposal(name, again, read, {"batchId": str(batch)}, author=author(spark), renames=True))
        batch, before = batch + 1, log.snapshot()
    return before


def _committed(log: DeltaLog, before: Snapshot, proposal: Proposal) -> None:
    committed = commit(before, proposal)
    log.remember(committed.snapshot)
    after_commit(committed.snapshot)


def _without_ids(files: FileSet) -> Mask:
    found: Mask = np.array(pc.is_null(files.column("baseRowId")).to_numpy(), np.bool_)
    return found


def _with_ids(files: FileSet) -> Mask:
    ids, versions = files.column("baseRowId"), files.column("defaultRowCommitVersion")
    found: Mask = np.array(pc.or_(pc.is_valid(ids), pc.is_valid(versions)).to_numpy(), np.bool_)
    return found


def _check_counted(files: FileSet, chosen: Mask) -> None:
    """Raise AnalysisError for one of the chosen files whose rows nobody has counted."""
    for chunk, rows in files.rows_of(chosen):
        uncounted = pc.indices_nonzero(pc.is_null(row_counts(chunk).take(pa.array(rows))))
        if len(uncounted):
            raise without_count(chunk.table["path"][int(rows[uncounted[0].as_py()])].as_py())


def _nothing(files: FileSet) -> Mask:
    return np.zeros(len(files), np.bool_)


def _most_files(spark: Session) -> int:
    """How many files a commit names."""
    name, given = next(((name, value) for name in _MOST_FILES if (value := setting(spark, name, ""))), ("", _MOST))
    try:
        found = int(given)
    except ValueError:
        found = 0
    if found < 1:
        raise InvalidArgumentError(
            "DELTAMERGE_INVALID_SETTING",
            f"The setting {name} is {given!r}.",
            parameters={"setting": name, "value": given},
            hint="It must be a positive whole number.",
        )
    return found
