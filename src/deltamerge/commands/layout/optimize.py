"""OPTIMIZE: small files of a partition become few large ones; rows that deletion vectors delete are left behind.

Rows keep their ids and commit versions, the change data feed shows nothing. A transaction that changes none of the chosen files
is no conflict. Source: delta-spark's OptimizeTableCommand.
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.budgets import current_budgets
from deltamerge.commands.layout.bins import Limits, is_chosen, is_purged, limits_of, packed
from deltamerge.commands.layout.clustered import (
    FULL_CUBE,
    as_cube,
    check_clustering,
    clustered_files,
    clustering_metrics,
)
from deltamerge.commands.layout.optimize_metrics import Optimized, optimize_row
from deltamerge.commands.layout.stored_columns import with_dropped_columns, with_older_types
from deltamerge.commands.layout.z_columns import z_columns
from deltamerge.log.commit.clustering import layout_paths
from deltamerge.log.commit.conflict import ReadSet
from deltamerge.log.commit.transaction import Proposal, commit, discarding
from deltamerge.log.commit.upkeep import after_commit
from deltamerge.log.replay.files import add_files, file_keys
from deltamerge.log.replay.load import check_sound
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.log.replay.table import DeltaLog
from deltamerge.progress.operation import begin
from deltamerge.progress.value import Amount
from deltamerge.protocol.table.actions import AddFile
from deltamerge.protocol.table.features import check_writable
from deltamerge.protocol.table.row_tracking import tracking_columns
from deltamerge.protocol.values.partitions import decode_path
from deltamerge.spark.expressions.predicates import printed_predicate
from deltamerge.spark.session.data_files import file_options
from deltamerge.spark.session.delta_check import check_delta
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.rows import rows_frame
from deltamerge.spark.session.running import operation
from deltamerge.spark.session.settings import author, time_zone
from deltamerge.spark.stages.compacting import compacted
from deltamerge.spark.stages.exchange.ranging import ranged
from deltamerge.spark.stages.partition_filter import chosen_partitions
from deltamerge.spark.stages.results import added_files
from deltamerge.spark.stages.target import file_tasks, write_spec
from deltamerge.storage.location import location_text
from deltamerge.worker.layout.compact import CompactSpec
from deltamerge.worker.scan.scan import FileTask
from deltamerge.worker.write.by_partition import partition_key
from deltamerge.worker.write.tracking import tracking_spec
from deltamerge.worker.write.write import WriteSpec

log = logging.getLogger("deltamerge.commands")


@dataclass(frozen=True, slots=True)
class Optimize:
    """An OPTIMIZE: of the partitions for which all `predicates`, SQL texts about partition columns, are true; rows are laid
    out by the columns of `z_order`, names as SQL has them.
    """

    predicates: tuple[str, ...] = ()
    z_order: tuple[str, ...] = ()
    full: bool = False
    auto: Auto | None = None
    reorg: Reorg | None = None


class Reorg(Enum):
    """What a REORG rewrites, each such file whatever its size: those from which rows or columns are gone, or those that hold
    values of types that were widened.
    """

    PURGE = "purge"
    TYPES = "types"


@dataclass(frozen=True, slots=True)
class Auto:
    """An OPTIMIZE that a write asks for, of the partitions that it touched: `predicates` tell history of them."""

    predicates: tuple[str, ...]


@dataclass(frozen=True)
class _Plan:
    """What is to be done: the bins, each written to new files, the columns by which rows are laid out, of how many files it was
    chosen, and for a clustered table its columns and its metrics.
    """

    bins: Sequence[tuple[FileTask, ...]]
    considered: int
    paths: tuple[tuple[str, ...], ...] = ()
    clustered: Sequence[str] = ()
    clustering: Mapping[str, Any] | None = None


def optimize_table(spark: Session, table: DeltaLog, request: Optimize) -> Frame:
    """Put small files together, commit, and return delta-spark's row of metrics; nothing is committed where there are none.

    Raises AnalysisError, UnsupportedTableError, ConcurrentModificationError; the table is then as it was.
    """
    snapshot = table.snapshot()
    check_writable(snapshot.protocol, snapshot.metadata, table.store.url)
    check_sound(snapshot)
    with operation(spark, "OPTIMIZE" if request.reorg is None else "REORG", table.store.url):
        check_delta(spark, "OPTIMIZE")
        done = optimized(spark, table, snapshot, request, limits_of(spark), snapshot.files.table())
    return rows_frame(spark, optimize_row(snapshot, location_text(table.store.url), done))


def optimized(
    spark: Session, table: DeltaLog, snapshot: Snapshot, request: Optimize, limits: Limits, files: pa.Table
) -> Optimized:
    """Put small ones of a snapshot's `files` together and commit; what was done. Raises as `optimize_table` does."""
    started = int(time.time() * 1000)
    begin("choosing files")
    clustered = check_clustering(snapshot, request.predicates, request.z_order, request.full)
    columns = tracking_columns(snapshot.protocol, snapshot.metadata)
    tasks = file_tasks(snapshot, files, time_zone(spark), tracked=columns is not None)
    if request.reorg is not None:
        plan = _reorganized(spark, snapshot, tasks, files, request, limits)
    elif clustered:
        plan = _clustered(snapshot, tasks, _add_files(files, tasks), clustered, request.full)
    else:
        plan = _planned(spark, snapshot, tasks, files, request, limits)
    replaced = [task for bin in plan.bins for task in bin]
    done = Optimized(
        (),
        _add_files(files, replaced),
        plan.considered,
        len(plan.bins),
        len({partition_key(bin[0].partition) for bin in plan.bins}),
        started,
        bool(request.z_order),
        plan.clustering,
    )
    if plan.bins:
        log.info("writing %d files of %s again, in %d bins", len(replaced), table.store.url, len(plan.bins))
        begin("writing files again", lambda: Amount(len(replaced), sum(task.size or 0 for task in replaced)))
        added = _rewritten(spark, snapshot, plan, limits.full)
        done = replace(done, added=added)
        read = ReadSet(keys=frozenset(file_keys(_rows(files, replaced)).to_pylist()))
        with discarding(snapshot, [decode_path(file.path) for file in added]):
            printed = [printed_predicate(spark, snapshot.partition_schema, text) for text in request.predicates]
            begin("committing")
            predicates = printed if request.auto is None else request.auto.predicates
            committed = commit(snapshot, _proposal(spark, request, done, read, clustered, predicates))
        table.remember(committed.snapshot)
        after_commit(committed.snapshot)
        log.info("optimized %s as version %d", table.store.url, committed.version)
    return done


