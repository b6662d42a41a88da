"""`CREATE TEMP VIEW` over Delta tables: what views show after their tables have changed, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import deltamerge
from tests.e2e.tables import make

VIEWS = ("shown", "above", "joined", "numbers", "placed")


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """A table with two rows, as delta.`path`."""
    make(spark, tmp_path / "t", "id int, n int", [(1, 10), (2, 20)])
    deltamerge.activate(spark)
    yield f"delta.`{tmp_path / 't'}`"
    deltamerge.deactivate(spark)
    for view in VIEWS:
        spark.catalog.dropTempView(view)
    spark.catalog.dropGlobalTempView("shown")


def rows(spark: SparkSession, name: str) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, spark.sql(f"SELECT * FROM {name}").collect()))


@pytest.mark.connect
def test_views_show_the_newest_version(spark: SparkSession, table: str) -> None:
    spark.sql(f"CREATE TEMP VIEW shown AS SELECT * FROM {table}")
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW above (a COMMENT 'key', b) COMMENT 'large' AS SELECT * FROM shown WHERE n > 10")
    spark.sql(f"CREATE TEMP VIEW joined AS WITH x AS (TABLE {table}) SELECT x.id, above.b FROM x JOIN above ON a = id")
    spark.sql(f"CREATE GLOBAL TEMP VIEW shown AS SELECT count(*) AS c FROM {table}")
    spark.sql(f"INSERT INTO {table} VALUES (3, 30)")
    assert spark.table("joined").count() == 2
    assert rows(spark, "above") == [(2, 20), (3, 30)]
    assert rows(spark, "global_temp.shown") == [(3,)]
    assert spark.table("above").schema["a"].metadata == {"comment": "key"}
    merged = spark.sql("MERGE INTO shown USING above ON id = a WHEN MATCHED THEN UPDATE SET n = b + 1").first()
    assert merged.num_updated_rows == 2
    spark.sql("DELETE FROM shown WHERE id = 1")
    assert rows(spark, "shown") == [(2, 21), (3, 31)]
    spark.sql(f"ALTER TABLE {table} ADD COLUMNS (w STRING)")
    assert rows(spark, "shown") == [(2, 21), (3, 31)]


def test_the_newer_view_of_a_name_is_the_one(spark: SparkSession, table: str) -> None:
    spark.sql(f"CREATE TABLE numbers USING delta AS SELECT * FROM {table}")
    try:
        spark.sql("CREATE TEMP VIEW shown AS SELECT * FROM numbers")
        spark.sql("CREATE TEMP VIEW numbers AS SELECT id FROM numbers")
        spark.sql("INSERT INTO default.numbers VALUES (3, 30)")
        assert rows(spark, "numbers") == [(1,), (2,), (3,)]
        assert rows(spark, "shown") == [(1, 10), (2, 20), (3, 30)]
    finally:
        spark.sql("DROP VIEW numbers")
        spark.sql("DROP TABLE numbers")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.sql("SELECT * FROM shown").collect()
    spark.range(1).createOrReplaceTempView("shown")
    assert rows(spark, "shown") == [(0,)]


def test_a_view_of_a_path(spark: SparkSession, table: str) -> None:
    path = table.removeprefix("delta.").strip("`")
    spark.sql(f"CREATE TEMP VIEW placed USING delta OPTIONS (path '{path}')")
    spark.sql(f"CREATE TEMP VIEW shown USING delta OPTIONS (path '{path}', versionAsOf '0')")
    spark.sql(f"DELETE FROM {table} WHERE id = 1")
    assert (rows(spark, "placed"), len(rows(spark, "shown"))) == ([(2, 20)], 2)
    with pytest.raises(AnalysisException, match=r"DELTA_OPERATION_NOT_ALLOWED.*readchangefeed"):
        spark.sql(f"CREATE TEMP VIEW numbers USING delta OPTIONS (path '{path}', readChangeFeed 'true')")


def test_mistakes_are_shown(spark: SparkSession, table: str) -> None:
    spark.sql(f"CREATE TEMP VIEW shown AS SELECT * FROM {table}")
    spark.sql("CREATE TEMP VIEW above AS SELECT * FROM shown")
    refused = {
        "TEMP_TABLE_OR_VIEW_ALREADY_EXISTS": f"shown AS SELECT * FROM {table}",
        "COLUMN_ALREADY_EXISTS": f"numbers AS SELECT id, id FROM {table}",
        "CREATE_VIEW_COLUMN_ARITY_MISMATCH.TOO_MANY_DATA_COLUMNS": f"numbers (a) AS SELECT * FROM {table}",
        "CREATE_VIEW_COLUMN_ARITY_MISMATCH.NOT_ENOUGH_DATA_COLUMNS": f"numbers (a, b, c) AS SELECT * FROM {table}",
        "UNRESOLVED_COLUMN": f"numbers AS SELECT nothing FROM {table}",
        "DELTAMERGE_NO_PATH": "numbers USING delta OPTIONS (versionAsOf '0')",
    }
    for condition, text in refused.items():
        with pytest.raises(Exception, match=condition):
            spark.sql(f"CREATE TEMP VIEW {text}")
    with pytest.raises(AnalysisException, match="RECURSIVE_VIEW"):
        spark.sql("CREATE OR REPLACE TEMP VIEW shown AS SELECT * FROM above")
    spark.sql(f"CREATE OR REPLACE TABLE {table} (other INT) USING delta")
    with pytest.raises(AnalysisException, match=r"INCOMPATIBLE_VIEW_SCHEMA_CHANGE.*id"):
        spark.sql("SELECT * FROM above")
    spark.sql("DROP VIEW shown")
