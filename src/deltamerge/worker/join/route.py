"""The first half of a routed merge: each source row goes to the task that owns the files into whose range of keys it falls.

Rows travel as Arrow streams, so that Spark, which moves them, never takes one apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from deltamerge.budgets import DEFAULTS, Budgets
from deltamerge.worker.join.sized import Chunk
from deltamerge.worker.scan.bloom import key_hashes
from deltamerge.worker.scan.streams import stream_array

Numbers = npt.NDArray[np.int64]

ROUTED = pa.schema(
    [
        pa.field("partition", pa.int32()),
        pa.field("task", pa.int32()),
        pa.field("rows", pa.binary()),
    ]
)
_CODEC = "lz4"


@dataclass(frozen=True)
class Ranges:
    """For each task the least and the greatest key, as numbers, of the files that it owns; both in ascending order.

    A file's keys are all within its owner's range, which may overlap with others.
    """

    low: Numbers = field(repr=False)
    high: Numbers = field(repr=False)
    files: tuple[tuple[int, ...], ...] = field(repr=False)

    def covering(self, keys: Numbers) -> tuple[Numbers, Numbers]:
        """For each key the first task into whose range it falls, and the one after the last; the same one if there is none."""
        first = np.searchsorted(self.high, keys, side="left")
        return first, np.maximum(first, np.searchsorted(self.low, keys, side="right"))


@dataclass(frozen=True)
class RouteSpec:
    """Where source rows go: `key` names the column that is looked up in `ranges`.

    Rows that fall into no range are spread by that column, or by those of `spread_by`, over `inserters` tasks above those that
    own files, and go nowhere if there are none. `partitions` has for each task a number that Spark's partitioning sends there.
    Where a row goes depends on its key alone, so that a task that runs again sends the same. Of rows that are the table's the
    task is written as `~task`, which is below those of the source.
    """

    key: str
    ranges: Ranges
    inserters: int
    partitions: tuple[int, ...] = field(repr=False)
    is_table: bool = False
    spread_by: tuple[str, ...] = ()
    budgets: Budgets = DEFAULTS

    @property
    def owners(self) -> int:
        """How many tasks own files."""
        return len(self.ranges.files)

    def told(self) -> pa.Table:
        """A row of `ROUTED` for each owner: for those that have something to do even if no source row comes to them."""
        count = self.owners
        numbers = [pa.array(values, pa.int32()) for values in (self.partitions[:count], range(count))]
        return pa.table([*numbers, pa.nulls(count, pa.binary())], schema=ROUTED)


def routed(spec: RouteSpec, batches: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
    """Rows of the source in, batches of `ROUTED` out."""
    chunk = Chunk(spec.budgets)
    for batch in batches:
        if chunk.add(batch):
            yield from _sent(spec, chunk.take())
    yield from _sent(spec, chunk.take())


def _sent(spec: RouteSpec, table: pa.Table | None) -> Iterator[pa.RecordBatch]:
    """A chunk of rows, split by the tasks that they are sent to."""
    if table is None or not table.num_rows:
        return
    keys, known = numbers(table.column(spec.key))
    first, last = spec.ranges.covering(keys)
    last = np.where(known, last, first)
    if spec.inserters:
        alone = np.flatnonzero(first == last)
        columns = spec.spread_by or (spec.key,)
        tasks = spec.owners + spread(_taken(table.select(columns), alone), columns, spec.inserters)
        for task, rows in split(table, alone, tasks):
            yield from payloads(spec.partitions[task], ~task if spec.is_table else task, rows, spec.budgets.payload_bytes)
    for step in range(int((last - first).max(initial=0))):
        places = np.flatnonzero(last - first > step)
        for task, rows in split(table, places, first[places] + step):
            yield from payloads(spec.partitions[task], task, rows, spec.budgets.payload_bytes)


def spread(table: pa.Table, columns: Sequence[str], count: int) -> Numbers:
    """A number below `count` for each row, by the whole numbers, dates or times in some columns."""
    hashes, _ = key_hashes([table.column(name) for name in columns], [False] * len(columns))
    return np.asarray(hashes % np.uint32(count), np.int64)


def split(table: pa.Table, places: Numbers, groups: Numbers) -> Iterator[tuple[int, pa.Table]]:
    """The rows at `places` by their groups."""
    if not len(groups):
        return
    # Numbers of 16 bits are sorted several times as fast.
    order = np.argsort(groups.astype(np.uint16) if groups.max() < 1 << 16 else groups, kind="stable")
    ordered = _taken(table, places[order])
    counts = np.bincount(groups)
    ends = np.cumsum(counts)
    for group in np.flatnonzero(counts).tolist():
        yield group, ordered.slice(ends[group] - counts[group], counts[group])


def _taken(table: pa.Table, rows: Numbers) -> pa.Table:
    """Some rows; a view of them where they are neighbours."""
    if len(rows) and rows[-1] - rows[0] + 1 == len(rows) and (np.diff(rows) == 1).all():
        return table.slice(int(rows[0]), len(rows))
    return table.combine_chunks().take(pa.array(rows))


def payloads(partition: int, task: int, rows: pa.Table, size: int) -> Iterator[pa.RecordBatch]:
    """Rows as batches of `ROUTED`, in pieces of about `size` bytes."""
    step = max(1, rows.num_rows * size // max(1, rows.nbytes))
    for start in range(0, rows.num_rows, step):
        packed = stream_array(rows.slice(start, step), _CODEC)
        columns = [pa.array([partition], pa.int32()), pa.array([task], pa.int32()), packed]
        yield pa.RecordBatch.from_arrays(columns, schema=ROUTED)


def numbers(values: Any) -> tuple[Numbers, npt.NDArray[np.bool_]]:
    """Keys as numbers that are in the same order, and whether they are not null."""
    flat = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if pa.types.is_date32(flat.type):
        flat = flat.cast(pa.int32())
    whole = flat.cast(pa.int64())
    known = np.asarray(whole.is_valid().to_numpy(zero_copy_only=False))
    return np.asarray(whole.fill_null(0).to_numpy(zero_copy_only=False)), known
