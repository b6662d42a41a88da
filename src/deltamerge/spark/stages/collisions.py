"""Looking up the target rows that several source rows match; only after a merge has failed for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import Column
from pyspark.sql import functions as F

from deltamerge.protocol.values.plain import plain_rows
from deltamerge.spark.plans.attributes import quoted
from deltamerge.spark.session.jobs import collect
from deltamerge.spark.stages.changes import ChangeQuery, applying_pairs
from deltamerge.worker.scan.scan import FILE, ROW

_KEY, _ROWS = "__deltamerge_key", "__deltamerge_rows"
_ROWS_SHOWN = 5


def collision_rows(query: ChangeQuery, target: Sequence[str], source: Sequence[str], limit: int) -> list[dict[str, Any]]:
    """Up to `limit` target rows that several source rows change: `key` has the columns `target`, `rows` the columns `source`."""
    chosen = applying_pairs(query).select(
        FILE,
        ROW,
        _struct(query.target_alias, target).alias(_KEY),
        _struct(query.source_alias, source).alias("__deltamerge_source_row"),
    )
    grouped = chosen.groupBy(FILE, ROW).agg(
        F.first(_KEY).alias(_KEY), F.collect_list("__deltamerge_source_row").alias(_ROWS), F.count("*").alias("n")
    )
    found = collect(
        grouped.where(F.col("n") > 1).select(_KEY, F.slice(_ROWS, 1, _ROWS_SHOWN).alias(_ROWS)).limit(limit),
        "deltamerge: look up the colliding rows",
    )
    return [{"key": row[_KEY], "rows": row[_ROWS]} for row in plain_rows(found)]


def collision_count(query: ChangeQuery) -> int:
    """How many target rows several source rows change, by one job."""
    grouped = applying_pairs(query).groupBy(FILE, ROW).agg(F.count("*").alias("n")).where(F.col("n") > 1)
    found = collect(grouped.agg(F.count("*").alias("n")), "deltamerge: count the colliding rows")
    return int(found["n"][0].as_py())


def _struct(alias: str, names: Sequence[str]) -> Column:
    columns = [F.col(f"{quoted(alias)}.{quoted(name)}").alias(name) for name in names]
    return F.struct(*columns) if columns else F.struct(F.lit("any").alias("row"))
