"""Matching a collected source with the target: which target rows have which source rows as matches, by their keys.

Keys decide equality as Spark would; what else the search condition asks is left to Spark, later, on the matched pairs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from deltamerge.merge.execute.work import Work
from deltamerge.progress.operation import advancing, begin
from deltamerge.progress.value import Amount
from deltamerge.protocol.schema.types import StructType, arrow_type
from deltamerge.protocol.values.condition import names_in
from deltamerge.protocol.values.widths import is_fixed, width
from deltamerge.spark.session.jobs import attempt, in_process
from deltamerge.spark.session.settings import pads_chars
from deltamerge.spark.stages.scan import MATCHED_TYPE, match_frame
from deltamerge.spark.stages.target import scan_spec
from deltamerge.worker.entry import Room, candidates
from deltamerge.worker.join.matching import Indices, left_out, pairs_of
from deltamerge.worker.scan.outcomes import NotThisWay, TooLarge
from deltamerge.worker.scan.scan import FILE, KEY_ID, ROW, FileTask, ScanSpec
from deltamerge.worker.scan.streams import read_stream
from deltamerge.worker.skipping.narrow import narrows

Item = TypeVar("Item")
Done = TypeVar("Done")
_TRIED = 16  # small files, after which it is known whether to read them is to wait


@dataclass(frozen=True)
class MatchedRows:
    """Pairs of a target row and a source row with equal keys.

    `scanned` has target rows: the position columns and the target columns that expressions need; only those in pairs, unless
    rows without a match matter. Of each pair `row` is the target's, an index into them, and `source` the source's, one into
    the collected source.
    """

    scanned: pa.Table = field(repr=False)
    row: Indices = field(repr=False)
    source: Indices = field(repr=False)

    @cached_property
    def target(self) -> pa.Table:
        """The target row of each pair."""
        if len(self.row) == self.scanned.num_rows and (np.diff(self.row, prepend=-1) == 1).all():
            return self.scanned
        return self.scanned.take(pa.array(self.row))

    @property
    def without_source(self) -> Indices:
        """The target rows that are in no pair."""
        return left_out(self.scanned.num_rows, self.row)

    def without_target(self, rows: int) -> Indices:
        """Of the source's `rows` those that are in no pair."""
        return left_out(rows, self.source)

    def only(self, holds: np.ndarray[Any, Any]) -> MatchedRows:
        """The pairs for which the search condition holds."""
        return MatchedRows(self.scanned, self.row[holds], self.source[holds])


def match(work: Work, columns: StructType, most_bytes: int) -> MatchedRows | NotThisWay:
    """All pairs of the files' rows and the source's, with the target `columns`; TooLarge when the driver can't have them, within
    `most_bytes`.

    Where NOT MATCHED BY SOURCE clauses may change them, target rows without a match are there, too.
    """
    files, budgets, others = work.files, work.budgets, work.logical.by_source
    if work.logical.target_condition is not None:
        return _true_for(work, columns, most_bytes)
    assert files.key_ids is not None
    spec = search_spec(work, columns)
    assert spec is not None
    if others is not None and not narrows(others, spec.schema) and files.are_too_many(budgets):
        return TooLarge(f"the files have more than {budgets.match_rows:,} rows, and all of them are looked at")
    found = _scanned(work, spec, most_bytes)
    if not isinstance(found, pa.Table):
        return found
    pairs = pairs_of(found[KEY_ID], files.key_ids, budgets.match_rows)
    if pairs is None:
        return TooLarge(f"more than {budgets.match_rows:,} pairs of rows match")
    return MatchedRows(found.select([*columns.names, FILE, ROW]), *pairs)


def search_spec(work: Work, columns: StructType) -> ScanSpec | None:
    """How to find the rows of files that the merge looks for, with `columns`; None where Arrow can't tell them.

    All that it may change or match are found: those for which a condition about the target alone is true, or with a key of the
    source, or that a NOT MATCHED BY SOURCE clause may change.
    """
    files, condition, others = work.files, work.logical.target_condition, work.logical.by_source
    if condition is None and files.lookup is None:
        return None
    if condition is not None and others is not None:  # rows for which it is not true may change, too
        return None
    needed = names_in(condition) if condition is not None else files.lookup.columns if files.lookup is not None else ()
    schema = files.snapshot.schema
    schema = schema.select([name for name in schema.names if name in needed or columns.find(name, case_sensitive=True)])
    padded = pads_chars(work.spark, schema)
    if condition is not None:
        return replace(scan_spec(files.snapshot, schema, None, padded=padded), condition=condition)
    return scan_spec(files.snapshot, schema, files.lookup, with_key_ids=True, others=others, padded=padded)


