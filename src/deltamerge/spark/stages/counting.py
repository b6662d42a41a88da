"""Counting the rows that a merge would change, without writing them."""

from __future__ import annotations

from pyspark.sql import functions as F

from deltamerge.spark.session.attributes import quoted
from deltamerge.spark.session.frames import Frame
from deltamerge.worker.scan.scan import FILE, ROW
from deltamerge.worker.write.rewrite import CLAUSE

COUNT, COLLISIONS, SAMPLE = "__deltamerge_count", "__deltamerge_collisions", "__deltamerge_sample"
_TIMES = "__deltamerge_times"


def change_counts(rows: Frame, sample: int) -> Frame:
    """Per file and clause: COUNT of changed rows, COLLISIONS of them that several source rows change, a SAMPLE of few.

    The sample's elements have the columns of `rows`.
    """
    values = F.struct(*[F.col(quoted(name)) for name in rows.columns])
    place = F.coalesce(F.col(ROW), F.monotonically_increasing_id())
    once = rows.select(F.col(FILE), place.alias(ROW), F.col(CLAUSE), values.alias(SAMPLE))
    once = once.groupBy(FILE, ROW).agg(F.count("*").alias(_TIMES), F.min(CLAUSE).alias(CLAUSE), F.first(SAMPLE).alias(SAMPLE))
    repeated = F.when(F.col(FILE).isNotNull() & (F.col(_TIMES) > 1), 1).otherwise(0)
    buckets = once.groupBy(FILE, CLAUSE, F.pmod(ROW, F.lit(sample))).agg(
        F.count("*").alias(COUNT), F.sum(repeated).alias(COLLISIONS), F.first(SAMPLE).alias(SAMPLE)
    )
    return buckets.groupBy(FILE, CLAUSE).agg(
        F.sum(COUNT).alias(COUNT), F.sum(COLLISIONS).alias(COLLISIONS), F.collect_list(SAMPLE).alias(SAMPLE)
    )
