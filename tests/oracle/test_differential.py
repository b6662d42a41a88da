"""Random merges end as delta-spark's do: same rows, same schema, same counters, errors where it has errors."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.oracle.cases import Case, make_case
from tests.oracle.engines import ambiguous_rows, copy_table, make_table, run_delta_spark, run_deltamerge
from tests.oracle.readers import by_delta_rs, by_delta_spark, by_deltamerge, by_duckdb

SEEDS = range(int(os.environ.get("DELTAMERGE_SEED", "0")), int(os.environ.get("DELTAMERGE_SEED", "0")) + 60)
_MULTIPLE = "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE"


@pytest.mark.parametrize("seed", SEEDS)
def test_merge_equals_delta_spark(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    problem = difference(spark, make_case(seed), tmp_path)
    assert problem is None, problem


def difference(spark: SparkSession, case: Case, folder: Path) -> str | None:
    """What is different between the two engines on a case, with the case; None when nothing is."""
    theirs_path, ours_path, joined_path = folder / "theirs", folder / "ours", folder / "joined"
    make_table(spark, case, theirs_path)
    copy_table(theirs_path, ours_path)
    copy_table(theirs_path, joined_path)
    ours = run_deltamerge(spark, case, ours_path)
    share = case.seed % 3 / 2
    joined = run_deltamerge(spark, case, joined_path, "join", share)
    alike = share == 1 or case.vectors != "on" or ours.counters is None or joined.counters is None
    counters = ours.counters if alike else {name: ours.counters[name] for name in joined.counters}
    if (ours.counts, counters, ours.error is None) != (joined.counts, joined.counters, joined.error is None):
        return f"{case}\nby strategy auto: {ours}\njoin: {joined}"
    if by_deltamerge(spark, ours_path) != by_deltamerge(spark, joined_path):
        return f"{case}\nrows differ between the strategies auto and join"
    theirs = run_delta_spark(spark, case, theirs_path)
    if theirs.error is not None and _MULTIPLE in theirs.error and ours.error is None:
        ambiguous = ambiguous_rows(spark, case, theirs_path)
        return f"{case}\n{ambiguous} ambiguous rows, yet no error" if ambiguous else _unread(spark, ours_path, case)
    if (ours.error is None) != (theirs.error is None):
        return f"{case}\nours: {ours}\ntheirs: {theirs}"
    if ours.error is not None:
        return None if by_delta_spark(spark, ours_path) == by_delta_spark(spark, theirs_path) else f"{case}\nchanged by an error"
    if ours.counts != theirs.counts or (ours.counters and theirs.counters and ours.counters != theirs.counters):
        return f"{case}\nours: {ours}\ntheirs: {theirs}"
    schemas = [spark.read.format("delta").load(str(path)).schema for path in (ours_path, theirs_path)]
    if schemas[0] != schemas[1]:
        return f"{case}\nschemas: {schemas}"
    rows, expected = by_delta_spark(spark, ours_path), by_delta_spark(spark, theirs_path)
    if rows != expected:
        return f"{case}\nonly ours: {rows - expected}\nonly theirs: {expected - rows}"
    return _unread(spark, ours_path, case)


def _unread(spark: SparkSession, path: Path, case: Case) -> str | None:
    """A reader that finds other rows in our table than delta-spark does."""
    expected = by_delta_spark(spark, path)
    readers = {"deltamerge": by_deltamerge(spark, path), "delta-rs": by_delta_rs(path)}
    if case.vectors is None:
        readers["DuckDB"] = by_duckdb(path)
    for name, rows in readers.items():
        if rows != expected:
            return f"{case}\nread by {name}, only there: {rows - expected}\nonly by delta-spark: {expected - rows}"
    return None
