"""The frames of a routed merge: source rows to the tasks that own files, and what those make of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_schema

from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.jobs import local_frame
from deltamerge.spark.stages.writing import RESULT_TYPE, positional
from deltamerge.worker.entry import insert_map, meet_map, owned_map, route_files_map, route_map, settled_map, table_map
from deltamerge.worker.join.meet import MeetSpec
from deltamerge.worker.join.owned import OwnedSpec
from deltamerge.worker.join.route import ROUTED, RouteSpec
from deltamerge.worker.scan.scan import FileTask
from deltamerge.worker.scan.source import SourceSpec
from deltamerge.worker.write.rewrite import ChangeSpec

_ROUTED_TYPE: T.StructType = from_arrow_schema(ROUTED)
_BIN_TYPE = T.StructType([T.StructField("bin", T.IntegerType())])
# Spark puts rows in an Arrow batch until it has so many bytes; one of ours may be megabytes.
BATCH_BYTES = {"spark.sql.execution.arrow.maxBytesPerBatch": str(16 << 20)}


def routed_rows(source: Frame, spec: RouteSpec) -> Frame:
    """The rows of a frame on their way to the owners of files."""
    return positional(source).mapInArrow(route_map(spec, source.columns), _ROUTED_TYPE)


def routed_files(spark: Session, source: SourceSpec, spec: RouteSpec) -> Frame:
    """The rows of Parquet files on their way to the owners of the table's files."""
    bins = len(source.bins)
    return spark.range(0, bins, 1, bins).mapInArrow(route_files_map(spec, source), _ROUTED_TYPE)


def owned_frame(rows: Frame, route: RouteSpec, owned: OwnedSpec, change: ChangeSpec) -> Frame:
    """Match the rows with the files of their owners, and apply what follows; result rows."""
    if owned.by_source is not None:
        rows = rows.union(local_frame(rows.sparkSession, route.told(), _ROUTED_TYPE))
    placed = rows.repartition(route.owners + route.inserters, "partition")
    return placed.mapInArrow(owned_map(owned, change), RESULT_TYPE)


def met_frame(rows: Frame, met: MeetSpec, bins: Sequence[Sequence[FileTask]], change: ChangeSpec) -> Frame:
    """Match the rows with those of the files in `bins` where they meet, and apply what follows where files are owned.

    Result rows.
    """
    numbers = rows.sparkSession.range(0, len(bins), 1, len(bins))
    both = rows.union(numbers.mapInArrow(table_map(met, bins), _ROUTED_TYPE))
    # The tasks of the table's rows are below the others: those rows come first, and are held.
    meeting = both.repartition(len(met.meetings), "partition").sortWithinPartitions("task")
    changed = meeting.mapInArrow(meet_map(met), _ROUTED_TYPE)
    return changed.repartition(len(met.owners), "partition").mapInArrow(settled_map(change), RESULT_TYPE)


def inserted_frame(
    spark: Session, owned: OwnedSpec, change: ChangeSpec, source: SourceSpec, places: Mapping[int, Sequence[bytes]]
) -> Frame:
    """Insert the rows of a source's files that are at `places` of its bins; result rows."""
    numbers = local_frame(spark, pa.table({"bin": pa.chunked_array([[n] for n in places], pa.int32())}), _BIN_TYPE)
    return numbers.mapInArrow(insert_map(owned, change, source, places), RESULT_TYPE)
