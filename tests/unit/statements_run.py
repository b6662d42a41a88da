"""Statements on a small table, by what the driver and the tasks run, in this process: create, merge, append and upkeep."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from deltamerge.commands.layout.optimize import Optimize, optimize_table
from deltamerge.commands.layout.restore import restore_table
from deltamerge.commands.layout.vacuum import VacuumRequest, vacuum_table
from deltamerge.disk import SYNC
from deltamerge.log.commit.dv_files import with_vector, write_vectors
from deltamerge.log.commit.transaction import Proposal, commit
from deltamerge.log.commit.upkeep import after_commit
from deltamerge.log.replay.files import FileSet
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.log.replay.table import DeltaLog
from deltamerge.protocol.formats.roaring import encode
from deltamerge.protocol.table.actions import Action, AddFile, CdcFile, Metadata, Protocol
from deltamerge.protocol.values.partitions import encode_path
from deltamerge.storage.local import LocalStore
from deltamerge.worker.entry import (
    Work,
    apply_map,
    hash_join_map,
    partition_map,
    range_join_map,
    target_rows_map,
    write_changes_map,
    write_map,
)
from deltamerge.worker.join.clauses import ClauseProgram, Origin
from deltamerge.worker.join.hash_join import HashJoinSpec
from deltamerge.worker.join.partitioning import KeyRanges, Partitioning
from deltamerge.worker.join.range_join import JoinSpec
from deltamerge.worker.scan.scan import FILE, ROW, FileTask, ScanSpec
from deltamerge.worker.scan.store import DataStore
from deltamerge.worker.write.feed import change_file_spec
from deltamerge.worker.write.results import ADD, CHANGE
from deltamerge.worker.write.rewrite import CLAUSE, ChangeSpec, ClauseAction
from deltamerge.worker.write.write import WriteSpec
from tests.faults.upkeep import session
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


def rewrite(snapshot: Snapshot) -> Snapshot:
    """Update a row where it is and one that moves to a partition of its own: the file is written again, with change files."""
    write = write_spec(Path(snapshot.store.url))
    (path,) = snapshot.files.column("path").to_pylist()
    file, task = AddFile(path, {"p": "a"}, 1, 1), FileTask(0, path, {"p": pa.scalar("a")}, rows=9)
    spec = ChangeSpec(write, (ClauseAction("update", frozenset({"p"})),), {0: task}, feed=change_file_spec(write))
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
    clauses = (ClauseAction("update", frozenset({"p"})), ClauseAction("delete", frozenset()), ClauseAction("insert", frozenset()))
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


SOURCE = pa.record_batch({"id": pa.array([3, 5, 100], pa.int64()), "p": ["a", "moved", "new"]})
WRITERS = (200, 201)


def specs(snapshot: Snapshot) -> tuple[AddFile, JoinSpec, ChangeSpec]:
    """The file of the table, and a merge that updates a row of it where it is, one that moves, and inserts one."""
    root = Path(snapshot.store.url)
    (path,) = snapshot.files.column("path").to_pylist()
    task = FileTask(0, path, {"p": pa.scalar("a")}, rows=9)
    write = write_spec(root)
    clauses = (ClauseAction("update", frozenset({"p"})), ClauseAction("insert", frozenset()))
    change = ChangeSpec(write, clauses, {0: task}, feed=change_file_spec(write))
    sets = {"p": Origin("source", "p")}
    join = JoinSpec(
        ScanSpec(DataStore("file", str(root)), pa.schema([("id", pa.int64())])),
        (("id", "id"),),
        "id",
        KeyRanges(np.array([0]), np.array([8]), ((0,),)),
        SCHEMA,
        (ClauseProgram(0, sets),),
        (ClauseProgram(1, {"id": Origin("source", "id"), **sets}),),
    )
    return AddFile(path, {"p": "a"}, 1, 1), join, change


def by_ranges(snapshot: Snapshot) -> Snapshot:
    """Source rows go to the task in whose range of keys they fall."""
    file, join, change = specs(snapshot)
    sent = partition_map(Partitioning("id", join.ranges, 1, WRITERS), SOURCE.schema.names)([SOURCE])
    return _committed(snapshot, file, _by_task(sent), range_join_map(join, change))


def by_hash(snapshot: Snapshot) -> Snapshot:
    """Rows of both sides meet at the tasks that the hash of their keys names, and changed ones go on to the writers."""
    file, join, change = specs(snapshot)
    spec = HashJoinSpec(join, (("id", "id"),), (100, 101), WRITERS)
    numbers = pa.record_batch({"number": pa.array([0], pa.int32())})
    rows = _by_task(target_rows_map(spec, [[change.files[0]]])([numbers]))
    for task, batches in _by_task(partition_map(spec.source, SOURCE.schema.names)([SOURCE])).items():
        rows.setdefault(task, []).extend(batches)
    changed = [batch for batches in rows.values() for batch in hash_join_map(spec)(batches)]
    return _committed(snapshot, file, _by_task(changed), write_changes_map(change))


def _by_task(batches: Iterable[pa.RecordBatch]) -> dict[int, list[pa.RecordBatch]]:
    """What is sent to each task."""
    found: dict[int, list[pa.RecordBatch]] = {}
    for batch in batches:
        for n, task in enumerate(batch.column(0).to_pylist()):
            found.setdefault(task, []).append(batch.slice(n, 1))
    return found


def _committed(snapshot: Snapshot, file: AddFile, sent: dict[int, list[pa.RecordBatch]], work: Work) -> Snapshot:
    actions = [action for batches in sent.values() for action in written(work(batches))]
    done = commit(snapshot, Proposal("MERGE", [file.removed(1), *actions]))
    after_commit(done.snapshot)
    return done.snapshot
