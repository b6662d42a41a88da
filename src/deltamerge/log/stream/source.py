"""A table as the source of a stream: where it begins, where the next batch ends, and the files between two offsets.

Whatever end a batch has, its files are the same after a restart: the log and the two offsets alone tell them.
Source: delta-spark's DeltaSource.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from deltamerge.errors import AnalysisError, CorruptTableError
from deltamerge.log.feed.feed import FeedFile, without_partition
from deltamerge.log.feed.range import first_from
from deltamerge.log.replay.commit_file import parse_commit
from deltamerge.log.replay.commit_times import ordered_times
from deltamerge.log.replay.load import load
from deltamerge.log.replay.segment import all_commits, commit_name, commit_version, find_segment
from deltamerge.log.stream.changes import Step, commit_step, snapshot_step, without_excluded
from deltamerge.log.stream.losses import no_snapshot, no_version, trailing, unexpected
from deltamerge.log.stream.offset import Offset, parse_offset
from deltamerge.log.stream.options import FILES, LATEST, StreamOptions
from deltamerge.log.stream.schemas import Analyzed, check_metadata
from deltamerge.protocol.table.features import check_readable
from deltamerge.storage.base import NotFound, ObjectInfo, Store

_READERS = 8
_KEPT = 256
_LISTED_SECONDS = 60.0


@dataclass
class _Room:
    """For how many more files and bytes a batch has room. The first group always finds some."""

    files: float
    bytes: float
    is_empty: bool = True

    def takes(self, files: int, size: int) -> bool:
        """Whether there was room. A single file may exceed what is left, several that belong together only if they are first."""
        fits = self.files > 0 and self.bytes > 0 if files == 1 else self.is_empty or (self.files >= files and self.bytes >= size)
        self.files, self.bytes, self.is_empty = self.files - files, self.bytes - size, False
        return fits


@dataclass
class TableStream:
    """The source. `analyzed` is the version with which the stream was made; `is_remote` says that each listing is a request."""

    store: Store
    analyzed: Analyzed
    options: StreamOptions
    is_remote: bool = False
    _first: Offset | None = None
    _is_pinned: bool = False
    _bound: tuple[int, int] | None = None
    _is_bounded: bool = False
    _steps: dict[int, Step] = field(default_factory=dict)
    _snapshot: Step | None = None
    _checked: bool = False
    _listed: float = 0.0

    @property
    def id(self) -> str:
        """The table's id."""
        return self.analyzed.metadata.id

    def start(self) -> Offset:
        """Where a query without a checkpoint begins; the same whenever it is asked. Raises DeltaMergeError."""
        if self._first is None:
            self._first = self._started()
        return self._first

    def bound(self) -> None:
        """End, from now on, with what is there when the next offset is asked for."""
        self._is_bounded = True

    def latest(self, start: Offset, limited: bool = True) -> Offset:
        """Where a batch that begins at `start` ends. Raises DeltaMergeError for what a stream must not pass over."""
        if self._is_bounded and self._bound is None:
            self._bound = self._end(start, None).place
        return self._end(start, self._room() if limited else None)

    def files(self, start: Offset, end: Offset) -> list[FeedFile]:
        """The files between two offsets. Raises DeltaMergeError."""
        if start == self._first and start.is_snapshot:
            # The first batch runs again, for which no start is kept; it has not gone beyond the snapshot.
            start = Offset(end.table, end.version if end.is_snapshot else end.version - 1, is_snapshot=True)
        if start.place >= end.place:
            return []
        pattern = None if self.options.exclude is None else re.compile(self.options.exclude)
        found: list[FeedFile] = []
        seen = start.version - 1
        for step in self._steps_from(start, end):
            seen = step.version
            for group in step.groups:
                if start.place < (step.version, group.index) <= end.place:
                    found += without_excluded(group.files, pattern)
        last = end.version if end.index >= 0 else end.version - 1
        if seen < last:
            raise trailing(self.store, last, seen)
        unplaced = next((file for file in found if file.partition_values is None), None)
        if unplaced is not None and self.analyzed.metadata.partition_columns:
            raise without_partition(unplaced)
        return found

    def parsed(self, value: Mapping[str, Any]) -> Offset:
        """An offset of a checkpoint. Raises InvalidArgumentError."""
        return parse_offset(value, self.id)

    def _started(self) -> Offset:
        options = self.options
        if options.start_version == LATEST:
            return Offset(self.id, find_segment(self.store).version + 1)
        if options.start_version is not None:
            version = int(options.start_version)
            versions = [commit_version(info) for info in all_commits(self.store)]
            if version not in versions and not (options.may_exceed and versions and version > versions[-1]):
                raise no_version(version, versions)
            return Offset(self.id, version)
        newest = load(self.store)
        if options.start_time is not None:
            return Offset(self.id, first_from(newest, options.start_time, options.may_exceed))
        return Offset(self.id, newest.version, is_snapshot=True)

    def _room(self) -> _Room:
        files, size = self.options.max_files, self.options.max_bytes
        default = FILES if size is None else float("inf")
        return _Room(default if files is None else files, float("inf") if size is None else size)

    def _end(self, start: Offset, room: _Room | None) -> Offset:
        is_first = start == self._first
        if is_first and self.options.start_version == LATEST and not self._is_pinned:
            # A batch without rows has the checkpoint keep this place; "latest" is another one after a restart.
            self._is_pinned = True
            return start
        last = start
        for step in self._steps_from(start):
            for group in step.groups:
                if (step.version, group.index) <= start.place:
                    continue
                if self._bound is not None and not self._is_within(step.version, group.index):
                    return last
                if room is not None and not room.takes(len(group.files), group.bytes):
                    return last
                last = Offset(self.id, step.version, group.index, step.is_snapshot)
            if self._bound is not None and not self._is_within(step.version + 1, -1):
                return last
            last = Offset(self.id, step.version + 1)
            if step.is_snapshot and is_first:
                break
        return last

    def _is_within(self, version: int, index: int) -> bool:
        return self._bound is None or (version, index) <= self._bound

    def _steps_from(self, start: Offset, end: Offset | None = None) -> Iterator[Step]:
        """What the versions from `start` on bring, one after the other, each whole; up to `end` where one is given."""
        version = start.version
        if start.is_snapshot:
            yield self._snapshot_of(version)
            version += 1
        elif not self._checked:
            self._check_start(version)
        last = None if end is None else end.version if end.index >= 0 else end.version - 1
        if last is not None and version > last:
            return
        infos = [info for info in self._commits(version) if last is None or commit_version(info) <= last]
        for at in range(0, len(infos), _READERS):
            part = infos[at : at + _READERS]
            for info, data in zip(part, self._read(part), strict=True):
                yield self._step(info, data)

    def _commits(self, version: int) -> list[ObjectInfo]:
        """The commits from a version on. Raises CorruptTableError where some are missing, unless that is allowed."""
        if self.is_remote and time.monotonic() - self._listed < _LISTED_SECONDS and self.store.info(commit_name(version)) is None:
            return []
        listed = all_commits(self.store, 0 if self.options.feed else version)
        self._listed = time.monotonic()
        if self.options.feed:  # times of commits are those of files, each later than the one before
            listed = [info for info in ordered_times(listed) if commit_version(info) >= version]
        if self.options.fail_on_loss:
            for expected, info in enumerate(listed, version):
                if commit_version(info) != expected:
                    raise unexpected(self.store, expected, commit_version(info))
        return listed

    def _read(self, infos: list[ObjectInfo]) -> list[bytes | None]:
        """The contents of commit files, None of those that are known."""

        def read(info: ObjectInfo) -> bytes | None:
            if commit_version(info) in self._steps:
                return None
            try:
                return self.store.read(info.name)
            except NotFound as error:
                raise unexpected(self.store, commit_version(info), commit_version(info) + 1) from error

        if len(infos) < 2:
            return [read(info) for info in infos]
        with ThreadPoolExecutor(_READERS) as pool:
            return list(pool.map(read, infos))

    def _step(self, info: ObjectInfo, data: bytes | None) -> Step:
        if data is None:
            return self._steps[commit_version(info)]
        commit = parse_commit(data, info, self.store)
        protocol, metadata = commit.protocol or self.analyzed.protocol, commit.metadata
        if commit.protocol is not None or metadata is not None:
            check_readable(protocol, metadata or self.analyzed.metadata, self.store.url)
        if metadata is not None:
            check_metadata(self.analyzed, Analyzed(commit.version, protocol, metadata), self.options)
        step = commit_step(commit, data, self.options, self.store.url)
        if len(self._steps) >= _KEPT:
            self._steps.clear()
        self._steps[commit.version] = step
        return step

    def _snapshot_of(self, version: int) -> Step:
        if self._snapshot is None or self._snapshot.version != version:
            try:
                snapshot = load(self.store, version)
            except (AnalysisError, CorruptTableError) as error:
                raise no_snapshot(self.store, version) from error
            check_metadata(self.analyzed, Analyzed(version, snapshot.protocol, snapshot.metadata), self.options)
            self._snapshot, self._checked = snapshot_step(snapshot), True
        return self._snapshot

    def _check_start(self, version: int) -> None:
        """Check the metadata with which files of a version were written, where the log can still tell them."""
        self._checked = True
        try:
            newest = find_segment(self.store).version
            snapshot = load(self.store, min(version, newest))
        except (AnalysisError, CorruptTableError):
            return
        check_metadata(self.analyzed, Analyzed(snapshot.version, snapshot.protocol, snapshot.metadata), self.options)
