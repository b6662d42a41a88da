"""OPTIMIZE: small files of a partition become few large ones; rows that deletion vectors delete are left behind.

Rows keep their ids and commit versions, the change data feed shows nothing. A transaction that changes none of the chosen files
is no conflict. Source: delta-spark's OptimizeTableCommand.
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from deltamerge.budgets import current_budgets
from deltamerge.commands.layout.bins import is_chosen, limits_of, packed
from deltamerge.commands.layout.optimize_metrics import Optimized, optimize_row
from deltamerge.commands.layout.z_columns import z_columns
from deltamerge.commands.table.describe import frame_of, location_text
from deltamerge.errors import AnalysisError, UnsupportedTableError
from deltamerge.log.commit.clustering import clustering_names
from deltamerge.log.commit.conflict import ReadSet
from deltamerge.log.commit.transaction import Proposal, commit, discarding
from deltamerge.log.commit.upkeep import after_commit
from deltamerge.log.replay.files import add_files, file_keys
from deltamerge.log.replay.load import check_sound
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.log.replay.table import DeltaLog
from deltamerge.protocol.table.actions import AddFile
from deltamerge.protocol.table.features import check_writable, named_features
from deltamerge.protocol.table.row_tracking import tracking_columns
from deltamerge.protocol.values.partitions import decode_path
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.settings import engine_name, time_zone
from deltamerge.spark.stages.compacting import compacted
from deltamerge.spark.stages.partition_filter import chosen_partitions
from deltamerge.spark.stages.ranging import ranged
from deltamerge.spark.stages.results import added_files
from deltamerge.spark.stages.target import file_tasks, write_spec
from deltamerge.worker.scan.scan import FileTask
from deltamerge.worker.write.compact import CompactSpec
from deltamerge.worker.write.tracking import tracking_spec
from deltamerge.worker.write.write import WriteSpec, partition_key

log = logging.getLogger("deltamerge.commands")


@dataclass(frozen=True, slots=True)
class Optimize:
    """An OPTIMIZE: of the partitions for which all `predicates`, SQL texts about partition columns, are true; rows are laid
    out by the columns of `z_order`, names as SQL has them.
    """

    predicates: tuple[str, ...] = ()
    z_order: tuple[str, ...] = ()
    full: bool = False


def optimize_table(spark: Session, table: DeltaLog, request: Optimize) -> Frame:
    """Put small files together, commit, and return delta-spark's row of metrics; nothing is committed where there are none.

    Raises AnalysisError, UnsupportedTableError, ConcurrentModificationError; the table is then as it was.
    """
    started = int(time.time() * 1000)
    snapshot = table.snapshot()
    check_writable(snapshot.protocol, snapshot.metadata, table.store.url)
    check_sound(snapshot)
    _check_clustering(snapshot, request)
    limits = limits_of(spark)
    paths = z_columns(spark, snapshot, request.z_order)
    columns = tracking_columns(snapshot.protocol, snapshot.metadata)
    files = snapshot.files.table()
    tasks = file_tasks(snapshot, files, time_zone(spark), tracked=columns is not None)
    if request.predicates:
        tasks = _within_partitions(spark, snapshot, tasks, request.predicates)
    if paths:
        bins = packed(tasks, math.inf)
    else:
        chosen = [task for task, file in zip(tasks, _add_files(files, tasks), strict=True) if is_chosen(file, limits)]
        bins = [found for found in packed(chosen, limits.full) if len(found) > 1]
    replaced = [task for bin in bins for task in bin]
    partitions = len({partition_key(bin[0].partition) for bin in bins})
    done = Optimized((), _add_files(files, replaced), len(tasks), len(bins), partitions, started, bool(paths))
    if bins:
        log.info("putting %d files of %s together, in %d bins", len(replaced), table.store.url, len(bins))
        spec = CompactSpec(_written(snapshot, columns is not None), tuple(bins), paths)
        added = _rewritten(spark, snapshot, spec, limits.full)
        done = replace(done, added=added)
        read = ReadSet(keys=frozenset(file_keys(_rows(files, replaced)).to_pylist()))
        with discarding(snapshot, [decode_path(file.path) for file in added]):
            committed = commit(snapshot, _proposal(spark, request, done, read))
        table.remember(committed.snapshot)
        after_commit(committed.snapshot)
        log.info("optimized %s as version %d", table.store.url, committed.version)
    return frame_of(spark, optimize_row(snapshot, location_text(table.store.url), done))


def _rewritten(spark: Session, snapshot: Snapshot, spec: CompactSpec, full: int) -> list[AddFile]:
    """The files to which the rows of all bins are written: one a bin, but for what is laid out by columns and comes to more."""
    description = f"deltamerge: optimize {snapshot.store.url}"
    sizes = [sum(task.size or 0 for task in bin) for bin in spec.bins]
    small = [bin for bin, size in zip(spec.bins, sizes, strict=True) if not spec.z_order or size < 2 * full]
    parts = []
    if small:
        parts.append(compacted(spark, replace(spec, bins=tuple(small)), description))
    for bin, size in zip(spec.bins, sizes, strict=True):
        if spec.z_order and size >= 2 * full:
            parts.append(ranged(spark, snapshot, spec.write, bin, spec.z_order, size // full, description))
    return [replace(file, data_change=False) for part in parts for _, file in added_files(part, snapshot.schema)]


def _proposal(spark: Session, request: Optimize, done: Optimized, read: ReadSet) -> Proposal:
    now = int(time.time() * 1000)
    return Proposal(
        operation="OPTIMIZE",
        actions=[*(file.removed(now, data_change=False) for file in done.removed), *done.added],
        read=read,
        parameters={
            "predicate": json.dumps(list(request.predicates)),
            "zOrderBy": json.dumps(list(request.z_order), separators=(",", ":")),
            "clusterBy": "[]",
            "auto": False,
        },
        metrics=done.history,
        engine=engine_name(spark),
    )


def _written(snapshot: Snapshot, tracked: bool) -> WriteSpec:
    """How the files are written. Rows are as they were, so that nothing is demanded of them."""
    spec = replace(write_spec(snapshot, current_budgets(), limited=False), required=(), elements=())
    columns = tracking_columns(snapshot.protocol, snapshot.metadata)
    return spec if columns is None or not tracked else tracking_spec(spec, columns)


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


def _check_clustering(snapshot: Snapshot, request: Optimize) -> None:
    """Raise for what a clustered table, or one that is not, has no use for."""
    is_clustered = "clustering" in named_features(snapshot.protocol)
    names = clustering_names(snapshot) if is_clustered else []
    if is_clustered and request.predicates:
        raise UnsupportedTableError(
            "DELTA_CLUSTERING_WITH_PARTITION_PREDICATE",
            "OPTIMIZE of a clustered table takes no predicates about partitions: there are none.",
            parameters={"predicates": list(request.predicates)},
            hint="Leave the predicate out.",
        )
    if is_clustered and request.z_order:
        raise AnalysisError(
            "DELTA_CLUSTERING_WITH_ZORDER_BY",
            "OPTIMIZE of a clustered table can't be told other columns by ZORDER BY.",
            parameters={"zOrderBy": list(request.z_order)},
            hint="Leave ZORDER BY out, or change the clustering columns.",
        )
    if request.full and not names:
        raise UnsupportedTableError(
            "DELTA_OPTIMIZE_FULL_NOT_SUPPORTED",
            "OPTIMIZE FULL is only supported for clustered tables with non-empty clustering columns.",
            hint="Leave FULL out.",
        )
    if names:
        raise UnsupportedTableError(
            "DELTAMERGE_UNSUPPORTED_CLUSTERING",
            f"The table is clustered by {', '.join(names)}, and OPTIMIZE does not order rows by clustering columns.",
            parameters={"clusteringColumns": names},
            hint="Let delta-spark optimize clustered tables. The table is as it was.",
        )
