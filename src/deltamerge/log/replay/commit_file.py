"""One commit file, parsed: file actions as Arrow tables, the few others as objects."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from deltamerge.errors import CorruptTableError
from deltamerge.log.replay.files import FILE_SCHEMA, TOMBSTONE_SCHEMA, file_keys, table_of
from deltamerge.log.replay.segment import commit_version
from deltamerge.protocol.table.actions import (
    KINDS,
    Action,
    CdcFile,
    CommitInfo,
    DomainMetadata,
    Metadata,
    Protocol,
    Txn,
    parse_action,
)
from deltamerge.storage import NotFound, ObjectInfo, Store


@dataclass(frozen=True)
class CommitFile:
    """What one version changed. `adds` and `removes` are Arrow tables; `data_change` says whether any file action is one."""

    version: int
    file: ObjectInfo
    adds: pa.Table
    removes: pa.Table
    others: tuple[Action, ...]
    data_change: bool

    @property
    def timestamp(self) -> int:
        """The in-commit timestamp, in ms; the commit file's modification time when there is none."""
        found = self.in_commit_timestamp
        return self.file.modified if found is None else found

    @property
    def in_commit_timestamp(self) -> int | None:
        """`inCommitTimestamp` of the commitInfo, in ms."""
        found = self.info.get("inCommitTimestamp")
        return found if isinstance(found, int) else None

    @property
    def removed_keys(self) -> list[str]:
        """Identities of the removed files."""
        keys: list[str] = file_keys(self.removes).to_pylist()
        return keys

    @property
    def metadata(self) -> Metadata | None:
        """The metadata that this version set."""
        return next((a for a in self.others if isinstance(a, Metadata)), None)

    @property
    def protocol(self) -> Protocol | None:
        """The protocol that this version set."""
        return next((a for a in self.others if isinstance(a, Protocol)), None)

    @property
    def info(self) -> Mapping[str, Any]:
        """The commitInfo, empty when there is none."""
        return next((a.value for a in self.others if isinstance(a, CommitInfo)), {})

    @property
    def txns(self) -> list[Txn]:
        """Application transactions of this version."""
        return [a for a in self.others if isinstance(a, Txn)]

    @property
    def domains(self) -> list[DomainMetadata]:
        """Domain metadata of this version."""
        return [a for a in self.others if isinstance(a, DomainMetadata)]

    @property
    def cdc(self) -> list[CdcFile]:
        """Change data files of this version."""
        return [a for a in self.others if isinstance(a, CdcFile)]


UNPARSABLE = (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError)

_READERS = 8


def read_commits(store: Store, infos: Sequence[ObjectInfo]) -> list[CommitFile]:
    """Read and parse commit files, several at a time. Raises CorruptTableError naming file and line."""
    if len(infos) < 2:
        return [read_commit(store, info) for info in infos]
    with ThreadPoolExecutor(_READERS) as pool:
        return list(pool.map(lambda info: read_commit(store, info), infos))


def read_commit(store: Store, info: ObjectInfo) -> CommitFile:
    """Read and parse a commit file. Raises CorruptTableError naming file and line."""
    try:
        data = store.read(info.name)
    except NotFound as error:
        raise _corrupt(info.name, None, "the file vanished while it was read", store) from error
    return parse_commit(data, info, store)


def parse_commit(data: bytes, info: ObjectInfo, store: Store) -> CommitFile:
    """Parse the bytes of a commit file. Raises CorruptTableError naming file and line."""
    adds: list[Mapping[str, Any]] = []
    removes: list[Mapping[str, Any]] = []
    others: list[Action] = []
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line.decode())
            known = [kind for kind in value if kind in _KNOWN and value[kind] is not None]
            if len(known) > 1:
                raise ValueError(f"one line holds the actions {' and '.join(known)}")
            if known == ["add"]:
                adds.append(_required(value["add"], "path", "size"))
            elif known == ["remove"]:
                removes.append(_required(value["remove"], "path"))
            elif (action := parse_action(value)) is not None:
                others.append(action)
        except UNPARSABLE as error:
            raise _corrupt(info.name, number, cause_of(error), store) from error
    for name, kind in (("protocol", Protocol), ("metaData", Metadata)):
        if sum(isinstance(action, kind) for action in others) > 1:
            raise _corrupt(info.name, None, f"it has more than one {name} action", store)
    try:
        add_table, remove_table = table_of(adds, FILE_SCHEMA), table_of(removes, TOMBSTONE_SCHEMA)
        file_keys(add_table), file_keys(remove_table)
    except UNPARSABLE as error:
        raise _corrupt(info.name, None, str(error), store) from error
    changed = any(bool(row.get("dataChange", True)) for row in (*adds, *removes))
    return CommitFile(commit_version(info), info, add_table, remove_table, tuple(others), changed)


_KNOWN = frozenset(KINDS)


def cause_of(error: Exception) -> str:
    """What is wrong with an action that raised this while it was parsed."""
    if isinstance(error, KeyError):
        return f"{error.args[0]} is missing"
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)


def _required(value: Mapping[str, Any], *names: str) -> Mapping[str, Any]:
    for name in names:
        if value.get(name) is None:
            raise ValueError(f"{name} is missing")
    return value


def _corrupt(name: str, line: int | None, cause: str, store: Store) -> CorruptTableError:
    where = name if line is None else f"{name}, line {line}"
    return CorruptTableError(
        "DELTAMERGE_CORRUPT_COMMIT",
        f"The transaction log of {store.url} is damaged at {where}: {cause}.",
        parameters={"table": store.url, "file": name, "line": line},
        hint="Restore the file from a backup; nothing was read or written.",
    )
