"""Which log files make up a version: the newest usable checkpoint and the commits after it.

Source: PROTOCOL.md, "Delta Log Entries", "Checkpoints", "Last Checkpoint File".
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from deltamerge.errors import AnalysisError, CorruptTableError, TableNotFoundError
from deltamerge.storage import NotFound, ObjectInfo, Store

LOG = "_delta_log"
LAST_CHECKPOINT = f"{LOG}/_last_checkpoint"

_COMMIT = re.compile(r"(\d{20})\.json")
_CLASSIC = re.compile(r"(\d{20})\.checkpoint\.parquet")
_PART = re.compile(r"(\d{20})\.checkpoint\.(\d{10})\.(\d{10})\.parquet")


@dataclass(frozen=True, slots=True)
class CheckpointFiles:
    """A complete checkpoint: its version and the Parquet files that hold it."""

    version: int
    parts: tuple[ObjectInfo, ...]


@dataclass(frozen=True, slots=True)
class LogSegment:
    """The files from which `version` is replayed: commits are contiguous and end with it.

    `tip` is the commit file of `version`, also when a checkpoint stands in for it; None when log cleanup took it.
    """

    version: int
    checkpoint: CheckpointFiles | None
    commits: tuple[ObjectInfo, ...]
    tip: ObjectInfo | None

    @property
    def timestamp(self) -> int:
        """Modification time of the version's commit file, in ms; of its checkpoint when there is no commit file."""
        if self.tip is not None:
            return self.tip.modified
        return self.checkpoint.parts[-1].modified if self.checkpoint else 0


def commit_name(version: int) -> str:
    """The name of a commit file, relative to the table."""
    return f"{LOG}/{version:020d}.json"


def commit_version(info: ObjectInfo) -> int:
    """The version that a commit file makes."""
    return int(info.name.rpartition("/")[2][:20])


def find_segment(store: Store, version: int | None = None) -> LogSegment:
    """The segment of `version`, of the newest one for None.

    Raises TableNotFoundError when there is no Delta table, AnalysisError for a version that doesn't exist, and
    CorruptTableError when commits are missing.
    """
    hint = _last_checkpoint(store)
    start = hint if hint is not None and (version is None or hint <= version) else 0
    segment = _segment(store, store.list(LOG, f"{start:020d}"), version, partial=start > 0)
    if segment is None and start > 0:
        segment = _segment(store, store.list(LOG, ""), version, partial=False)
    if segment is None:
        raise _no_table(store)
    return segment


def commits_after(store: Store, version: int) -> list[ObjectInfo]:
    """The commit files newer than `version`, contiguous from `version + 1`; [] when it is the newest."""
    listed = all_commits(store, version + 1)
    _check_contiguous(store, version, [commit_version(info) for info in listed], None)
    return listed


def all_commits(store: Store, start: int = 0) -> list[ObjectInfo]:
    """Every commit file from version `start` that is still in the log, oldest first."""
    return [info for info in store.list(LOG, f"{start:020d}") if _match(_COMMIT, info)]


def _segment(store: Store, listed: list[ObjectInfo], version: int | None, partial: bool) -> LogSegment | None:
    """The segment that the listed files make; None when there are none, or a partial listing lacks the older ones."""
    commits = {commit_version(info): info for info in listed if _match(_COMMIT, info)}
    checkpoints = _complete_checkpoints(listed)
    if not commits and not checkpoints:
        return None
    newest = max([*commits, *checkpoints])
    target = newest if version is None else version
    if target > newest or target < 0:
        raise _no_version(target, newest)
    base = max((v for v in checkpoints if v <= target), default=None)
    first = 0 if base is None else base + 1
    needed = [v for v in sorted(commits) if first <= v <= target]
    if base is None and (not needed or needed[0] != 0):
        if partial:
            return None
        raise _truncated(store, target)
    _check_contiguous(store, first - 1, needed, target)
    checkpoint = None if base is None else CheckpointFiles(base, checkpoints[base])
    return LogSegment(target, checkpoint, tuple(commits[v] for v in needed), commits.get(target))


def _complete_checkpoints(listed: Iterable[ObjectInfo]) -> dict[int, tuple[ObjectInfo, ...]]:
    whole: dict[int, tuple[ObjectInfo, ...]] = {}
    parts: dict[tuple[int, int], dict[int, ObjectInfo]] = defaultdict(dict)
    for info in listed:
        if found := _match(_CLASSIC, info):
            whole[int(found[1])] = (info,)
        elif found := _match(_PART, info):
            parts[int(found[1]), int(found[3])][int(found[2])] = info
    for (version, count), found_parts in parts.items():
        if len(found_parts) == count and version not in whole:
            whole[version] = tuple(found_parts[number] for number in sorted(found_parts))
    return whole


def _match(pattern: re.Pattern[str], info: ObjectInfo) -> re.Match[str] | None:
    return pattern.fullmatch(info.name.rpartition("/")[2])


def _last_checkpoint(store: Store) -> int | None:
    """The version that `_last_checkpoint` points to; a missing or damaged pointer only costs a longer listing."""
    try:
        return int(json.loads(store.read(LAST_CHECKPOINT))["version"])
    except (NotFound, ValueError, KeyError, TypeError, OverflowError):
        return None


def _check_contiguous(store: Store, before: int, versions: list[int], target: int | None) -> None:
    expected = list(range(before + 1, before + 1 + len(versions)))
    if versions == expected and (target is None or before + len(versions) == target):
        return
    found = set(versions)
    last = target if target is not None else versions[-1]
    missing = next(v for v in range(before + 1, last + 1) if v not in found)
    raise CorruptTableError(
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
        hint="Check the path, or create the table with deltamerge.write(df, path).",
    )


def _no_version(version: int, newest: int) -> AnalysisError:
    return AnalysisError(
        "DELTA_VERSION_NOT_FOUND",
        f"Cannot time travel to version {version}: the newest version is {newest}.",
        parameters={"userVersion": version, "latest": newest},
        hint="DeltaTable.history() lists the versions.",
    )


def _truncated(store: Store, version: int) -> CorruptTableError:
    return CorruptTableError(
        "DELTA_TRUNCATED_TRANSACTION_LOG",
        f"{store.url}: version {version} can't be reconstructed, its older log files are gone and no checkpoint covers them.",
        parameters={"path": store.url, "version": version},
        hint="Old versions vanish by log retention; otherwise restore the deleted files of _delta_log from a backup.",
    )
