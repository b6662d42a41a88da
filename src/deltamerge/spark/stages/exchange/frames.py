"""The frames of an exchange: source rows to the tasks that write files, and what those make of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema

from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.jobs import local_frame
from deltamerge.spark.session.shipping import shipped
from deltamerge.spark.stages.writing import RESULT_TYPE, positional
from deltamerge.worker.entry import (
    hash_join_map,
    insert_map,
    partition_files_map,
    partition_map,
    range_join_map,
    target_rows_map,
    write_changes_map,
)
from deltamerge.worker.join.hash_join import HashJoinSpec
from deltamerge.worker.join.partitioning import SHUFFLED, Partitioning
from deltamerge.worker.join.range_join import JoinSpec
from deltamerge.worker.scan.scan import FileTask
from deltamerge.worker.scan.source import SourceSpec
from deltamerge.worker.write.rewrite import ChangeSpec

_SHUFFLED_TYPE: T.StructType = from_arrow_schema(SHUFFLED)
_BIN_TYPE = T.StructType([T.StructField("bin", T.IntegerType())])


def partitioned_rows(source: Frame, spec: Partitioning) -> Frame:
    """The rows of a frame on their way to tasks."""
    return positional(source).mapInArrow(shipped(partition_map(spec, source.columns)), _SHUFFLED_TYPE)


def partitioned_files(spark: Session, source: SourceSpec, spec: Partitioning) -> Frame:
    """The rows of Parquet files on their way to tasks."""
    bins = len(source.bins)
    return spark.range(0, bins, 1, bins).mapInArrow(shipped(partition_files_map(spec, source)), _SHUFFLED_TYPE)


def range_joined(rows: Frame, partitioning: Partitioning, join: JoinSpec, change: ChangeSpec) -> Frame:
    """Match the rows with the files of their tasks, and apply what follows; result rows."""
    if join.by_source:
        rows = rows.union(local_frame(rows.sparkSession, partitioning.without_rows(), _SHUFFLED_TYPE))
    placed = rows.repartition(partitioning.range_tasks + partitioning.hash_tasks, "partition")
    return placed.mapInArrow(shipped(range_join_map(join, change)), RESULT_TYPE)


def hash_joined(rows: Frame, join: HashJoinSpec, bins: Sequence[Sequence[FileTask]], change: ChangeSpec) -> Frame:
    """Match the rows with those of the files in `bins` by a hash of their keys, and apply what follows at the tasks that write
    the files; result rows.
    """
    numbers = rows.sparkSession.range(0, len(bins), 1, len(bins))
    both = rows.union(numbers.mapInArrow(shipped(target_rows_map(join, bins)), _SHUFFLED_TYPE))
    # The tasks of target rows are below the others: these rows come first, and are buffered.
    matched = both.repartition(len(join.match_tasks), "partition").sortWithinPartitions("task")
    changed = matched.mapInArrow(shipped(hash_join_map(join)), _SHUFFLED_TYPE)
    return changed.repartition(len(join.write_tasks), "partition").mapInArrow(shipped(write_changes_map(change)), RESULT_TYPE)


def inserted_rows(
    spark: Session, join: JoinSpec, change: ChangeSpec, source: SourceSpec, positions: Mapping[int, Sequence[bytes]]
) -> Frame:
    """Insert the rows of a source's files that are at `positions` of its bins; result rows."""
    numbers = local_frame(spark, pa.table({"bin": pa.chunked_array([[n] for n in positions], pa.int32())}), _BIN_TYPE)
    return numbers.mapInArrow(shipped(insert_map(join, change, source, positions)), RESULT_TYPE)
