"""Which column a name means where tables have no aliases: delta-spark makes of each merge what `tests/e2e/named.py` says."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.cases.running import condition_of
from tests.e2e.named import ALIKE, CROSSED, MERGES, PLAIN, NamedMerge, Tables
from tests.effort import ALL


@pytest.mark.parametrize("tables", [PLAIN, ALIKE, CROSSED], ids=["plain", "alike", "crossed"])
def test_delta_spark_agrees(spark: SparkSession, tables: Tables) -> None:
    merges = [merge for merge in MERGES if merge.tables is tables][:: 1 if ALL else 3]
    spark.sql(f"CREATE TABLE source ({tables.source}) USING parquet")
    try:
        spark.sql(f"INSERT INTO source VALUES {tables.source_rows}")
        assert {merge: _outcome(spark, merge) for merge in merges} == {merge: merge.result for merge in merges}
    finally:
        spark.sql("DROP TABLE source")


def _outcome(spark: SparkSession, merge: NamedMerge) -> tuple[object, ...] | str | None:
    from delta.tables import DeltaTable

    spark.sql(f"CREATE TABLE target ({merge.tables.target}) USING delta")
    try:
        spark.sql(f"INSERT INTO target VALUES {merge.tables.target_rows}")
        if merge.builder:
            merge.run(DeltaTable.forName(spark, "target"), spark.table("source"))
        else:
            spark.sql(merge.text)
        found = spark.table("target").where("id = 2").first()
        return None if found is None else tuple(found)
    except Exception as error:
        return condition_of(error)
    finally:
        spark.sql("DROP TABLE target")
