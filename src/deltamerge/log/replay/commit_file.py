"""One commit file, parsed: file actions as Arrow tables, the few others as objects."""

from __future__ import annotations

import functools
import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.errors import CorruptTableError
from deltamerge.log.replay.files import FILE_SCHEMA, TOMBSTONE_SCHEMA, file_keys, table_of
from deltamerge.log.replay.paths import canonical_path, canonical_paths
from deltamerge.log.replay.segment import commit_version, compacted_range
from deltamerge.log.stats.struct import whole
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
from deltamerge.protocol.values.values import long
from deltamerge.storage import NotFound, ObjectInfo, Store

log = logging.getLogger("deltamerge.log")


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
        try:
            return long(self.info.get("inCommitTimestamp"))
        except (TypeError, ValueError):
            return None

    @functools.cached_property
    def removed_keys(self) -> Sequence[str]:
        """Identities of the removed files."""
        keys: list[str] = file_keys(self.removes).to_pylist()
        return keys

    @functools.cached_property
    def added_keys(self) -> Sequence[str]:
        """Identities of the added files."""
        keys: list[str] = file_keys(self.adds).to_pylist()
        return keys

    @property
    def is_blind_append(self) -> bool:
        """Whether the commitInfo says that rows were added and none were read."""
        return self.info.get("isBlindAppend") is True

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
_WAITING = 10_000
_LISTINGS = 3
# Spark's JSON parser refuses longer texts, so that delta-spark reads no log that has one.
_LONGEST_TEXT = 20_000_000
_TEXT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\Z)', re.DOTALL)
# Each value of a line becomes an object of its own, of some hundred bytes, however few it has in the file.
_MOST_VALUES = 2_000_000
_STARTS = b",[{"
_START_OUTSIDE_TEXT = re.compile(_TEXT.pattern + rb"|([,\[{])", re.DOTALL)
_Found = TypeVar("_Found")


def read_commits(store: Store, infos: Sequence[ObjectInfo]) -> list[CommitFile]:
    """Read and parse commit files, several at a time. Raises CorruptTableError naming file and line."""
    if len(infos) < 2:
        return [read_commit(store, info) for info in infos]
    with ThreadPoolExecutor(_READERS) as pool:
        return list(pool.map(lambda info: read_commit(store, info), infos))


def read_commit(store: Store, info: ObjectInfo) -> CommitFile:
    """Read and parse a commit file. Raises CorruptTableError naming file and line; `has_vanished` tells one that is gone."""
    try:
        data = store.read(info.name)
    except NotFound as error:
        raise _corrupt(info.name, None, "the file vanished while it was read", store) from error
    return parse_commit(data, info, store)


def has_vanished(error: CorruptTableError) -> bool:
    """Whether a file of the log could not be read because it was deleted after it had been listed, as log clean-up does."""
    return isinstance(error.__cause__, NotFound)


def listed_again(read: Callable[[], _Found]) -> _Found:
    """What `read` finds; it lists the log anew when clean-up has deleted a file between its listing and its being read."""
    for _ in range(_LISTINGS - 1):
        try:
            return read()
        except CorruptTableError as error:
            if not has_vanished(error):
                raise
            log.info("listing the log again: %s", error)
    return read()


def json_lines(data: bytes) -> Iterator[Callable[[], Any]]:
    """The lines of a log file, each as a function that parses it; a blank one holds nothing.

    A line may be as large as the file, so that neither the lines' bytes nor their texts are held.
    """
    whole, start = memoryview(data), 0
    while start < len(data):
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        yield functools.partial(_parsed, whole[start:end])
        start = end + 1


def _parsed(line: memoryview) -> Any:
    if len(line) > _LONGEST_TEXT:
        _check_texts(line)
    if len(line) > _MOST_VALUES:
        _check_values(line)
    text = str(line, "utf-8")
    return json.loads(text) if text.strip() else {}


def _check_texts(line: memoryview) -> None:
    """Raise ValueError for a text that is too long, before the line is decoded: its values may need four times its bytes."""
    for found in _TEXT.finditer(line):
        if found.end() - found.start() > _LONGEST_TEXT and _least_length(line[slice(*found.span())]) > _LONGEST_TEXT:
            raise ValueError(f"it holds a text of more than {_LONGEST_TEXT} characters")


def _check_values(line: memoryview) -> None:
    """Raise ValueError for a line of too many values, unparsed. Each follows a comma, or the start of what holds it."""
    letters = np.frombuffer(line, np.uint8)
    if sum(np.count_nonzero(letters == start) for start in _STARTS) <= _MOST_VALUES:
        return
    starts = (found for found in _START_OUTSIDE_TEXT.finditer(line) if found.lastindex)
    if next(islice(starts, _MOST_VALUES, None), None):
        raise ValueError(f"it holds more than {_MOST_VALUES} values")


