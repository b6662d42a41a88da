"""Tables made and replaced by the builder and by SQL, without delta-spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import types as T

import deltamerge
from deltamerge import tables
from deltamerge.tables import DeltaTable, IdentityGenerator
from tests.e2e.creations import CREATIONS, REFUSALS, Refusal, is_empty
from tests.e2e.tables import conf


def rows(table: DeltaTable) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in table.toDF().collect())


def actions(path: Path, version: int) -> dict[str, Any]:
    text = (path / "_delta_log" / f"{version:020}.json").read_text()
    return {kind: value for line in text.splitlines() for kind, value in json.loads(line).items()}


def test_a_table_has_what_its_builder_says(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    (build, ignored, replaced) = CREATIONS["whole"]
    table = build(tables, spark, path).execute()
    assert [(f.name, f.dataType, f.nullable) for f in table.toDF().schema.fields] == [
        ("id", T.LongType(), True),
        ("n", T.IntegerType(), False),
        ("g", T.IntegerType(), True),
        ("p", T.StringType(), True),
    ]
    assert table.toDF().schema["n"].metadata["comment"] == "how many"
    detail = table.detail().first()
    assert detail is not None
    assert (detail.description, detail.partitionColumns) == ("orders", ["p"])
    assert detail.properties == {"delta.enableChangeDataFeed": "true", "team": "sales"}
    deltamerge.write(spark.createDataFrame([(1, "a"), (2, "b")], "n INT, p STRING").coalesce(1), path, "append")
    assert [row[1:] for row in rows(table)] == [(1, 2, "a"), (2, 3, "b")]
    assert rows(table)[0][0] == 5
    assert rows(ignored(tables, spark, path).execute()) == rows(table)
    with pytest.raises(AnalysisException, match=r"\[TABLE_OR_VIEW_ALREADY_EXISTS\]"):
        build(tables, spark, path).execute()
    assert replaced(tables, spark, path).execute().toDF().columns == ["x", "y"]
    history = table.history().select("operation", "operationParameters").collect()
    assert [row.operation for row in history] == ["REPLACE TABLE", "WRITE", "CREATE TABLE"]
    assert history[0].operationParameters["description"] is None
    assert deltamerge.read(spark, path, 1).count() == 2
    assert "remove" in actions(tmp_path / "t", 2)


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: str(refusal.condition))
def test_what_can_not_be_is_refused_before_anything_is_written(spark: SparkSession, tmp_path: Path, refusal: Refusal) -> None:
    with pytest.raises(PySparkException) as caught:
        refusal.build(tables, spark, str(tmp_path / "t")).execute()
    assert caught.value.getCondition() == refusal.condition
    assert is_empty(tmp_path / "t")


def test_bad_arguments_have_the_messages_of_delta_spark(spark: SparkSession, tmp_path: Path) -> None:
    builder = DeltaTable.create(spark).location(str(tmp_path / "t"))
    wrong: list[tuple[Any, type[Exception], str]] = [
        (lambda: builder.tableName(1), TypeError, "Identifier must be str. Found 1 with type <class 'int'>"),  # type: ignore[arg-type]
        (lambda: builder.addColumn("a", 1), TypeError, "Column data type must be str or DataType."),  # type: ignore[arg-type]
        (lambda: builder.addColumn("a", "int", nullable=1), TypeError, "Column nullable must be bool."),  # type: ignore[arg-type]
        (lambda: builder.addColumns(1), TypeError, "Schema must be StructType or a list of StructField."),  # type: ignore[arg-type]
        (lambda: builder.partitionedBy(1, "1"), TypeError, "Partitioning column must be str."),  # type: ignore[arg-type]
        (lambda: builder.clusterBy([1]), TypeError, "Clustering column must be str."),  # type: ignore[list-item]
        (lambda: builder.property("1", 1), TypeError, "Key and value of property must be string."),  # type: ignore[arg-type]
        (
            lambda: builder.addColumn("a", "bigint", generatedAlwaysAs=IdentityGenerator(step=0)),
            ValueError,
            "Column identity generation requires step to be non-zero.",
        ),
        (lambda: builder.addColumn("a", "1"), PySparkException, "'1' is no data type"),
    ]
    for call, kind, message in wrong:
        with pytest.raises(kind, match=message.replace(".", r"\.")):
            call()
    column = DeltaTable.columnBuilder(spark, "a").comment("x")
    with pytest.raises(AnalysisException, match="DELTA_COLUMN_MISSING_DATA_TYPE"):
        column.build()
    generated = column.dataType("BIGINT").generatedByDefaultAsIdentity(3).nullable(False).build()
    assert builder.addColumns([generated]).execute().toDF().schema["a"].nullable is False


@pytest.mark.parametrize("name", ["clustered", "mapped", "vectors", "tracked"])
def test_rows_are_written_into_tables_of_every_kind(spark: SparkSession, tmp_path: Path, name: str) -> None:
    path = str(tmp_path / "t")
    with conf(spark, {"spark.databricks.delta.properties.defaults.checkpointInterval": "1"}):
        for build in CREATIONS[name]:
            table = build(tables, spark, path).execute()
    (column,) = table.toDF().columns
    source = spark.createDataFrame([(1,)], f"{column} INT").alias("s")
    table.alias("t").merge(source, f"t.{column} = s.{column}").whenNotMatchedInsertAll().execute()
    assert rows(DeltaTable.forPath(spark, path)) == [(1,)]
    assert (tmp_path / "t" / "_delta_log" / f"{len(CREATIONS[name]):020}.checkpoint.parquet").exists()


SQL = """CREATE TABLE delta.`{path}` (
  id BIGINT GENERATED BY DEFAULT AS IDENTITY (START WITH 10 INCREMENT BY -3), a INT DEFAULT 3 COMMENT 'a, b',
  s STRUCT<x: INT, y: DECIMAL(5, 2)> NOT NULL, g INT GENERATED ALWAYS AS (a + 1)
) USING delta PARTITIONED BY (p STRING) COMMENT 'it' TBLPROPERTIES (
  'delta.feature.allowColumnDefaults' = 'supported', k.l = 7);"""


def test_a_statement_makes_what_it_says(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    assert deltamerge.sql(spark, SQL.format(path=path)).collect() == []
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        deltamerge.sql(spark, SQL.format(path=path))
    metadata = actions(path, 0)["metaData"]
    assert metadata["configuration"] == {"k.l": "7"}
    assert metadata["partitionColumns"] == ["p"]
    fields = {field["name"]: field for field in json.loads(metadata["schemaString"])["fields"]}
    assert fields["id"]["metadata"]["delta.identity.step"] == -3
    assert fields["a"]["metadata"] == {"CURRENT_DEFAULT": "3", "comment": "a, b"}
    assert fields["s"]["nullable"] is False
    data = spark.sql("SELECT named_struct('x', 1, 'y', 2.5BD) AS s, 'z' AS p")
    deltamerge.write(data, str(path), "append")
    (row,) = deltamerge.read(spark, str(path)).collect()
    assert (row.id, row.a, row.g, row.p) == (10, 3, 4, "z")


def test_rows_of_a_query_make_and_replace_a_table(spark: SparkSession, tmp_path: Path) -> None:
    path, name = tmp_path / "t", f"delta.`{tmp_path / 't'}`"
    deltamerge.sql(spark, f"CREATE TABLE {name} USING delta PARTITIONED BY (p) AS SELECT id, id % 2 AS p FROM range(4)")
    deltamerge.sql(spark, f"CREATE TABLE IF NOT EXISTS {name} AS SELECT 1 AS other")
    deltamerge.sql(
        spark, f"CREATE OR REPLACE TABLE {name} CLUSTER BY (n) AS WITH a AS (SELECT id FROM {name}) SELECT id + 1 AS n FROM a;"
    )
    table = DeltaTable.forPath(spark, str(path))
    assert rows(table) == [(1,), (2,), (3,), (4,)]
    history = table.history().collect()
    assert [row.operation for row in history] == ["CREATE OR REPLACE TABLE AS SELECT", "CREATE TABLE AS SELECT"]
    assert history[0].operationMetrics["numRemovedFiles"] == history[1].operationMetrics["numFiles"]
    assert actions(path, 1)["domainMetadata"]["domain"] == "delta.clustering"
    partitioned = f"REPLACE TABLE {name} (a INT, b INT) PARTITIONED BY (b)"
    for text, condition in [
        (partitioned, "DELTA_CLUSTERING_REPLACE_TABLE_WITH_PARTITIONED_TABLE"),
        (f"CREATE TABLE {name} (a INT) AS SELECT 1 AS a", "DELTA_OPERATION_NOT_ALLOWED"),
        (f"CREATE TABLE {name} (a INT, CHECK (a > 0))", "DELTA_OPERATION_NOT_ALLOWED"),
        (f"CREATE TABLE {name} (a INT) PARTITIONED BY (days(a))", "DELTA_OPERATION_NOT_ALLOWED"),
        (f"CREATE TABLE {name} (a INT) LOCATION '/tmp/other'", "DELTA_AMBIGUOUS_PATHS_IN_CREATE_TABLE"),
        (f"CREATE TABLE {name} (a INT", "PARSE_SYNTAX_ERROR"),
        (f"REPLACE TABLE {name} (a INT DEFAULT 1)", "WRONG_COLUMN_DEFAULTS_FOR_DELTA_FEATURE_NOT_ENABLED"),
        (f"REPLACE TABLE {name} (a BIGINT GENERATED ALWAYS AS IDENTITY (INCREMENT BY 0))", "DELTA_IDENTITY_COLUMNS_ILLEGAL_STEP"),
    ]:
        with pytest.raises(AnalysisException) as caught:
            deltamerge.sql(spark, text)
        assert caught.value.getCondition() == condition, text


@pytest.mark.local(reason="the folder is made here")
def test_files_of_others_are_no_place_for_a_table(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "t" / "a=1").mkdir(parents=True)
    builder = CREATIONS["vectors"][0](tables, spark, str(tmp_path / "t"))
    (tmp_path / "t" / "a=1" / "part.parquet").write_bytes(b"x")
    with pytest.raises(AnalysisException, match="DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION"):
        builder.execute()
    (tmp_path / "t" / "a=1" / "part.parquet").unlink()
    assert builder.execute().toDF().columns == ["a"]


def test_a_failing_query_leaves_the_table_and_no_file(spark: SparkSession, tmp_path: Path) -> None:
    path, name = tmp_path / "t", f"delta.`{tmp_path / 't'}`"
    deltamerge.sql(spark, f"CREATE TABLE {name} (a INT) USING delta TBLPROPERTIES ('delta.appendOnly' = 'true')")
    deltamerge.write(spark.range(1).selectExpr("CAST(id AS INT) AS a"), str(path), "append")
    before = sorted(path.glob("*.parquet"))
    with pytest.raises(PySparkException, match="DELTA_CANNOT_MODIFY_APPEND_ONLY"):
        deltamerge.sql(spark, f"REPLACE TABLE {name} USING delta AS SELECT 1 AS b")
    assert sorted(path.glob("*.parquet")) == before
    assert deltamerge.read(spark, str(path)).columns == ["a"]


def test_the_catalog_lists_tables_that_are_made_by_name(spark: SparkSession, tmp_path: Path) -> None:
    spark.sql("CREATE DATABASE made_here LOCATION '" + str(tmp_path / "db") + "'")
    try:
        deltamerge.sql(spark, "CREATE TABLE made_here.t (a INT) USING delta")
        table = DeltaTable.forName(spark, "made_here.t")
        deltamerge.write(spark.range(2).selectExpr("CAST(id AS INT) AS a"), str(tmp_path / "db" / "t"), "append")
        assert rows(table) == [(0,), (1,)]
        for text, condition in [
            ("CREATE TABLE made_here.t (a INT) USING delta", "TABLE_OR_VIEW_ALREADY_EXISTS"),
            ("REPLACE TABLE made_here.none (a INT) USING delta", "TABLE_OR_VIEW_NOT_FOUND"),
            (f"REPLACE TABLE made_here.t (a INT) USING delta LOCATION '{tmp_path / 'x'}'", "DELTA_TABLE_LOCATION_MISMATCH"),
        ]:
            with pytest.raises(AnalysisException) as caught:
                deltamerge.sql(spark, text)
            assert caught.value.getCondition() == condition
        place = str(tmp_path / "db" / "t")
        for build, condition in [
            (lambda b: b.addColumn("b", "INT"), "DELTA_CREATE_TABLE_SCHEME_MISMATCH"),
            (lambda b: b.addColumn("a", "INT").partitionedBy("a"), "DELTA_CREATE_TABLE_WITH_DIFFERENT_PARTITIONING"),
            (lambda b: b.addColumn("a", "INT").clusterBy("a"), "DELTA_CREATE_TABLE_WITH_DIFFERENT_CLUSTERING"),
            (lambda b: b.property("k", "v"), "DELTA_CREATE_TABLE_WITH_DIFFERENT_PROPERTY"),
        ]:
            with pytest.raises(AnalysisException) as caught:
                build(DeltaTable.create(spark).tableName("made_here.u").location(place)).execute()
            assert caught.value.getCondition() == condition
        assert rows(DeltaTable.create(spark).tableName("made_here.u").location(place).execute()) == rows(table)
        replaced = DeltaTable.createOrReplace(spark).tableName("made_here.t").addColumn("c", "STRING").execute()
        assert (replaced.toDF().columns, rows(replaced)) == (["c"], [])
    finally:
        spark.sql("DROP DATABASE made_here CASCADE")


def test_tables_of_other_formats_are_sparks(spark: SparkSession, tmp_path: Path) -> None:
    deltamerge.sql(spark, f"CREATE TABLE plain_files (a INT) USING parquet LOCATION '{tmp_path / 'p'}'")
    try:
        assert spark.table("plain_files").columns == ["a"]
    finally:
        spark.sql("DROP TABLE plain_files")