def _planned(
    spark: Session, snapshot: Snapshot, tasks: list[FileTask], files: pa.Table, request: Optimize, limits: Limits
) -> _Plan:
    """Small files by partition, or all of them where rows are laid out by columns."""
    if request.predicates:
        tasks = _within_partitions(spark, snapshot, tasks, request.predicates)
    paths = z_columns(spark, snapshot, request.z_order)
    if paths:
        return _Plan(packed(tasks, math.inf), len(tasks), paths)
    chosen = [task for task, file in zip(tasks, _add_files(files, tasks), strict=True) if is_chosen(file, limits)]
    return _Plan([bin for bin in packed(chosen, limits.full) if len(bin) > 1], len(tasks))


def _reorganized(
    spark: Session, snapshot: Snapshot, tasks: list[FileTask], files: pa.Table, request: Optimize, limits: Limits
) -> _Plan:
    """The files that a REORG rewrites, also where a bin has one of them only."""
    if request.predicates:
        tasks = _within_partitions(spark, snapshot, tasks, request.predicates)
    if request.reorg is Reorg.TYPES:
        chosen = with_older_types(snapshot, tasks)
    else:
        found = {task.file for task in with_dropped_columns(snapshot, tasks)}
        adds = zip(tasks, _add_files(files, tasks), strict=True)
        chosen = [task for task, add in adds if task.file in found or is_purged(add)]
    return _Plan([bin for bin in packed(chosen, limits.full) if bin], len(tasks))


