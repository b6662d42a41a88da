"""What a table's log says of the table, changed by SQL and by the builder: properties, columns, constraints, protocol."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession

import deltamerge
from deltamerge.tables import DeltaTable
from tests.e2e.alterations import ALTERATIONS, MAPPED_REFUSED, REFUSED
from tests.e2e.tables import make

MAPPED = "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"


def run(spark: SparkSession, path: Path, *texts: str) -> None:
    for text in texts:
        deltamerge.sql(spark, text.format(t=f"delta.`{path}`"))


def history(table: DeltaTable) -> list[tuple[str, dict[str, Any]]]:
    rows = table.history().select("operation", "operationParameters").collect()
    return [(row.operation, dict(row.operationParameters)) for row in rows]


def test_properties_are_set_shown_and_unset(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = make(spark, path, "id INT, v STRING", [(1, "a"), (2, "b")])
    run(
        spark,
        path,
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true', delta.appendonly = false, team = 'x')",
        "COMMENT ON TABLE {t} IS 'people'",
        "ALTER TABLE {t} UNSET TBLPROPERTIES IF EXISTS (team, other);",
    )
    detail = table.detail().first()
    assert detail is not None
    assert detail.description == "people"
    assert detail.properties == {"delta.enableDeletionVectors": "true", "delta.appendOnly": "false"}
    assert "deletionVectors" in detail.tableFeatures
    shown = deltamerge.sql(spark, f"SHOW TBLPROPERTIES delta.`{path}`").collect()
    assert {row.key: row.value for row in shown}["delta.feature.deletionVectors"] == "supported"
    one = deltamerge.sql(spark, f"SHOW TBLPROPERTIES delta.`{path}` ('delta.appendonly')").collect()
    assert [tuple(row) for row in one] == [("delta.appendonly", "false")]
    assert history(table)[0] == ("UNSET TBLPROPERTIES", {"properties": '["team","other"]', "ifExists": "true"})
    table.delete("id = 1")
    assert [tuple(row) for row in deltamerge.read(spark, str(path)).collect()] == [(2, "b")]


def test_columns_come_and_go_and_rows_stay(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    rows = [(1, (10, "x"), 5), (2, (20, "y"), 6)]
    table = make(spark, path, "id INT, s STRUCT<a: INT, b: STRING>, n SMALLINT", rows, partition_by=["id"])
    run(
        spark,
        path,
        "ALTER TABLE {t} ADD COLUMNS (first DATE FIRST, s.c DECIMAL(5, 2) COMMENT 'c' AFTER a, last ARRAY<INT>)",
        "ALTER TABLE {t} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.enableTypeWidening' = 'true')",
        "ALTER TABLE {t} RENAME COLUMN s.b TO text",
        "ALTER TABLE {t} RENAME COLUMN id TO `the id`",
        "ALTER TABLE {t} DROP COLUMNS (first, last)",
        "ALTER TABLE {t} ADD COLUMN first STRING",
        "ALTER TABLE {t} ALTER COLUMN n TYPE INT",
        "ALTER TABLE {t} CHANGE COLUMN n n INT COMMENT 'how many' FIRST",
    )
    frame = deltamerge.read(spark, str(path))
    assert frame.schema.simpleString() == "struct<n:int,the id:int,s:struct<a:int,c:decimal(5,2),text:string>,first:string>"
    assert sorted(map(tuple, frame.collect())) == [(5, 1, (10, None, "x"), None), (6, 2, (20, None, "y"), None)]
    source = spark.createDataFrame([(100_000, 1)], "n INT, k INT").alias("s")
    merge = DeltaTable.forPath(spark, str(path)).alias("t").merge(source, "t.`the id` = s.k")
    merge.whenMatchedUpdate(set={"n": "s.n", "first": "'z'"}).execute()
    found = deltamerge.read(spark, str(path)).selectExpr("n", "`the id`", "s.text", "first").collect()
    assert sorted(map(tuple, found)) == [(6, 2, "y", None), (100_000, 1, "x", "z")]
    assert history(table)[1][0] == "CHANGE COLUMN"
    assert history(table)[1][1]["position"] == "FIRST"


def test_constraints_check_the_rows_that_are_there(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = make(spark, path, "id INT, n INT", [(1, 10), (2, None)])
    for text, condition in [
        ("n > 0", "DELTA_NEW_CHECK_CONSTRAINT_VIOLATION"),
        ("n + 1", "DELTA_NON_BOOLEAN_CHECK_CONSTRAINT"),
        ("z > 1", "DELTA_UNSUPPORTED_EXPRESSION_CHECK_CONSTRAINT"),
    ]:
        with pytest.raises(PySparkException) as caught:
            run(spark, path, f"ALTER TABLE {{t}} ADD CONSTRAINT c CHECK ({text})")
        assert caught.value.getCondition() == condition
    run(spark, path, "ALTER TABLE {t} ADD CONSTRAINT Positive CHECK (id > 0 AND (n > 0 OR n IS NULL))")
    for text, condition in [
        ("ALTER TABLE {t} ADD CONSTRAINT positive CHECK (id > 1)", "DELTA_CONSTRAINT_ALREADY_EXISTS"),
        ("ALTER TABLE {t} DROP FEATURE checkConstraints", "DELTA_CANNOT_DROP_CHECK_CONSTRAINT_FEATURE"),
        ("ALTER TABLE {t} DROP CONSTRAINT other", "DELTA_CONSTRAINT_DOES_NOT_EXIST"),
    ]:
        with pytest.raises(AnalysisException) as caught:
            run(spark, path, text)
        assert caught.value.getCondition() == condition
    with pytest.raises(PySparkException, match="DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"):
        table.update(set={"id": "-1"})
    run(spark, path, "ALTER TABLE {t} DROP CONSTRAINT IF EXISTS other", "ALTER TABLE {t} DROP CONSTRAINT positive")
    table.dropFeatureSupport("checkConstraints")
    table.update(set={"id": "-1"})
    detail = table.detail().first()
    assert detail is not None
    assert (detail.minWriterVersion, "checkConstraints" in detail.tableFeatures) == (2, False)


def test_protocols_are_raised_and_never_lowered(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", "id INT", [(1,)])
    table.upgradeTableProtocol(1, 3)
    table.addFeatureSupport("deletionVectors")
    table.addFeatureSupport("appendOnly")
    names = [name for name, _ in history(table)]
    assert names == ["UPGRADE PROTOCOL", "UPGRADE PROTOCOL", "WRITE"]
    assert json.loads(history(table)[0][1]["newProtocol"])["minReaderVersion"] == 3
    with pytest.raises(AnalysisException, match="DELTA_INVALID_PROTOCOL_DOWNGRADE"):
        table.upgradeTableProtocol(1, 2)
    for call, kind in [
        (lambda: table.upgradeTableProtocol(4, 7), PySparkException),
        (lambda: table.upgradeTableProtocol("1", 2), ValueError),  # type: ignore[arg-type]
        (lambda: table.addFeatureSupport("nope"), AnalysisException),
        (lambda: table.addFeatureSupport(1), ValueError),  # type: ignore[arg-type]
        (lambda: table.dropFeatureSupport("deletionVectors", 1), ValueError),  # type: ignore[arg-type]
        (lambda: table.dropFeatureSupport("deletionVectors"), AnalysisException),
    ]:
        with pytest.raises(kind):
            call()


def test_a_table_is_clustered_anew(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    run(spark, path, "CREATE TABLE {t} (a INT, b STRING) CLUSTER BY (a)", "ALTER TABLE {t} CLUSTER BY (b, a)")
    table = DeltaTable.forPath(spark, str(path))
    assert history(table)[0] == ("CLUSTER BY", {"oldClusteringColumns": "a", "newClusteringColumns": "b,a"})
    with pytest.raises(AnalysisException, match="DELTA_UNSUPPORTED_DROP_PARTITION_COLUMN"):
        run(spark, path, MAPPED, "ALTER TABLE {t} DROP COLUMN b")
    run(spark, path, "ALTER TABLE {t} CLUSTER BY NONE")
    detail = table.detail().first()
    assert detail is not None
    assert detail.clusteringColumns == []


@pytest.mark.parametrize(("condition", "text"), REFUSED)
def test_what_can_not_be_is_refused(spark: SparkSession, tmp_path: Path, condition: str, text: str) -> None:
    path = tmp_path / "t"
    run(spark, path, *ALTERATIONS["refusals"][:1])
    before = sorted((path / "_delta_log").iterdir())
    with pytest.raises(PySparkException) as caught:
        run(spark, path, text)
    assert caught.value.getCondition() == condition
    assert sorted((path / "_delta_log").iterdir()) == before


@pytest.mark.parametrize(("condition", "text"), MAPPED_REFUSED)
def test_columns_that_others_are_made_of_stay(spark: SparkSession, tmp_path: Path, condition: str, text: str) -> None:
    path = tmp_path / "t"
    run(spark, path, *ALTERATIONS["refusals"], MAPPED)
    if "GENERATED" in condition:
        run(spark, path, "ALTER TABLE {t} DROP CONSTRAINT c")
    with pytest.raises(AnalysisException) as caught:
        run(spark, path, text)
    assert caught.value.getCondition() == condition


def test_tables_of_other_formats_are_sparks(spark: SparkSession) -> None:
    spark.sql("CREATE TABLE other_format (a INT) USING parquet")
    try:
        deltamerge.sql(spark, "ALTER TABLE other_format SET TBLPROPERTIES ('k' = 'v')")
        assert deltamerge.sql(spark, "SHOW TBLPROPERTIES other_format ('k')").collect()[0].value == "v"
    finally:
        spark.sql("DROP TABLE other_format")
