"""A loss of power at any step of a commit leaves the table as before or as after it; what is reported as done stays."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from deltamerge import disk
from deltamerge.disk import SYNC
from deltamerge.errors import DeltaMergeError
from deltamerge.log.commit.dv_files import with_vector, write_vectors
from deltamerge.log.commit.transaction import Proposal, commit
from deltamerge.log.commit.upkeep import after_commit
from deltamerge.log.replay.files import FileSet
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.protocol.table.actions import Action, AddFile, CdcFile, DeletionVector, Metadata, Protocol
from deltamerge.protocol.table.deletion_vector import vector_reference
from deltamerge.protocol.values.partitions import encode_path
from deltamerge.protocol.values.roaring import encode
from deltamerge.storage.local import LocalStore
from deltamerge.worker.entry import apply_map, write_map
from deltamerge.worker.scan.scan import FILE, ROW, FileTask
from deltamerge.worker.scan.store import DataStore
from deltamerge.worker.write.feed import change_file_spec
from deltamerge.worker.write.results import ADD, CHANGE
from deltamerge.worker.write.rewrite import CLAUSE, ChangeSpec, ClauseAction
from deltamerge.worker.write.write import WriteSpec
from tests.stores.power import Disk
from tests.unit.log.building import load, schema_text

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string())])
PROTOCOL = Protocol(3, 7, ("deletionVectors",), ("deletionVectors", "changeDataFeed"))
EACH = {"delta.checkpointInterval": "1", "delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": "true"}


def write_spec(root: Path, **options: str) -> WriteSpec:
    return WriteSpec(DataStore("file", str(root), options), SCHEMA, SCHEMA.remove(1), ("p",), ())


def written(batches: Iterator[pa.RecordBatch]) -> list[Action]:
    """What tasks have written, as actions."""
    rows = [row for batch in batches for row in batch.to_pylist()]
    parts = {row["name"]: dict([row["name"].split("/")[-2].split("=")]) for row in rows if row["name"]}
    added = [AddFile(encode_path(r["name"]), parts[r["name"]], r["size"], r["modified"]) for r in rows if r["kind"] == ADD]
    return [*added, *(CdcFile(encode_path(r["name"]), parts[r["name"]], r["size"]) for r in rows if r["kind"] == CHANGE)]


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


class Losses:
    """Looks at what each step leaves: the version that can be read, -1 without a table, and what is wrong with it."""

    def __init__(self, root: Path, table: str, place: Path) -> None:
        self.versions: list[int] = []
        self.steps: list[str] = []
        self.wrong: list[str] = []
        self.disk = Disk(root, self.look)
        self._live, self._table, self._place = root / table, table, place

    def look(self, step: str) -> None:
        self.steps.append(step)
        for all_names in (False, True):
            place = self._place / f"{len(self.steps)}-{all_names}"
            self.disk.left(place, all_names)
            try:
                self.versions.append(self._version(place / self._table))
            except (DeltaMergeError, AssertionError, OSError) as error:
                self.wrong.append(f"after {step}: {error}")

    def _version(self, root: Path) -> int:
        log = root / "_delta_log"
        if not log.exists() or not list(log.glob("*.json")):
            return -1
        found = load(LocalStore(str(root)))
        for file in found.files.table().to_pylist():
            assert (root / file["path"]).read_bytes() == (self._live / file["path"]).read_bytes(), file["path"]
            if file["deletionVector"] is not None:
                name = vector_reference(DeletionVector.from_json(file["deletionVector"]), "")
                assert (root / name).read_bytes() == (self._live / name).read_bytes(), name
        for commit_file in sorted(log.glob("*.json")):
            for action in map(json.loads, commit_file.read_text().splitlines()):
                if "cdc" in action:
                    name = action["cdc"]["path"]
                    assert (root / name).read_bytes() == (self._live / name).read_bytes(), name
        return found.version


@pytest.fixture
def losses(tmp_path: Path) -> Iterator[Losses]:
    (tmp_path / "disk").mkdir()
    (tmp_path / "left").mkdir()
    found = Losses(tmp_path / "disk", "new/folder/t", tmp_path / "left")
    yield found
    found.disk.close()


def test_a_loss_of_power_leaves_the_version_before_or_after(
    losses: Losses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with losses.disk.watched(monkeypatch):
        first = create(tmp_path / "disk/new/folder/t")
        created = len(losses.versions)
        change(first)
    assert losses.wrong == []
    assert losses.versions == sorted(losses.versions)
    assert set(losses.versions[:created]) == {-1, 0}
    assert losses.versions[created - 1] == losses.versions[created] == 0
    assert losses.versions[-2:] == [1, 1]


@pytest.mark.parametrize("left_out", ["_sync", "_sync_names", SYNC])
def test_what_is_not_synced_is_lost(losses: Losses, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left_out: str) -> None:
    options = {SYNC: "false"} if left_out == SYNC else {}
    real = disk._each
    if not options:
        monkeypatch.setattr(disk, "_each", lambda sync, paths: None if sync.__name__ == left_out else real(sync, paths))
    with losses.disk.watched(monkeypatch):
        change(create(tmp_path / "disk/new/folder/t", **options), **options)
        losses.look("the end")
    assert losses.wrong or losses.versions[-2:] != [1, 1]
    assert ("fsync" in {step.split()[0] for step in losses.steps}) == (left_out != SYNC)
