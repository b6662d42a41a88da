"""Numbers for identity columns, handed out by Spark in the stage that writes the rows, so that each task has its own."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F

from deltamerge.protocol.table.identity import EXHAUSTED, Identity, exhausted, fits
from deltamerge.spark.plans.attributes import quoted
from deltamerge.spark.session.frames import Frame
from deltamerge.worker.scan.row_errors import Refused

_MOST_ROWS = 1 << 33  # of a partition, for monotonically_increasing_id
_STRIDE = 1024


def numbered(rows: Frame, chosen: Mapping[Identity, Column], first: int = 0, partitions: int | None = None) -> Frame:
    """Rows with the next numbers of identity columns where `chosen` says so; other rows keep their values.

    Rows to be numbered are in partitions from `first` on, `partitions` of them if that is known. Nothing that moves rows
    may come between this and the writing.
    """
    place = _place(first, partitions)
    values = {}
    for identity, condition in chosen.items():
        kept = F.col(quoted(identity.name))
        values[identity.name] = F.when(condition, _number(identity, place)).otherwise(kept).alias(identity.name)
    return rows.select(*[values.get(name, F.col(quoted(name))) for name in rows.columns])


def _place(first: int, partitions: int | None) -> Column:
    """A number from 0 on that no other row has; close together while partitions are alike."""
    partition = F.spark_partition_id().cast("long") - F.lit(first)
    row = F.monotonically_increasing_id() % F.lit(_MOST_ROWS)
    if partitions is not None:
        return partition + row * F.lit(partitions)
    beyond = F.floor(partition / F.lit(_STRIDE)) * F.lit(_MOST_ROWS)
    return partition % F.lit(_STRIDE) + F.lit(_STRIDE) * (row + beyond)


def _number(identity: Identity, place: Column) -> Column:
    error = exhausted(identity.name)
    refusal = F.raise_error(F.lit(str(Refused(EXHAUSTED, error.detail, identity.name)))).cast("long")
    if not fits(identity.next):
        return refusal
    next, step = (F.lit(value).cast("long") for value in (identity.next, identity.step))
    return F.coalesce(F.try_add(next, F.try_multiply(step, place)), refusal)
