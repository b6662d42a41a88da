"""What is different between the engines on a random merge, and for a third of them between readers of the result."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from pathlib import Path

from pyspark.sql import SparkSession

from tests.cases.tables import Rows
from tests.oracle.cases import Merge
from tests.oracle.engines import (
    COUNTERS,
    DELTA_SPARK,
    DELTA_SPARK_REWRITING,
    Tried,
    ambiguous_rows,
    counters_of,
    deltamerge_engine,
    make_table,
    run_merge,
)
from tests.oracle.readers import by_delta_rs, by_delta_spark, by_deltamerge, by_duckdb

NOT_NULL = "DELTA_NOT_NULL_CONSTRAINT_VIOLATED"
MULTIPLE = "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE"
# delta-spark's own check that no row but a changed one reaches its writer fails on some merges that mark rows.
_SANITY = "Unexpected row: did not match any merge clause"
# A merge may break several of these at once; which one is met first depends on the order of rows.
_OF_ROWS = {
    MULTIPLE, "DELTA_CAST_OVERFLOW_IN_TABLE_WRITE", "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES", NOT_NULL,
    "ARITHMETIC_OVERFLOW", "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION", "BINARY_ARITHMETIC_OVERFLOW",
}  # fmt: skip


def difference(spark: SparkSession, merge: Merge, folder: Path | None = None) -> str | None:
    """What is different between delta-spark and deltamerge, by two strategies; None when nothing is."""
    place = Path(tempfile.mkdtemp(dir=folder))
    try:
        return _difference(spark, merge, place)
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _difference(spark: SparkSession, merge: Merge, folder: Path) -> str | None:
    made, share = folder / "made", merge.seed % 3 / 2
    make_table(spark, merge, made)
    names = counters_of(merge, share)
    ours = run_merge(spark, merge, made, folder / "ours", deltamerge_engine(), counters_of(merge, 1))
    other = deltamerge_engine(("join", "large", "route", "meet")[merge.seed % 4], share)
    joined = run_merge(spark, merge, made, folder / "joined", other, names)
    theirs = run_merge(spark, merge, made, folder / "theirs", DELTA_SPARK, counters_of(merge, 1))
    if _SANITY in theirs.outcome.message:
        theirs = run_merge(spark, merge, made, folder / "rewritten", DELTA_SPARK_REWRITING, COUNTERS)
    found = _between_strategies(ours, joined, names)
    if found is None and theirs.outcome.error == MULTIPLE and ours.outcome.error is None:
        rows = ambiguous_rows(spark, merge, made)
        found = f"{rows} ambiguous rows, yet no error" if rows else None
    elif found is None:
        found = _between_engines(ours, theirs)
    if found is not None or ours.outcome.error or merge.seed % 3:
        return found
    return _unread(spark, merge, ours.path)


def _between_strategies(ours: Tried, joined: Tried, names: tuple[str, ...]) -> str | None:
    one, other = ours.outcome, joined.outcome
    if not _same_error(one.error, other.error):
        return f"error by strategy auto {one.error}, join {other.error}\n{one.message[:300]}\n{other.message[:300]}"
    if (one.counts, one.content, one.feed) != (other.counts, other.content, other.feed):
        return f"auto: {one.counts} {one.content} {one.feed}\njoin: {other.counts} {other.content} {other.feed}"
    both = None if ours.counters is None else {name: ours.counters.get(name) for name in names}
    return None if both == joined.counters else f"counters auto: {both}\njoin: {joined.counters}"


def _between_engines(ours: Tried, theirs: Tried) -> str | None:
    one, other = ours.outcome, theirs.outcome
    if not _same_error(one.error, other.error):
        return f"error here {one.error}, there {other.error}\n{one.message[:300]}\n{other.message[:300]}"
    if one.content.header != other.content.header:
        return f"schema here {one.content.header}, there {other.content.header}"
    if one.content != other.content:
        found, expected = Counter(one.content.rows), Counter(other.content.rows)
        return f"rows only here: {dict(found - expected)}\nonly there: {dict(expected - found)}"
    if one.feed is not None and other.feed is not None and not _same_feed(one.feed, other.feed):
        return f"feed here {one.feed.rows}, there {other.feed.rows}"
    if one.counts != other.counts:
        return f"counts here {one.counts}, there {other.counts}"
    if ours.counters and theirs.counters:
        mine = {name: ours.counters[name] for name in theirs.counters}
        return None if mine == theirs.counters else f"counters here {mine}\nthere {theirs.counters}"
    return None


def _same_feed(one: Rows, other: Rows) -> bool:
    """Whether both tell the same, or the other of rows that were only copied where nothing changed: without change files
    delta-spark takes copied files for changes (docs/differences.md).
    """
    changes = {kind: sorted(row for type, *row in other.rows if type == f"'{kind}'") for kind in ("delete", "insert")}
    copies = changes["delete"] == changes["insert"] and sum(map(len, changes.values())) == len(other.rows)
    return one == other or (not one.rows and copies)


def _same_error(one: str | None, other: str | None) -> bool:
    # Of `SET *` delta-spark looks for `s.x` as a field of the columns named s, too, if the source has no x.
    is_field = (one, other) == ("DELTA_MERGE_UNRESOLVED_EXPRESSION", "AMBIGUOUS_REFERENCE")
    return one == other or is_field or (one in _OF_ROWS and other in _OF_ROWS)


def _unread(spark: SparkSession, merge: Merge, path: Path) -> str | None:
    """A reader that finds other rows in our table than delta-spark does."""
    expected = by_delta_spark(spark, path)
    readers = {"deltamerge": by_deltamerge(spark, path)}
    plain = all("<" not in column.type and column.type != "binary" for column in merge.columns)
    plain = plain and all(column.type != "binary" and "<" not in column.type for column in merge.source_columns)
    if plain and not any("columnMapping" in name or "Widening" in name for name, _ in merge.properties):
        readers["delta-rs"] = by_delta_rs(path)
        if merge.vectors is None:
            readers["DuckDB"] = by_duckdb(path)
    for name, rows in readers.items():
        if rows != expected:
            return f"read by {name}, only there: {dict(rows - expected)}\nonly by delta-spark: {dict(expected - rows)}"
    return None
