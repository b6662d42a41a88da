"""What a transaction wants to commit, before it is known at which version it lands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from deltamerge.log.commit.conflict import ReadSet
from deltamerge.log.commit.dv_files import MarkedFile
from deltamerge.log.commit.row_ids import with_ids_of, without_files_of
from deltamerge.log.replay.commit_file import CommitFile
from deltamerge.log.replay.files import file_key
from deltamerge.protocol.table.actions import Action, AddFile, CdcFile, DomainMetadata, RemoveFile
from deltamerge.protocol.values.partitions import decode_path
from deltamerge.storage.location import is_absolute


@dataclass(frozen=True, slots=True)
class Author:
    """Who commits: the engine as history names it, and what it notes with every commit that has no note of its own."""

    engine: str = "deltamerge"
    user_metadata: str | None = None


@dataclass(frozen=True)
class Proposal:
    """What a transaction wants to commit: its actions, what it read, and what history shall say of it.

    `parameters` are JSON values: most of delta-spark's are texts, which may hold JSON themselves. One that
    `restores` an older version may take files even from a table that only allows appends, and what it adds was written before.
    `tells_no_version` says that history has it where there was no version to read. One that `renames` adds nothing: it
    names files again that are in the table, with other row ids. `tags` tell other writers of it. `marked` are the files of
    which it deletes rows, which `actions` do not name; `vector_counts` names the metrics that count the deletion vectors
    which are replaced.
    """

    operation: str
    actions: Sequence[Action]
    read: ReadSet = field(default_factory=ReadSet)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, int] = field(default_factory=dict)
    user_metadata: str | None = None
    author: Author = Author()
    restores: bool = False
    tells_no_version: bool = False
    renames: bool = False
    tags: Mapping[str, str] = field(default_factory=dict)
    marked: tuple[MarkedFile, ...] = ()
    vector_counts: tuple[str, ...] = ()

    @property
    def note(self) -> str | None:
        """What history shows as the user's: the write's own note, else the author's."""
        return self.author.user_metadata if self.user_metadata is None else self.user_metadata

    @property
    def removed_keys(self) -> frozenset[str]:
        """Identities of the files that the transaction removes."""
        removed = frozenset(file_key(a) for a in self.actions if isinstance(a, RemoveFile))
        return removed | {file_key(mark.file) for mark in self.marked}

    def actions_at(self, now: int) -> list[Action]:
        """All actions, at `now` in ms. The vectors of marked files have their places."""
        return [*self.actions, *(action for mark in self.marked for action in mark.actions(now))]

    @property
    def new_folders(self) -> frozenset[str]:
        """The folders within the table of the files that were written for the transaction."""
        if self.restores or self.renames:
            return frozenset()
        written = {a.path for a in self.actions if isinstance(a, AddFile | CdcFile)}
        written.difference_update(a.path for a in self.actions if isinstance(a, RemoveFile))
        return frozenset(decode_path(path).rpartition("/")[0] for path in written if not is_absolute(path))

    @property
    def domains(self) -> frozenset[str]:
        """Names of the metadata domains that the transaction changes."""
        return frozenset(a.domain for a in self.actions if isinstance(a, DomainMetadata))

    def after(self, winner: CommitFile) -> Proposal:
        """The proposal as it may follow a commit that is no conflict."""
        if self.renames:
            return replace(self, actions=without_files_of(winner, self.actions))
        files = with_ids_of(winner, [mark.file for mark in self.marked])
        marked = tuple(replace(mark, file=file) for mark, file in zip(self.marked, files, strict=True))
        return replace(self, actions=with_ids_of(winner, self.actions), marked=marked)

    def has(self, kind: type[Action]) -> bool:
        """Whether an action of this kind is proposed."""
        return any(isinstance(a, kind) for a in self.actions)
