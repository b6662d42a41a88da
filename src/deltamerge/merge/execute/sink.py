"""Changed rows that are at hand in the driver: written here when there is little to rewrite, else by a Spark job; or counted."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import replace
from itertools import pairwise
from operator import add, gt

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.progress.operation import advancing, begin
from deltamerge.progress.value import Amount
from deltamerge.spark.session.frames import Session
from deltamerge.spark.session.jobs import collect, in_process
from deltamerge.spark.session.settings import runs_locally
from deltamerge.spark.stages.writing import RESULT_TYPE, payload_frame
from deltamerge.worker.scan.scan import FILE, ROW
from deltamerge.worker.write.apply import apply_changes
from deltamerge.worker.write.by_partition import partition_key, split_by_partition
from deltamerge.worker.write.results import ADD, CHANGE, RESULT_SCHEMA
from deltamerge.worker.write.rewrite import CLAUSE, ChangeSpec

# The file that changed rows are of, None for inserted ones, and the rows.
Piece = tuple[int | None, pa.Table]


def repeated_positions(changes: pa.Table) -> int:
    """How many target rows are changed more than once."""
    if _ascend(changes, strictly=True):
        return 0
    placed = changes.select([FILE, ROW]).filter(pc.is_valid(changes[FILE]))
    counts = placed.group_by([FILE, ROW]).aggregate([([], "count_all")])["count_all"]
    return int(pc.sum(pc.greater(counts, 1)).as_py() or 0)


def _ascend(changes: pa.Table, strictly: bool = False) -> bool:
    """Whether changed rows are ordered by file and position, inserted ones behind all others; `strictly`: no row twice."""
    files, rows = (changes[name].combine_chunks() for name in (FILE, ROW))
    placed = len(files) - files.null_count
    if files.slice(placed).null_count != files.null_count or rows.slice(0, placed).null_count:
        return False
    files, rows = files.slice(0, placed).to_numpy(), rows.slice(0, placed).to_numpy()
    later = np.greater if strictly else np.greater_equal
    return bool(((files[1:] > files[:-1]) | ((files[1:] == files[:-1]) & later(rows[1:], rows[:-1]))).all())


def write_changes(spark: Session, changes: pa.Table, spec: ChangeSpec, sizes: Sequence[int], description: str) -> pa.Table:
    """Apply changed rows to the files of `spec`, whose bytes are `sizes`; result rows."""
    ordered = changes if _ascend(changes) else changes.sort_by([(FILE, "ascending"), (ROW, "ascending")])
    if spec.sample is not None:
        with in_process():
            return pa.Table.from_batches(apply_changes(spec, ordered.to_batches(), 0), RESULT_SCHEMA)
    begin("writing", lambda: _amount(changes, sizes))
    budgets = spec.write.budgets
    found = _pieces(ordered, budgets.insert_task_bytes)
    reads = [0 if file is None else _read_bytes(spec, file, sizes[file], piece) for file, piece in found]
    rows = [piece for _, piece in found]
    if spec.rewrite_share:  # each task writes new rows to a file of its own
        costs: list[tuple[int, ...]] = [(piece.nbytes, read) for piece, read in zip(rows, reads, strict=True)]
        pieces = _together(rows, costs, (budgets.insert_task_bytes, budgets.payload_task_bytes))
    else:  # small files and few inserted rows, which are neighbours, share the files that a task writes
        parts = _by_partition(spec, found, sizes)
        pieces = _together([piece for piece, _ in parts], [(size,) for _, size in parts], (budgets.small_files_bytes,))
    most = _most_bytes(spark, spec, found)
    if sum(reads) <= most:
        advance, threaded = advancing(), _threaded(spec, len(pieces))

        def applied(piece: pa.Table, number: int) -> list[pa.RecordBatch]:
            batches = list(apply_changes(threaded, piece.to_batches(), number))
            advance(lambda: _amount(piece, sizes))
            return batches

        with in_process(), ThreadPoolExecutor(budgets.driver_threads) as pool:
            jobs = [pool.submit(applied, piece, number) for number, piece in enumerate(pieces)]
            try:
                batches = [batch for job in jobs for batch in job.result()]
            except BaseException:
                _discard(spec, jobs)
                raise
        return pa.Table.from_batches(batches, RESULT_SCHEMA)
    used = replace(spec, files={file: spec.files[file] for file, _ in found if file is not None})
    return collect(payload_frame(spark, pieces, used), description, RESULT_TYPE)


def _threaded(spec: ChangeSpec, pieces: int) -> ChangeSpec:
    """How the driver writes: where there are no more pieces than cores, several threads work on each file."""
    cores = min(os.cpu_count() or 1, spec.write.budgets.driver_threads)
    if pieces > cores:
        return spec
    feed = None if spec.feed is None else replace(spec.feed, threads=cores)
    return replace(spec, write=replace(spec.write, threads=cores), feed=feed)


def _most_bytes(spark: Session, spec: ChangeSpec, found: Sequence[Piece]) -> int:
    """How many bytes of files the driver reads by itself: more where its machine is Spark's only one, and rows are only marked.

    Spark's tasks would read the same columns with the same cores.
    """
    budgets = spec.write.budgets
    if not spec.rewrite_share or any(file is not None and _is_rewritten(spec, file, rows) for file, rows in found):
        return budgets.driver_write_bytes
    return budgets.driver_write_bytes * (budgets.local_mark_times if runs_locally(spark) else 1)


def _is_rewritten(spec: ChangeSpec, file: int, changes: pa.Table) -> bool:
    """Whether a file is written again, or may be, where rows are marked."""
    task = spec.files[file]
    if task.rows is None:
        return True
    gone = changes.num_rows + (task.vector.descriptor.cardinality if task.vector else 0)
    return bool(spec.rewrite_share * task.rows < gone < task.rows)


def _read_bytes(spec: ChangeSpec, file: int, size: int, changes: pa.Table) -> int:
    """About how many bytes of a file have to be read to apply its changes: none to mark rows that are set whole."""
    if not spec.rewrite_share or _is_rewritten(spec, file, changes):
        return size
    reads = spec.feed is not None or (spec.old_columns and np.isin(changes[CLAUSE].to_numpy(), spec.updates).any())
    return size if reads else 0


def _amount(changes: pa.Table, sizes: Sequence[int]) -> Amount:
    """The files that changed rows are of, with their bytes, and the rows."""
    files = changes[FILE].unique().drop_null().to_pylist()
    return Amount(len(files), sum(sizes[file] for file in files), changes.num_rows)


def _discard(spec: ChangeSpec, jobs: Sequence[Future[list[pa.RecordBatch]]]) -> None:
    """Delete what the jobs that went well have written; one that fails deletes its own files."""
    for job in jobs:
        job.cancel()
    for job in wait(jobs).done:
        if job.cancelled() or job.exception() is not None:
            continue
        for row in pa.Table.from_batches(job.result(), RESULT_SCHEMA).to_pylist():
            if row["kind"] in (ADD, CHANGE):
                spec.write.store.delete(row["name"])


def _pieces(ordered: pa.Table, size: int) -> list[Piece]:
    """The changes of each file, in order, then the inserted rows in as few pieces as fit."""
    files = pc.fill_null(ordered[FILE], -1).to_numpy()
    placed = int((files >= 0).sum())
    found: list[Piece] = []
    starts = np.unique(files[:placed], return_index=True)[1].tolist()
    for start, end in pairwise([*starts, placed]):
        found.append((int(files[start]), ordered.slice(start, end - start)))
    inserted = ordered.slice(placed)
    if inserted.num_rows:
        step = -(-inserted.num_rows // max(1, inserted.nbytes // size))
        found += [(None, inserted.slice(start, step)) for start in range(0, inserted.num_rows, step)]
    return found


def _by_partition(spec: ChangeSpec, found: Sequence[Piece], sizes: Sequence[int]) -> list[tuple[pa.Table, int]]:
    """The rows of each piece and about the bytes to write, by partition: the one of a file, or that which inserted rows come to.

    What is small of a partition is one piece, so that it makes one file.
    """
    columns = spec.write.partition_columns
    groups: dict[tuple[str | None, ...], list[tuple[pa.Table, int]]] = {}
    for file, rows in found:
        if file is not None:
            here = {name: spec.files[file].partition[name] for name in columns}
            groups.setdefault(partition_key(here), []).append((rows, sizes[file]))
            continue
        for partition, part in split_by_partition(rows, columns):
            groups.setdefault(partition_key(partition), []).append((part, part.nbytes))
    pieces: list[tuple[pa.Table, int]] = []
    for group in groups.values():
        total = sum(size for _, size in group)
        pieces += (
            [(pa.concat_tables([rows for rows, _ in group]), total)] if total <= spec.write.budgets.small_files_bytes else group
        )
    return pieces


def _together(rows: Sequence[pa.Table], costs: Sequence[tuple[int, ...]], most: tuple[int, ...]) -> list[pa.Table]:
    """Tables of rows, neighbouring ones as one as long as their costs together are not above `most`."""
    pieces: list[list[pa.Table]] = []
    held = most
    for piece, cost in zip(rows, costs, strict=True):
        both = tuple(map(add, held, cost))
        if not pieces or any(map(gt, both, most)):
            pieces.append([])
            both = cost
        pieces[-1].append(piece)
        held = both
    return [pa.concat_tables(piece) for piece in pieces]
