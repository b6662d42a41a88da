"""The tasks of a hash exchange: rows of both sides come to one task by a hash of their keys, and are matched there.

Each row that changes goes on to the task that writes its file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from deltamerge.budgets import Budgets
from deltamerge.worker.join.buffers import Buffer, Chunk
from deltamerge.worker.join.changes import ChangedPairs, by_position, changed_alone, inserted
from deltamerge.worker.join.clauses import change_schema, needed_columns
from deltamerge.worker.join.matching import Indices
from deltamerge.worker.join.partitioning import NO_RANGES, Partitioning, hash_tasks, partitioned, payloads, split
from deltamerge.worker.join.range_join import JoinSpec, positions_by_bin
from deltamerge.worker.join.target_keys import TargetKeys, target_keys
from deltamerge.worker.scan.outcomes import AttemptEnded, KeysRepeated, TooLarge
from deltamerge.worker.scan.scan import FILE, ROW, FileTask, scan_file
from deltamerge.worker.scan.source import BIN, POSITION
from deltamerge.worker.scan.streams import unpacked_rows

# The task of payloads whose rows are no changed ones, but positions of source rows that a second job writes.
_POSITIONS = -1
# So many neighbours of the source, as a power of two, are reported by one task; those of other bins by others.
_TOGETHER, _FAR = 16, 7_919


@dataclass(frozen=True)
class HashJoinSpec:
    """Where rows are matched: at the tasks that Spark's partitioning finds by the numbers `match_tasks`, chosen by a hash of the
    `keys`, columns of target and source; and where changed rows go on to: to the tasks of the numbers `write_tasks`, of which
    the first write the files that `join.ranges` names, and the others insert rows.
    """

    join: JoinSpec
    keys: tuple[tuple[str, str], ...]
    match_tasks: tuple[int, ...] = field(repr=False)
    write_tasks: tuple[int, ...] = field(repr=False)

    @property
    def source(self) -> Partitioning:
        """Where source rows go."""
        return self._partitioning(self.source_columns, of_target=False)

    @property
    def target(self) -> Partitioning:
        """Where target rows go."""
        return self._partitioning(tuple(target for target, _ in self.keys), of_target=True)

    @property
    def source_columns(self) -> tuple[str, ...]:
        """The source's columns that are hashed."""
        return tuple(source for _, source in self.keys)

    def _partitioning(self, columns: tuple[str, ...], of_target: bool) -> Partitioning:
        tasks = self.match_tasks
        return Partitioning(columns[0], NO_RANGES, len(tasks), tasks, columns, of_target, budgets=self.join.budgets)

    @property
    def insert_tasks(self) -> int:
        """How many tasks insert rows; 0 if none are inserted."""
        return len(self.write_tasks) - len(self.join.ranges.files)


def target_rows(spec: HashJoinSpec, tasks: Iterable[FileTask]) -> Iterator[pa.RecordBatch]:
    """The keys and positions of the rows of some files, on their way to the source rows of the same keys."""
    batches = (batch for task in tasks for batch in scan_file(spec.join.scan, task))
    yield from partitioned(spec.target, (pa.Table.from_batches([batch]) for batch in batches))


