"""Each call of the driver and of workers that touches the table fails once, one after the other: nothing is lost or doubled."""

from __future__ import annotations

import errno
import gc
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from deltamerge.commands.layout.optimize import Optimize, optimize_table
from deltamerge.commands.layout.restore import restore_table
from deltamerge.commands.layout.vacuum import VacuumRequest, vacuum_table
from deltamerge.errors import CommitStateUnknownError, DeltaMergeError
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.log.replay.table import DeltaLog
from deltamerge.protocol.table.actions import DeletionVector
from deltamerge.protocol.table.deletion_vector import vector_reference
from deltamerge.storage.local import LocalStore
from deltamerge.worker.scan.row_errors import Refused
from deltamerge.worker.scan.scan import FileTask, ScanSpec, scan_file
from deltamerge.worker.scan.store import DataStore
from deltamerge.worker.scan.vectors import Vector
from tests.effort import ALL
from tests.faults.upkeep import session
from tests.stores.refusing import Calls, Fault, Killed
from tests.unit import statements_run as statements
from tests.unit.log.building import load

Statement = Callable[[Snapshot], Snapshot]
SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string())])
FAULTS = {
    "EIO": Fault(errno.EIO),
    "EIO from then on": Fault(errno.EIO, stays=True),
    "EIO after the call": Fault(errno.EIO, after=True),
    "ENOSPC": Fault(errno.ENOSPC),
    "ENOSPC from then on": Fault(errno.ENOSPC, stays=True),
    "EACCES": Fault(errno.EACCES),
    "ETIMEDOUT after the call": Fault(errno.ETIMEDOUT, after=True),
    "kill": Fault(None),
}
# What comes before a statement, the statement, and how many versions it makes.
RUNS: dict[str, tuple[tuple[Statement, ...], Callable[[Snapshot], object], int]] = {
    "vectors, feed, a partition, a checkpoint": ((), statements.change, 1),
    "files written again": ((), statements.rewrite, 1),
    "rows sent by ranges of keys": ((), statements.by_ranges, 1),
    "rows sent by a hash of their keys": ((), statements.by_hash, 1),
    "append": ((), statements.append, 1),
    "OPTIMIZE": ((statements.append,), lambda read: optimize_table(session(), DeltaLog(read.store), Optimize()), 1),
    "RESTORE": ((statements.append,), lambda read: restore_table(session(), DeltaLog(read.store), version=0), 1),
    "VACUUM": (
        (statements.append, statements.optimize),
        lambda read: vacuum_table(session(), DeltaLog(read.store), VacuumRequest(0)),
        2,
    ),
}
SAMPLE = 1 if ALL else 60


def rows(snapshot: Snapshot) -> Counter[str]:
    """All rows of a version, read as workers read them."""
    store, found = DataStore("file", snapshot.store.url), Counter[str]()
    for file in snapshot.files.table().to_pylist():
        descriptor = file["deletionVector"] and DeletionVector.from_json(file["deletionVector"])
        vector = descriptor and Vector(descriptor, store, vector_reference(descriptor, "") or "")
        partition = {"p": pa.scalar(dict(file["partitionValues"])["p"])}
        task = FileTask(0, file["path"], partition, vector=vector or None)
        for batch in scan_file(ScanSpec(store, SCHEMA), task):
            found.update(str(row) for row in batch.select(["id", "p"]).to_pylist())
    return found


def named_files(snapshot: Snapshot) -> set[str]:
    """The files that a version names: of data, and of vectors."""
    files = snapshot.files.table().to_pylist()
    vectors = [DeletionVector.from_json(file["deletionVector"]) for file in files if file["deletionVector"]]
    return {file["path"] for file in files} | {vector_reference(vector, "") or "" for vector in vectors}


def data_files(root: Path) -> set[str]:
    paths = [path for path in root.rglob("*") if path.is_file()]
    return {str(path.relative_to(root)) for path in paths if path.relative_to(root).parts[0] != "_delta_log"}


def newest(root: Path) -> Snapshot:
    return load(LocalStore(str(root)))


class Trial:
    """One statement on copies of one table."""

    def __init__(self, place: Path, run: str) -> None:
        before, self.statement, self.versions = RUNS[run]
        self._place, self._table = place, place / "before"
        snapshot = statements.create(self._table)
        for step in before:
            snapshot = step(snapshot)
        self.first, self.rows = snapshot.version, rows(snapshot)
        clean = self.copied("clean")
        self.statement(newest(clean))
        self.after = rows(newest(clean))
        shutil.rmtree(clean)

    def copied(self, name: str) -> Path:
        return Path(shutil.copytree(self._table, self._place / name))

    def tried(self, at: int, fault: Fault, monkeypatch: pytest.MonkeyPatch) -> Calls:
        """Run the statement with the call number `at` going wrong, and look at the table, then and after a second run."""
        root = self.copied(f"try-{at}")
        calls, error = Calls(str(root), at, fault), None
        read = newest(root)
        with calls.heard(monkeypatch):
            try:
                self.statement(read)
            except (DeltaMergeError, Refused, OSError, Killed) as caught:
                error = caught.with_traceback(None)
                error.__context__ = error.__cause__ = None
            gc.collect()
        found = newest(root)
        self.look(found, error)
        if found.version == self.first:
            self.statement(found)
            assert rows(newest(root)) == self.after
        statements.vacuum(newest(root))
        assert data_files(root) == named_files(newest(root))
        assert rows(newest(root)) == self.after
        shutil.rmtree(root)
        return calls

    def look(self, found: Snapshot, error: BaseException | None) -> None:
        """The table is as before or as after; what is reported as done is, and what is reported as failed is not."""
        assert self.first <= found.version <= self.first + self.versions
        assert rows(found) == (self.rows if found.version == self.first else self.after)
        if self.versions == 1:  # VACUUM's entries in the history are no part of what it does
            done = found.version > self.first
            assert done if error is None else not done or isinstance(error, Killed | CommitStateUnknownError), error
        if isinstance(error, OSError):  # of a worker, for which the driver finds the name by the number
            assert error.errno is not None


@pytest.mark.parametrize(
    ("merge", "moved"),
    [(statements.change, 3), (statements.rewrite, 5), (statements.by_ranges, 5), (statements.by_hash, 5)],
)
def test_merges_do_what_they_say(tmp_path: Path, merge: Statement, moved: int) -> None:
    before = Counter(str({"id": n, "p": "a"}) for n in range(9))
    assert rows(statements.create(tmp_path / "t")) == before
    gone = {moved, 5} if merge is statements.change else {moved}
    after = before - Counter(str({"id": n, "p": "a"}) for n in gone) + Counter([str({"id": moved, "p": "moved"})])
    inserts = Counter() if merge is statements.rewrite else Counter([str({"id": 100, "p": "new"})])
    assert rows(merge(newest(tmp_path / "t"))) == after + inserts


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # a killed process closes nothing
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("run", RUNS)
def test_each_call_goes_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: str, fault: str) -> None:
    trial = Trial(tmp_path, run)
    total = len(trial.tried(0, FAULTS[fault], monkeypatch).seen)
    assert total > 20
    begin = 1 + sum(map(ord, run + fault)) % SAMPLE
    failed: list[str] = []
    for at in range(begin, total + 1, SAMPLE):
        failed += trial.tried(at, FAULTS[fault], monkeypatch).failed[:1]
    assert failed
    if ALL:
        print(f"{run}, {fault}: {len(failed)} faults")