def _least_length(text: memoryview) -> int:
    """The fewest characters that a text between quotes can have: an escape has up to six bytes, a letter up to three."""
    values = np.frombuffer(text, np.int8)
    escapes, others = np.count_nonzero(values == ord("\\")), np.count_nonzero(values < 0)
    return int(len(values) - 2 - 5 * escapes - 2 * others // 3)


def parse_commit(data: bytes, info: ObjectInfo, store: Store) -> CommitFile:
    """Parse the bytes of a commit file. Raises CorruptTableError naming file and line."""
    refused = functools.partial(_corrupt, info.name, None, store=store)
    adds, removes = _Rows(FILE_SCHEMA, refused), _Rows(TOMBSTONE_SCHEMA, refused)
    others: list[Action] = []
    order = bytearray()  # of each file action in turn, whether it is an add
    has_actions, number = False, 0
    try:
        for parsed in json_lines(data):
            number += 1
            value = parsed()
            has_actions = has_actions or any(value[kind] is not None for kind in value)
            known = [kind for kind in value if kind in _KNOWN and value[kind] is not None]
            if len(known) > 1:
                raise ValueError(f"one line holds the actions {' and '.join(known)}")
            if known == ["add"]:
                adds.append(_required(value["add"], "path", "size"))
                order.append(1)
            elif known == ["remove"]:
                removes.append(_required(value["remove"], "path"))
                order.append(0)
            elif (action := parse_action(value)) is not None:
                if isinstance(action, CdcFile):
                    canonical_path(action.path)  # refuses what leads out of the table
                others.append(action)
    except UNPARSABLE as error:
        raise _corrupt(info.name, number, cause_of(error), store) from error
    if not has_actions:
        raise _corrupt(info.name, None, "it holds no action, as if it had been emptied or never been written", store)
    for name, kind in (("protocol", Protocol), ("metaData", Metadata)):
        if sum(isinstance(action, kind) for action in others) > 1:
            raise _corrupt(info.name, None, f"it has more than one {name} action", store)
    try:
        files = adds.table(), removes.table()
        compacted = compacted_range(info)
        if compacted is None:
            files = _in_order(*files, order)
        else:
            _check_whole(*files, others, compacted[0])
            _check_reconciled(*files, others)
    except UNPARSABLE as error:
        raise _corrupt(info.name, None, str(error), store) from error
    return CommitFile(commit_version(info), info, *files, tuple(others), adds.data_change or removes.data_change)


class _Rows:
    """The JSON values of file actions, made into Arrow as they come: one takes some 1.5 KB as Python objects."""

    def __init__(self, schema: pa.Schema, refused: Callable[[str], CorruptTableError]) -> None:
        self.data_change = False
        self._schema, self._refused = schema, refused
        self._waiting, self._tables = list[Mapping[str, Any]](), list[pa.Table]()

    def append(self, row: Mapping[str, Any]) -> None:
        """Add the value of one action. Raises what `refused` makes of an error in this one or in one before it."""
        self.data_change = self.data_change or bool(row.get("dataChange", True))
        self._waiting.append(row)
        if len(self._waiting) == _WAITING:
            self._convert()

    def table(self) -> pa.Table:
        """All of them, in one chunk. Raises as `append` does."""
        if self._waiting or not self._tables:
            self._convert()
        return self._tables[0] if len(self._tables) == 1 else pa.concat_tables(self._tables).combine_chunks()

    def _convert(self) -> None:
        try:
            self._tables.append(table_of(self._waiting, self._schema))
        except UNPARSABLE as error:
            raise self._refused(str(error)) from error
        self._waiting.clear()


def _in_order(adds: pa.Table, removes: pa.Table, order: Sequence[int]) -> tuple[pa.Table, pa.Table]:
    """The files that a commit adds and removes; of one that it both adds and removes the last action counts.

    The protocol has no such commits; so delta-spark reads them.
    """
    added, removed = file_keys(adds), file_keys(removes)
    if not pc.any(pc.is_in(removed, added)).as_py():
        return adds, removes
    names = iter(added.to_pylist()), iter(removed.to_pylist())
    is_added = {next(names[0] if is_add else names[1]): is_add for is_add in order}
    kept = pa.array([is_added[key] == 1 for key in added.to_pylist()], pa.bool_())
    gone = pa.array([is_added[key] == 0 for key in removed.to_pylist()], pa.bool_())
    return adds.filter(kept), removes.filter(gone)


def _check_whole(adds: pa.Table, removes: pa.Table, others: Sequence[Action], first: int) -> None:
    """Raise ValueError when a log compaction from version `first` on lacks what its commits surely had."""
    if not (len(adds) or len(removes) or any(not isinstance(action, CommitInfo) for action in others)):
        raise ValueError("it holds no action that commits leave in one")
    kinds = {type(action) for action in others}
    if not first and not {Protocol, Metadata} <= kinds:
        raise ValueError("it begins at version 0, and lacks the table's protocol or metadata")


def _check_reconciled(adds: pa.Table, removes: pa.Table, others: Sequence[Action]) -> None:
    """Raise ValueError when a log compaction holds actions of which a later one replaces an earlier one.

    Which one is later it does not tell. Source: PROTOCOL.md, "Log Compaction Files" and "Action Reconciliation".
    """
    of_files = pa.concat_arrays([file_keys(adds), file_keys(removes)])
    unique = {
        "file": of_files,
        "path": canonical_paths(whole(adds["path"])),
        "txn": pa.array([action.app_id for action in others if isinstance(action, Txn)], pa.string()),
        "domainMetadata": pa.array([action.domain for action in others if isinstance(action, DomainMetadata)], pa.string()),
    }
    for name, keys in unique.items():
        if pc.count_distinct(keys).as_py() != len(keys):
            raise ValueError(f"it was not reconciled, several of its actions are about one {name}")


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
