"""Which log files make up a version: the newest usable checkpoint and the commits after it.

Source: PROTOCOL.md, "Delta Log Entries", "Checkpoints", "Log Compaction Files".
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from deltamerge.errors import AnalysisError, CorruptTableError, TableNotFoundError
from deltamerge.log.replay.last_checkpoint import read_pointer
from deltamerge.storage import ObjectInfo, Store

LOG = "_delta_log"

_COMMIT = re.compile(r"(\d{20})\.json", re.ASCII)
_PARTITION = re.compile(r"(?P<root>.+)/(?P<name>[^/=]+)=(?P<value>[^/]*)")
_COMPACTED = re.compile(r"(\d{20})\.(\d{20})\.compacted\.json", re.ASCII)
_CLASSIC = re.compile(r"(\d{20})\.checkpoint\.parquet", re.ASCII)
_PART = re.compile(r"(\d{20})\.checkpoint\.(\d{10})\.(\d{10})\.parquet", re.ASCII)
_UUID = re.compile(r"(\d{20})\.checkpoint\.[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\.(?:json|parquet)", re.ASCII)
_CHECKSUM = re.compile(r"(\d{20})\.crc", re.ASCII)
_VERSIONED = (_COMMIT, _COMPACTED, _CLASSIC, _PART, _UUID, _CHECKSUM)


@dataclass(frozen=True, slots=True)
class CheckpointFiles:
    """A complete checkpoint: its version and the files that hold it, without the sidecars that they name."""

    version: int
    parts: tuple[ObjectInfo, ...]

    @property
    def has_uuid(self) -> bool:
        """Whether it is named by a UUID, as only V2 checkpoints are."""
        return _match(_UUID, self.parts[0]) is not None


@dataclass(frozen=True, slots=True)
class LogSegment:
    """The files from which `version` is replayed: `commits` (or compactions of some) cover all versions up to it.

    `tip` is the commit file of `version`, also when a checkpoint stands in for it; None when log cleanup took it.
    `checksum` is the version checksum file, None when there is none.
    """

    version: int
    checkpoint: CheckpointFiles | None
    commits: tuple[ObjectInfo, ...]
    tip: ObjectInfo | None
    checksum: ObjectInfo | None = None

    @property
    def timestamp(self) -> int:
        """Modification time of the version's commit file, in ms; of its checkpoint when there is no commit file."""
        if self.tip is not None:
            return self.tip.modified
        return self.checkpoint.parts[-1].modified if self.checkpoint else 0

    @property
    def replaceable(self) -> frozenset[str]:
        """The files for which other files of the log can stand in."""
        parts = self.checkpoint.parts if self.checkpoint else ()
        return frozenset(i.name for i in (*parts, *self.commits) if not _match(_COMMIT, i))


def commit_name(version: int) -> str:
    """The name of a commit file, relative to the table."""
    return f"{LOG}/{version:020d}.json"


def checksum_name(version: int) -> str:
    """The name of a version checksum file, relative to the table."""
    return f"{LOG}/{version:020d}.crc"


def commit_version(info: ObjectInfo) -> int:
    """The version that a commit file makes; the last one of a log compaction file."""
    found = _match(_COMPACTED, info)
    return int(found[2]) if found else int(info.name.rpartition("/")[2][:20])


def file_version(info: ObjectInfo) -> int | None:
    """The version, of a log compaction file the first one, that a commit, checkpoint, checksum or compaction is named by."""
    return int(info.name.rpartition("/")[2][:20]) if any(_match(pattern, info) for pattern in _VERSIONED) else None


def is_commit(info: ObjectInfo) -> bool:
    """Whether a log file is a commit."""
    return _match(_COMMIT, info) is not None


def is_checkpoint(info: ObjectInfo) -> bool:
    """Whether a log file is a checkpoint or a part of one."""
    return any(_match(pattern, info) for pattern in (_CLASSIC, _UUID, _PART))


def compacted_range(info: ObjectInfo) -> tuple[int, int] | None:
    """First and last version of a log compaction file, None for any other file."""
    found = _match(_COMPACTED, info)
    return (int(found[1]), int(found[2])) if found else None


