"""Transactions that overlap in any way, against a serial model: each is held between what it has read and its commit.

A statement runs in a thread of its own, which waits before its first try to commit until it is told to go on. So the machine
decides which transactions are open at a time, and in which order they commit.
"""

from __future__ import annotations

import itertools
import json
import tempfile
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow.parquet as pq
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from pyspark.sql import SparkSession

import deltamerge
from deltamerge.commands.layout.vacuum import VacuumRequest, vacuum_table
from deltamerge.errors import ConcurrentModificationError, DeltaMergeError
from deltamerge.log.commit import transaction
from deltamerge.log.replay.load import load
from deltamerge.log.replay.table import DeltaLog
from deltamerge.protocol.table.actions import DeletionVector
from deltamerge.protocol.table.deletion_vector import vector_reference
from deltamerge.protocol.values.partitions import decode_path
from deltamerge.storage.local import LocalStore
from deltamerge.worker.scan.store import DataStore
from deltamerge.worker.scan.vectors import Vector, read_vector
from tests.faults import serial
from tests.faults.serial import Serial, Step
from tests.faults.upkeep import session
from tests.unit.log import building

_MOST_OPEN = 3
_SECONDS = 60
FEATURES = ("timestampNtz", "v2Checkpoint", "domainMetadata", "vacuumProtocolCheck")

ids, parts, values = st.integers(0, 5), st.sampled_from(serial.PARTS), st.integers(1, 9)


MERGES = st.one_of(
    st.builds(serial.merge, st.dictionaries(ids, values, min_size=1, max_size=3), st.none() | parts),
    st.builds(serial.merge_delete, st.sets(ids, min_size=1, max_size=2)),
)
CHANGES = st.builds(serial.update, ids, values) | st.builds(serial.delete, st.none() | ids, parts)
WRITES = st.builds(serial.append, ids, parts, values) | st.builds(serial.overwrite, ids, parts, values)


class Held:
    """A statement that runs until its commit, waits, and goes on when it is told to."""

    writer, failures = "", "conflicts"  # what is counted begins and ends with these

    def __init__(self, run: Callable[[], object], step: Step, read: int) -> None:
        self.step, self.read = step, read
        self.error: BaseException | None = None
        self._waits, self._goes = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run, args=[run], daemon=True)
        HELD[self._thread] = self
        self._thread.start()
        assert self.is_held(_SECONDS), step.text

    def is_held(self, seconds: float) -> bool:
        """Whether it waits, or has ended, before some seconds are over."""
        return self._waits.wait(seconds)

    def finish(self) -> None:
        """Let it commit, or fail."""
        self._goes.set()
        self._thread.join(_SECONDS)
        assert not self._thread.is_alive(), self.step.text
        HELD.pop(self._thread, None)

    def may_fail(self, table: Serial) -> bool:
        """Whether its error is one that it may end with: a conflict with a commit that can stand in its way."""
        gone = self.step.restores is not None and isinstance(self.error, DeltaMergeError)
        is_conflict = isinstance(self.error, ConcurrentModificationError) or gone
        return is_conflict and not table.must_succeed(self.step, self.read)

    def hold(self) -> None:
        """Wait, the first time only: what loses a race tries again at once."""
        self._waits.set()
        self._goes.wait()

    def _run(self, run: Callable[[], object]) -> None:
        try:
            run()
        except BaseException as error:
            self.error = error
        self._waits.set()


HELD: dict[threading.Thread, Held] = {}


def holding(real: Callable[..., Any]) -> Callable[..., Any]:
    """The function by which a commit begins, before which threads of held statements wait: nobody's turn has come."""

    def hold(*arguments: Any) -> Any:
        held = HELD.get(threading.current_thread())
        if held is not None:
            held.hold()
        return real(*arguments)

    return hold


