"""A loss of power at any step of a commit leaves the table as before or as after it; what is reported as done stays."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from deltamerge import disk
from deltamerge.commands.layout.optimize import Optimize, optimize_table
from deltamerge.commands.layout.restore import restore_table
from deltamerge.commands.layout.vacuum import VacuumRequest, vacuum_table
from deltamerge.disk import SYNC
from deltamerge.errors import DeltaMergeError
from deltamerge.log.commit.dv_files import with_vector, write_vectors
from deltamerge.log.commit.transaction import Proposal, commit
from deltamerge.log.commit.upkeep import after_commit
from deltamerge.log.replay.files import FileSet
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.log.replay.table import DeltaLog
from deltamerge.protocol.formats.roaring import encode
from deltamerge.protocol.table.actions import Action, AddFile, CdcFile, DeletionVector, Metadata, Protocol
from deltamerge.protocol.table.deletion_vector import vector_reference
from deltamerge.protocol.values.partitions import encode_path
from deltamerge.storage.local import LocalStore
from deltamerge.worker.entry import apply_map, write_map
from deltamerge.worker.scan.scan import FILE, ROW, FileTask
from deltamerge.worker.scan.store import DataStore
from deltamerge.worker.write.feed import change_file_spec
from deltamerge.worker.write.results import ADD, CHANGE
from deltamerge.worker.write.rewrite import CLAUSE, ChangeSpec, ClauseAction
from deltamerge.worker.write.write import WriteSpec
from tests.faults.upkeep import session
from tests.stores.power import ALL_NAMES, KEEPS_ITS_WORD, Disk
from tests.unit.log.building import load, schema_text

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string())])
PROTOCOL = Protocol(3, 7, ("deletionVectors",), ("deletionVectors", "changeDataFeed"))
DISKS: tuple[str | int, ...] = (KEEPS_ITS_WORD, ALL_NAMES, 1, 2, 3)
EACH = {"delta.checkpointInterval": "1", "delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": "true"}


def write_spec(root: Path, **options: str) -> WriteSpec:
    return WriteSpec(DataStore("file", str(root), options), SCHEMA, SCHEMA.remove(1), ("p",), ())


def written(batches: Iterator[pa.RecordBatch]) -> list[Action]:
    """What tasks have written, as actions."""
    rows = [row for batch in batches for row in batch.to_pylist()]
    parts = {row["name"]: dict([row["name"].split("/")[-2].split("=")]) for row in rows if row["name"]}
    added = [AddFile(encode_path(r["name"]), parts[r["name"]], r["size"], r["modified"]) for r in rows if r["kind"] == ADD]
    return [*added, *(CdcFile(encode_path(r["name"]), parts[r["name"]], r["size"]) for r in rows if r["kind"] == CHANGE)]


def rewrite(snapshot: Snapshot) -> Snapshot:
    """Update a row where it is and one that moves to a partition of its own: the file is written again, with change files."""
    write = write_spec(Path(snapshot.store.url))
    (path,) = snapshot.files.column("path").to_pylist()
    file, task = AddFile(path, {"p": "a"}, 1, 1), FileTask(0, path, {"p": pa.scalar("a")}, rows=9)
    spec = ChangeSpec(write, (ClauseAction("UPDATE", frozenset({"p"})),), {0: task}, feed=change_file_spec(write))
    hits = {FILE: pa.array([0, 0], pa.int32()), ROW: pa.array([3, 5]), CLAUSE: pa.array([0, 0], pa.int32())}
    batch = pa.RecordBatch.from_pydict({**hits, "id": pa.array([3, 5], pa.int64()), "p": ["a", "moved"]})
    done = commit(snapshot, Proposal("MERGE", [file.removed(1), *written(apply_map(spec, batch.schema.names)([batch]))]))
    after_commit(done.snapshot)
    return done.snapshot


def append(snapshot: Snapshot) -> Snapshot:
    """Another file of the partition `p=a`."""
    rows = pa.record_batch([pa.array(range(9)), pa.array(["a"] * 9)], schema=SCHEMA)
    done = commit(snapshot, Proposal("WRITE", written(write_map(write_spec(Path(snapshot.store.url)))([rows]))))
    after_commit(done.snapshot)
    return done.snapshot


def optimize(snapshot: Snapshot) -> Snapshot:
    """Put the files of each partition together."""
    optimize_table(session(), DeltaLog(snapshot.store), Optimize())
    return load(LocalStore(snapshot.store.url))


def restore(snapshot: Snapshot) -> Snapshot:
    """Make the first version the newest one."""
    restore_table(session(), DeltaLog(snapshot.store), version=0)
    return load(LocalStore(snapshot.store.url))


def vacuum(snapshot: Snapshot) -> Snapshot:
    """Delete all files that the newest version does not name: two versions tell of it."""
    vacuum_table(session(), DeltaLog(snapshot.store), VacuumRequest(0))
    return load(LocalStore(snapshot.store.url))


def create(root: Path, **options: str) -> Snapshot:
    """A table of one file in the partition `p=a`, made by a transaction."""
    metadata = Metadata("id", schema_text(id="long", p="string"), ("p",), EACH)
    nothing = Snapshot(LocalStore(str(root), SYNC not in options), -1, 0, PROTOCOL, metadata, FileSet())
    rows = pa.record_batch([pa.array(range(9)), pa.array(["a"] * 9)], schema=SCHEMA)
    added = written(write_map(write_spec(root, **options))([rows]))
    done = commit(nothing, Proposal("WRITE", [PROTOCOL, metadata, *added]))
    after_commit(done.snapshot)
    return done.snapshot


def change(snapshot: Snapshot, **options: str) -> Snapshot:
    """Mark a row, update one, which moves it to a partition of its own, and insert one, with change files and a checkpoint."""
    root = Path(snapshot.store.url)
    write = write_spec(root, **options)
    (path,) = snapshot.files.column("path").to_pylist()
    file = AddFile(path, {"p": "a"}, 1, 1)
    clauses = (ClauseAction("UPDATE", frozenset({"p"})), ClauseAction("DELETE", frozenset()), ClauseAction("INSERT", frozenset()))
    task = FileTask(0, path, {"p": pa.scalar("a")}, rows=9)
    spec = ChangeSpec(write, clauses, {0: task}, False, 0.5, change_file_spec(write))
    hits = {FILE: pa.array([None, 0, 0], pa.int32()), ROW: pa.array([None, 3, 5]), CLAUSE: pa.array([2, 0, 1], pa.int32())}
    values = {"id": pa.array([100, None, None], pa.int64()), "p": ["new", "moved", None]}
    batch = pa.RecordBatch.from_pydict({**hits, **values})
    actions = written(apply_map(spec, batch.schema.names)([batch]))
    vectors, _ = write_vectors(snapshot.store, [(encode(np.array([3, 5])), 2)])
    done = commit(snapshot, Proposal("MERGE", [file.removed(1), with_vector(file, vectors[0], 9), *actions]))
    after_commit(done.snapshot)
    return done.snapshot


# Statements one after the other, each with the versions that it makes.
RUNS = {
    "vectors, feed, a partition": ((change, 1),),
    "files written again": ((rewrite, 1),),
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
