"""Row ids and row commit versions after a merge, read by delta-spark, are those of delta-spark's own merge."""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from deltamerge.log.commit.row_ids import high_water_mark
from deltamerge.log.replay.table import open_log
from deltamerge.protocol.table.features import assigns_row_ids
from deltamerge.tables import DeltaTable
from tests.cases.running import run_at
from tests.oracle.cases import Merge
from tests.oracle.engines import DELTA_SPARK, copy_table, deltamerge_engine, make_table
from tests.oracle.random_merges import make_merge
from tests.oracle.random_texts import test_of
from tests.oracle.readers import Rows, counted

TRACKING = ("delta.enableRowTracking", "true")
SEEDS = range(int(os.environ.get("DELTAMERGE_SEED", "0")), int(os.environ.get("DELTAMERGE_SEED", "0")) + 6)


def with_tracking(seed: int) -> Merge:
    """The random merge of a seed into a table that tracks its rows; a fourth of these have a feed, a fourth mapped columns."""
    merge = make_merge(seed)
    more = {0: (("delta.enableChangeDataFeed", "true"),), 1: (("delta.columnMapping.mode", "name"),)}
    return replace(merge, properties=(*merge.properties, TRACKING, *more.get(seed % 4, ())))


def tracked(spark: SparkSession, path: Path, mark: int) -> tuple[Rows, Rows]:
    """The rows with ids up to `mark`, with ids and versions; the other ones with their versions, as delta-spark reads them."""
    frame = spark.read.format("delta").load(str(path))
    ids = counted(frame.select("*", "_metadata.row_id", "_metadata.row_commit_version").toArrow())
    kept: Rows = Counter()
    others: Rows = Counter()
    seen = set()
    for row, count in ids.items():
        *values, id, version = row
        assert id not in seen
        assert count == 1
        seen.add(id)
        if int(id) <= mark:
            kept[row] += 1
        else:
            others[(*values, version)] += 1
    return kept, others


def test_the_property_is_in_force(spark: SparkSession, tmp_path: Path) -> None:
    make_table(spark, with_tracking(0), tmp_path / "t")
    snapshot = open_log(str(tmp_path / "t")).snapshot()
    assert assigns_row_ids(snapshot.protocol, snapshot.metadata)


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_of_a_merge_keep_their_ids(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    merge = with_tracking(seed)
    paths = [tmp_path / name for name in ("theirs", "ours", "joined")]
    make_table(spark, merge, paths[0])
    for path in paths[1:]:
        copy_table(paths[0], path)
    mark = high_water_mark(open_log(str(paths[0])).snapshot().domains)
    engines = (DELTA_SPARK, deltamerge_engine(), deltamerge_engine("join", seed % 3 / 2))
    theirs, *results = (run_at(spark, merge.case, path, engine) for path, engine in zip(paths, engines, strict=True))
    if theirs.error is not None or any(result.error for result in results):
        pytest.skip("the merge fails in one engine or in both, which test_differential compares")
    if not any(theirs.counts or ()):
        pytest.skip("no row changes")
    expected = tracked(spark, paths[0], mark)
    for path in paths[1:]:
        assert tracked(spark, path, mark) == expected, f"{merge}\n{path.name}"
        assert high_water_mark(open_log(str(path)).snapshot().domains) >= mark


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_keep_their_ids_through_updates_and_deletes(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    merge, rng = with_tracking(seed), random.Random(seed)
    expected, found = tmp_path / "theirs", tmp_path / "ours"
    make_table(spark, merge, expected)
    copy_table(expected, found)
    mark = high_water_mark(open_log(str(expected)).snapshot().domains)
    spark.conf.set("spark.deltamerge.strategy", "auto")
    spark.conf.set("spark.deltamerge.rewriteShare", str(seed % 3 / 2))
    table = DeltaTable.forPath(spark, str(found))
    changed = rng.choice(merge.columns).quoted
    tests = []
    for number in range(3):
        before = len(list((found / "_delta_log").glob("*.json")))
        tests.append(test_of(rng, rng.choice(merge.columns), ""))
        count = spark.read.format("delta").load(str(found)).where(tests[-1]).count()
        if not count:
            continue
        if number == 1:
            spark.sql(f"DELETE FROM delta.`{expected}` WHERE {tests[-1]}")
            table.delete(tests[-1])
        else:
            spark.sql(f"UPDATE delta.`{expected}` SET {changed} = {changed} WHERE {tests[-1]}")
            table.update(tests[-1], {changed: changed})
        assert len(list((found / "_delta_log").glob("*.json"))) == before + 1
    assert tracked(spark, found, mark) == tracked(spark, expected, mark), f"{merge}\n{tests} {changed}"