class Histories(RuleBasedStateMachine):
    """Statements begin and end in any order; after each commit the table holds what a serial run gives."""

    spark: SparkSession
    counts: ClassVar[Counter[str]] = Counter()

    @initialize(vectors=st.booleans(), level=st.sampled_from(["Serializable", "WriteSerializable"]))
    def create(self, vectors: bool, level: str) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "t"
        features = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"]}
        properties = {"delta.isolationLevel": level, "delta.checkpointInterval": "5"}
        properties |= {"delta.enableDeletionVectors": "true"} if vectors else {}
        schema = building.schema_text(id="integer", part="integer", n="integer")
        building.commit(
            self.path,
            0,
            {"protocol": {**features, "writerFeatures": ["deletionVectors"]}},
            building.metadata(schema, ["part"], properties),
        )
        self.serial = Serial((), level == "WriteSerializable")
        self.rules = self.optimized = 0
        self.open: list[Held] = []
        self.oldest, self.columns, self.features = 0, itertools.count(), list(FEATURES)
        for part in serial.PARTS:
            source = {id: id for id in range(part, 6, 2)}
            self.begin(serial.merge(source, part))
            self.finish(self.open.pop())

    @rule(step=MERGES)
    def merge(self, step: Step) -> None:
        self.begin(step)

    @rule(step=CHANGES)
    def change(self, step: Step) -> None:
        self.begin(step)

    @rule(step=WRITES)
    def write(self, step: Step) -> None:
        self.begin(step)

    @precondition(lambda self: self.commits >= self.optimized + 3)
    @rule()
    def optimize(self) -> None:
        self.optimized = self.commits
        self.begin(serial.optimize())

    @precondition(lambda self: self.may_rule)
    @rule()
    def add_column(self) -> None:
        self.begin(serial.add_column(next(self.columns)))

    @precondition(lambda self: self.may_rule and self.features)
    @rule()
    def upgrade(self) -> None:
        self.begin(serial.upgrade(self.features.pop()))

    @precondition(lambda self: self.may_rule)
    @rule(share=st.floats(0, 1))
    def restore(self, share: float) -> None:
        version = self.oldest + round(share * (self.commits - self.oldest))
        self.begin(serial.restore(version, self.serial.versions[version]))

    @precondition(lambda self: self.open)
    @rule(which=st.integers(0, _MOST_OPEN))
    def end(self, which: int) -> None:
        self.finish(self.open.pop(which % len(self.open)))

    @precondition(lambda self: not self.open and self.commits - self.oldest > 4)
    @rule()
    def vacuum(self) -> None:
        before = self.version()
        vacuum_table(session(), DeltaLog(LocalStore(str(self.path))), VacuumRequest(0))
        for _ in range(before, self.version()):
            self.serial.commit(serial.optimize(), before)
        self.oldest = self.version()

    @property
    def commits(self) -> int:
        """How many there are."""
        return len(self.serial.versions) - 1

    @property
    def may_rule(self) -> bool:
        """Whether it is time for a statement that stands in the way of all others."""
        return 8 * self.rules < self.commits

    def begin(self, step: Step) -> None:
        """Let a statement read, and hold it."""
        self.make_room()
        self.rules += step.rules
        text = step.text.format(table=f"delta.`{self.path}`")
        self.open.append(Held(lambda: deltamerge.sql(self.spark, text), step, self.commits))

    def make_room(self) -> None:
        """Let one of the open statements end if there are too many."""
        if len(self.open) >= _MOST_OPEN:
            self.finish(self.open.pop(0))

    def finish(self, held: Held) -> None:
        """Let a statement commit, and see that it did what a serial run does, or that a conflict stood in its way."""
        before, step = self.version(), held.step
        held.finish()
        made = self.version() - before
        kind = held.writer + step.text.split()[0]
        if held.error is not None:
            assert made == 0, step.text
            self.counts[f"{kind} {held.failures}"] += 1
            assert held.may_fail(self.serial), (step.text, held.error)
        elif made:
            assert made == 1, step.text
            self.counts[f"{kind} commits"] += 1
            self.serial.commit(step, self.read_version(before))
        else:
            self.counts[f"{kind} without a change"] += 1
            assert serial.bag(step.apply(self.serial.versions[held.read])) == serial.bag(self.serial.versions[held.read])
        assert self.rows() == serial.bag(self.serial.versions[-1]), step.text

    @invariant()
    def versions_are_those_of_the_model(self) -> None:
        """Each statement has made one version at most."""
        if hasattr(self, "path"):
            assert self.version() == self.commits

    def teardown(self) -> None:
        for held in getattr(self, "open", []):
            held.finish()
        if hasattr(self, "folder"):
            self.folder.cleanup()

    def version(self) -> int:
        """The newest version."""
        return max(int(path.stem) for path in (self.path / "_delta_log").glob("0*.json") if path.stem.isdigit())

    def read_version(self, before: int) -> int:
        """The version that the newest commit was made of: a statement begins anew where OPTIMIZE has moved its rows.

        `before` is the one where the commit does not say it, as appends of delta-rs.
        """
        text = (self.path / "_delta_log" / f"{self.version():020d}.json").read_text()
        (info,) = (action["commitInfo"] for action in map(json.loads, text.splitlines()) if "commitInfo" in action)
        return int(info.get("readVersion", before))

    def rows(self) -> Counter[tuple[int, int, int]]:
        """The rows of the newest version, read file by file."""
        found: Counter[tuple[int, int, int]] = Counter()
        for file in load(LocalStore(str(self.path)), None).files.table().to_pylist():
            table = pq.ParquetFile(self.path / decode_path(file["path"])).read(columns=["id", "n"])
            shown = np.ones(table.num_rows, np.bool_)
            if file["deletionVector"] is not None:
                descriptor = DeletionVector.from_json(file["deletionVector"])
                name = vector_reference(descriptor, "")
                vector = Vector(descriptor, None if name is None else DataStore("file", str(self.path), {}), name or "")
                shown[read_vector(vector, "", table.num_rows).positions()] = False
            part = int(dict(file["partitionValues"])["part"])
            kept = zip(table["id"].to_pylist(), table["n"].to_pylist(), shown.tolist(), strict=True)
            found.update((id, part, n) for id, n, there in kept if there)
        return found


def hold_commits() -> Callable[[], None]:
    """From now on held statements wait before their commits; what ends that."""
    real = transaction.check_sound
    transaction.check_sound = holding(real)  # type: ignore[assignment]
    return lambda: setattr(transaction, "check_sound", real)