def find_segment(store: Store, version: int | None = None, avoid: frozenset[str] = frozenset()) -> LogSegment:
    """The segment of `version`, of the newest one for None, without the checkpoint and compaction files in `avoid`.

    Raises TableNotFoundError when there is no Delta table, AnalysisError for a version that doesn't exist, and
    CorruptTableError when commits are missing.
    """
    hint = None if avoid else read_pointer(store)
    start = hint if hint is not None and (version is None or hint <= version) else 0
    segment = _segment(store, store.list(LOG, f"{start:020d}"), version, avoid, partial=start > 0)
    if segment is None and start > 0:
        segment = _segment(store, store.list(LOG, ""), version, avoid, partial=False)
    if segment is None:
        raise _no_table(store)
    return segment


def commits_after(store: Store, version: int) -> list[ObjectInfo]:
    """The commit files newer than `version`, contiguous from `version + 1`; [] when it is the newest."""
    listed = all_commits(store, version + 1)
    by_version = {commit_version(info): info for info in listed}
    return [] if not listed else list(_covering(store, by_version, {}, version + 1, max(by_version)))


def all_commits(store: Store, start: int = 0) -> list[ObjectInfo]:
    """Every commit file from version `start` that is still in the log, oldest first."""
    return [info for info in log_files(store, start) if _match(_COMMIT, info)]


def log_files(store: Store, start: int) -> list[ObjectInfo]:
    """Every file in the log that is named by version `start` or a later one."""
    return store.list(LOG, f"{start:020d}")


def earliest_version(listed: Iterable[ObjectInfo]) -> int | None:
    """The first version that the listed log files can reconstruct and that has a commit file; None when there is none."""
    files = list(listed)
    commits = {commit_version(info) for info in files if _match(_COMMIT, info)}
    bases = complete_checkpoints(files)
    return min((v for v in commits if v == 0 or v in bases or v - 1 in bases), default=None)


def complete_checkpoints(listed: Iterable[ObjectInfo]) -> dict[int, list[tuple[ObjectInfo, ...]]]:
    """The complete checkpoints of each version, the one to be preferred first; a part is missing in none."""
    found: dict[int, list[tuple[int, tuple[ObjectInfo, ...]]]] = defaultdict(list)
    parts: dict[tuple[int, int], dict[int, ObjectInfo]] = defaultdict(dict)
    for info in listed:
        if match := _match(_UUID, info):
            found[int(match[1])].append((0, (info,)))
        elif match := _match(_CLASSIC, info):
            found[int(match[1])].append((1, (info,)))
        elif match := _match(_PART, info):
            parts[int(match[1]), int(match[3])][int(match[2])] = info
    for (version, count), numbered in parts.items():
        # A name may claim ten thousand million parts: they are counted, never listed.
        if len(numbered) == count == max(numbered) and min(numbered) == 1:
            # Its parts were not put in place at once, so racing writers may have mixed them: the last choice.
            found[version].append((2, tuple(numbered[number] for number in sorted(numbered))))
    return {version: [files for _, files in sorted(kinds, key=lambda kind: kind[0])] for version, kinds in found.items()}


def _segment(
    store: Store, listed: list[ObjectInfo], version: int | None, avoid: frozenset[str], partial: bool
) -> LogSegment | None:
    """The segment that the listed files make; None when there are none, or a partial listing lacks the older ones."""
    commits = {commit_version(info): info for info in listed if _match(_COMMIT, info)}
    checkpoints = complete_checkpoints([info for info in listed if info.name not in avoid])
    if not commits and not checkpoints:
        return None
    newest = max([*commits, *checkpoints])
    target = newest if version is None else version
    if target > newest or target < 0:
        raise _no_version(store, target, newest)
    base = max((v for v in checkpoints if v <= target), default=None)
    if base is None and 0 not in commits:
        if partial:
            return None
        if version is not None and checkpoints:
            raise _no_version(store, target, newest)
        raise _truncated(store, target)
    first = 0 if base is None else base + 1
    needed = _covering(store, commits, _compactions(listed, avoid), first, target)
    checkpoint = None if base is None else CheckpointFiles(base, checkpoints[base][0])
    checksum = next((info for info in listed if info.name == checksum_name(target)), None)
    return LogSegment(target, checkpoint, needed, commits.get(target), checksum)


