"""What one version of a table brings to a stream: files in an order that never changes, so that an offset can stand between two.

Source: delta-spark's DeltaSource, DeltaSourceCDCSupport and DeltaSourceSnapshot.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from deltamerge.errors import UnsupportedTableError
from deltamerge.log.feed.feed import DELETE, INSERT, FeedFile, changed_nothing, changes_of
from deltamerge.log.replay.commit_file import CommitFile, json_lines
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.log.stream.options import StreamOptions
from deltamerge.protocol.table.actions import AddFile, DeletionVector, RemoveFile, parse_action

Changed = AddFile | RemoveFile


@dataclass(frozen=True, slots=True)
class Group:
    """Files that a batch has all of, or none of; `index` is the number of the last one in its version."""

    index: int
    files: tuple[FeedFile, ...]

    @property
    def bytes(self) -> int:
        """The size of the files together."""
        return sum(file.size for file in self.files)


@dataclass(frozen=True, slots=True)
class Step:
    """What a version brings; with `is_snapshot` all that the table has in it."""

    version: int
    groups: tuple[Group, ...]
    is_snapshot: bool = False


def snapshot_step(snapshot: Snapshot) -> Step:
    """All files of a version, in the order of their times: rows that were inserted."""
    columns = ("path", "partitionValues", "size", "deletionVector")
    files = snapshot.files.table().sort_by([("modificationTime", "ascending"), ("path", "ascending")])
    rows = zip(*(files[name].to_pylist() for name in columns), strict=True)
    found = (_of_snapshot(snapshot, *row) for row in rows)
    return Step(snapshot.version, tuple(Group(index, (file,)) for index, file in enumerate(found)), is_snapshot=True)


def _of_snapshot(snapshot: Snapshot, path: str, values: Any, size: int, vector: Any) -> FeedFile:
    deleted = None if vector is None else DeletionVector.from_json(vector)
    return FeedFile(path, dict(values or ()), size, snapshot.version, snapshot.timestamp, INSERT, deleted)


def commit_step(commit: CommitFile, data: bytes, options: StreamOptions, table: str) -> Step:
    """What a commit, whose file holds `data`, brings. Raises UnsupportedTableError for changes that the options do not allow."""
    changes = list(_changes(data)) if commit.data_change else []
    groups = _feed(commit, data, changes) if options.feed else _appended(commit, changes, options, table)
    return Step(commit.version, tuple(groups))


def _appended(commit: CommitFile, changes: list[Changed], options: StreamOptions, table: str) -> Iterator[Group]:
    """The files that a commit adds, each a group."""
    removed = next((change for change in changes if isinstance(change, RemoveFile)), None)
    added = [change for change in changes if isinstance(change, AddFile)]
    if removed is not None:
        allowed = options.ignore_changes or options.skip_changes
        if added and not allowed:
            raise _changed(commit, table, removed.path)
        if not added and not (allowed or options.ignore_deletes):
            raise _deleted(commit, table, removed.path)
        if options.skip_changes:
            return
    for index, change in enumerate(added):
        yield Group(index, (_file(commit, change),))


def _feed(commit: CommitFile, data: bytes, changes: list[Changed]) -> Iterator[Group]:
    """The rows that a commit changes. What belongs together stays so: rows before and after an update, or of one file."""
    if commit.cdc or any(change.deletion_vector is not None for change in changes):
        files = tuple(changes_of(commit, data))
        if files:
            yield Group(len(commit.cdc or changes) - 1, files)
    elif not changed_nothing(commit):
        for index, change in enumerate(changes):
            yield Group(index, (_file(commit, change),))


def _file(commit: CommitFile, change: Changed) -> FeedFile:
    kind = INSERT if isinstance(change, AddFile) else DELETE
    values, vector = change.partition_values, change.deletion_vector
    return FeedFile(change.path, values, change.size or 0, commit.version, commit.timestamp, kind, vector)


def _changes(data: bytes) -> Iterator[Changed]:
    """The files that a commit adds and removes with a change of data, in the order of its lines."""
    for parsed in json_lines(data):
        action = parse_action(parsed())
        if isinstance(action, Changed) and action.data_change:
            yield replace(action, stats=None) if isinstance(action, AddFile) else action


def _changed(commit: CommitFile, table: str, path: str) -> UnsupportedTableError:
    info = commit.info
    change = f"{info['operation']} ({info.get('operationParameters')})" if "operation" in info else path
    return UnsupportedTableError(
        "DELTA_SOURCE_TABLE_IGNORE_CHANGES",
        f"Detected a data update (for example {change}) in the source table {table} at version {commit.version}.",
        parameters={"changeInfo": change, "version": commit.version, "dataPath": table},
        hint="skipChangeCommits leaves out such commits. ignoreChanges gives all rows of rewritten files again. "
        "readChangeFeed gives the changes.",
    )


def _deleted(commit: CommitFile, table: str, path: str) -> UnsupportedTableError:
    return UnsupportedTableError(
        "DELTA_SOURCE_IGNORE_DELETE",
        f"Detected deleted data (for example {path}) from the streaming source {table} at version {commit.version}.",
        parameters={"removedFile": path, "version": commit.version, "dataPath": table},
        hint="ignoreDeletes, or skipChangeCommits, leaves out such commits. readChangeFeed gives the changes.",
    )


def without_excluded(files: tuple[FeedFile, ...], pattern: Any) -> Iterator[FeedFile]:
    """The files whose path has no match of a compiled pattern, all for None."""
    return (file for file in files if pattern is None or pattern.search(file.path) is None)
