"""The change data feed is delta-spark's: read by it from our tables, by us from its tables, and by us from ours."""

from __future__ import annotations

import json
import os
import random
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import deltamerge
from deltamerge.tables import DeltaTable
from tests.oracle.cases import Merge
from tests.oracle.engines import DELTA_SPARK, copy_table, deltamerge_engine, make_table, run_merge
from tests.oracle.random_merges import make_merge
from tests.oracle.readers import Rows, counted

FEED = ("delta.enableChangeDataFeed", "true")
SEEDS = range(int(os.environ.get("DELTAMERGE_SEED", "0")), int(os.environ.get("DELTAMERGE_SEED", "0")) + 6)


def with_feed(seed: int) -> Merge:
    """The random merge of a seed into a table with a feed."""
    merge = make_merge(seed)
    return replace(merge, properties=tuple(dict([*merge.properties, FEED]).items()))


def theirs(spark: SparkSession, path: Path) -> Rows:
    """The feed as delta-spark reads it."""
    return rows(spark.read.format("delta").options(readChangeFeed="true", startingVersion="0").load(str(path)))


def ours(spark: SparkSession, path: Path) -> Rows:
    """The feed as deltamerge reads it."""
    return rows(deltamerge.read_changes(spark, str(path), 0))


def rows(frame: DataFrame) -> Rows:
    """Rows without version and time: delta-spark makes a version, too, where nothing changes."""
    return counted(frame.drop("_commit_version", "_commit_timestamp").toArrow())


def difference(spark: SparkSession, expected: Path, found: Path) -> str | None:
    """What any reading of our table's feed, or our reading of delta-spark's, has else than delta-spark has of its own."""
    truth = theirs(spark, expected)
    readings = {
        "ours of theirs": ours(spark, expected),
        "theirs of ours": theirs(spark, found),
        "ours of ours": ours(spark, found),
    }
    for name, reading in readings.items():
        if reading != truth:
            return f"{name}: only there {reading - truth}\nonly theirs of theirs {truth - reading}"
    return None


@pytest.mark.parametrize("seed", SEEDS)
def test_feed_of_a_merge_equals_delta_sparks(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    merge = with_feed(seed)
    if merge.evolves:
        pytest.skip("delta-spark reads no feed across a change of types; test_differential compares these feeds")
    make_table(spark, merge, tmp_path / "made")
    engines = {"theirs": DELTA_SPARK, "ours": deltamerge_engine(), "joined": deltamerge_engine("join", seed % 3 / 2)}
    tried = [run_merge(spark, merge, tmp_path / "made", tmp_path / name, engine, ()) for name, engine in engines.items()]
    if any(one.outcome.error for one in tried):
        pytest.skip("the merge fails in one engine or in both, which test_differential compares")
    for one in tried[1:]:
        problem = difference(spark, tried[0].path, one.path)
        assert problem is None, f"{merge}\n{one.path.name}\n{problem}"


@pytest.mark.parametrize("vectors", [False, True], ids=["copy-on-write", "vectors"])
@pytest.mark.parametrize("seed", range(6))
def test_feed_of_deletes_and_updates_equals_delta_sparks(spark: SparkSession, tmp_path: Path, seed: int, vectors: bool) -> None:
    rng = random.Random(seed)
    expected, found = made(spark, tmp_path, vectors)
    spark.conf.set("spark.deltamerge.rewriteShare", str(seed % 3 / 2))
    table = DeltaTable.forPath(spark, str(found))
    for _ in range(3):
        low = rng.randrange(10)
        test = f"id BETWEEN {low} AND {low + rng.randrange(4)}"
        if rng.random() < 0.5:
            spark.sql(f"DELETE FROM delta.`{expected}` WHERE {test}")
            table.delete(test)
        else:
            value = rng.choice(["v", "concat(v, '!')", "NULL"])
            spark.sql(f"UPDATE delta.`{expected}` SET v = {value} WHERE {test}")
            table.update(test, {"v": value})
    if rng.random() < 0.5:
        spark.sql(f"DELETE FROM delta.`{expected}`")
        table.delete()
    assert difference(spark, expected, found) is None


KINDS = {
    "update": ("WHEN MATCHED THEN UPDATE SET *", True, True),
    "delete": ("WHEN MATCHED THEN DELETE", True, True),
    "conditional delete": ("WHEN MATCHED AND s.v = 'new 3' THEN DELETE", True, True),
    "upsert": ("WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *", True, True),
    "insert": ("WHEN NOT MATCHED THEN INSERT *", False, False),
    "upsert that matches nothing": ("AND t.id > 100 WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *", False, False),
    "by source": ("WHEN NOT MATCHED BY SOURCE THEN DELETE", True, True),
}
STATEMENTS = {
    "DELETE FROM {} WHERE id = 3": (True, False),
    "DELETE FROM {}": (False, False),
    "UPDATE {} SET v = 'x'": (True, True),
}


@pytest.mark.parametrize("vectors", [False, True], ids=["copy-on-write", "vectors"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_merges_that_write_change_files(spark: SparkSession, tmp_path: Path, kind: str, vectors: bool) -> None:
    text, *expected = KINDS[kind]
    paths = made(spark, tmp_path, vectors)
    spark.createDataFrame([(3, "new 3"), (20, "new")], "id int, v string").createOrReplaceTempView("s")
    for path, run in zip(paths, (spark.sql, lambda text: deltamerge.sql(spark, text)), strict=True):
        run(f"MERGE INTO delta.`{path}` t USING s ON t.id = s.id {text}")
    assert [bool(change_files(path)) for path in paths] == [expected[vectors]] * 2
    assert difference(spark, *paths) is None


@pytest.mark.parametrize("vectors", [False, True], ids=["copy-on-write", "vectors"])
@pytest.mark.parametrize("text", STATEMENTS)
def test_the_statements_that_write_change_files(spark: SparkSession, tmp_path: Path, text: str, vectors: bool) -> None:
    paths = made(spark, tmp_path, vectors)
    spark.sql(text.format(f"delta.`{paths[0]}`"))
    table = DeltaTable.forPath(spark, str(paths[1]))
    if text.startswith("UPDATE"):
        table.update(set={"v": "'x'"})
    else:
        table.delete(text.partition(" WHERE ")[2] or None)
    assert [bool(change_files(path)) for path in paths] == [STATEMENTS[text][vectors]] * 2
    assert difference(spark, *paths) is None


def made(spark: SparkSession, folder: Path, vectors: bool) -> tuple[Path, Path]:
    """Two copies of a small table with a feed."""
    frame = spark.range(10).selectExpr("CAST(id AS int) id", "concat('old ', id) v").repartition(2)
    options = {FEED[0]: FEED[1], "delta.enableDeletionVectors": str(vectors).lower()}
    frame.write.format("delta").options(**options).save(str(folder / "theirs"))
    copy_table(folder / "theirs", folder / "ours")
    spark.conf.set("spark.deltamerge.strategy", "auto")
    spark.conf.set("spark.deltamerge.rewriteShare", "0.5")
    return folder / "theirs", folder / "ours"


def change_files(path: Path) -> list[str]:
    lines = (path / "_delta_log" / f"{1:020d}.json").read_text().splitlines()
    return [action["cdc"]["path"] for action in map(json.loads, lines) if "cdc" in action]