class HashJoin:
    """A task that matches rows: target rows, which come first, are buffered, their keys and positions; `changes` go on."""

    def __init__(self, spec: HashJoinSpec) -> None:
        self._spec = spec
        files = spec.join.ranges.files
        self._writer_of = np.zeros(1 + max((file for own in files for file in own), default=-1), np.int64)
        for task, own in enumerate(files):
            self._writer_of[list(own)] = task
        self._parts: list[pa.Table] = []
        self._target: pa.Table | None = None
        self._keys: TargetKeys | None = None
        self._waiting = Chunk(spec.join.budgets)
        self._pairs = ChangedPairs(spec.join.matched, spec.join.changes)
        self._buffer = Buffer(spec.join.budgets.hash_buffer_bytes)

    def changes(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batches of `SHUFFLED` in and out."""
        for batch in batches:
            for task, payload in zip(batch.column(1).to_pylist(), batch.column(2), strict=True):
                yield from self._take(task < 0, unpacked_rows(payload))
        rest = self._waiting.take()
        if rest is not None:
            yield from self._match(rest)
        yield from self._changed_alone()

    def _take(self, of_target: bool, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        if of_target:
            if self._target is not None:
                raise RuntimeError("a target row came after rows had been matched")
            self._buffer.add(rows)
            self._parts.append(rows)
            return
        if self._waiting.add(rows):
            yield from self._match(self._waiting.take())

    def _buffered(self) -> pa.Table:
        """The target rows."""
        if self._target is None:
            schema = self._spec.join.scan.output
            self._target = pa.concat_tables([schema.empty_table(), *self._parts]).combine_chunks()
            self._parts = []
        return self._target

    def _match(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        join, target, source = self._spec.join, self._buffered(), rows.combine_chunks()
        if self._keys is None:
            self._keys = target_keys(join, target)
        matches = self._keys.match(source, join.every_pair)
        if matches is None:
            # Rows of a few columns come in larger chunks than whole rows, which the next attempt sends: those may be few enough.
            ended = KeysRepeated if join.update_as_delete_insert else TooLarge
            raise AttemptEnded(ended(f"more than {join.every_pair:,} pairs of rows match in one task"))
        first = self._pairs.add(matches.target)
        moved = [np.zeros(0, np.int64)]
        for changed, own in self._pairs.changes(source, target, matches, matches.target, first, join.budgets.piece_bytes):
            yield from self._sent(changed)
            moved.append(own)
        if join.update_as_delete_insert:
            yield from self._reported_once(source, np.concatenate(moved))
        if join.inserts:
            yield from self._inserted(source, np.flatnonzero(~matches.matched))

    def _inserted(self, source: pa.Table, alone: Indices) -> Iterator[pa.RecordBatch]:
        """Source rows without a match, by their keys or partitions: a task that runs again sends them the same way."""
        spec, join = self._spec, self._spec.join
        if join.positions_only:
            for _, own in inserted(join.inserts, change_schema(pa.schema([])), source, alone):
                yield from self._reported(source, own)
            return
        tasks = len(join.ranges.files) + hash_tasks(source, join.spread_by or spec.source_columns, spec.insert_tasks)
        for rows, own in inserted(join.inserts, join.changes, source, alone):
            yield from self._payloads(rows, tasks[own])

    def _reported_once(self, source: pa.Table, matched: Indices) -> Iterator[pa.RecordBatch]:
        """The positions of source rows that take the place of target rows.

        Raises AttemptEnded (KeysRepeated) for one that matches several target rows: a position can't be reported twice.
        """
        counts = np.bincount(matched)
        if (counts > 1).any():
            raise AttemptEnded(KeysRepeated("a source row matches several target rows, and may only be written once"))
        yield from self._reported(source, np.flatnonzero(counts))

    def _reported(self, source: pa.Table, chosen: Indices) -> Iterator[pa.RecordBatch]:
        """The positions of some source rows, neighbours together, so that a bit is enough for each."""
        found = source.select([BIN, POSITION]).take(pa.array(chosen))
        bins, positions = found.column(BIN).to_numpy().astype(np.int64), found.column(POSITION).to_numpy()
        tasks = (bins * _FAR + (positions >> _TOGETHER)) % len(self._spec.write_tasks)
        for task, rows in split(found, np.arange(len(chosen)), tasks):
            yield from payloads(self._spec.write_tasks[task], _POSITIONS, rows, self._spec.join.budgets)

    def _changed_alone(self) -> Iterator[pa.RecordBatch]:
        """The target rows without a match, as NOT MATCHED BY SOURCE clauses change them."""
        join, target = self._spec.join, self._buffered()
        if not join.by_source:
            return
        alone = self._pairs.without_match(np.arange(target.num_rows))
        target = target.select([*needed_columns(join.by_source, "target"), FILE, ROW])
        for start in range(0, len(alone), join.budgets.piece_rows):
            rows = target.take(pa.array(alone[start : start + join.budgets.piece_rows]))
            for changed in changed_alone(join.by_source, join.changes, rows):
                yield from self._sent(changed)

    def _sent(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        """Changed rows on their way to the tasks that write their files."""
        yield from self._payloads(rows, self._writer_of[rows.column(FILE).to_numpy()])

    def _payloads(self, rows: pa.Table, tasks: Indices) -> Iterator[pa.RecordBatch]:
        for task, part in split(rows, np.arange(len(tasks)), tasks):
            yield from payloads(self._spec.write_tasks[task], task, part, self._spec.join.budgets)


class ChangesByFile:
    """A task that writes files, or inserts rows: `changes` in the order in which they are applied, then reported `positions`."""

    def __init__(self, budgets: Budgets) -> None:
        self._changed: dict[int, list[pa.Table]] = {}
        self._reported: list[pa.Table] = []
        self._buffer = Buffer(budgets.exchange_buffer_bytes)

    def changes(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batches of `SHUFFLED` in, changed rows out: inserted ones as they come, then those of each file by position."""
        for batch in batches:
            for task, payload in zip(batch.column(1).to_pylist(), batch.column(2), strict=True):
                rows = unpacked_rows(payload)
                if task == _POSITIONS:
                    self._reported.append(rows)
                elif rows.column(FILE).null_count:
                    yield from rows.to_batches()
                else:
                    self._buffer.add(rows)
                    for file, part in split(rows, np.arange(rows.num_rows), rows.column(FILE).to_numpy()):
                        self._changed.setdefault(file, []).append(part)
        for file in sorted(self._changed):
            yield from by_position(self._changed.pop(file)).to_batches()

    def positions(self) -> Iterator[tuple[int, Indices]]:
        """For each bin of the source the positions of rows to be inserted that `changes` did not give, ascending."""
        yield from positions_by_bin(self._reported)
