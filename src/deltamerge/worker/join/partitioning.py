"""To which task each row is sent: by the ranges of keys that tasks have, or by a hash of its keys.

Rows travel as Arrow streams, so that Spark, which moves them, never takes one apart. Where a row goes depends on its key alone: a
task that runs again sends the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from deltamerge.budgets import DEFAULTS, Budgets
from deltamerge.worker.join.buffers import Chunk
from deltamerge.worker.join.matching import Flags, Indices
from deltamerge.worker.scan.streams import stream_array
from deltamerge.worker.skipping.bloom import key_hashes

# A row of what Spark shuffles: the number by which its partitioning finds the task, the task, and rows as an Arrow stream.
SHUFFLED = pa.schema([("partition", pa.int32()), ("task", pa.int32()), ("rows", pa.binary())])
_CODEC = "lz4"


@dataclass(frozen=True)
class KeyRanges:
    """For each task the least and the greatest key, as numbers, of the `files` that it writes; both in ascending order.

    A file's keys are all within its task's range, which may overlap with others.
    """

    low: Indices = field(repr=False)
    high: Indices = field(repr=False)
    files: tuple[tuple[int, ...], ...] = field(repr=False)

    def covering(self, keys: Indices) -> tuple[Indices, Indices]:
        """For each key the first task into whose range it falls, and the one after the last; the same one if there is none."""
        first = np.searchsorted(self.high, keys, side="left")
        return first, np.maximum(first, np.searchsorted(self.low, keys, side="right"))


NO_RANGES = KeyRanges(np.zeros(0, np.int64), np.zeros(0, np.int64), ())


@dataclass(frozen=True)
class Partitioning:
    """Where rows are sent: those whose column `key` falls into `ranges` to the tasks of these; all others are spread by a hash of
    that column, or of `hash_keys`, over `hash_tasks` more tasks, and go nowhere if there are none.

    `partitions` has for each task a number that Spark's partitioning sends there. Of target rows the task is written as `~task`,
    which is below those of source rows.
    """

    key: str
    ranges: KeyRanges
    hash_tasks: int
    partitions: tuple[int, ...] = field(repr=False)
    hash_keys: tuple[str, ...] = ()
    of_target: bool = False
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
    keys, known = key_numbers(table.column(spec.key))
    first, last = spec.ranges.covering(keys)
    last = np.where(known, last, first)
    if spec.hash_tasks:
        alone = np.flatnonzero(first == last)
        columns = spec.hash_keys or (spec.key,)
        tasks = spec.range_tasks + hash_tasks(_taken(table.select(columns), alone), columns, spec.hash_tasks)
        for task, rows in split(table, alone, tasks):
            number = ~task if spec.of_target else task
            yield from payloads(spec.partitions[task], number, rows, spec.budgets.payload_bytes)
    for step in range(int((last - first).max(initial=0))):
        wide = np.flatnonzero(last - first > step)
        for task, rows in split(table, wide, first[wide] + step):
            yield from payloads(spec.partitions[task], task, rows, spec.budgets.payload_bytes)


def hash_tasks(table: pa.Table, columns: Sequence[str], count: int) -> Indices:
    """A number below `count` for each row, by the whole numbers, dates or times in some columns."""
    hashes, _ = key_hashes([table.column(name) for name in columns], [False] * len(columns))
    return np.asarray(hashes % np.uint32(count), np.int64)


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


def payloads(partition: int, task: int, rows: pa.Table, size: int) -> Iterator[pa.RecordBatch]:
    """Rows as batches of `SHUFFLED`, in pieces of about `size` bytes."""
    step = max(1, rows.num_rows * size // max(1, rows.nbytes))
    for start in range(0, rows.num_rows, step):
        packed = stream_array(rows.slice(start, step), _CODEC)
        columns = [pa.array([partition], pa.int32()), pa.array([task], pa.int32()), packed]
        yield pa.RecordBatch.from_arrays(columns, schema=SHUFFLED)


def key_numbers(values: Any) -> tuple[Indices, Flags]:
    """Keys as numbers that are in the same order, and whether they are not null."""
    flat = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if pa.types.is_date32(flat.type):
        flat = flat.cast(pa.int32())
    whole = flat.cast(pa.int64())
    known = np.asarray(whole.is_valid().to_numpy(zero_copy_only=False))
    return np.asarray(whole.fill_null(0).to_numpy(zero_copy_only=False)), known
