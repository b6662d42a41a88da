"""A closer look at rows that another transaction has added or deleted meanwhile: would this merge have found some of them?

Statistics only say between which values those of a file lie, and so do the keys of several writers. A look opens the files, and
is taken where they are few. What can't be looked at may hold such rows.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TypeVar

import numpy as np
import pyarrow as pa

from deltamerge.errors import DeltaMergeError
from deltamerge.log.replay.commit_file import CommitFile
from deltamerge.log.replay.files import FILE_SCHEMA, FileSet, Mask, file_keys, table_of
from deltamerge.log.skipping.statistics import row_counts
from deltamerge.merge.execute.match import read_bytes, search_spec
from deltamerge.merge.execute.work import Work
from deltamerge.protocol.schema.types import StructType
from deltamerge.protocol.table.actions import AddFile, DeletionVector
from deltamerge.protocol.values.plain import plain_rows
from deltamerge.spark.expressions.time import asks_unseen
from deltamerge.spark.session.jobs import in_process
from deltamerge.spark.session.settings import time_zone
from deltamerge.spark.stages.target import file_tasks, vector_at
from deltamerge.worker.scan.scan import FileTask, scan_file

log = logging.getLogger("deltamerge.merge")

_Found = TypeVar("_Found")
_Batches = Iterator[pa.RecordBatch]
_NO_COLUMN = StructType(())


def would_read(work: Work, files: FileSet) -> Mask:
    """Which of other files the merge would have opened, and have rows that it would have found there."""
    may: Mask = work.files.would_read(files)
    if may.any():
        found = _looked(work, files.select(may), _NO_COLUMN, _any_rows)
        may[np.flatnonzero(may)] = True if found is None else found
    return may


def would_find(work: Work, leaves_matches: bool, file: AddFile, after: DeletionVector) -> bool:
    """Whether the merge may do otherwise without those rows of a file which are deleted `after`, and were not when it read them.

    It may if it leaves rows that match as they are, and has found one of these.
    """
    if _reads_more(work):
        return True
    if not leaves_matches:
        return False
    found = _looked(work, table_of([file.to_json()["add"]], FILE_SCHEMA), _NO_COLUMN, _any_rows, after)
    return found is None or found[0]


def finds_same(work: Work, winner: CommitFile, keys: frozenset[str]) -> bool:
    """Whether the merge, which has read the files of `keys`, would find the same rows after a commit as before it."""
    if _reads_more(work):
        return False
    read = pa.array([key in keys for key in file_keys(winner.removes).to_pylist()], pa.bool_())
    before, added = _as_files(winner.removes.filter(read)), FileSet.of(winner.adds)
    if before is None:
        return False
    rows = _rows(work, before)
    return rows is not None and rows == _rows(work, added.select(work.files.would_read(added)))


def _reads_more(work: Work) -> bool:
    """Whether an expression may read rows that the merge doesn't look for."""
    resolved = work.logical.resolved
    conditions = [resolved.spec.condition, *(clause.condition for clause in resolved.clauses if clause.condition is not None)]
    return any(map(asks_unseen, (*conditions, *(value.value for clause in resolved.clauses for value in clause.values))))


def _rows(work: Work, files: pa.Table) -> Counter[str] | None:
    """How often each row is in some files that the merge looks for; None where that can't be told."""
    most = work.budgets.compared_rows

    def rows_of(batches: _Batches) -> list[str]:
        found: list[str] = []
        for batch in batches:
            if len(found) > most:
                break
            names = [name for name in work.files.snapshot.schema.names if name in batch.schema.names]
            found += map(repr, plain_rows(pa.Table.from_batches([batch]).select(names)))
        return found

    found = _looked(work, files, work.files.snapshot.schema, rows_of)
    if found is None or sum(map(len, found)) > most:
        return None
    return Counter(row for rows in found for row in rows)


def _any_rows(batches: _Batches) -> bool:
    return any(batch.num_rows for batch in batches)


def _as_files(removed: pa.Table) -> pa.Table | None:
    """Removed files as they were before; None where the log does not tell their sizes and partitions."""
    if removed["size"].null_count or removed["partitionValues"].null_count:
        return None
    given = set(removed.column_names)
    columns = [removed[field.name] if field.name in given else pa.nulls(removed.num_rows, field.type) for field in FILE_SCHEMA]
    return pa.table(columns, schema=FILE_SCHEMA)


def _looked(
    work: Work,
    files: pa.Table,
    columns: StructType,
    look: Callable[[_Batches], _Found],
    after: DeletionVector | None = None,
) -> list[_Found] | None:
    """What a look at the rows of each file gives that the merge looks for; None where they can't be looked at.

    With a vector `after` only rows that it deletes, and the file's own does not, are looked at.
    """
    snapshot, budgets = work.files.snapshot, work.budgets
    spec = search_spec(work, columns)
    if spec is None or not files.num_rows:
        return None if spec is None else []
    try:
        tasks = file_tasks(snapshot, files, time_zone(work.spark), row_counts(FileSet.of(files).chunks[0]))
        if read_bytes(work, spec, files["size"].to_numpy(), tasks) > budgets.driver_match_bytes:
            return None
        if after is not None:
            tasks = [replace(task, among=vector_at(snapshot.store, after, task.name)) for task in tasks]

        def found_in(task: FileTask) -> _Found:
            return look(scan_file(spec, task))

        with in_process(), ThreadPoolExecutor(budgets.driver_threads) as pool:
            return list(pool.map(found_in, tasks))
    except (DeltaMergeError, pa.ArrowException, OSError) as error:
        log.info("what another transaction did to %s could not be looked at: %s", snapshot.store.url, error)
        return None
