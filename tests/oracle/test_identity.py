"""Identity columns: numbers of both engines on one table, and merges that end as delta-spark's."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import deltamerge
from deltamerge.log.replay.table import open_log
from tests.oracle.engines import copy_table
from tests.oracle.test_evolution import failure

SOURCE = "SELECT * FROM VALUES (100, 1, 'x'), (200, 7, 'y'), (201, 8, 'z') AS v(id, k, v)"
CLAUSES = [
    "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (k, v) VALUES (s.k, s.v)",
    "WHEN NOT MATCHED THEN INSERT *",
    "WHEN MATCHED THEN UPDATE SET *",
    "WHEN NOT MATCHED AND s.k = 7 THEN INSERT (id, k) VALUES (s.id, s.k) WHEN NOT MATCHED THEN INSERT (k) VALUES (s.k)",
]


def make(spark: SparkSession, path: Path, kind: str, step: int) -> None:
    spark.sql(
        f"CREATE TABLE delta.`{path}` (id BIGINT GENERATED {kind} AS IDENTITY (START WITH 10 INCREMENT BY {step}), "
        "k INT, v STRING) USING delta"
    )
    spark.sql(f"INSERT INTO delta.`{path}` (k) VALUES (1), (2)")


def mark(path: Path) -> int:
    return int(open_log(str(path)).snapshot().schema.fields[0].metadata["delta.identity.highWaterMark"])


@pytest.mark.parametrize("clauses", CLAUSES, ids=["left out", "insert all", "update all", "both"])
@pytest.mark.parametrize("kind", ["ALWAYS", "BY DEFAULT"])
def test_a_merge_ends_as_delta_sparks(spark: SparkSession, tmp_path: Path, kind: str, clauses: str) -> None:
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    make(spark, theirs, kind, 3)
    copy_table(theirs, ours)
    text = f"MERGE INTO delta.`{{}}` t USING ({SOURCE}) s ON t.k = s.k {clauses}"
    expected = failure(lambda: spark.sql(text.format(theirs)).collect())
    assert failure(lambda: deltamerge.sql(spark, text.format(ours)).collect()) == expected
    found = [spark.read.format("delta").load(str(path)).orderBy("k").collect() for path in (ours, theirs)]
    assert [(row["k"], row["v"]) for row in found[0]] == [(row["k"], row["v"]) for row in found[1]]
    numbers = [row["id"] for row in found[0]]
    assert len(set(numbers)) == len(numbers)
    if len(numbers) == 4 and max(numbers) < 100:
        assert numbers[2] != numbers[3]
        assert mark(ours) == max(numbers)
    elif expected is None:
        assert mark(ours) == mark(theirs)


@pytest.mark.parametrize("step", [3, -3])
def test_both_engines_go_on_behind_each_others_numbers(spark: SparkSession, tmp_path: Path, step: int) -> None:
    path = tmp_path / "t"
    make(spark, path, "ALWAYS", step)
    insert = f"MERGE INTO delta.`{path}` t USING (SELECT {{}} AS k) s ON t.k = s.k WHEN NOT MATCHED THEN INSERT (k) VALUES (s.k)"
    deltamerge.sql(spark, insert.format(3))
    spark.sql(f"INSERT INTO delta.`{path}` (k) VALUES (4)")
    deltamerge.write(spark.sql("SELECT 5 AS k"), str(path), mode="append")
    spark.sql(insert.format(6))
    deltamerge.sql(spark, insert.format(7))
    rows = sorted((row["k"], row["id"]) for row in spark.read.format("delta").load(str(path)).collect())
    numbers = [number for _, number in rows]
    assert [k for k, _ in rows] == [1, 2, 3, 4, 5, 6, 7]
    assert sorted(numbers[1:], reverse=step < 0) == numbers[1:]
    assert len(set(numbers)) == 7
    assert {(number - 10) % 3 for number in numbers} == {0}
