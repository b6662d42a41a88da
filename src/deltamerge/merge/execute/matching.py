"""Matching a collected source with the target in Arrow: which target rows have which source rows as partners.

Keys decide equality as Spark would; what else the search condition asks is left to Spark, later, on the matched pairs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from deltamerge.merge.plan.prune import PrunedPlan
from deltamerge.protocol.schema.types import StructType, arrow_type
from deltamerge.protocol.values.widths import is_fixed, width
from deltamerge.spark.session.frames import Session
from deltamerge.spark.session.jobs import collect, in_process
from deltamerge.spark.session.schema import nullable_schema
from deltamerge.spark.stages.scan import match_frame
from deltamerge.spark.stages.target import scan_spec
from deltamerge.worker.entry import Room, ranked_rows
from deltamerge.worker.join.pairs import Indices, left_out, pairs_of
from deltamerge.worker.scan.narrow import narrows
from deltamerge.worker.scan.scan import FILE, RANK, ROW, FileTask, ScanSpec


@dataclass(frozen=True)
class Matches:
    """Pairs of a target row and a source row with equal keys.

    `scanned` has target rows: the position columns and the target columns that expressions need; only those in pairs, unless
    rows without a partner matter. Of each pair `row` is the target's, an index into them, and `source` the source's, one into
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

    def only(self, holds: np.ndarray[Any, Any]) -> Matches:
        """The pairs for which the search condition holds."""
        return Matches(self.scanned, self.row[holds], self.source[holds])


def match(
    spark: Session, pruned: PrunedPlan, tasks: Sequence[FileTask], columns: StructType, most: int | None = None
) -> Matches | None:
    """All pairs of the pruned files, with the target `columns`; None when they are too many to be held here, within `most` bytes.

    Where NOT MATCHED BY SOURCE clauses may change them, target rows without a partner are there, too.
    """
    assert pruned.lookup is not None
    assert pruned.ranks is not None
    snapshot, others = pruned.plan.resolved.snapshot, pruned.plan.by_source
    keys = set(pruned.lookup.columns)
    names = [f.name for f in snapshot.schema if f.name in keys or columns.find(f.name, case_sensitive=True)]
    schema = snapshot.schema.select(names)
    spec = scan_spec(snapshot, schema, pruned.lookup, ranked=True, others=others)
    if others is not None and not narrows(others, spec.schema) and _are_too_many(tasks, pruned):
        return None
    found = _scan(spark, spec, schema, pruned, tasks, min(pruned.plan.budgets.match_bytes, math.inf if most is None else most))
    if found is None:
        return None
    return _expanded(found.select([*columns.names, FILE, ROW, RANK]), pruned)


def _are_too_many(tasks: Sequence[FileTask], pruned: PrunedPlan) -> bool:
    """Whether the files have more rows than can be held, or nothing says how many a large one has."""
    known = [task.rows for task in tasks if task.rows is not None]
    budgets, size = pruned.plan.budgets, int(pruned.files["size"].to_numpy().sum())
    return sum(known) > budgets.match_rows or (len(known) < len(tasks) and size > budgets.driver_match_bytes)


def _scan(
    spark: Session, spec: ScanSpec, schema: StructType, pruned: PrunedPlan, tasks: Sequence[FileTask], most: float
) -> pa.Table | None:
    if not tasks:
        return spec.output.empty_table()
    sizes, budgets = pruned.files["size"].to_pylist(), pruned.plan.budgets
    if _read_bytes(spec, pruned, tasks) <= budgets.driver_match_bytes:
        room = Room(budgets.match_rows, most)
        with in_process(), ThreadPoolExecutor(budgets.driver_threads) as pool:
            parts = list(pool.map(lambda task: ranked_rows(spec, [task], room), tasks))
        table = pa.Table.from_batches([batch for part in parts for batch in part], spec.output)
    else:
        frame = match_frame(spark, spec, nullable_schema(schema), tasks, sizes, pruned.source.rows, budgets, most)
        table = collect(frame, f"deltamerge: match {pruned.plan.resolved.snapshot.store.url}")
    files = table[FILE].to_numpy()
    return None if len(files) > budgets.match_rows or table.nbytes > most or (files < 0).any() else table


def _read_bytes(spec: ScanSpec, pruned: PrunedPlan, tasks: Sequence[FileTask]) -> float:
    """About the bytes of the files that hold the columns which are read, at most, but for what is packed better than others.

    All of a file, unless it is known how many rows it has, and how many bytes each value takes.
    """
    snapshot, budgets = pruned.plan.resolved.snapshot, pruned.plan.budgets
    stored = [field for field in snapshot.schema if field.name not in snapshot.partition_columns]
    types = {field.name: arrow_type(field.type) for field in stored}
    read = [types[name] for name in spec.schema.names if name in types]
    sizes = pruned.files["size"].to_numpy()
    least = budgets.request_bytes if spec.store.remote else budgets.open_bytes
    if all(map(is_fixed, read)) and types:
        each = sum(map(width, read))
        share = each / sum(map(width, types.values()))
        rows = np.array([np.inf if task.rows is None else task.rows for task in tasks])
        sizes = np.minimum(sizes, np.maximum(rows * each, sizes * share)) if each else sizes * share
    return float(np.maximum(sizes, least).sum())


def _expanded(found: pa.Table, pruned: PrunedPlan) -> Matches | None:
    """Each found row once per source row of its key."""
    pairs = pairs_of(found[RANK], pruned.ranks, pruned.plan.budgets.match_rows)
    return None if pairs is None else Matches(found.drop_columns([RANK]), *pairs)
