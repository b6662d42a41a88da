"""The rows of files that come to many, laid out by columns: Spark sends them to tasks by ranges of their keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as T

from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.progress.operation import begin
from deltamerge.progress.value import Amount
from deltamerge.spark.session.frames import Session
from deltamerge.spark.session.jobs import collect
from deltamerge.spark.session.schema import shown_schema, to_spark
from deltamerge.spark.session.shipping import shipped
from deltamerge.spark.stages.scan import MATCHED_TYPE, pack
from deltamerge.spark.stages.writing import RESULT_TYPE, data_frame
from deltamerge.worker.entry import sample_map, z_key_map
from deltamerge.worker.layout.z_order import Z_KEY, ZOrder, z_order_of
from deltamerge.worker.scan.scan import FileTask
from deltamerge.worker.scan.streams import read_stream
from deltamerge.worker.write.tracking import TRACKED
from deltamerge.worker.write.write import WriteSpec

_SAMPLE_BYTES = 16 << 20


def ranged(
    spark: Session,
    snapshot: Snapshot,
    spec: WriteSpec,
    tasks: Sequence[FileTask],
    paths: Sequence[tuple[str, ...]],
    files: int,
    description: str,
) -> pa.Table:
    """Write the rows of some files of a partition to about so many files, each of a range of the curve through the columns."""
    sizes = [task.size or 0 for task in tasks]
    bins = pack(tasks, sizes, spec.budgets)
    begin("sampling the columns", lambda: Amount(len(tasks), sum(sizes)))
    order = _order(spark, spec, bins, sum(sizes), paths, description)
    fields = [*to_spark(shown_schema(snapshot.schema)).fields, T.StructField(Z_KEY, T.BinaryType())]
    fields[-1:-1] = [T.StructField(name, T.LongType()) for name in TRACKED if name in spec.schema.names]
    numbers = spark.range(0, len(bins), 1, len(bins))
    rows = numbers.mapInArrow(shipped(z_key_map(spec, bins, order)), T.StructType(fields))
    spread = rows.repartitionByRange(files, F.col(Z_KEY)).sortWithinPartitions(Z_KEY).drop(Z_KEY)
    begin("laying rows out", lambda: Amount(len(tasks), sum(sizes)))
    whole = replace(spec, target_bytes=1 << 62)
    return collect(data_frame(spread, whole), description, RESULT_TYPE)


def _order(
    spark: Session,
    spec: WriteSpec,
    bins: Sequence[Sequence[FileTask]],
    size: int,
    paths: Sequence[tuple[str, ...]],
    description: str,
) -> ZOrder:
    """The ranks of values, by a sample of the columns alone."""
    narrow = replace(spec, schema=pa.schema([spec.schema.field(name) for name in dict.fromkeys(path[0] for path in paths)]))
    numbers = spark.range(0, len(bins), 1, len(bins))
    found = collect(
        numbers.mapInArrow(shipped(sample_map(narrow, bins, min(1.0, _SAMPLE_BYTES / max(1, size)))), MATCHED_TYPE),
        description,
        MATCHED_TYPE,
    )
    return z_order_of(pa.concat_tables([narrow.schema.empty_table(), *map(read_stream, found["rows"])]), paths)
