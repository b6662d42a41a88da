"""Updates of some columns on tables with deletion vectors: what a row keeps is read with its key, where that spares a reading."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import deltamerge
from deltamerge.errors import DeltaMergeError
from deltamerge.merge.execute.attempts import Ran
from deltamerge.spark.session.checkpoints import _KEPT, checkpointed, give_back
from deltamerge.tables import DeltaMergeBuilder, DeltaTable
from deltamerge.worker.scan.outcomes import TooLarge
from tests.e2e.commits import put_commit
from tests.e2e.tables import LARGE_SOURCES, conf, content, make, source, version
from tests.e2e.vectors import vectors_of

SCHEMA = "id int, part string, n int, name string, s struct<a: int, b: array<string>>, m map<string, double>"
ROWS: list[tuple[Any, ...]] = [
    (
        number,
        f"p{number % 2}",
        None if number % 3 == 0 else number * 10,
        f"row {number}",
        None if number % 4 == 0 else (number, [str(number), None]),
        None if number % 5 == 0 else {"k": number / 2},
    )
    for number in range(20)
]
CHANGES = [(2, 900, "two"), (3, 5, "three"), (11, None, "eleven"), (99, 1, "none")]


def merge(
    spark: SparkSession, path: Path, partition_by: tuple[str, ...] = ("part",), properties: dict[str, str] | None = None
) -> DeltaMergeBuilder:
    both = {"delta.enableDeletionVectors": "true", **(properties or {})}
    table = make(spark, path, SCHEMA, ROWS, partition_by=partition_by, files=2, properties=both)
    return table.merge(source(spark, "id int, n int, name string", CHANGES), "t.id = s.id")


def updated(number: int, **values: Any) -> tuple[Any, ...]:
    names = ("id", "part", "n", "name", "s", "m")
    return tuple(values.get(name, value) for name, value in zip(names, ROWS[number], strict=True))


def rows_of(spark: SparkSession, path: Path) -> dict[int, Any]:
    """Each row by its id, as Python values."""
    return {row[0]: (*row[:4], None if row[4] is None else tuple(row[4]), row[5]) for row in content(spark, path)}


@pytest.mark.usefixtures("strategy")
@pytest.mark.parametrize("partition_by", [(), ("part",)])
def test_rows_keep_what_their_clause_does_not_set(
    spark: SparkSession, tmp_path: Path, runs: list[Ran], partition_by: tuple[str, ...], strategy: str
) -> None:
    built = merge(spark, tmp_path / "t", partition_by)
    built = built.whenMatchedUpdate("s.n > 100", {"n": "s.n + t.id"}).whenMatchedDelete("s.n = 5")
    report = built.whenMatchedUpdate(set={"name": "s.name"}).whenNotMatchedInsert(values={"id": "s.id", "name": "s.name"}).run()
    expected = {row[0]: row for row in ROWS if row[0] != 3}
    expected |= {2: updated(2, n=902), 11: updated(11, name="eleven"), 99: (99, None, None, "none", None, None)}
    assert rows_of(spark, tmp_path / "t") == expected
    assert sum(vectors_of(tmp_path / "t").values()) == 3
    assert (report.metrics["numTargetRowsUpdated"], report.metrics["numTargetRowsCopied"]) == (2, 0)
    assert early_columns(runs) == ([()] if strategy == "join" else [("id", "part", "n", "name", "s", "m")])


def test_the_plan_names_the_columns_that_are_kept(spark: SparkSession, tmp_path: Path) -> None:
    text = "1. broadcast, id, part, n, s, m read together with the keys"
    built = merge(spark, tmp_path / "t").whenMatchedUpdate("s.n > 100", {"name": "s.name", "n": "s.n"})
    assert "what updates keep is read afterwards: not every matched row is updated" in built.explain()
    built = built.whenMatchedUpdate(set={"name": "s.name"})
    assert text in built.explain()
    with conf(spark, {"spark.deltamerge.strategy": "join"}):
        assert "read together" not in built.explain()


def early_columns(runs: list[Ran]) -> list[tuple[str, ...]]:
    """For each merge the columns that were to be read together with the keys."""
    return [getattr(run.plan.attempts[0], "early_columns", ()) for run in runs]


@pytest.mark.usefixtures("strategy")
def test_a_column_of_the_target_is_copied(spark: SparkSession, tmp_path: Path) -> None:
    built = merge(spark, tmp_path / "t").whenMatchedUpdate(set={"name": "t.part", "n": "t.id", "s": "t.s"})
    built.whenNotMatchedBySourceUpdate("t.id > 17", {"n": "t.id", "name": "t.part"}).execute()
    changed = {number: updated(number, name=f"p{number % 2}", n=number) for number in (2, 3, 11, 18, 19)}
    assert rows_of(spark, tmp_path / "t") == {row[0]: row for row in ROWS} | changed


def test_rows_that_are_too_many_are_read_twice(
    spark: SparkSession, tmp_path: Path, limit: Callable[..., None], runs: list[Ran]
) -> None:
    limit(early_bytes=0)
    merge(spark, tmp_path / "t").whenMatchedUpdate(set={"name": "s.name"}).execute()
    assert early_columns(runs) == [()]
    assert rows_of(spark, tmp_path / "t")[11] == updated(11, name="eleven")


def test_rows_that_turn_out_too_large_are_read_twice(
    spark: SparkSession, tmp_path: Path, limit: Callable[..., None], runs: list[Ran]
) -> None:
    limit(early_bytes=1_000)
    table = make(spark, tmp_path / "t", "id int, k int, name string", [(n, n % 2, "a") for n in range(400)], vectors=True)
    changes = source(spark, "k int, name string", [(1, "b")])
    table.merge(changes, "t.k = s.k").whenMatchedUpdate(set={"name": "s.name"}).execute()
    ((failed, outcome),) = runs[0].ended
    assert (failed, type(outcome)) == (runs[0].plan.attempts[0], TooLarge)
    assert early_columns(runs) != [()]
    assert runs[0].attempt == runs[0].plan.attempts[1]
    assert content(spark, tmp_path / "t") == [(n, n % 2, "ab"[n % 2]) for n in range(400)]


@pytest.mark.parametrize("property", ["delta.enableChangeDataFeed", "delta.enableRowTracking"])
def test_rows_with_more_to_them_are_read_as_they_are(spark: SparkSession, tmp_path: Path, runs: list[Ran], property: str) -> None:
    merge(spark, tmp_path / "t", properties={property: "true"}).whenMatchedUpdate(set={"name": "s.name"}).execute()
    assert early_columns(runs) == [()]
    assert rows_of(spark, tmp_path / "t")[11] == updated(11, name="eleven")


def test_texts_of_fixed_length_are_written_as_they_are(spark: SparkSession, tmp_path: Path, runs: list[Ran]) -> None:
    """They are padded where they are read."""
    rows = spark.createDataFrame([(1, 10, "ab"), (2, 20, "cd")], "id int, n int, code string")
    code = F.col("code").alias("code", metadata={"__CHAR_VARCHAR_TYPE_STRING": "char(4)"})
    path, properties = str(tmp_path / "t"), {"delta.enableDeletionVectors": "true"}
    deltamerge.write(rows.select("id", "n", code), path, properties=properties)
    built = DeltaTable.forPath(spark, path).alias("t").merge(source(spark, "id int, n int", [(2, 21)]), "t.id = s.id")
    built.whenMatchedUpdate(set={"n": "s.n"}).execute()
    assert early_columns(runs) == [()]
    assert content(spark, tmp_path / "t") == [(1, 10, "ab  "), (2, 21, "cd  ")]


@pytest.mark.local(reason="the schema is changed by a commit written with files")
def test_nulls_that_other_writers_left_where_none_may_be_stay(spark: SparkSession, tmp_path: Path, runs: list[Ran]) -> None:
    properties = {"delta.enableDeletionVectors": "true"}
    make(spark, tmp_path / "t", "id int, n int, a array<int>", [(1, 10, [1]), (2, 20, [2, None])], properties=properties)
    log = tmp_path / "t" / "_delta_log" / f"{0:020d}.json"
    put_commit(log, log.read_text().replace('containsNull\\":true', 'containsNull\\":false'))
    table = DeltaTable.forPath(spark, str(tmp_path / "t")).alias("t")
    table.merge(source(spark, "id int, n int", [(2, 21)]), "t.id = s.id").whenMatchedUpdate(set={"n": "s.n"}).execute()
    assert early_columns(runs) == [()]
    actions = [json.loads(line) for line in (log.parent / f"{1:020d}.json").read_text().splitlines()]
    (name,) = [action["add"]["path"] for action in actions if "add" in action and action["add"].get("deletionVector") is None]
    assert pq.read_table(tmp_path / "t" / name, columns=["id", "n", "a"]).to_pylist() == [{"id": 2, "n": 21, "a": [2, None]}]


def test_rows_that_may_not_change_are_read_when_they_do(spark: SparkSession, tmp_path: Path, runs: list[Ran]) -> None:
    merge(spark, tmp_path / "t").whenMatchedUpdate("s.n > 100", {"name": "s.name"}).execute()
    assert early_columns(runs) == [()]
    assert {number: row[3] for number, row in rows_of(spark, tmp_path / "t").items() if number in (2, 3)} == {
        2: "two",
        3: "row 3",
    }


def test_rows_that_go_are_not_read(spark: SparkSession, tmp_path: Path, runs: list[Ran]) -> None:
    merge(spark, tmp_path / "t").whenMatchedUpdate("s.n > 100", {"name": "s.name"}).whenMatchedDelete().execute()
    assert early_columns(runs) == [()]
    found = rows_of(spark, tmp_path / "t")
    assert (found[2], 3 in found, 11 in found) == (updated(2, name="two"), False, False)


def test_an_evolving_table_is_read_as_it_will_be(spark: SparkSession, tmp_path: Path, runs: list[Ran]) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS, vectors=True)
    changes = source(spark, "id int, extra int", [(4, 40)])
    table.merge(changes, "t.id = s.id").withSchemaEvolution().whenMatchedUpdate(set={"extra": "s.extra"}).execute()
    assert early_columns(runs) == [()]
    assert [row[6] for row in content(spark, tmp_path / "t") if row[0] in (4, 5)] == [40, None]


def test_several_source_rows_for_a_target_row_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS, vectors=True)
    built = table.merge(source(spark, "id int, n int", [(4, 1), (4, 2)]), "t.id = s.id").whenMatchedUpdate(set={"n": "s.n"})
    with pytest.raises(DeltaMergeError) as caught:
        built.execute()
    assert caught.value.getCondition() == "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE"
    assert version(tmp_path / "t") == 0


def test_a_source_that_is_not_held_is_joined(spark: SparkSession, tmp_path: Path, limit: Callable[..., None]) -> None:
    limit(**LARGE_SOURCES)
    with conf(spark, {"spark.deltamerge.strategy": "auto"}):
        merge(spark, tmp_path / "t").whenMatchedUpdate(set={"name": "s.name"}).execute()
    assert rows_of(spark, tmp_path / "t")[11] == updated(11, name="eleven")


@pytest.mark.connect
def test_materialized_rows_stay_as_long_as_a_frame_of_them(spark: SparkSession) -> None:
    found = checkpointed(spark.range(5)).where("id > 1")
    gc.collect()
    give_back()
    assert sorted(row.id for row in found.collect()) == [2, 3, 4]
    del found
    gc.collect()
    give_back()
    assert [kept for kept in _KEPT if kept.session() is spark] == []