def _compactions(listed: Iterable[ObjectInfo], avoid: frozenset[str]) -> dict[int, list[ObjectInfo]]:
    """The log compaction files by their first version, the longest first."""
    found: dict[int, list[ObjectInfo]] = defaultdict(list)
    for info in listed:
        bounds = compacted_range(info)
        if bounds and bounds[0] < bounds[1] and info.name not in avoid:
            found[bounds[0]].append(info)
    return {start: sorted(files, key=commit_version, reverse=True) for start, files in found.items()}


def _covering(
    store: Store, commits: Mapping[int, ObjectInfo], compactions: Mapping[int, list[ObjectInfo]], first: int, last: int
) -> tuple[ObjectInfo, ...]:
    """The files that hold the versions from `first` to `last`. Raises CorruptTableError where one is missing."""
    found = []
    version = first
    while version <= last:
        whole = next((info for info in compactions.get(version, ()) if commit_version(info) <= last), None)
        info = whole or commits.get(version)
        if info is None:
            raise _gap(store, version, last, sorted(commits))
        found.append(info)
        version = commit_version(info) + 1
    return tuple(found)


def _match(pattern: re.Pattern[str], info: ObjectInfo) -> re.Match[str] | None:
    return pattern.fullmatch(info.name.rpartition("/")[2])


def _gap(store: Store, missing: int, last: int, versions: list[int]) -> CorruptTableError:
    return CorruptTableError(
        "DELTA_VERSIONS_NOT_CONTIGUOUS",
        f"The transaction log of {store.url} has no version {missing} but later ones up to {last}.",
        parameters={"table": store.url, "missing": missing, "versions": versions[:20]},
        hint=f"Restore {commit_name(missing)} from a backup; without it the table's content is unknown.",
    )


def _no_table(store: Store) -> TableNotFoundError:
    if store.exists_folder(LOG):
        return TableNotFoundError(
            "DELTA_TABLE_NOT_FOUND",
            f"Delta table {store.url} doesn't exist: its _delta_log folder holds no commit.",
            parameters={"tableName": store.url},
            hint="The table's creation was cut off, or its log was deleted; restore it from a backup or create it anew.",
        )
    cause = "it has no _delta_log folder" if store.exists_folder("") else "there is no such folder"
    return TableNotFoundError(
        "DELTA_MISSING_DELTA_TABLE",
        f"{store.url} is not a Delta table: {cause}.",
        parameters={"tableName": store.url},
        hint=_whole_table(store.url) or "Check the path, or create the table with deltamerge.write(df, path).",
    )


def _whole_table(url: str) -> str | None:
    """What to say of a path that is a partition's folder by its name; None for another path."""
    parts, root = list[str](), url.rstrip("/")
    while (split := _PARTITION.fullmatch(root)) is not None:
        root = split["root"]
        parts.insert(0, f"{split['name']} = '{split['value']}'")
    return f"Read a partition as rows of its table: the table at {root}, WHERE {' AND '.join(parts)}." if parts else None


def _no_version(store: Store, version: int, newest: int) -> AnalysisError:
    earliest = earliest_version(store.list(LOG, ""))
    return AnalysisError(
        "DELTA_VERSION_NOT_FOUND",
        f"Cannot time travel to version {version}: available are the versions from {earliest} to {newest}.",
        parameters={"userVersion": version, "earliest": earliest, "latest": newest},
        hint="DeltaTable.history() lists the versions; older ones vanish by log retention.",
    )


def _truncated(store: Store, version: int) -> CorruptTableError:
    return CorruptTableError(
        "DELTA_TRUNCATED_TRANSACTION_LOG",
        f"{store.url}: version {version} can't be reconstructed, its older log files are gone and no checkpoint covers them.",
        parameters={"path": store.url, "version": version},
        hint="Old versions vanish by log retention; otherwise restore the deleted files of _delta_log from a backup.",
    )
