"""Random histories of transactions that overlap, most of them marking rows of shared files, against a serial model.

Rows are a key and the names of the transactions that have changed it, in their order: a change that is lost, made twice or made
of rows that should not have been there shows. Files are only named; what is in them is kept here.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from deltamerge.errors import ConcurrentModificationError
from deltamerge.log.commit import join, transaction
from deltamerge.log.commit.conflict import ReadSet
from deltamerge.log.commit.dv_files import MarkedFile
from deltamerge.log.commit.transaction import Proposal, commit
from deltamerge.log.replay.files import FileSet, Mask, file_key
from deltamerge.log.replay.segment import commit_name
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.protocol.formats.roaring import Positions, encode
from deltamerge.protocol.table.actions import Action, AddFile, DeletionVector
from deltamerge.storage.local import LocalStore
from tests.effort import ALL
from tests.unit.log.building import load
from tests.unit.log.marking import COUNTS, create, files_of, finding, gone

HISTORIES, STEPS, OPEN, KEYS = (60 if ALL else 12), 40, 4, 16

Row = tuple[int, tuple[str, ...]]


@dataclass(frozen=True)
class Statement:
    """What a transaction does to rows with some keys. `kind` is one of KINDS; `name` is put into rows that it changes."""

    name: str
    kind: str
    keys: frozenset[int]

    def becomes(self, row: Row) -> Row | None:
        """The row after the statement; None when it is deleted."""
        key, names = row
        if key not in self.keys or (self.kind.endswith("odd") and len(names) % 2 == 0) or self.kind in ("insert", "move"):
            return row
        return None if self.kind.startswith("delete") else (key, (*names, self.name))

    def inserts(self, rows: list[Row]) -> list[Row]:
        """The rows that are inserted, as no row has their keys."""
        there = {key for key, _ in rows}
        return [(key, (self.name,)) for key in sorted(self.keys - there)] if self.kind in INSERTING else []

    def apply(self, rows: list[Row]) -> list[Row]:
        """All rows after the statement."""
        return [row for row in map(self.becomes, rows) if row is not None] + self.inserts(rows)


INSERTING = ("upsert", "upsert odd", "insert")
KINDS = ("update", "update odd", "delete", "delete odd", *INSERTING, "move")
# Of rows that match, these leave some as they are, and insert nothing for them.
LEAVING = ("upsert odd", "insert")


@dataclass(frozen=True)
class Begun:
    """A transaction that has read a version and has not committed. `parts` says that it only marks rows."""

    statement: Statement
    read: Snapshot
    proposal: Proposal
    parts: bool


class History:
    """A table whose files hold what `contents` says, and what a serial run gives."""

    def __init__(self, root: Path, random: random.Random) -> None:
        self.random, self.counts = random, Counter[str]()
        self.contents: dict[str, list[Row]] = {}
        create(root)
        self.store = LocalStore(str(root), synced=False)
        self.versions = [load(self.store)]
        self.serial: list[list[Row]] = [[]]
        self.end(self.begin(Statement("first", "upsert", frozenset(range(KEYS - 3)))))

    def run(self) -> None:
        """Some transactions, of which several are open at a time."""
        open: list[Begun] = []
        for step in range(STEPS):
            if len(open) == OPEN or (open and self.random.random() < 0.45):
                self.end(open.pop(self.random.randrange(len(open))))
            else:
                kind = self.random.choices(KINDS, (5, 2, 3, 2, 3, 4, 1, 0.4))[0]
                keys = frozenset(self.random.sample(range(KEYS), self.random.randint(1, 3)))
                open.append(self.begin(Statement(f"t{step}", kind, keys)))
        for begun in open:
            self.end(begun)
        assert sorted(self._rows(load(self.store))) == sorted(self.serial[-1])

    def begin(self, statement: Statement) -> Begun:
        """Let a statement read the newest version, and make its proposal."""
        read = self.versions[-1]
        if statement.kind == "move":
            return self._moving(statement, read)
        files = files_of(read)
        keys = frozenset(range(KEYS)) if self.random.random() < 0.1 else statement.keys
        opened = {path: file for path, file in files.items() if self._may_hold(path, keys)}
        parts = self.random.random() < 0.93
        marked: list[MarkedFile] = []
        actions: list[Action] = []
        made: list[Row] = []
        for path, file in opened.items():
            before = set(gone(read, file.deletion_vector, path))
            rows = {at: row for at, row in enumerate(self.contents[path]) if at not in before}
            changed = {at: statement.becomes(row) for at, row in rows.items() if statement.becomes(row) != row}
            if changed and parts:
                vector = encode(np.array(sorted({*before, *changed})))
                marked.append(MarkedFile(file, len(self.contents[path]), vector))
            elif changed:
                actions.append(file.removed(1))
                made += [row for at, row in rows.items() if at not in changed]
            made += [row for row in changed.values() if row is not None]
        made += statement.inserts(self._rows(read))

        def would_read(found: FileSet) -> Mask:
            return np.array([self._may_hold(path, keys) for path in found.column("path").to_pylist()], np.bool_)

        actions += self._files(statement.name, made)
        known = frozenset(map(file_key, opened.values()))
        reads = ReadSet(known, would_read, would_find=self._finding(statement, read))
        updated = sum(mark.file.deletion_vector is not None for mark in marked)
        metrics = dict.fromkeys(COUNTS, updated)
        proposal = Proposal("MERGE", actions, reads, metrics=metrics, marked=tuple(marked), vector_counts=COUNTS)
        return Begun(statement, read, proposal, parts and keys == statement.keys)

    def end(self, begun: Begun) -> None:
        """Let a transaction commit: the table then holds what a serial run gives."""
        statement, before = begun.statement, self.versions[-1]
        if not begun.proposal.marked and not begun.proposal.actions:
            return  # what changes nothing is not committed
        try:
            done = commit(begun.read, begun.proposal)
        except ConcurrentModificationError:
            self.counts["conflicts"] += 1
            assert self.store.info(commit_name(before.version + 1)) is None
            assert not self._must_follow(begun), statement
            return
        self.serial.append(statement.apply(self.serial[-1]))
        self.versions.append(done.snapshot)
        self.counts["commits"] += 1
        files, marked = files_of(before), begun.proposal.marked
        replaced = sum(files[mark.file.path].deletion_vector is not None for mark in marked)
        assert set(done.metrics.values()) <= {replaced}
        self.counts["joined"] += any(files[mark.file.path] != mark.file for mark in marked)
        assert sorted(self._rows(done.snapshot)) == sorted(self.serial[-1]), statement

    def _finding(self, statement: Statement, read: Snapshot) -> Callable[[AddFile, DeletionVector], bool] | None:
        if statement.kind not in LEAVING:
            return lambda *_: False
        keys = {path: [at for at, (key, _) in enumerate(rows) if key in statement.keys] for path, rows in self.contents.items()}
        return finding(read, keys) if self.random.random() < 0.8 else None

    def _must_follow(self, begun: Begun) -> bool:
        """Whether only rows with other keys were changed since, by transactions of which all mark rows."""
        if not begun.parts or begun.proposal.read.would_find is None:
            return False
        versions = range(begun.read.version + 1, len(self.serial))
        if any(self._left(version) for version in versions):
            return False
        return not any(self._meet(begun.statement, version) for version in versions)

    def _meet(self, statement: Statement, version: int) -> bool:
        """Whether a version has changed rows with keys of a statement, or has added a file that may have them."""
        before, after = Counter(self.serial[version - 1]), Counter(self.serial[version])
        changed = {key for key, _ in (before - after) + (after - before)}
        added = files_of(self.versions[version]).keys() - files_of(self.versions[version - 1]).keys()
        return bool(changed & statement.keys) or any(self._may_hold(path, statement.keys) for path in added)

    def _left(self, version: int) -> set[str]:
        """The files that are gone from a version on."""
        return set(files_of(self.versions[version - 1]).keys() - files_of(self.versions[version]).keys())

    def _moving(self, statement: Statement, read: Snapshot) -> Begun:
        files = files_of(read)
        chosen = self.random.sample(sorted(files), min(2, len(files)))
        rows = [row for path in chosen for row in self._living(read, files[path])]
        actions: list[Action] = [files[path].removed(1, data_change=False) for path in chosen]
        actions += [replace(file, data_change=False) for file in self._files(statement.name, rows)]
        reads = ReadSet(frozenset(file_key(files[path]) for path in chosen))
        return Begun(statement, read, Proposal("OPTIMIZE", actions, reads), False)

    def _files(self, name: str, rows: list[Row]) -> list[AddFile]:
        """A file with some rows, none for none."""
        if not rows:
            return []
        self.contents[name] = rows
        return [AddFile(name, {}, 10, 5, stats=f'{{"numRecords":{len(rows)}}}')]

    def _may_hold(self, path: str, keys: frozenset[int]) -> bool:
        return any(key in keys for key, _ in self.contents[path])

    def _living(self, snapshot: Snapshot, file: AddFile) -> list[Row]:
        deleted = gone(snapshot, file.deletion_vector, file.path)
        return [row for at, row in enumerate(self.contents[file.path]) if at not in deleted]

    def _rows(self, snapshot: Snapshot) -> list[Row]:
        return [row for file in files_of(snapshot).values() for row in self._living(snapshot, file)]


def run(root: Path, seed: int) -> Counter[str]:
    """How the transactions of a history have ended."""
    history = History(root / str(seed), random.Random(seed))
    history.run()
    return history.counts


def test_histories_are_serial(tmp_path: Path) -> None:
    counts = sum((run(tmp_path, seed) for seed in range(HISTORIES)), Counter[str]())
    print(dict(counts))
    assert counts["joined"] > HISTORIES
    assert counts["conflicts"] > HISTORIES


def no_overlap(real: Callable[..., MarkedFile]) -> Callable[..., MarkedFile]:
    """Joining that does not ask whether both have deleted the same row."""

    def on_top(mark: MarkedFile, before: Positions, after: Positions, file: AddFile) -> MarkedFile:
        own = np.setdiff1d(join.decode(mark.vector).positions(), before)
        return MarkedFile(file, mark.rows, encode(np.union1d(after, own)))

    return on_top


def finding_nothing(real: Callable[..., Proposal]) -> Callable[..., Proposal]:
    """Joining although rows that match and stay as they are matter."""

    def joined(proposal: Proposal, *rest: object) -> Proposal:
        return real(replace(proposal, read=replace(proposal.read, would_find=lambda *_: False)), *rest)

    return joined


def forgetting(real: Callable[..., MarkedFile]) -> Callable[..., MarkedFile]:
    """Joining that loses what the winner has deleted."""
    return lambda mark, before, after, file: replace(mark, file=file)


@pytest.mark.parametrize(
    ("module", "name", "wrong"),
    [
        (join, "_on_top", no_overlap),
        (join, "_on_top", forgetting),
        (transaction, "joined", finding_nothing),
    ],
    ids=["same rows", "lost rows", "rows that match"],
)
def test_wrong_joining_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: object, name: str, wrong: Callable[..., Callable[..., object]]
) -> None:
    monkeypatch.setattr(module, name, wrong(getattr(module, name)))
    with pytest.raises(AssertionError):
        sum((run(tmp_path, seed) for seed in range(60)), Counter[str]())
