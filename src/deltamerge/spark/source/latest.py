"""The latest source row of each key, before a merge."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, Window
from pyspark.sql import functions as F

from deltamerge.spark.plans.attributes import quoted
from deltamerge.spark.session.frames import Frame

_RANK = "__deltamerge_rank"


def latest(source: Frame, keys: Sequence[tuple[str, bool]], by: Sequence[Column]) -> Frame:
    """The rows that come last in the order of `by` (nulls first) among those with equal `keys`; ties stay, all of them.

    Each key says whether nulls are equal; where they aren't, a row with a null is nobody's rival.
    """
    columns = [F.col(quoted(name)) for name, _ in keys]
    window = Window.partitionBy(*columns).orderBy(*[column.desc_nulls_last() for column in by])
    kept = F.col(_RANK) == 1
    for column, (_, null_safe) in zip(columns, keys, strict=True):
        kept = kept if null_safe else kept | column.isNull()
    return source.select("*", F.rank().over(window).alias(_RANK)).where(kept).drop(_RANK)
