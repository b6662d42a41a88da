"""Names of the session's catalog that are close to one that is not there. Only asked when a statement has failed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

from deltamerge.spark.plans.attributes import quoted
from deltamerge.spark.pyspark.plain import plain_sql
from deltamerge.spark.pyspark.quiet import quietly
from deltamerge.spark.session.frames import Session
from deltamerge.spark.sql.text import name_parts_of

_LISTED = "SHOW TABLES lists the names. A table without a name is delta.`path`."

_FORMATS = ("parquet", "csv", "json", "orc", "text", "avro", "iceberg")
_FILES = (
    "No statement changes rows of files that are in no table. "
    "CONVERT TO DELTA parquet.`path` makes a Delta table of Parquet files, which is delta.`path`."
)


def close_tables(spark: Session, name: str) -> str:
    """What to do about a table or view, given as SQL names it, that is not there."""
    *space, table = name_parts_of(name) or (name,)
    if "/" in table:
        return _FILES if space and space[-1].lower() in _FORMATS else "Check the path and the format before it."
    tables = _listed(spark, "TABLES" + _within(space), "tableName")
    if tables is not None:
        close = _closest(table, tables)
        return _LISTED if close is None else f"Did you mean {'.'.join((*space, close))}?"
    databases = _listed(spark, "DATABASES" + _within(space[:-1]), "namespace") or []
    close = _closest(space[-1], databases) if space else None
    meant = "" if close is None else f" Did you mean {'.'.join((*space[:-1], close, table))}?"
    return f"There is no database {'.'.join(space)}.{meant}" if space else _LISTED


def close_functions(spark: Session, name: str) -> str | None:
    """The function that may be meant by one, given as SQL names it, that is not there."""
    *_, function = name_parts_of(name) or (name,)
    close = _closest(function, _listed(spark, "FUNCTIONS", "function") or [])
    return None if close is None else f"Did you mean {close}?"


def _within(space: Sequence[str]) -> str:
    return f" IN {'.'.join(map(quoted, space))}" if space else ""


def _listed(spark: Session, what: str, column: str) -> list[str] | None:
    """What the session lists, None where it lists nothing of the kind."""
    try:
        with quietly():
            return [str(row[column]) for row in plain_sql(spark, f"SHOW {what}").collect()]
    except Exception:  # it was only asked for a hint
        return None


def _closest(name: str, names: Iterable[str]) -> str | None:
    """The name that is most like the given one; names of this library's own views are none."""
    known = {found.lower(): found for found in names if not found.startswith("__deltamerge_")}
    close = get_close_matches(name.lower(), known, n=1)
    return known[close[0]] if close else None
