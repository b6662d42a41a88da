"""DELETE and UPDATE through DeltaTable, with and without deletion vectors."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import deltamerge
from deltamerge.tables import DeltaTable
from tests.e2e.catalog import listed

VECTORS = {"delta.enableDeletionVectors": "true"}


@pytest.fixture(params=[{}, VECTORS], ids=["copy-on-write", "vectors"])
def table(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> DeltaTable:
    """Ten rows in two partitions."""
    rows = spark.range(10).selectExpr("id", "id % 2 AS p", "CAST(id AS string) AS name").coalesce(1)
    deltamerge.write(rows, str(tmp_path / "t"), partition_by=["p"], properties=request.param)
    return DeltaTable.forPath(spark, str(tmp_path / "t"))


def ids(table: DeltaTable) -> list[int]:
    return sorted(row.id for row in table.toDF().collect())


def metrics(table: DeltaTable) -> dict[str, str]:
    row = table.history(1).collect()[0]
    return {"operation": row.operation, **row.operationMetrics}


def test_delete_by_condition(table: DeltaTable) -> None:
    table.alias("t").delete("t.id < 3 AND name <> '1'")
    assert ids(table) == [1, 3, 4, 5, 6, 7, 8, 9]
    found = metrics(table)
    assert (found["operation"], found["numDeletedRows"]) == ("DELETE", "2")
    assert int(found["numDeletionVectorsAdded"]) + int(found["numAddedFiles"]) == 1
    table.delete(F.col("id") >= 8)
    assert ids(table) == [1, 3, 4, 5, 6, 7]
    assert table.history().count() == 3


def test_delete_by_partition_opens_no_other_file(table: DeltaTable) -> None:
    table.delete("p = 1")
    assert ids(table) == [0, 2, 4, 6, 8]
    found = metrics(table)
    assert (found["numRemovedFiles"], found["numAddedFiles"], found["numDeletionVectorsAdded"]) == ("1", "0", "0")


def test_delete_all(table: DeltaTable) -> None:
    table.delete()
    assert ids(table) == []
    assert metrics(table)["numDeletedRows"] == "10"


def test_what_matches_nothing_commits_nothing(table: DeltaTable) -> None:
    table.delete("id > 100")
    table.update("id > 100", {"name": "'x'"})
    table.delete("CAST(NULL AS boolean)")
    assert table.history().count() == 1


def test_update_by_condition(table: DeltaTable) -> None:
    table.alias("t").update("t.id = 4", {"name": "concat(t.name, '!')", "p": F.lit(1)})
    rows = {row.id: (row.p, row.name) for row in table.toDF().collect()}
    assert rows[4] == (1, "4!")
    assert {id: row for id, row in rows.items() if id != 4} == {id: (id % 2, str(id)) for id in range(10) if id != 4}
    found = metrics(table)
    assert (found["operation"], found["numUpdatedRows"]) == ("UPDATE", "1")


def test_update_all(table: DeltaTable) -> None:
    table.update(set={"name": F.upper(F.concat(F.col("name"), F.lit("a")))})
    assert sorted(row.name for row in table.toDF().collect()) == [f"{id}A" for id in range(10)]


def test_unknown_columns_are_named(table: DeltaTable) -> None:
    with pytest.raises(AnalysisException, match="nowhere"):
        table.delete("nowhere = 1")
    with pytest.raises(AnalysisException, match="nowhere"):
        table.update(set={"nowhere": "1"})
    assert table.history().count() == 1


@pytest.mark.classic
def test_a_delete_evaluates_no_source(spark: SparkSession, table: DeltaTable) -> None:
    """Three jobs: the row that stands for the source is broadcast, the hits are shuffled to their files, the files written."""
    group = str(uuid.uuid4())
    spark.sparkContext.setLocalProperty("spark.jobGroup.id", group)
    try:
        table.delete("id = 1")
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)
    assert len(spark.sparkContext.statusTracker().getJobIdsForGroup(group)) <= 3


def test_a_plan_in_words_runs_nothing(spark: SparkSession, table: DeltaTable, tmp_path: Path) -> None:
    name = f"delta.`{tmp_path / 't'}`"
    for statement, verb in (
        (f"DELETE FROM {name} t WHERE t.id < 3", "DELETE FROM"),
        (f"UPDATE {name} SET name = 'x' WHERE p = 1", "UPDATE"),
    ):
        for mode in ("", "EXTENDED", "formatted", "COST", "CODEGEN"):
            (row,) = deltamerge.sql(spark, f"EXPLAIN {mode} {statement}").collect()
            assert row.plan.startswith(f"{verb} {tmp_path / 't'}, version 0\n")
            assert "plan:" in row.plan
    with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
        deltamerge.sql(spark, f"EXPLAIN DELETE FROM {name} WHERE nix = 1")
    assert len(ids(table)) == 10
    assert table.history().count() == 1


def test_an_inserts_plan_runs_nothing(spark: SparkSession, table: DeltaTable, tmp_path: Path) -> None:
    name = f"delta.`{tmp_path / 't'}`"
    for mode, said in (("", "Physical Plan"), ("EXTENDED", "Parsed Logical Plan"), ("FORMATTED", "Physical Plan")):
        (row,) = deltamerge.sql(spark, f"EXPLAIN {mode} INSERT INTO {name} SELECT * FROM {name} WHERE id > 3").collect()
        assert row.plan.startswith(f"INSERT INTO {tmp_path / 't'}, version 0\n")
        assert said in row.plan
    (row,) = deltamerge.sql(spark, f"EXPLAIN INSERT OVERWRITE {name} VALUES (1, 1, DEFAULT)").collect()
    assert row.plan.startswith(f"INSERT OVERWRITE {tmp_path / 't'}, version 0\n")
    with pytest.raises(AnalysisException, match="nix"):
        deltamerge.sql(spark, f"EXPLAIN INSERT INTO {name} SELECT nix FROM {name}").collect()
    assert len(ids(table)) == 10
    assert table.history().count() == 1


@pytest.mark.local(reason="the catalog's table is on a local disk")
def test_an_inserts_plan_of_a_table_that_spark_cannot_read(spark: SparkSession, tmp_path: Path) -> None:
    target, other = tmp_path / "t", tmp_path / "listed"
    for path in (target, other):
        deltamerge.write(spark.range(3).selectExpr("CAST(id AS INT) AS id"), str(path))
    with listed(spark, {"explained": other}):
        (row,) = deltamerge.sql(spark, f"EXPLAIN INSERT INTO delta.`{target}` SELECT id FROM explained").collect()
    assert row.plan.startswith(f"INSERT INTO {target}, version 0\n")
    assert "Physical Plan" in row.plan


@pytest.mark.local(reason="the catalog's table is on a local disk")
def test_a_querys_plan_reads_the_table_and_others_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    deltamerge.write(spark.range(3), str(tmp_path / "t"))
    names = f"delta.`{tmp_path / 't'}`", "planned"
    with listed(spark, {"planned": tmp_path / "t"}):
        for name in names:
            for mode in ("", "FORMATTED", "extended"):
                (row,) = deltamerge.sql(spark, f"EXPLAIN {mode} SELECT * FROM {name} WHERE id > 1").collect()
                assert "parquet" in row[0].lower()
            for statement in (f"TRUNCATE TABLE {name}", f"CREATE TABLE made USING delta AS SELECT * FROM {name}"):
                with pytest.raises(
                    AnalysisException, match=r"DELTAMERGE_UNSUPPORTED_STATEMENT\] EXPLAIN (TRUNCATE|CREATE) TABLE"
                ):
                    deltamerge.sql(spark, f"EXPLAIN {statement}")


@pytest.mark.local(reason="Spark writes the other table, without a connector to the store")
def test_a_plan_of_another_formats_table_is_sparks(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(3).write.parquet(str(tmp_path / "p"))
    (row,) = deltamerge.sql(spark, f"EXPLAIN SELECT * FROM parquet.`{tmp_path / 'p'}`").collect()
    assert "Physical Plan" in row.plan
