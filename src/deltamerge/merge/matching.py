"""Matching a collected source with the target in Arrow: which target rows have which source rows as partners.

Keys decide equality as Spark would; what else the search condition asks is left to Spark, later, on the matched pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from deltamerge.merge.prune import PrunedPlan
from deltamerge.protocol.schema import StructType
from deltamerge.spark.frames import Session
from deltamerge.spark.jobs import collect, in_process
from deltamerge.spark.scan import match_frame
from deltamerge.spark.schema import to_spark
from deltamerge.spark.target import scan_spec
from deltamerge.worker.entry import ranked_rows
from deltamerge.worker.scan import FILE, RANK, ROW, FileTask, ScanSpec

Indices = npt.NDArray[np.int64]

MOST_PAIRS = 2_000_000
DRIVER_BYTES = 48 << 20
_THREADS = 4


@dataclass(frozen=True)
class Matches:
    """Pairs of a target row and a source row with equal keys.

    `target` has a row per pair: the position columns and the target columns that expressions need; `source` the
    source row of each pair, as an index into the collected source.
    """

    target: pa.Table = field(repr=False)
    source: Indices = field(repr=False)


def match(spark: Session, pruned: PrunedPlan, tasks: Sequence[FileTask], columns: StructType) -> Matches | None:
    """All pairs of the pruned files, with the target `columns`; None when there are too many to hold here."""
    assert pruned.keys is not None
    assert pruned.ranks is not None
    snapshot = pruned.plan.resolved.snapshot
    keys = set(pruned.keys.columns)
    names = [f.name for f in snapshot.schema if f.name in keys or columns.find(f.name, case_sensitive=True)]
    schema = snapshot.schema.select(names)
    spec = scan_spec(snapshot, schema, pruned.keys, ranked=True)
    found = _scan(spark, spec, schema, pruned, tasks)
    if found is None:
        return None
    return _expanded(found.select([*columns.names, FILE, ROW, RANK]), pruned.ranks)


def _scan(spark: Session, spec: ScanSpec, schema: StructType, pruned: PrunedPlan, tasks: Sequence[FileTask]) -> pa.Table | None:
    if not tasks:
        return spec.output.empty_table()
    sizes = pruned.files["size"].to_pylist()
    if sum(sizes) <= DRIVER_BYTES:
        with in_process(), ThreadPoolExecutor(_THREADS) as pool:
            parts = list(pool.map(lambda task: list(ranked_rows(spec, [task], MOST_PAIRS)), tasks))
        table = pa.Table.from_batches([batch for part in parts for batch in part], spec.output)
    else:
        frame = match_frame(spark, spec, to_spark(schema), tasks, sizes, MOST_PAIRS)
        table = collect(frame, f"deltamerge: match {pruned.plan.resolved.snapshot.store.url}")
    files = table[FILE].to_numpy()
    return None if len(files) > MOST_PAIRS or (files < 0).any() else table


def _expanded(found: pa.Table, ranks: pa.Array) -> Matches | None:
    """Each found row once per source row of its key."""
    order, starts, counts = _by_rank(ranks)
    rank = found[RANK].to_numpy()
    repeats = counts[rank] if len(counts) else np.zeros(0, np.int64)
    total = int(repeats.sum())
    if total > MOST_PAIRS:
        return None
    target = found.drop_columns([RANK])
    if total == len(rank):
        return Matches(target, order[starts[rank]] if total else np.zeros(0, np.int64))
    row = np.repeat(np.arange(len(rank)), repeats)
    ends = np.cumsum(repeats)
    within = np.arange(total) - np.repeat(ends - repeats, repeats)
    return Matches(target.take(pa.array(row)), order[starts[rank[row]] + within])


def _by_rank(ranks: pa.Array) -> tuple[Indices, Indices, Indices]:
    """Source rows ordered by rank, and for each rank where its rows start and how many there are."""
    valid = np.flatnonzero(ranks.is_valid().to_numpy(zero_copy_only=False))
    values: np.ndarray[Any, Any] = ranks.drop_null().to_numpy(zero_copy_only=False)
    counts = np.bincount(values).astype(np.int64) if len(values) else np.zeros(0, np.int64)
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int64) if len(counts) else counts
    return valid[np.argsort(values, kind="stable")], starts, counts


def unmatched(matches: Matches, rows: int) -> Indices:
    """The source rows that are in no pair."""
    alone = np.ones(rows, np.bool_)
    alone[matches.source] = False
    return np.flatnonzero(alone)
