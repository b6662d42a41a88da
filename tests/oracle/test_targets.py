"""Which names may be merged into: delta-spark follows a view to its table, this library refuses every view by name."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import deltamerge


def test_a_view_of_a_delta_table(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "t"
    spark.sql(f"CREATE TABLE delta.`{path}` (id INT, n INT) USING delta")
    spark.sql(f"INSERT INTO delta.`{path}` VALUES (1, 10), (2, 20)")
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW whole AS SELECT * FROM delta.`{path}`")
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW part AS SELECT id FROM delta.`{path}` WHERE id > 0")
    merge = "MERGE INTO {0} AS t USING (SELECT 2 AS id, 21 AS n) s ON t.id = s.id WHEN MATCHED THEN {1}"
    update = "UPDATE SET n = s.n"
    try:
        assert spark.sql(merge.format("whole", update)).collect()[0]["num_updated_rows"] == 1
        with pytest.raises(AnalysisException, match="DELTA_UNEXPECTED_PARTIAL_SCAN"):
            spark.sql(merge.format("part", "DELETE"))
        for view, action in (("whole", update), ("part", "DELETE")):
            with pytest.raises(AnalysisException, match="DELTA_TABLE_ONLY_OPERATION"):
                deltamerge.sql(spark, merge.format(view, action))
    finally:
        spark.catalog.dropTempView("whole")
        spark.catalog.dropTempView("part")
    assert sorted(map(tuple, spark.read.format("delta").load(str(path)).collect())) == [(1, 10), (2, 21)]
