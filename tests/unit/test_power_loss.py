"""A loss of power at any step of a commit leaves the table as before or as after it; what is reported as done stays."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from deltamerge import disk
from deltamerge.disk import SYNC
from deltamerge.errors import DeltaMergeError
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.protocol.table.actions import DeletionVector
from deltamerge.protocol.table.deletion_vector import vector_reference
from deltamerge.storage.local import LocalStore
from tests.stores.power import ALL_NAMES, KEEPS_ITS_WORD, Disk
from tests.unit.log.building import load
from tests.unit.statements_run import append, by_hash, by_ranges, change, create, optimize, restore, rewrite, vacuum

DISKS: tuple[str | int, ...] = (KEEPS_ITS_WORD, ALL_NAMES, 1, 2, 3)
# Statements one after the other, each with the versions that it makes.
RUNS = {
    "vectors, feed, a partition": ((change, 1),),
    "files written again": ((rewrite, 1),),
    "rows sent by ranges of keys": ((by_ranges, 1),),
    "rows sent by a hash of their keys": ((by_hash, 1),),
    "upkeep": ((append, 1), (optimize, 1), (restore, 1), (append, 1), (optimize, 1), (vacuum, 2)),
}


class Losses:
    """Looks at what each step leaves: the version that can be read, -1 without a table, and what is wrong with it."""

    def __init__(self, root: Path, table: str, place: Path) -> None:
        self.reported = -1
        self.ahead = 1
        self.looked_at: tuple[str, ...] = ("",)
        self.disks = DISKS
        self.versions: list[int] = []
        self.steps: list[str] = []
        self.wrong: list[str] = []
        self.disk = Disk(root, self.look)
        self._known: dict[str, bytes] = {}
        self._live, self._table, self._place = root / table, table, place

    def look(self, step: str) -> None:
        """Each version that is left has all its files, is none older than what was reported, and at most `ahead` of it."""
        if not step.startswith(self.looked_at):
            return
        self.steps.append(step)
        for how in self.disks:
            place = self._place / f"{len(self.steps)}-{how}"
            self.disk.left(place, how)
            try:
                self.versions.append(self._version(place / self._table))
                assert self.reported <= self.versions[-1] <= self.reported + self.ahead, (self.versions[-1], self.reported)
            except (DeltaMergeError, AssertionError, OSError) as error:
                self.wrong.append(f"after {step}, {how}: {error}")

    def report(self, snapshot: Snapshot, ahead: int) -> None:
        """A version was made; the next statement makes so many."""
        self.reported, self.ahead = snapshot.version, ahead
        self.look(f"version {snapshot.version}")

    def _version(self, root: Path) -> int:
        log = root / "_delta_log"
        if not log.exists() or not list(log.glob("0*.json")):
            return -1
        found = load(LocalStore(str(root)))
        for file in found.files.table().to_pylist():
            assert (root / file["path"]).read_bytes() == self._content(file["path"]), file["path"]
            if file["deletionVector"] is not None:
                name = vector_reference(DeletionVector.from_json(file["deletionVector"]), "")
                assert (root / name).read_bytes() == self._content(name), name
        for commit_file in sorted(log.glob("0*.json")):
            for action in map(json.loads, commit_file.read_text().splitlines()):
                if "cdc" in action:
                    name = action["cdc"]["path"]
                    assert (root / name).read_bytes() == self._content(name), name
        return found.version

    def _content(self, name: str) -> bytes:
        """What a data file held before anybody could delete it."""
        if name not in self._known:
            self._known[name] = (self._live / name).read_bytes()
        return self._known[name]


@pytest.fixture
def losses(tmp_path: Path) -> Iterator[Losses]:
    (tmp_path / "disk").mkdir()
    (tmp_path / "left").mkdir()
    found = Losses(tmp_path / "disk", "new/folder/t", tmp_path / "left")
    yield found
    found.disk.close()


@pytest.mark.parametrize("run", RUNS)
def test_a_loss_of_power_leaves_the_version_before_or_after(
    losses: Losses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: str
) -> None:
    statements = RUNS[run]
    with losses.disk.watched(monkeypatch):
        snapshot = create(tmp_path / "disk/new/folder/t")
        for statement, versions in statements:
            losses.report(snapshot, versions)
            snapshot = statement(snapshot)
        losses.report(snapshot, 0)
    print(f"{run}: {len(losses.versions)} states of a disk, in {len(losses.steps)} steps")
    assert losses.wrong == []
    assert set(losses.versions) == set(range(-1, snapshot.version + 1))
    assert snapshot.version == sum(versions for _, versions in statements)


@pytest.mark.parametrize("run", RUNS)
def test_what_is_reported_as_done_is_there_after_a_loss_of_power(
    losses: Losses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: str
) -> None:
    """Looked at where a version is made and where it is reported, on two disks: quick enough for each run of the tests."""
    losses.looked_at, losses.disks = ("link", "version"), (KEEPS_ITS_WORD, ALL_NAMES)
    with losses.disk.watched(monkeypatch):
        snapshot = create(tmp_path / "disk/new/folder/t")
        for statement, versions in RUNS[run][:2]:
            losses.report(snapshot, versions)
            snapshot = statement(snapshot)
        losses.report(snapshot, 0)
    assert losses.wrong == []
    assert set(losses.versions) == set(range(-1, snapshot.version + 1))


@pytest.mark.parametrize("left_out", ["_sync", "_sync_names", SYNC])
def test_what_is_not_synced_is_lost(losses: Losses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left_out: str) -> None:
    options = {SYNC: "false"} if left_out == SYNC else {}
    real = disk._each
    if not options:
        monkeypatch.setattr(disk, "_each", lambda sync, paths: None if sync.__name__ == left_out else real(sync, paths))
    with losses.disk.watched(monkeypatch):
        first = create(tmp_path / "disk/new/folder/t", **options)
        losses.report(first, 1)
        losses.report(change(first, **options), 0)
    assert losses.wrong
    assert ("fsync" in {step.split()[0] for step in losses.steps}) == (left_out != SYNC)
