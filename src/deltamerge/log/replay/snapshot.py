"""One version of a table, immutable: protocol, metadata, live files, and what else the log has in force."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

from deltamerge.errors import CorruptTableError
from deltamerge.log.replay.checkpoint import read_checkpoint
from deltamerge.log.replay.commit_file import CommitFile, read_commit, read_commits
from deltamerge.log.replay.files import FileSet, file_keys
from deltamerge.log.replay.segment import LogSegment
from deltamerge.log.replay.tombstones import Tombstones
from deltamerge.protocol.schema.types import StructType
from deltamerge.protocol.table.actions import Action, DomainMetadata, Metadata, Protocol, Txn
from deltamerge.protocol.table.column_mapping import mapped_schema
from deltamerge.protocol.table.features import check_readable, in_commit_timestamps
from deltamerge.protocol.table.properties import Properties
from deltamerge.storage import ObjectInfo, Store

_Kind = TypeVar("_Kind", Protocol, Metadata)


@dataclass(frozen=True)
class Snapshot:
    """A version of a table. `timestamp` in ms; `tombstones` are the removed files that a checkpoint would keep.

    `tip` is the newest log file that it was made from, by which a table that was made anew in its place is noticed.
    `contradicted` names what the version's checksum file says otherwise: such a version is read, but not written onto.
    """

    store: Store
    version: int
    timestamp: int
    protocol: Protocol
    metadata: Metadata
    files: FileSet
    tombstones: Tombstones = field(default_factory=Tombstones)
    txns: Mapping[str, Txn] = field(default_factory=dict)
    domains: Mapping[str, DomainMetadata] = field(default_factory=dict)
    checkpoint_version: int | None = None
    tip: ObjectInfo | None = None
    contradicted: tuple[str, ...] = ()

    @cached_property
    def schema(self) -> StructType:
        """The table's schema, by logical names; physical names are the ones in force."""
        return mapped_schema(self.protocol, self.metadata)

    @cached_property
    def properties(self) -> Properties:
        """The table's properties, typed."""
        return Properties(self.metadata.configuration)

    @property
    def in_commit_timestamps(self) -> bool:
        """Whether commits carry their own timestamps."""
        return in_commit_timestamps(self.protocol, self.metadata)

    @property
    def partition_columns(self) -> tuple[str, ...]:
        """Names of the partition columns, in order."""
        return self.metadata.partition_columns

    @cached_property
    def partition_schema(self) -> StructType:
        """The partition columns' fields, in partition order."""
        by_name = {f.name: f for f in self.schema}
        return StructType(tuple(by_name[name] for name in self.partition_columns))

    @cached_property
    def data_schema(self) -> StructType:
        """The fields that data files hold: all but the partition columns."""
        return StructType(tuple(f for f in self.schema if f.name not in self.partition_columns))

    def advance(self, commit: CommitFile) -> Snapshot:
        """The next version, after `commit`. Raises UnsupportedTableError when the commit made the table unreadable here."""
        files = self.files.replay(commit.adds, file_keys(commit.removes))
        protocol, metadata = commit.protocol or self.protocol, commit.metadata or self.metadata
        if commit.protocol or commit.metadata:
            check_readable(protocol, metadata, self.store.url)
        return replace(
            self,
            version=commit.version,
            timestamp=commit.timestamp if in_commit_timestamps(protocol, metadata) else commit.file.modified,
            tip=commit.file,
            protocol=protocol,
            metadata=metadata,
            files=files,
            tombstones=self.tombstones.after(commit.adds, commit.removes),
            txns={**self.txns, **{t.app_id: t for t in commit.txns}},
            domains=_domains(self.domains, commit.domains),
        )

    def of_file(self, file: ObjectInfo) -> Snapshot:
        """The same version, whose commit file is this one."""
        made = self.timestamp if self.in_commit_timestamps else file.modified
        return replace(self, tip=file, timestamp=made)


def load_snapshot(store: Store, segment: LogSegment) -> Snapshot:
    """Replay a segment. Raises CorruptTableError, UnsupportedTableError."""
    commits = read_commits(store, segment.commits)
    others: list[Action] = []
    files, tombstones = FileSet(), Tombstones()
    checkpoint_version = None
    if segment.checkpoint is not None:
        state = read_checkpoint(store, segment.checkpoint)
        checkpoint_version = segment.checkpoint.version
        files, tombstones = FileSet.of_chunks(state.adds), Tombstones(state.removes)
        others.extend(state.others)
    for commit in commits:
        others.extend(commit.others)
    protocol = _last(others, Protocol, "protocol", store, segment.version)
    metadata = _last(others, Metadata, "metaData", store, segment.version)
    check_readable(protocol, metadata, store.url)
    files = files.replay_all([(commit.adds, file_keys(commit.removes)) for commit in commits])
    for commit in commits:
        tombstones = tombstones.after(commit.adds, commit.removes)
    return Snapshot(
        store=store,
        version=segment.version,
        timestamp=_timestamp(store, segment, commits, in_commit_timestamps(protocol, metadata)),
        protocol=protocol,
        metadata=metadata,
        files=files,
        tombstones=tombstones,
        txns={a.app_id: a for a in others if isinstance(a, Txn)},
        domains=_domains({}, [a for a in others if isinstance(a, DomainMetadata)]),
        checkpoint_version=checkpoint_version,
        tip=segment.tip,
    )


def _timestamp(store: Store, segment: LogSegment, commits: list[CommitFile], in_commit: bool) -> int:
    """When the version was made, in ms: what its commit says if `in_commit`, else its file's modification time."""
    if not in_commit or segment.tip is None:
        return segment.timestamp
    last = commits[-1] if commits and commits[-1].file == segment.tip else read_commit(store, segment.tip)
    return last.timestamp


def _last(actions: list[Action], kind: type[_Kind], name: str, store: Store, version: int) -> _Kind:
    found = [a for a in actions if isinstance(a, kind)]
    if not found:
        raise CorruptTableError(
            "DELTA_STATE_RECOVER_ERROR",
            f"The {name} of {store.url} could not be recovered while reconstructing version {version}.",
            parameters={"operation": name, "version": version},
            hint="A log file was deleted or damaged; restore _delta_log from a backup.",
        )
    return found[-1]


def _domains(before: Mapping[str, DomainMetadata], changed: list[DomainMetadata]) -> dict[str, DomainMetadata]:
    merged = {**before, **{d.domain: d for d in changed}}
    return {name: domain for name, domain in merged.items() if not domain.removed}
