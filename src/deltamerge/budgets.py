"""The limits by which a merge decides how it runs, and what it may hold while it does: one frozen value, passed in.

Bytes are those that rows have in Arrow, unless a name says otherwise. Knows nothing of what the limits are used for.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

_KB, _MB = 1 << 10, 1 << 20


@dataclass(frozen=True, slots=True)
class Budgets:
    """All limits, in bytes, rows, files, tasks or threads as their names say; and what tests switch off."""

    # How a source is evaluated.
    trusted_estimate_bytes: int = 24 * _MB  # Spark estimates no more: it is collected at once
    collected_bytes: int = 80 * _MB  # what the driver holds of a source: 400,000 rows of 24 columns
    overestimate: int = 4  # Spark's estimate may be so many times too high: beyond that, Spark counts the rows
    counted_part_bytes: int = 800_000  # what a task that counts its rows brings along of them
    counted_bytes: int = 8_000_000  # task n, from 1, at most the n-th part: 10,000 tasks together some 64 MB
    source_files: int = 256  # Parquet files of a source that the driver looks into
    source_read_bytes: int = 4 * _MB  # of a source that the driver reads: for each thread
    source_task_bytes: int = 64 * _MB  # of a source that workers read: for each task
    source_threads: int = 8
    deferred_share: float = 0.25  # of the table's bytes: a source from there on may stay unread until it is merged

    # Broadcast: what the driver matches, and makes of the matches.
    match_rows: int = 2_000_000
    match_bytes: int = 128 * _MB
    early_bytes: int = 32 * _MB  # of columns that updates keep, read together with the keys
    condition_bytes: int = 4 << 30  # of files in which a condition looks for rows, maybe more than the driver takes
    changed_bytes: int = 96 * _MB  # of changed rows, and of what Spark is handed to evaluate: a driver of 1 GB takes 107
    driver_match_bytes: int = 64 * _MB  # of files that the driver reads to match them; above it tasks do
    driver_write_bytes: int = 64 * _MB  # of files that the driver reads to write them again; above it tasks do
    driver_source_rows: int = 500_000  # of a source as large as the table: tasks merge more rows as fast
    local_write_times: int = 2  # driver_write_bytes times this with a local master: tasks would use the same cores
    local_mark_times: int = 4  # and times this, too, where rows are only marked
    driver_compact_bytes: int = 96 * _MB  # of files that the driver puts together, or takes statistics of; above it tasks do
    open_bytes: int = 64 * _KB  # opening a file on a disk costs as much as reading so much
    request_bytes: int = _MB  # and in an object store
    driver_threads: int = 4

    # Scans and joins by Spark.
    scan_task_bytes: int = 32 * _MB  # of files
    scan_tasks: int = 4_096
    rows_per_chunk: int = 100  # of a row group on a disk, for each of its columns: fewer keys are read sooner than its statistics
    numbered_rows: int = 1 << 17  # of a source: keys of several columns are looked up as numbers, those of fewer rows as values
    write_task_bytes: int = 32 * _MB  # of files that are written again after a join: for each task
    mark_task_bytes: int = 256 * _MB  # of files whose rows are marked, each task writing a file of its own
    write_tasks: int = 512
    insert_task_bytes: int = 64 * _MB
    insert_tasks: int = 64
    bloom_keys: int = 8_000_000  # whose hashes come to the driver, 4 bytes each
    bloom_rows_per_key: int = 4  # fewer rows of the table than that are not worth a filter

    # Range and hash exchange.
    exchange_keys: int = 3  # columns whose values together are numbered in 64 bits
    range_overlap: float = 1.5  # tasks that a source row may be sent to, on average
    range_task_bytes: int = 24 * _MB  # of files: neighbours in the order of their keys
    exchange_tasks: int = 512
    exchange_task_rows_bytes: int = 256 * _MB  # of rows that may change in a task's files, as it is planned
    exchange_buffer_bytes: int = 512 * _MB  # of rows that change in a task's files, when the task gives up
    exchange_insert_task_bytes: int = 256 * _MB
    hash_source_bytes: int = 48 * _MB  # of the source: for each task that matches keys
    hash_key_bytes: int = 32 * _MB  # of the table's keys: for each task that matches keys
    hash_scan_bytes: int = 128 * _MB  # of files: for each task that reads the table's keys
    hash_least_tasks: int = 4
    hash_keys_per_task: int = 16  # different keys that must be possible for each task
    hash_column_keys: int = 1 << 20  # so many different values of one key column spread rows well enough
    hash_buffer_bytes: int = 128 * _MB  # of the table's keys at a task, when the task gives up
    position_rows: int = 64 << 20  # source rows that a second job finds by their positions
    chunk_bytes: int = 64 * _MB  # of source rows that are matched at once
    chunk_rows: int = 1 << 20
    piece_bytes: int = 16 * _MB  # of changed rows that are made at once
    piece_rows: int = 1 << 16  # of deleted rows that are made at once
    payload_bytes: int = 4 * _MB  # of rows that travel together
    narrow_rows: int = 4_096  # that travel together: from so many on, whole numbers are sent in the fewest bytes that hold them

    # Writing.
    small_file_bytes: int = _MB  # files below it are put together when they are written again
    small_files_bytes: int = 4 * _MB  # of small files and inserted rows that one task puts together
    payload_task_bytes: int = 128 * _MB  # of files, for each task that is handed its changed rows
    payload_tasks: int = 64
    row_group_bytes: int = 64 * _MB
    row_group_rows: int = 131_072  # a merge copies the row groups in which nothing changes: they are smaller than usual
    splices: bool = True  # whether what does not change of a file is copied as bytes, when it is written again
    page_bytes: int = 6 * _MB  # of the values of columns with the same pages: fewer are written whole sooner than by pages
    page_share: float = 0.4  # of a column chunk's rows: in pages that change; from there on all pages are written again, 0 always
    thread_bytes: int = _MB  # of a row group: fewer are encoded by one thread, where there are several
    rewrite_rows: int = 131_072  # of a file that is written again: what is worked on at once
    sorted_bytes: int = 256 * _MB  # of rows that a task lays out by columns in memory
    open_partitions_bytes: int = 256 * _MB  # of rows that wait in the writers of all partitions

    joins_vectors: bool = True  # whether transactions that have marked different rows of a file follow each other
    retry_wait_ms: int = 100  # at most, before a merge runs again after a conflict; twice that after the next one
    longest_retry_wait_ms: int = 5_000
    moved_rows: int = 10  # times that a merge runs again because rows that it looks for were moved to other files meanwhile
    collisions: int = 3  # conflicts in a row after which the process's other threads wait until a merge has run again
    compared_rows: int = 65_536  # of those that a merge looks for, before and after another transaction
    lost_sources: int = 3  # times that a source is evaluated before its loss is an error


DEFAULTS = Budgets()
_CURRENT: ContextVar[Budgets] = ContextVar("budgets", default=DEFAULTS)


def current_budgets() -> Budgets:
    """The budgets of the merges that begin here."""
    return _CURRENT.get()


@contextmanager
def using(**limits: float) -> Iterator[None]:
    """Other limits for the merges that begin within: those that are named, as `Budgets` names them."""
    token = _CURRENT.set(replace(_CURRENT.get(), **limits))  # type: ignore[arg-type]
    try:
        yield
    finally:
        _CURRENT.reset(token)
