"""A first job with Delta tables, as it is taught: unchanged but for the import and `activate`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, expr

import deltamerge
from deltamerge.tables import DeltaTable


@pytest.fixture(autouse=True)
def active(spark: SparkSession) -> Iterator[None]:
    deltamerge.activate(spark)
    yield
    deltamerge.deactivate(spark)


def ids(frame: DataFrame) -> list[int]:
    return sorted(row[0] for row in frame.collect())


def test_by_dataframes(spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "table")
    data = spark.range(0, 5)
    data.write.format("delta").save(path)
    assert ids(spark.read.format("delta").load(path)) == [0, 1, 2, 3, 4]
    data = spark.range(5, 10)
    data.write.format("delta").mode("overwrite").save(path)

    table = DeltaTable.forPath(spark, path)
    table.update(condition=expr("id % 2 == 0"), set={"id": expr("id + 100")})
    assert ids(table.toDF()) == [5, 7, 9, 106, 108]
    table.delete(condition=expr("id % 2 == 0"))
    assert ids(table.toDF()) == [5, 7, 9]
    new = spark.range(0, 20)
    (
        table.alias("oldData")
        .merge(new.alias("newData"), "oldData.id = newData.id")
        .whenMatchedUpdate(set={"id": col("newData.id")})
        .whenNotMatchedInsert(values={"id": col("newData.id")})
        .execute()
    )
    table.toDF().show()
    assert "|  0|" in capsys.readouterr().out
    assert ids(table.toDF()) == list(range(20))
    assert ids(spark.read.format("delta").option("versionAsOf", 0).load(path)) == [0, 1, 2, 3, 4]


def test_by_statements(spark: SparkSession, tmp_path: Path) -> None:
    table = f"delta.`{tmp_path / 'table'}`"
    spark.sql(f"CREATE TABLE {table} USING DELTA AS SELECT col1 AS id FROM VALUES 0, 1, 2, 3, 4")
    spark.sql(f"INSERT OVERWRITE {table} SELECT col1 AS id FROM VALUES 5, 6, 7, 8, 9")
    spark.sql(f"UPDATE {table} SET id = id + 100 WHERE id % 2 == 0")
    spark.sql(f"DELETE FROM {table} WHERE id % 2 == 0")
    assert ids(spark.sql(f"SELECT * FROM {table}")) == [5, 7, 9]
    spark.sql("CREATE OR REPLACE TEMP VIEW newData AS SELECT col1 AS id FROM VALUES 1, 3, 5, 7, 9, 11")
    spark.sql(
        f"""
        MERGE INTO {table} AS oldData USING newData ON oldData.id = newData.id
        WHEN MATCHED THEN UPDATE SET id = newData.id
        WHEN NOT MATCHED THEN INSERT (id) VALUES (newData.id)
        """
    )
    assert ids(spark.sql(f"SELECT * FROM {table}")) == [1, 3, 5, 7, 9, 11]
    assert ids(spark.sql(f"SELECT * FROM {table} VERSION AS OF 0")) == [0, 1, 2, 3, 4]
    spark.catalog.dropTempView("newData")
