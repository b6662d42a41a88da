"""The source of a merge, evaluated exactly once.

A small one is collected in Arrow and becomes a local relation: deterministic, and its keys are at hand. A larger one is
checkpointed, and its keys are summarised where it lies, in the same pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from pyspark.sql import functions as F

from deltamerge.spark.adapter import estimated_bytes
from deltamerge.spark.expression import quoted
from deltamerge.spark.frames import Frame, Session
from deltamerge.spark.jobs import collect
from deltamerge.spark.session import settings

SMALL_BYTES = 64 << 20
_ROW_BYTES = 12


@dataclass(frozen=True)
class Source:
    """A source whose rows no longer change: the frame, its rows and (estimated) bytes, and its rows in Arrow when small."""

    frame: Frame = field(repr=False)
    rows: int
    bytes: int
    collected: pa.Table | None = field(default=None, repr=False)


def materialize(source: Frame, columns: Sequence[str], small_bytes: int = SMALL_BYTES) -> Source:
    """Evaluate `source` once, keeping `columns`. Raises DeltaMergeError with the cause when it fails."""
    chosen = source.select(*[F.col(quoted(name)) for name in columns])
    estimate = estimated_bytes(chosen)
    if estimate is not None and estimate <= small_bytes:
        return local_source(source.sparkSession, chosen, collect(chosen, "deltamerge: read the source"))
    with settings(source.sparkSession):
        kept = chosen.localCheckpoint(eager=False)
    counted = collect(kept.groupBy().count(), "deltamerge: materialize the source")
    rows = int(counted.column(0)[0].as_py())
    return Source(kept, rows, rows * _ROW_BYTES * max(1, len(columns)))


def local_source(spark: Session, frame: Frame, table: pa.Table) -> Source:
    """A collected frame as a source of its own."""
    return Source(spark.createDataFrame(table, schema=frame.schema), table.num_rows, table.nbytes, table)