def _true_for(work: Work, columns: StructType, most_bytes: int) -> MatchedRows | NotThisWay:
    """The rows for which a condition about the target alone is true, each with the only row of the source."""
    spec = search_spec(work, columns)
    assert spec is not None
    found = _scanned(work, spec, most_bytes)
    if not isinstance(found, pa.Table):
        return found
    rows = np.arange(found.num_rows)
    return MatchedRows(found.select([*columns.names, FILE, ROW]), rows, np.zeros_like(rows))


def _scanned(work: Work, spec: ScanSpec, most_bytes: int) -> pa.Table | NotThisWay:
    """The candidate rows of all files, with their key ids."""
    budgets, tasks, advance = work.budgets, work.tasks, advancing()
    begin("matching", lambda: work.amount)
    too_large = TooLarge(f"the rows that may match are more than {budgets.match_rows:,}, or take more than {most_bytes >> 20} MB")
    if not tasks:
        return spec.output.empty_table()
    size = read_bytes(work, spec, work.files.sizes, tasks)
    if size <= budgets.driver_match_bytes:
        # Most of the time that a small file takes is Python's, which runs one thread at a time, if the disk does not take longer.
        is_remote = any((task.store or spec.store).remote for task in tasks)
        are_small = not is_remote and size < 2 * budgets.open_bytes * len(tasks)
        room = Room(budgets.match_rows, most_bytes)

        def found_in(task: FileTask) -> list[pa.RecordBatch] | None:
            part = candidates(spec, [task], room)
            advance(lambda: Amount(1, task.size or 0, task.rows or 0))
            return part

        with in_process():
            parts, waited = tried(found_in, tasks[:_TRIED]) if are_small else ([], True)
            with ThreadPoolExecutor(budgets.driver_threads if waited else 1) as pool:
                parts += pool.map(found_in, tasks[len(parts) :])
        batches = [batch for part in parts if part is not None for batch in part]
        return pa.Table.from_batches(batches, spec.output) if None not in parts else too_large
    frame = match_frame(work.spark, spec, tasks, work.files.sizes.tolist(), work.source.rows, budgets, most_bytes)
    found = attempt(frame, f"deltamerge: match {work.files.snapshot.store.url}", MATCHED_TYPE)
    if not isinstance(found, pa.Table):
        return found
    streams = found["rows"]
    if streams.null_count:
        return too_large
    table = pa.concat_tables([spec.output.empty_table(), *map(read_stream, streams)])
    return too_large if table.num_rows > budgets.match_rows or table.nbytes > most_bytes else table


def tried(work: Callable[[Item], Done], items: Sequence[Item]) -> tuple[list[Done], bool]:
    """What comes of the work on some items, one after the other, and whether half of the time or more was spent waiting."""
    began, worked = time.perf_counter(), time.thread_time()
    done = [work(item) for item in items]
    return done, time.perf_counter() - began >= 2 * (time.thread_time() - worked)


def read_bytes(work: Work, spec: ScanSpec, sizes: np.ndarray[Any, Any], tasks: Sequence[FileTask]) -> float:
    """About the bytes of files that hold the columns which are read, at most, but for what is packed better than others.

    All of a file, unless it is known how many rows it has, and how many bytes each value takes.
    """
    snapshot, budgets = work.files.snapshot, work.budgets
    stored = [field for field in snapshot.schema if field.name not in snapshot.partition_columns]
    types = {field.name: arrow_type(field.type) for field in stored}
    read = [types[name] for name in spec.schema.names if name in types]
    least = budgets.request_bytes if spec.store.remote else budgets.open_bytes
    if all(map(is_fixed, read)) and types:
        each = sum(map(width, read))
        share = each / sum(map(width, types.values()))
        rows = np.array([np.inf if task.rows is None else task.rows for task in tasks])
        sizes = np.minimum(sizes, np.maximum(rows * each, sizes * share)) if each else sizes * share
    return float(np.maximum(sizes, least).sum())
