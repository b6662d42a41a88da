"""Merges through the builder, by each strategy, on small tables, with touched files rewritten and with rows marked."""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import deltamerge
from deltamerge.errors import DeltaMergeError
from deltamerge.exceptions import DeltaMultipleMatchException
from deltamerge.spark.pyspark.adapter import is_connect
from deltamerge.tables import DeltaTable
from tests.e2e.tables import by_delta_rs, content, make, source, version

ROWS = [(1, "a", 10), (2, "b", 20), (3, "c", 30), (4, "d", 40)]
SCHEMA = "id int, name string, n int"


@pytest.fixture(params=["auto", "join"], autouse=True)
def strategy(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[str]:
    spark.conf.set("spark.deltamerge.strategy", request.param)
    yield request.param
    spark.conf.unset("spark.deltamerge.strategy")


@pytest.fixture(params=["rewritten", "marked", "mixed"], autouse=True)
def vectors(request: pytest.FixtureRequest, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[bool]:
    """What becomes of touched files: rewritten, marked, or rewritten only when most of their rows are gone."""
    marks = request.param != "rewritten"
    monkeypatch.setattr(sys.modules[__name__], "make", functools.partial(make, vectors=marks))
    if request.param == "marked":
        spark.conf.set("spark.deltamerge.rewriteShare", "1")
    yield marks
    spark.conf.unset("spark.deltamerge.rewriteShare")


def test_upsert_updates_matched_and_inserts_the_others(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS, files=2)
    changes = source(spark, SCHEMA, [(2, "B", 21), (9, "z", 90)])
    row = table.merge(changes, "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute().collect()[0]
    assert row.asDict() == {"num_affected_rows": 2, "num_updated_rows": 1, "num_deleted_rows": 0, "num_inserted_rows": 1}
    assert content(spark, tmp_path / "t") == [(1, "a", 10), (2, "B", 21), (3, "c", 30), (4, "d", 40), (9, "z", 90)]


def test_clauses_apply_in_order_and_only_the_first(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS)
    changes = source(spark, SCHEMA, [(1, "x", 0), (2, "y", 0), (3, "z", 0), (7, "n", 1), (8, "o", 2)])
    report = (
        table.merge(changes, "t.id = s.id")
        .whenMatchedDelete("t.n = 10")
        .whenMatchedUpdate("s.name = 'y'", {"name": "concat(t.name, s.name)"})
        .whenMatchedUpdate(set={"n": F.col("t.n") + 1})
        .whenNotMatchedInsert("s.n = 1", {"id": "s.id", "name": F.lit("one")})
        .whenNotMatchedInsertAll("s.n > 100")
        .run()
    )
    assert content(spark, tmp_path / "t") == [(2, "by", 20), (3, "c", 31), (4, "d", 40), (7, "one", None)]
    assert (report.updated, report.deleted, report.inserted) == (2, 1, 1)


def test_not_matched_by_source(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS, files=2)
    changes = source(spark, "id int, name string", [(1, "A"), (5, "E")])
    report = (
        table.merge(changes, "t.id = s.id")
        .whenMatchedUpdate(set={"name": "s.name"})
        .whenNotMatchedInsert(values={"id": "id", "name": "name"})
        .whenNotMatchedBySourceUpdate("n >= 40", {"name": "'old'", "n": "n * 2"})
        .whenNotMatchedBySourceDelete("t.id = 2")
        .run()
    )
    assert content(spark, tmp_path / "t") == [(1, "A", 10), (3, "c", 30), (4, "old", 80), (5, "E", None)]
    assert report.metrics["numTargetRowsNotMatchedBySourceUpdated"] == 1
    assert report.metrics["numTargetRowsNotMatchedBySourceDeleted"] == 1


def test_null_keys_match_only_null_safe(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, [(None, "a", 1), (1, "b", 2)])
    changes = source(spark, SCHEMA, [(None, "x", 9)])
    assert table.merge(changes, "t.id = s.id").whenMatchedUpdateAll().run().updated == 0
    assert table.merge(changes, "t.id <=> s.id").whenMatchedUpdateAll().run().updated == 1
    assert content(spark, tmp_path / "t") == [(1, "b", 2), (None, "x", 9)]


def test_float_keys_follow_spark(spark: SparkSession, tmp_path: Path) -> None:
    nan, negative_zero = float("nan"), -0.0
    table = make(spark, tmp_path / "t", "k double, v string", [(nan, "nan"), (0.0, "zero"), (1.5, "x")])
    changes = source(spark, "k double, v string", [(nan, "NAN"), (negative_zero, "ZERO")])
    assert table.merge(changes, "t.k = s.k").whenMatchedUpdate(set={"v": "s.v"}).run().updated == 2
    assert {row[1] for row in content(spark, tmp_path / "t")} == {"NAN", "ZERO", "x"}


def test_composite_keys_of_every_type(spark: SparkSession, tmp_path: Path) -> None:
    schema = "a bigint, b string, c decimal(10,2), d date, e timestamp, f boolean, v int"
    row = (1, "é", Decimal("1.25"), date(2020, 1, 2), datetime(2020, 1, 2, 3, 4, 5, 678901), True)
    other = (1, "é", Decimal("1.25"), date(2020, 1, 2), datetime(2020, 1, 2, 3, 4, 5, 678902), True)
    table = make(spark, tmp_path / "t", schema, [(*row, 1), (*other, 2)])
    keys = " AND ".join(f"t.{k} = s.{k}" for k in "abcdef")
    table.merge(source(spark, schema, [(*row, 7)]), keys).whenMatchedUpdateAll().execute()
    assert [r[-1] for r in content(spark, tmp_path / "t")] == [7, 2]


def test_several_source_rows_for_one_target_row_are_named(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS)
    changes = source(spark, SCHEMA, [(2, "x", 1), (2, "y", 2), (3, "z", 3)])
    with pytest.raises(DeltaMultipleMatchException) as caught:
        table.merge(changes, "t.id = s.id").whenMatchedUpdateAll().execute()
    assert caught.value.condition == "DELTA_MULTIPLE_SOURCE_ROW_MATCHING_TARGET_ROW_IN_MERGE"
    assert "1 target row" in str(caught.value)
    assert caught.value.collisions[0]["key"] == {"id": 2}
    assert sorted(r["name"] for r in caught.value.collisions[0]["rows"]) == ["x", "y"]
    assert version(tmp_path / "t") == 0
    assert not list((tmp_path / "t").glob("*.tmp"))


def test_conditions_may_pick_one_of_several_source_rows(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS)
    changes = source(spark, SCHEMA, [(2, "x", 1), (2, "y", 2)])
    assert table.merge(changes, "t.id = s.id").whenMatchedUpdateAll("s.n = 2").run().updated == 1
    assert (2, "y", 2) in content(spark, tmp_path / "t")


def test_unconditional_delete_tolerates_duplicates_and_counts_once(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS)
    changes = source(spark, SCHEMA, [(2, "x", 1), (2, "y", 2), (9, "n", 0), (9, "n", 0)])
    report = table.merge(changes, "t.id = s.id").whenMatchedDelete().whenNotMatchedInsertAll().run()
    assert (report.deleted, report.inserted) == (1, 2)
    assert content(spark, tmp_path / "t") == [(1, "a", 10), (3, "c", 30), (4, "d", 40), (9, "n", 0), (9, "n", 0)]


def test_nothing_touched_commits_nothing(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS)
    report = table.merge(source(spark, SCHEMA, [(1, "x", 1)]), "t.id = s.id").whenMatchedUpdateAll("s.n > 5").run()
    assert (report.version, report.affected) == (None, 0)
    assert version(tmp_path / "t") == 0


def test_updating_a_partition_column_moves_the_row(spark: SparkSession, tmp_path: Path) -> None:
    table = make(
        spark, tmp_path / "t", "id int, p string, q int", [(1, "a", 1), (2, "a", 1), (3, "b", 2)], partition_by=["p", "q"]
    )
    changes = source(spark, "id int, p string, q int", [(1, "b", 2), (3, None, 2), (9, "x/y=z", 3)])
    table.merge(changes, "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    expected = [(1, "b", 2), (2, "a", 1), (3, None, 2), (9, "x/y=z", 3)]
    assert content(spark, tmp_path / "t") == sorted(expected)
    assert by_delta_rs(tmp_path / "t", "SELECT id, p, q FROM t") == sorted(expected)


def test_untouched_files_stay(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS, files=4)
    before = set(deltalake.DeltaTable(str(tmp_path / "t")).file_uris())
    report = table.merge(source(spark, SCHEMA, [(3, "C", 0)]), "t.id = s.id").whenMatchedUpdateAll().run()
    after = set(deltalake.DeltaTable(str(tmp_path / "t")).file_uris())
    assert len(before & after) == 3
    assert [step.files for step in report.funnel] == [4, 4, 1]


def test_a_search_condition_without_keys(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS, files=2)
    changes = source(spark, "low int, high int", [(15, 35)])
    report = table.merge(changes, "t.n BETWEEN s.low AND s.high").whenMatchedUpdate(set={"name": "'mid'"}).run()
    assert report.updated == 2


def test_source_is_evaluated_once(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", "id int, v double", [(i, 0.0) for i in range(50)])
    changes = spark.range(100).select(F.col("id").cast("int"), F.rand().alias("v")).alias("s")
    table.merge(changes, "t.id = s.id").whenMatchedUpdateAll("s.v < 0.5").whenNotMatchedInsertAll("s.v < 0.5").execute()
    values = [v for _, v in content(spark, tmp_path / "t")]
    assert all(v < 0.5 for v in values)


def test_columns_bound_to_their_frames(spark: SparkSession, tmp_path: Path) -> None:
    table = DeltaTable.forPath(spark, _path(make(spark, tmp_path / "t", SCHEMA, ROWS), tmp_path))
    target, changes = table.toDF(), spark.createDataFrame([(2, "x", 5), (9, "y", 6)], SCHEMA)
    (
        table.merge(changes, target["id"] == changes["id"])
        .whenMatchedUpdate(changes["n"] > 1, {"name": F.concat(target["name"], changes["name"])})
        .whenNotMatchedInsert(values={"id": changes["id"], "name": F.upper(changes["name"])})
        .execute()
    )
    assert content(spark, tmp_path / "t") == [(1, "a", 10), (2, "bx", 20), (3, "c", 30), (4, "d", 40), (9, "Y", None)]


def test_fields_of_columns_bound_to_their_frames(spark: SparkSession, tmp_path: Path) -> None:
    schema = "id int, a int, st struct<a: int, b: struct<a: int>>"
    table = DeltaTable.forPath(spark, _path(make(spark, tmp_path / "t", schema, [(1, 10, (11, (12,))), (2, 20, None)]), tmp_path))
    target, changes = table.toDF(), spark.createDataFrame([(1, 50, (51, (52,))), (9, 90, (91, (92,)))], schema).alias("s")
    (
        table.merge(changes, target["id"] == changes["s.id"])
        .whenMatchedUpdate(changes["st.b.a"] == 52, {"a": changes["st.a"] + target["st.a"] * 100})
        .whenNotMatchedInsert(changes["s.st.a"] == 91, {"id": changes["st.b.a"], "a": changes["s.a"]})
        .execute()
    )
    assert content(spark, tmp_path / "t") == [(1, 1151, (11, (12,))), (2, 20, None), (92, 90, None)]


@pytest.mark.connect
def test_a_source_named_as_one_of_its_columns(spark: SparkSession, tmp_path: Path) -> None:
    """By Spark's order of resolution `s.id` is the alias's column `id` and no field of the column `s`."""
    table = make(spark, tmp_path / "t", "id int, n int", [(1, 10), (2, 20)])
    changes = spark.createDataFrame([((5, 6), 1, 7)], "s struct<x: int, y: int>, id int, n int").alias("s")
    built = table.merge(changes, F.col("t.id") == changes["s.id"])
    built.whenMatchedUpdate(set={"n": changes["s.n"] * 100 + changes["s.x"] * 10 + changes["s.s.y"]}).execute()
    assert content(spark, tmp_path / "t") == [(1, 756), (2, 20)]


@pytest.mark.connect
@pytest.mark.parametrize("type", ["struct<id: int, n: int>", "map<string, int>", "array<struct<id: int, n: int>>"])
def test_an_alias_goes_before_a_column_that_holds_something_by_that_name(spark: SparkSession, tmp_path: Path, type: str) -> None:
    table = make(spark, tmp_path / "t", "id int, n int", [(1, 10), (2, 20)])
    value = {"s": (2, 6), "m": {"id": 2, "n": 6}, "a": [(2, 6)]}[type[0]]
    changes = spark.createDataFrame([(value, 1, 7), (value, 2, 8)], f"s {type}, id int, n int").alias("s").where("id = 1")
    table.merge(changes, F.col("t.id") == changes["s.id"]).whenMatchedUpdate(set={"n": changes["s.n"]}).execute()
    assert content(spark, tmp_path / "t") == [(1, 7), (2, 20)]


@pytest.mark.connect
def test_a_field_of_a_frame_that_gets_its_alias_later(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", "id int, n int", [(1, 10), (2, 20)])
    rows = spark.createDataFrame([((2, 6), 1, 7)], "s struct<id: int, n: int>, id int, n int")
    table.merge(rows.alias("s"), F.col("t.id") == rows["s.id"]).whenMatchedUpdate(set={"n": rows["s.n"]}).execute()
    assert content(spark, tmp_path / "t") == [(1, 10), (2, 6)]


@pytest.mark.connect
def test_a_bound_name_that_could_be_two_columns(spark: SparkSession, tmp_path: Path) -> None:
    """Classic Spark knows which one it is; on Connect it is refused rather than guessed."""
    table = make(spark, tmp_path / "t", "id int, n int", [(1, 10), (2, 20)])
    changes = spark.sql("SELECT named_struct('id', 2, 'n', 6) AS s, 1 AS id, 7 AS n")
    built = table.merge(changes.alias("s"), F.col("t.id") == changes["s.id"]).whenMatchedUpdate(set={"n": changes["s.n"]})
    if is_connect(spark):
        with pytest.raises(DeltaMergeError, match=r"s\.id") as caught:
            built.execute()
        assert caught.value.getCondition() == "DELTAMERGE_AMBIGUOUS_BOUND_COLUMN"
        assert version(tmp_path / "t") == 0
    else:
        built.execute()
        assert content(spark, tmp_path / "t") == [(1, 10), (2, 6)]


def _path(table: DeltaTable, folder: Path) -> str:
    return str(folder / "t")


def test_the_target_as_its_own_source(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS)
    changes = deltamerge.read(spark, str(tmp_path / "t")).where("id < 3").alias("s")
    report = table.merge(changes, "t.id = s.id").whenMatchedUpdate(set={"n": "t.n + s.n"}).whenNotMatchedBySourceDelete().run()
    assert (report.updated, report.deleted) == (2, 2)
    assert content(spark, tmp_path / "t") == [(1, "a", 20), (2, "b", 40)]


def test_names_that_need_quoting(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    deltalake.write_deltalake(path, deltalake_table({"a.b": [1, 2], "path": ["x", "y"], "o`k": [1, 1], "t": [7, 8]}))
    changes = spark.createDataFrame([(2, "Y", 5, 9), (3, "Z", 6, 9)], "`a.b` long, path string, `o``k` long, t long")
    table = DeltaTable.forPath(spark, path).alias("t")
    table.merge(changes.alias("s"), "t.`a.b` = s.`a.b`").whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    assert content(spark, tmp_path / "t") == [(1, "x", 1, 7), (2, "Y", 5, 9), (3, "Z", 6, 9)]


def deltalake_table(columns: dict[str, list[object]]) -> object:

    return pa.table(columns)
