"""To which task each row is sent: by its partition and the ranges of keys that tasks have there, or by a hash of its keys.

Rows travel as Arrow streams, so that Spark, which moves them, never takes one apart. Where a row goes depends on its key alone: a
task that runs again sends the same.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.budgets import DEFAULTS, Budgets
from deltamerge.worker.join.buffers import Chunk
from deltamerge.worker.join.matching import Indices
from deltamerge.worker.scan.streams import packed_rows
from deltamerge.worker.skipping.bloom import hashable, key_hashes
from deltamerge.worker.skipping.numbers import key_numbers

# A row of what Spark shuffles: the number by which its partitioning finds the task, the task, and rows as an Arrow stream.
SHUFFLED = pa.schema([("partition", pa.int32()), ("task", pa.int32()), ("rows", pa.binary())])


@dataclass(frozen=True)
class Partitions:
    """Partitions of the table, each with its own ranges: those of the nth from `starts[n]` on, up to `starts[n + 1]`.

    Source rows tell theirs by `columns`, whose values in the table are `values`; `codes` has for each partition the places of its
    own among these, as one number, ascending. `tasks` has the task of each range: small partitions share one.
    """

    columns: tuple[str, ...]
    values: tuple[pa.Array, ...] = field(repr=False)
    codes: Indices = field(repr=False)
    starts: Indices = field(repr=False)
    tasks: Indices = field(repr=False)

    def of_rows(self, rows: pa.Table) -> Indices:
        """The partition of each row; -1 of one that has a null, or that no file is in."""
        codes, known = np.zeros(rows.num_rows, np.int64), np.ones(rows.num_rows, np.bool_)
        for name, values in zip(self.columns, self.values, strict=True):
            column = rows.column(name).cast(values.type)
            places = pc.fill_null(pc.index_in(column, value_set=values, skip_nulls=True), -1)
            found = np.asarray(places.to_numpy(), np.int64)
            known &= found >= 0
            codes = codes * len(values) + found
        at = np.minimum(np.searchsorted(self.codes, codes), max(0, len(self.codes) - 1))
        return np.where(known & (self.codes[at] == codes), at, -1) if len(self.codes) else np.full(rows.num_rows, -1)


@dataclass(frozen=True)
class KeyRanges:
    """The least and the greatest key, as numbers, of each range; both in ascending order, of a partitioned table in each of the
    `partitions`. `files` has for each task those that it writes; without partitions each range has a task.

    A file's keys are all within its task's range, which may overlap with others.
    """

    low: Indices = field(repr=False)
    high: Indices = field(repr=False)
    files: tuple[tuple[int, ...], ...] = field(repr=False)
    partitions: Partitions | None = None

    def covering(self, keys: Indices, start: int = 0, end: int | None = None) -> tuple[Indices, Indices]:
        """For each key the first of the ranges from `start` to `end` into which it falls, and the one after the last; the same
        one if there is none.
        """
        first = np.searchsorted(self.high[start:end], keys, side="left")
        return start + first, start + np.maximum(first, np.searchsorted(self.low[start:end], keys, side="right"))

    def tasks_of(self, rows: pa.Table, key: str) -> tuple[Indices, Indices]:
        """For each row the first task into whose range its `key` falls, and the one after the last; the same one if there is
        none, as of each null.
        """
        keys, known = key_numbers(rows.column(key))
        first, last = self.covering(keys) if self.partitions is None else self._in_partitions(self.partitions, rows, keys)
        return first, np.where(known, last, first)

    def _in_partitions(self, partitions: Partitions, rows: pa.Table, keys: Indices) -> tuple[Indices, Indices]:
        """The tasks of rows. Of a partition with several ranges each has a task of its own, one after the other."""
        own = partitions.of_rows(rows)
        first, count = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int64)
        order = np.argsort(own, kind="stable")
        begins = np.flatnonzero(np.diff(own[order], prepend=-2))
        for chosen in np.split(order, begins[1:]) if len(order) else []:
            number = int(own[chosen[0]])
            if number >= 0:
                start, end = int(partitions.starts[number]), int(partitions.starts[number + 1])
                low, high = self.covering(keys[chosen], start, end)
                first[chosen], count[chosen] = partitions.tasks[np.minimum(low, end - 1)], high - low
        return first, first + count


NO_RANGES = KeyRanges(np.zeros(0, np.int64), np.zeros(0, np.int64), ())


@dataclass(frozen=True)
class Partitioning:
    """Where rows are sent: those whose column `key` falls into `ranges` to the tasks of these; all others are spread by a hash of
    `hash_keys`, of `spread_by` or of the key, the first that there are, over `hash_tasks` more tasks, and go nowhere without any.

    `partitions` has for each task a number that Spark's partitioning sends there. Of target rows the task is written as `~task`,
    which is below those of source rows.
    """

    key: str
    ranges: KeyRanges
    hash_tasks: int
    partitions: tuple[int, ...] = field(repr=False)
    hash_keys: tuple[str, ...] = ()
    of_target: bool = False
    spread_by: tuple[str, ...] = ()
    budgets: Budgets = DEFAULTS

    @property
    def range_tasks(self) -> int:
        """How many tasks have ranges."""
        return len(self.ranges.files)

    def without_rows(self) -> pa.Table:
        """A row of `SHUFFLED` for each task of the ranges: for those that have work even if no source row comes to them."""
        count = self.range_tasks
        numbers = [pa.array(values, pa.int32()) for values in (self.partitions[:count], range(count))]
        return pa.table([*numbers, pa.nulls(count, pa.binary())], schema=SHUFFLED)


def partitioned(spec: Partitioning, batches: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
    """Rows in, batches of `SHUFFLED` out."""
    chunk = Chunk(spec.budgets)
    for batch in batches:
        if chunk.add(batch):
            yield from _sent(spec, chunk.take())
    yield from _sent(spec, chunk.take())


def _sent(spec: Partitioning, table: pa.Table | None) -> Iterator[pa.RecordBatch]:
    """A chunk of rows, split by the tasks that they are sent to."""
    if table is None or not table.num_rows:
        return
    first, last = spec.ranges.tasks_of(table, spec.key)
    if spec.hash_tasks:
        alone = np.flatnonzero(first == last)
        columns = spec.hash_keys or spec.spread_by or (spec.key,)
        tasks = spec.range_tasks + hash_tasks(_taken(table.select(columns), alone), columns, spec.hash_tasks)
        for task, rows in split(table, alone, tasks):
            number = ~task if spec.of_target else task
            yield from payloads(spec.partitions[task], number, rows, spec.budgets)
    for step in range(int((last - first).max(initial=0))):
        wide = np.flatnonzero(last - first > step)
        for task, rows in split(table, wide, first[wide] + step):
            yield from payloads(spec.partitions[task], task, rows, spec.budgets)


def hash_tasks(table: pa.Table, columns: Sequence[str], count: int) -> Indices:
    """A number below `count` for each row, by its values in some columns."""
    hashes, _ = key_hashes([_whole(table.column(name)) for name in columns], [False] * len(columns))
    return np.asarray(hashes % np.uint32(count), np.int64)


def _whole(values: pa.ChunkedArray) -> pa.ChunkedArray | pa.Array:
    """Whole numbers, dates and times as they are; of other types each value as a number, equal ones as equal ones."""
    if hashable(values.type):
        return values
    distinct = values.combine_chunks().dictionary_encode()
    numbers = pa.array([zlib.crc32(repr(value).encode()) for value in distinct.dictionary.to_pylist()], pa.int64())
    return numbers.take(distinct.indices)


def split(table: pa.Table, rows: Indices, groups: Indices) -> Iterator[tuple[int, pa.Table]]:
    """Some rows by their groups."""
    if not len(groups):
        return
    # Numbers of 16 bits are sorted several times as fast.
    order = np.argsort(groups.astype(np.uint16) if groups.max() < 1 << 16 else groups, kind="stable")
    ordered = _taken(table, rows[order])
    counts = np.bincount(groups)
    ends = np.cumsum(counts)
    for group in np.flatnonzero(counts).tolist():
        yield group, ordered.slice(ends[group] - counts[group], counts[group])


def _taken(table: pa.Table, rows: Indices) -> pa.Table:
    """Some rows; a view of them where they are neighbours."""
    if len(rows) and rows[-1] - rows[0] + 1 == len(rows) and (np.diff(rows) == 1).all():
        return table.slice(int(rows[0]), len(rows))
    return table.combine_chunks().take(pa.array(rows))


def payloads(partition: int, task: int, rows: pa.Table, budgets: Budgets) -> Iterator[pa.RecordBatch]:
    """Rows as batches of `SHUFFLED`, in pieces of about `payload_bytes`."""
    step = max(1, rows.num_rows * budgets.payload_bytes // max(1, rows.nbytes))
    for start in range(0, rows.num_rows, step):
        columns = [
            pa.array([partition], pa.int32()),
            pa.array([task], pa.int32()),
            packed_rows(rows.slice(start, step), budgets.narrow_rows),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=SHUFFLED)
