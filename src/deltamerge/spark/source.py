"""The source of a merge, evaluated exactly once.

A small one is collected in Arrow and becomes a local relation: deterministic, and its keys are at hand. A larger one is
checkpointed; one pass over it says how large it is, and brings the rows along when they turn out to be few.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql import types as T

from deltamerge.spark.adapter import estimated_bytes
from deltamerge.spark.expression import quoted
from deltamerge.spark.frames import Frame, Session
from deltamerge.spark.jobs import collect, local_frame
from deltamerge.spark.schema import nullable_frame
from deltamerge.spark.session import settings
from deltamerge.spark.writing import positional
from deltamerge.worker.entry import sized_map

COLLECTED_BYTES = 64 << 20
_TRUSTED_BYTES = 24 << 20
_PART_BYTES = 800_000
_WITHOUT_COLUMNS = "deltamerge row"  # Arrow does not carry rows without columns
_SIZED = T.StructType(
    [T.StructField("rows", T.LongType()), T.StructField("bytes", T.LongType()), T.StructField("payload", T.BinaryType())]
)


@dataclass(frozen=True)
class Source:
    """A source whose rows no longer change: the frame, its rows and (estimated) bytes, and its rows in Arrow when small."""

    frame: Frame = field(repr=False)
    rows: int
    bytes: int
    collected: pa.Table | None = field(default=None, repr=False)


def materialize(source: Frame, columns: Sequence[str]) -> Source:
    """Evaluate `source` once, keeping `columns`. Raises DeltaMergeError with the cause when it fails."""
    spark = source.sparkSession
    wanted = [F.col(quoted(name)) for name in columns] or [F.lit(True).alias(_WITHOUT_COLUMNS)]
    chosen = nullable_frame(source.select(*wanted))
    estimate = estimated_bytes(chosen)
    if estimate is not None and estimate <= _TRUSTED_BYTES:
        return _local(spark, chosen.schema, collect(chosen, "deltamerge: read the source"))
    with settings(spark):
        kept = chosen.localCheckpoint(eager=False)
    parts = collect(positional(kept).mapInArrow(sized_map(_PART_BYTES), _SIZED), "deltamerge: materialize the source")
    rows, size = (sum(parts[name].to_pylist()) for name in ("rows", "bytes"))
    if size > COLLECTED_BYTES:
        return Source(kept, rows, size)
    payloads = [payload for payload in parts["payload"].to_pylist() if payload is not None]
    if len(payloads) == parts.num_rows and payloads:
        table = pa.concat_tables([pa.ipc.open_stream(payload).read_all() for payload in payloads])
        table = table.rename_columns(kept.columns)
    else:
        table = collect(kept, "deltamerge: read the materialized source")
    return _local(spark, kept.schema, table)


def single_row(spark: Session) -> Source:
    """A source of one row whose column no expression can name by accident; no job runs."""
    return _local(spark, T.StructType([T.StructField(_WITHOUT_COLUMNS, T.BooleanType())]), pa.table({_WITHOUT_COLUMNS: [True]}))


def _local(spark: Session, schema: T.StructType, table: pa.Table) -> Source:
    return Source(local_frame(spark, table, schema), table.num_rows, table.nbytes, table)
