"""Tables by name: of the session's catalog, whether Spark could read them or not, and columns qualified by their names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import deltamerge
from deltamerge.tables import DeltaTable
from tests.cases.running import condition_of
from tests.e2e.catalog import listed
from tests.e2e.named import ALIKE, CROSSED, MERGES, PLAIN, NamedMerge, Tables
from tests.e2e.refusals import refused
from tests.e2e.tables import conf, content, make

pytestmark = pytest.mark.local(reason="Spark keeps the catalog's tables, without a connector to the store")


@pytest.fixture
def changes(spark: SparkSession) -> Iterator[str]:
    """A view of rows 2 and 3."""
    spark.createDataFrame([(2, "B", 21), (3, "C", 30)], "id int, name string, n int").createOrReplaceTempView("changes")
    yield "changes"
    spark.catalog.dropTempView("changes")


def people(spark: SparkSession, path: Path) -> Path:
    """Rows 1 and 2."""
    make(spark, path, "id int, name string, n int", [(1, "a", 10), (2, "b", 20)])
    return path


@pytest.mark.parametrize("tables", [PLAIN, ALIKE, CROSSED], ids=["plain", "alike", "crossed"])
def test_columns_are_qualified_as_in_delta_spark(spark: SparkSession, tmp_path: Path, tables: Tables) -> None:
    merges = [merge for merge in MERGES if merge.tables is tables]
    before = spark.sql(f"SELECT * FROM VALUES {tables.target_rows}").collect()
    columns = tables.target.replace(": ", ":").lower()
    spark.sql(f"CREATE TABLE source ({tables.source}) USING parquet")
    try:
        spark.sql(f"INSERT INTO source VALUES {tables.source_rows}")
        for n, merge in enumerate(merges):
            path = tmp_path / str(n)
            make(spark, path, columns, [tuple(row) for row in before])
            with listed(spark, {"target": path}):
                assert _outcome(spark, merge, path) == merge.result, merge
    finally:
        spark.sql("DROP TABLE source")


def _outcome(spark: SparkSession, merge: NamedMerge, path: Path) -> tuple[object, ...] | str | None:
    try:
        if merge.builder:
            merge.run(DeltaTable.forName(spark, "target"), spark.table("source"))
        else:
            deltamerge.sql(spark, merge.text)
    except AnalysisException as error:
        return condition_of(error)
    return next((row for row in content(spark, path) if row[0] == 2), None)


def test_a_table_by_name_without_the_jar(spark: SparkSession, tmp_path: Path, changes: str) -> None:
    path, other = people(spark, tmp_path / "it's a place"), people(spark, tmp_path / "other")
    quoted = str(path).replace("'", "\\'")
    with listed(spark, {"people": quoted, "t_x": other, "tax": tmp_path / "tax"}):
        table = DeltaTable.forName(spark, "default.People")
        table.merge(spark.table("changes"), "people.id = changes.id").whenNotMatchedInsertAll().execute()
        assert content(spark, path) == [(1, "a", 10), (2, "b", 20), (3, "C", 30)]
        deltamerge.sql(
            spark,
            """WITH people AS (SELECT id, n FROM people WHERE id < 3)
            MERGE INTO t_x
            USING (SELECT p.id, default.t_x.n + p.n AS n FROM people p JOIN t_x ON p.id = t_x.id) s ON t_x.id = s.id
            WHEN MATCHED AND s.id = 1 THEN UPDATE SET n = s.n
            WHEN MATCHED THEN
                UPDATE SET n = (SELECT max(n) FROM default.people VERSION AS OF 1) + (SELECT count(*) FROM people)""",
        )
        assert content(spark, other) == [(1, "a", 20), (2, "b", 32)]
        deltamerge.sql(spark, "MERGE INTO people USING t_x ON people.id = default.t_x.id WHEN MATCHED THEN UPDATE SET n = t_x.n")
        assert content(spark, path) == [(1, "a", 20), (2, "b", 32), (3, "C", 30)]
        table.update("people.id = 1", {"default.people.n": "spark_catalog.default.people.n + 1"})
        table.delete("default.people.id = 3")
        assert sorted(map(tuple, table.toDF().select("people.id", "n").collect())) == [(1, 21), (2, 32)]
        assert sorted(map(tuple, deltamerge.sql(spark, "SELECT id, n FROM people").collect())) == [(1, 21), (2, 32)]


def test_tables_of_one_name_in_two_databases(spark: SparkSession, tmp_path: Path) -> None:
    path, other = people(spark, tmp_path / "one"), people(spark, tmp_path / "other")
    spark.sql("CREATE DATABASE elsewhere")
    try:
        with listed(spark, {"people": path, "elsewhere.people": other}):
            into = "MERGE INTO people USING elsewhere.people ON "
            action = "WHEN MATCHED AND people.id = 2 THEN UPDATE SET people.n = 0"
            with refused(path, AnalysisException, "AMBIGUOUS_REFERENCE", "`people`.`id`", "UPDATE condition", hint="AS t"):
                deltamerge.sql(spark, f"{into} default.people.id = elsewhere.people.id {action}")
            deltamerge.sql(
                spark,
                f"""{into} default.people.id = spark_catalog.elsewhere.people.id AND elsewhere.people.n > 10
                WHEN MATCHED THEN UPDATE SET people.n = default.people.n + elsewhere.people.n
                WHEN NOT MATCHED THEN INSERT (id, name) VALUES (people.id + 5, elsewhere.people.name)""",
            )
            assert content(spark, path) == [(1, "a", 10), (2, "b", 40), (6, "a", None)]
    finally:
        spark.sql("DROP DATABASE elsewhere CASCADE")


def test_a_source_keeps_the_name_of_its_table(spark: SparkSession, tmp_path: Path) -> None:
    """As delta-spark has it: through filters, projections and joins, for the columns that are the table's."""
    path = people(spark, tmp_path / "t")
    spark.sql("CREATE TABLE news USING parquet AS SELECT 2 AS id, 21 AS n")
    try:
        with listed(spark, {"people": path}):
            news, other = spark.table("default.news"), spark.createDataFrame([(2, 7)], "id int, k int")
            for source, condition, value in (
                (news.where("n > 1").select("id", "n"), "people.id = spark_catalog.default.news.id", "default.news.n"),
                (news.join(other, "id"), "people.id = news.id", F.col("default.news.n") + F.col("k") - F.lit(7)),
                (
                    news,
                    F.col("default.people.id") == F.col("default.news.id"),
                    F.when(F.col("default.news.n") > 1, F.expr("news.n")),
                ),
            ):
                table = DeltaTable.forName(spark, "people")
                table.merge(source, condition).whenMatchedUpdate(set={"n": value}).execute()
                assert content(spark, path) == [(1, "a", 10), (2, "b", 21)]
                table.update("id = 2", {"n": "0"})
    finally:
        spark.sql("DROP TABLE news")