def _clustered(
    snapshot: Snapshot, tasks: Sequence[FileTask], files: Sequence[AddFile], names: Sequence[str], full: bool
) -> _Plan:
    """The files of a clustered table that are not laid out yet, in bins that become a cube each."""
    found = clustered_files(files, names, full)
    of = {id(file): task for file, task in zip(files, tasks, strict=True)}
    bins = packed([of[id(file)] for file in found.chosen], FULL_CUBE, in_order=True)
    metrics = clustering_metrics(found, names, full, len(bins))
    return _Plan(bins, len(tasks), tuple(layout_paths(snapshot)), names, metrics)


def _rewritten(spark: Session, snapshot: Snapshot, plan: _Plan, full: int) -> list[AddFile]:
    """The files to which the rows of all bins are written: one a bin, but for what is laid out by columns and comes to more."""
    description = f"deltamerge: optimize {snapshot.store.url}"
    write = _written(spark, snapshot)
    sizes = [sum(task.size or 0 for task in bin) for bin in plan.bins]
    large = [bool(plan.paths) and size >= 2 * full for size in sizes]
    small = tuple(bin for bin, is_large in zip(plan.bins, large, strict=True) if not is_large)
    parts = []
    if small:
        result = compacted(spark, CompactSpec(write, small, plan.paths), description)
        parts += [result.filter(pc.equal(result["file"], number)) for number in range(len(small))]
    for bin, size, is_large in zip(plan.bins, sizes, large, strict=True):
        if is_large:
            parts.append(ranged(spark, snapshot, write, bin, plan.paths, size // full, description))
    added = []
    for part in parts:
        written = [replace(file, data_change=False) for _, file in added_files(part, snapshot.schema)]
        added += as_cube(written, plan.clustered) if plan.clustered else written
    return added


def _proposal(
    spark: Session, request: Optimize, done: Optimized, read: ReadSet, clustered: Sequence[str], predicates: Sequence[str]
) -> Proposal:
    now = int(time.time() * 1000)
    is_full = {"isFull": request.full} if clustered else {}
    zones = {
        "zOrderBy": json.dumps(list(request.z_order), separators=(",", ":")),
        "clusterBy": json.dumps(list(clustered), separators=(",", ":")),
        "auto": request.auto is not None,
        **is_full,
    }
    return Proposal(
        operation="OPTIMIZE" if request.reorg is None else "REORG",
        actions=[*(file.removed(now, data_change=False) for file in done.removed), *done.added],
        read=read,
        parameters={
            "predicate": json.dumps(list(predicates), separators=(",", ":"), ensure_ascii=False),
            **(zones if request.reorg is None else {"applyPurge": True}),
        },
        metrics=done.history,
        author=author(spark),
    )


def _written(spark: Session, snapshot: Snapshot) -> WriteSpec:
    """How the files are written. Rows are as they were, so that nothing is demanded of them."""
    files = file_options(spark, snapshot.properties)
    spec = replace(write_spec(snapshot, current_budgets(), limited=False, files=files), required=(), elements=())
    columns = tracking_columns(snapshot.protocol, snapshot.metadata)
    return spec if columns is None else tracking_spec(spec, columns)


def _within_partitions(
    spark: Session, snapshot: Snapshot, tasks: Sequence[FileTask], predicates: Sequence[str]
) -> list[FileTask]:
    """The files of the partitions for which the predicates are true. Raises AnalysisError for one about another column."""
    keys = [partition_key(task.partition) for task in tasks]
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    first = {numbers[key]: task.partition for key, task in reversed(list(zip(keys, tasks, strict=True)))}
    partitions = [first[number] for number in range(len(numbers))]
    found = chosen_partitions(spark, snapshot.partition_schema, partitions, predicates) if partitions else set()
    return [task for task, key in zip(tasks, keys, strict=True) if numbers[key] in found]


def _rows(files: pa.Table, tasks: Sequence[FileTask]) -> pa.Table:
    return files.take(pa.array([task.file for task in tasks], pa.int64()))


def _add_files(files: pa.Table, tasks: Sequence[FileTask]) -> list[AddFile]:
    return add_files(_rows(files, tasks))
