"""Compaction: the rows of several files of a partition go to one file, as they are, row ids and commit versions included.

Rows stream through: memory holds a row group that is written, a few small files, and a batch of a large one.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa

from deltamerge.worker.layout.z_order import sorted_rows
from deltamerge.worker.scan.prefetch import prefetched
from deltamerge.worker.scan.scan import FileTask
from deltamerge.worker.write.file_rows import living_rows
from deltamerge.worker.write.results import ADD, result_batch, written_row
from deltamerge.worker.write.write import DataFileWriter, WriteSpec

_AT_ONCE = 4
_SMALL_BYTES = 2 << 20


@dataclass(frozen=True)
class CompactSpec:
    """How files are put together: those of each bin, which are of one partition, become one file.

    Its rows are laid out by the columns of `z_order`, paths of logical names, as long as they may be held in memory.
    """

    write: WriteSpec
    bins: tuple[tuple[FileTask, ...], ...]
    z_order: tuple[tuple[str, ...], ...] = ()


def compact(spec: CompactSpec, number: int) -> pa.RecordBatch:
    """Write the rows of a bin; result rows of what was written, with the bin's number. Nothing is left when it fails."""
    tasks = spec.bins[number]
    partition = {name: tasks[0].partition[name] for name in spec.write.partition_columns}
    writer = DataFileWriter(spec.write, partition, spec.write.folder(partition), number, rolls=False)
    rows = _rows(spec.write, tasks)
    try:
        for part in _laid_out(spec, rows) if spec.z_order else rows:
            writer.write(part)
        written = writer.close()
        spec.write.store.sync(file.name for file in written)
    except BaseException:
        rows.close()
        writer.discard()
        raise
    return result_batch({**written_row(ADD, file), "file": number} for file in written)


def _laid_out(spec: CompactSpec, rows: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """The rows along the curve through the columns; as they come once they are too many."""
    held: list[pa.Table] = []
    size = 0
    for part in rows:
        held.append(part)
        size += part.nbytes
        if size > spec.write.budgets.sorted_bytes:
            yield from held
            yield from rows
            return
    if held:
        yield sorted_rows(pa.concat_tables(held), spec.z_order)


def _rows(spec: WriteSpec, tasks: Sequence[FileTask]) -> Generator[pa.Table, None, None]:
    """The rows of some files, small ones read several at once, large ones a batch ahead."""
    for small, part in _runs(tasks):
        if small:
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                for tables in pool.map(lambda task: list(living_rows(spec, task)), part):
                    yield from tables
            continue
        for task in part:
            yield from prefetched(living_rows(spec, task))


def _runs(tasks: Sequence[FileTask]) -> Iterator[tuple[bool, Sequence[FileTask]]]:
    """The files in order: so many small ones as are read at once, or one that is not small."""
    waiting: list[FileTask] = []
    for task in tasks:
        if task.size is None or task.size > _SMALL_BYTES:
            if waiting:
                yield True, waiting
            yield False, [task]
            waiting = []
            continue
        waiting.append(task)
        if len(waiting) == 4 * _AT_ONCE:
            yield True, waiting
            waiting = []
    if waiting:
        yield True, waiting