def test_another_formats_table_over_a_delta_table_is_refused(spark: SparkSession, tmp_path: Path, changes: str) -> None:
    path = people(spark, tmp_path / "t")
    spark.sql(f"CREATE TABLE files USING parquet LOCATION '{path}'")
    merge = "MERGE INTO {0} t USING {1} s ON t.id = s.id WHEN MATCHED THEN DELETE"
    try:
        with refused(path, AnalysisException, "DELTA_MISSING_DELTA_TABLE", "as parquet", hint=f"{path}"):
            DeltaTable.forName(spark, "files")
        with refused(path, AnalysisException, "DELTA_TABLE_ONLY_OPERATION", "as parquet", hint="USING delta"):
            deltamerge.sql(spark, merge.format("files", "changes"))
        with refused(path, AnalysisException, "DELTA_INVALID_FORMAT", "deleted", hint="USING delta"):
            deltamerge.sql(spark, merge.format(f"delta.`{path}`", "files"))
    finally:
        spark.sql("DROP TABLE files")


def test_a_catalog_whose_class_is_not_there(spark: SparkSession, tmp_path: Path, changes: str) -> None:
    path = people(spark, tmp_path / "t")
    merge = "MERGE INTO {0} t USING {1} s ON t.id = s.id WHEN MATCHED THEN DELETE"
    with conf(spark, {"spark.sql.catalog.elsewhere": "io.delta.NoSuchCatalog"}):
        for text in (merge.format("elsewhere.db.t", "changes"), merge.format(f"delta.`{path}`", "elsewhere.db.t")):
            with pytest.raises(AnalysisException, match=r"CANNOT_LOAD_CATALOG.*elsewhere") as caught:
                deltamerge.sql(spark, text)
            assert "Unset the catalog's setting" in (caught.value.hint or "")  # type: ignore[attr-defined]
        with refused(path, AnalysisException, "DELTA_MISSING_DELTA_TABLE", "elsewhere", hint="Unset the catalog's setting"):
            DeltaTable.forName(spark, "elsewhere.db.t")


def test_names_that_are_no_delta_tables(spark: SparkSession, tmp_path: Path, changes: str) -> None:
    spark.sql("CREATE TABLE numbers USING parquet AS SELECT 1 AS id")
    try:
        for name, reason, hint in (
            ("changes", "it is a view", "delta.`path`"),
            ("numbers", "a table of the format parquet", "delta.`path`"),
            ("number", "cannot be found", "Did you mean numbers?"),
            ("defalt.numbers", "cannot be found", "There is no database defalt. Did you mean default.numbers?"),
            ("`a.b`", "cannot be found", "SHOW TABLES"),
            ("it's |*", "cannot be found", "SHOW TABLES"),
            ("a.b.c.d", "namespace", "delta.`path`"),
        ):
            with refused(tmp_path, AnalysisException, "DELTA_MISSING_DELTA_TABLE", "is not a Delta table", reason, hint=hint):
                DeltaTable.forName(spark, name)
    finally:
        spark.sql("DROP TABLE numbers")
