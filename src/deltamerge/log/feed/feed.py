"""The change data feed of some versions: which files hold rows that changed, and how they changed.

Source: PROTOCOL.md, "Reader Requirements for AddCDCFile"; delta-spark's CDCReader. Times are in ms since 1970.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from deltamerge.errors import AnalysisError, CorruptTableError, UnsupportedTableError
from deltamerge.log.feed.range import FeedBounds, feed_range
from deltamerge.log.replay.commit_file import CommitFile, json_lines, parse_commit
from deltamerge.log.replay.commit_times import ordered_times
from deltamerge.log.replay.paths import canonical_path
from deltamerge.log.replay.segment import all_commits, commit_name, commit_version
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.log.replay.table import DeltaLog
from deltamerge.protocol.schema.types import parse_schema
from deltamerge.protocol.table.actions import AddFile, DeletionVector, Metadata, RemoveFile, parse_action
from deltamerge.protocol.table.column_mapping import MappingMode, mode_of
from deltamerge.protocol.table.compatibility import reads
from deltamerge.protocol.table.properties import Properties
from deltamerge.storage import NotFound, ObjectInfo, Store

INSERT, DELETE = "insert", "delete"
_READERS = 8


@dataclass(frozen=True, slots=True)
class FeedFile:
    """A file with rows that changed in a version: all that `vector` does not delete, of those that `among` deletes if given.

    `kind` is the change's name; None when a column of the file tells it. `size` is in bytes. `partition_values` may be None
    where no table of the range was partitioned.
    """

    path: str
    partition_values: Mapping[str, str | None] | None
    size: int
    version: int
    timestamp: int
    kind: str | None = None
    vector: DeletionVector | None = None
    among: DeletionVector | None = None


@dataclass(frozen=True)
class Feed:
    """The changes of some versions, as rows of the schema of `snapshot`, which is the last of them."""

    snapshot: Snapshot
    files: tuple[FeedFile, ...] = field(repr=False)


def feed_of(log: DeltaLog, bounds: FeedBounds) -> Feed:
    """The changes within `bounds`. Raises AnalysisError, InvalidArgumentError, UnsupportedTableError, CorruptTableError."""
    newest = log.snapshot()
    found = feed_range(newest, bounds)
    if found is None:
        return Feed(newest, ())
    start, end = found
    first, last = log.snapshot(start).metadata, log.snapshot(end)
    _check_enabled(first, start, found)
    with ThreadPoolExecutor(_READERS) as pool:
        steps = list(pool.map(lambda info: _step(log.store, info, found), _commit_files(log.store, start, end)))
    later = [(step.version, step.metadata) for step in steps[1:] if step.metadata is not None]
    for version, metadata in later:
        _check_enabled(metadata, version, found)
        _check_schema(metadata, version, last, found, "SCHEMA_CHANGE")
    _check_schema(first, start, last, found, "DATA_SCHEMA")
    files = tuple(file for step in steps for file in step.files)
    unplaced = next((file for file in files if file.partition_values is None), None)
    partitioned = any(metadata.partition_columns for metadata in (first, *(m for _, m in later)))
    # What the first version removes, if it sets the metadata, was written with other metadata.
    if unplaced is not None and (partitioned or steps[0].metadata is not None):
        raise without_partition(unplaced)
    return Feed(last, files)


@dataclass(frozen=True, slots=True)
class _Step:
    """What one version adds to the feed, and the metadata that it sets, if it does."""

    version: int
    metadata: Metadata | None
    files: list[FeedFile]


def _commit_files(store: Store, start: int, end: int) -> list[ObjectInfo]:
    """The commit files of the versions from `start` to `end`, with their times."""
    listed = {commit_version(info): info for info in ordered_times(all_commits(store))}
    for version in range(start, end + 1):
        if version not in listed:
            raise _missing(store, version, (start, end))
    return [listed[version] for version in range(start, end + 1)]


def _missing(store: Store, version: int, asked: tuple[int, int]) -> CorruptTableError:
    return CorruptTableError(
        "DELTA_VERSIONS_NOT_CONTIGUOUS",
        f"{store.url}: the log has no version {version}, whose changes are asked for.",
        parameters={"version": version, "startVersion": asked[0], "endVersion": asked[1]},
        hint=f"Restore {commit_name(version)} from a backup, or read the changes from version {version + 1} on.",
    )


def _step(store: Store, info: ObjectInfo, asked: tuple[int, int]) -> _Step:
    try:
        data = store.read(info.name)
    except NotFound as error:  # log clean-up has deleted it since it was listed
        raise _missing(store, commit_version(info), asked) from error
    commit = parse_commit(data, info, store)
    return _Step(commit.version, commit.metadata, list(changes_of(commit, data)))


def changes_of(commit: CommitFile, data: bytes) -> Iterator[FeedFile]:
    """The files that tell what a version changed: its change data files if it has any, else those added and removed."""
    version, time = commit.version, commit.timestamp
    if commit.cdc:
        for change in commit.cdc:
            yield FeedFile(change.path, change.partition_values, change.size, version, time)
        return
    if not commit.data_change or changed_nothing(commit):
        return
    added, removed = _data_changes(data)
    for path, add in added.items():
        if path not in removed:
            yield _file(add, version, time, INSERT, add.deletion_vector)
    for path, remove in removed.items():
        if path not in added:
            yield _file(remove, version, time, DELETE, remove.deletion_vector)
            continue
        before, after = remove.deletion_vector, added[path].deletion_vector
        if after is not None and after != before:
            yield _file(added[path], version, time, DELETE, before, after)
        if before is not None and after != before:
            yield _file(added[path], version, time, INSERT, after, before)


def changed_nothing(commit: CommitFile) -> bool:
    """Whether a merge wrote files again without any change of a row, as delta-spark does."""
    metrics = commit.info.get("operationMetrics") or {}
    counts = [str(metrics.get(f"numTargetRows{change}")) for change in ("Inserted", "Updated", "Deleted")]
    return commit.info.get("operation") == "MERGE" and counts == ["0", "0", "0"]


def _data_changes(data: bytes) -> tuple[dict[str, AddFile], dict[str, RemoveFile]]:
    """The files that a commit adds and removes with a change of data, by canonical path."""
    added: dict[str, AddFile] = {}
    removed: dict[str, RemoveFile] = {}
    for parsed in json_lines(data):
        action = parse_action(parsed())
        if isinstance(action, AddFile) and action.data_change:
            added[canonical_path(action.path)] = action
        elif isinstance(action, RemoveFile) and action.data_change:
            removed[canonical_path(action.path)] = action
    return added, removed


def _file(
    file: AddFile | RemoveFile,
    version: int,
    time: int,
    kind: str,
    vector: DeletionVector | None,
    among: DeletionVector | None = None,
) -> FeedFile:
    return FeedFile(file.path, file.partition_values, file.size or 0, version, time, kind, vector, among)


def without_partition(file: FeedFile) -> CorruptTableError:
    """The error for a removed file of which the log does not tell the partition."""
    return CorruptTableError(
        "DELTAMERGE_REMOVE_WITHOUT_PARTITION",
        f"Version {file.version} removes {file.path} without its partition values, so that its rows are not known.",
        parameters={"version": file.version, "path": file.path},
        hint="The writer left out what is optional in the protocol; read the changes of other versions.",
    )


def _check_enabled(metadata: Metadata, version: int, asked: tuple[int, int]) -> None:
    if not Properties(metadata.configuration).change_data_feed:
        raise AnalysisError(
            "DELTA_MISSING_CHANGE_DATA",
            f"Error getting change data for range [{asked[0]} , {asked[1]}] as change data was not recorded for version "
            f"[{version}].",
            parameters={"startVersion": asked[0], "endVersion": asked[1], "version": version},
            hint="DeltaTable.history() shows when delta.enableChangeDataFeed was set; changes before that are not recorded.",
        )


def _check_schema(metadata: Metadata, version: int, last: Snapshot, asked: tuple[int, int], what: str) -> None:
    """Refuse rows that the last version's schema doesn't tell right."""
    downgraded = mode_of(metadata) is not MappingMode.NONE and mode_of(last.metadata) is MappingMode.NONE
    if not downgraded and reads(parse_schema(last.metadata.schema_string), parse_schema(metadata.schema_string)):
        return
    raise UnsupportedTableError(
        f"DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_{what}",
        f"Retrieving table changes between version {asked[0]} and {asked[1]} failed because of an incompatible "
        f"{what.replace('_', ' ').lower()}: the schema of version {last.version} does not read that of version {version}.",
        parameters={
            "start": asked[0],
            "end": asked[1],
            "readSchema": last.metadata.schema_string,
            "readVersion": last.version,
            "incompatibleVersion": version,
        },
        hint=f"Read the changes before version {version if version > asked[0] else version + 1} and those from it on separately.",
    )
