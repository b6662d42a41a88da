"""The tasks of a range exchange: each writes some files of the table, and all source rows that can match theirs come to it.

Source rows are matched as they come, a chunk at a time; what a task buffers are the rows that change in its files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from deltamerge.budgets import DEFAULTS, Budgets
from deltamerge.protocol.values.widths import least_width
from deltamerge.worker.join.buffers import Buffer, Chunk
from deltamerge.worker.join.changes import ChangedPairs, by_position, changed_alone, inserted
from deltamerge.worker.join.clauses import ClauseProgram, change_schema, needed_columns
from deltamerge.worker.join.matching import Indices, Matches, matches_of
from deltamerge.worker.join.partitioning import KeyRanges
from deltamerge.worker.scan.outcomes import AttemptEnded, TooLarge
from deltamerge.worker.scan.scan import KEY_ID, ROW, FileTask, ScanSpec, scan_file
from deltamerge.worker.scan.source import BIN, POSITION
from deltamerge.worker.scan.streams import unpacked_rows
from deltamerge.worker.skipping.keys import ExactFilter, build_filter

SourceKeys = tuple[ExactFilter, pa.Array]


@dataclass(frozen=True)
class JoinSpec:
    """How the tasks of an exchange match rows, and what the clauses do with them.

    `pairs` are the key columns of target and source, `key` is the source's column that `ranges` are about. `scan` reads the
    target's key columns, and those that clauses need; `written` are the columns that clauses set. The clauses about each kind of
    rows are in order. Inserted rows that belong to no range go to tasks by the source's columns `spread_by`, by the key if there
    are none. With `positions_only` rows to be inserted are not sent on but reported, by BIN and POSITION, and so are, with
    `update_as_delete_insert`, the source rows of updates, whose clause then deletes: a second job writes them. `inserts` set
    nothing then, and have conditions only if the second job does not ask them.
    """

    scan: ScanSpec
    pairs: tuple[tuple[str, str], ...]
    key: str
    ranges: KeyRanges
    written: pa.Schema
    matched: tuple[ClauseProgram, ...] = ()
    inserts: tuple[ClauseProgram, ...] = ()
    by_source: tuple[ClauseProgram, ...] = ()
    positions_only: bool = False
    update_as_delete_insert: bool = False
    spread_by: tuple[str, ...] = ()
    budgets: Budgets = DEFAULTS

    @property
    def changes(self) -> pa.Schema:
        """The schema of changed rows."""
        return change_schema(self.written)

    def scan_for(self, programs: Sequence[ClauseProgram], keys: ExactFilter | None = None) -> ScanSpec:
        """The scan of what some clauses need of the target; with `keys` only rows that have one of these, and their key ids."""
        names = {*needed_columns(programs, "target"), *(() if keys is None else keys.columns)}
        schema = pa.schema([field for field in self.scan.schema if field.name in names])
        return replace(self.scan, schema=schema, keys=keys, with_key_ids=keys is not None)

    @property
    def every_pair(self) -> int | None:
        """Which matches are looked at: all, so many at once, where clauses choose among them; None: two of a key are enough."""
        return None if all(program.only_copies for program in self.matched) else self.budgets.match_rows


class RangeJoin:
    """A task that writes files: `changes` of the source rows that come to it, then the `positions` of rows to be inserted."""

    def __init__(self, spec: JoinSpec, files: Mapping[int, FileTask]) -> None:
        self._spec = spec
        self._files = files
        self._task = -1
        self._own: tuple[int, ...] = ()
        self._waiting = Chunk(spec.budgets)
        self._changed: dict[int, list[pa.Table]] = {}
        self._pairs: dict[int, ChangedPairs] = {}
        self._inserted: list[pa.Table] = []
        self._buffer = Buffer(spec.budgets.exchange_buffer_bytes)
        self._width = least_width(spec.changes)

    def changes(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batches of `SHUFFLED` in, changed rows out: inserted ones first, then those of each of the task's files by position."""
        for batch in batches:
            for task, payload in zip(batch.column(1).to_pylist(), batch.column(2), strict=True):
                self._start(task)
                if payload.is_valid:
                    yield from self._take(unpacked_rows(payload))
        yield from self._finish()

    def positions(self) -> Iterator[tuple[int, Indices]]:
        """The source rows to be inserted that `changes` did not give: for each bin of the source their positions, ascending."""
        yield from positions_by_bin(self._inserted)

    def _start(self, task: int) -> None:
        if self._task < 0:
            files = self._spec.ranges.files
            self._task, self._own = task, files[task] if task < len(files) else ()
            self._changed = {file: [] for file in self._own}
            self._pairs = {file: ChangedPairs(self._spec.matched, self._spec.changes) for file in self._own}

    def _take(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        """Source rows; yields inserted ones."""
        if self._waiting.add(rows):
            yield from self._match(self._waiting.take())

    def _finish(self) -> Iterator[pa.RecordBatch]:
        """What is left to be inserted, then the changes of the files, file by file, in the order of their rows."""
        rest = self._waiting.take()
        if rest is not None:
            yield from self._match(rest)
        for file in self._own:
            changed = self._changed.pop(file)
            changed += self._changed_alone(file)
            if changed:
                yield from by_position(changed).to_batches()

    def _match(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        spec, source = self._spec, rows.combine_chunks()
        keys = source_keys(spec, source)
        matched = np.zeros(source.num_rows, np.bool_)
        for file in self._own:
            matches, found = self._matches(keys, file, spec.matched, spec.every_pair)
            if not len(matches.target):
                continue
            pairs, positions = self._pairs[file], found.column(ROW).to_numpy()[matches.target]
            for changed, _ in pairs.changes(source, found, matches, positions, pairs.add(positions), spec.budgets.piece_bytes):
                self._buffer.add(changed)
                self._changed[file].append(changed)
            matched |= matches.matched
        if spec.inserts:
            alone = self._unmatched(source, np.flatnonzero(~matched))
            if spec.positions_only:
                self._inserted.append(source.select([BIN, POSITION]).take(pa.array(alone)))
            else:
                for changed, _ in inserted(spec.inserts, spec.changes, source, alone):
                    yield from changed.to_batches()

    def _matches(
        self, keys: SourceKeys, file: int, programs: Sequence[ClauseProgram] = (), most_pairs: int | None = None
    ) -> tuple[Matches, pa.Table]:
        """The matches of source rows and a file's rows, and these, with their keys and what clauses need of them."""
        scan = self._spec.scan_for(programs, keys[0])
        found = pa.Table.from_batches(scan_file(scan, self._files[file]), scan.output)
        self._buffer.expect(int(found.num_rows * self._width))
        matches = matches_of(found.column(KEY_ID), keys[1], most_pairs)
        if matches is None:
            raise AttemptEnded(TooLarge(f"more than {most_pairs:,} pairs of rows match in one file"))
        return matches, found

    def _unmatched(self, source: pa.Table, alone: Indices) -> Indices:
        """Of the source rows `alone`, that match none of the task's files, those that match no other file either.

        Those that fall into several tasks' ranges are left to the first of them.
        """
        if not self._own:
            return alone
        ranges = self._spec.ranges
        source = source.select(sorted({name for _, name in self._spec.pairs}))  # those of the ranges are among them
        first, last = ranges.tasks_of(source.take(pa.array(alone)), self._spec.key)
        decided = first == self._task
        alone, last = alone[decided], last[decided]
        for task in range(self._task + 1, int(last.max(initial=0))):
            for file in ranges.files[task]:
                chosen = np.flatnonzero(last > task)
                if not len(chosen):
                    break
                matches, _ = self._matches(source_keys(self._spec, source.take(pa.array(alone[chosen]))), file)
                alone, last = np.delete(alone, chosen[matches.matched]), np.delete(last, chosen[matches.matched])
        return alone

    def _changed_alone(self, file: int) -> list[pa.Table]:
        """The rows of a file without a match, as NOT MATCHED BY SOURCE clauses change them."""
        spec = self._spec
        if not spec.by_source:
            return []
        scan = spec.scan_for(spec.by_source)
        rows = pa.Table.from_batches(scan_file(scan, self._files[file]), scan.output)
        positions = rows.column(ROW).to_numpy()
        alone = np.isin(positions, self._pairs.pop(file).without_match(positions))
        return list(changed_alone(spec.by_source, spec.changes, rows.filter(pa.array(alone))))


def source_keys(spec: JoinSpec, source: pa.Table) -> SourceKeys:
    """What the keys of source rows are looked up by, and each row's key id."""
    types = {name: spec.scan.schema.field(name).type for name, _ in spec.pairs}
    arrays = [source.column(name).combine_chunks().cast(types[target]) for target, name in spec.pairs]
    return build_filter([target for target, _ in spec.pairs], arrays, [False] * len(arrays), spec.budgets.numbered_rows)


def positions_by_bin(found: list[pa.Table]) -> Iterator[tuple[int, Indices]]:
    """For each bin of the source the positions found in it, ascending."""
    if found:
        rows = pa.concat_tables(found)
        bins, positions = rows.column(BIN).to_numpy(), rows.column(POSITION).to_numpy()
        for number in np.flatnonzero(np.bincount(bins)).tolist():
            yield number, np.sort(positions[bins == number])
