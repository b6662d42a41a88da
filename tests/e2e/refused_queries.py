"""A process that asks Spark for what it refuses, by this library and then by itself; a test looks at its stderr."""

from __future__ import annotations

import sys

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import deltamerge
from deltamerge.tables import DeltaTable
from tests.faults.processes import small_session


def refused_by_deltamerge(spark: SparkSession, path: str) -> list[str]:
    """The conditions of statements with a mistake, each in another place."""
    table, source = DeltaTable.forPath(spark, path).alias("t"), spark.range(3).alias("s")
    merge = f"MERGE INTO delta.`{path}` t USING (SELECT 1 AS id) s ON t.id = s.id"
    tries = [
        lambda: table.merge(source, "t.id = s.nothing").whenMatchedDelete().execute(),
        lambda: table.merge(source, F.col("t.id") == F.col("s.nothing")).whenMatchedDelete().execute(),
        lambda: table.merge(source, "t.id = = s.id").whenMatchedDelete().execute(),
        lambda: table.merge(source, "t.id = s.id").whenMatchedDelete("max(s.id) > 1").execute(),
        lambda: table.merge(source, "t.id = s.id").whenMatchedUpdate(set={"id": "date'2020-01-01'"}).execute(),
        lambda: deltamerge.sql(spark, f"{merge} WHEN MATCHED THEN UPDATE SET id = s.nothing"),
        lambda: deltamerge.sql(spark, f"{merge} WHEN MATCHED AND t.id = = 1 THEN DELETE"),
        lambda: deltamerge.sql(spark, merge.replace("SELECT 1 AS id", "SELECT nothing") + " WHEN MATCHED THEN DELETE"),
        lambda: deltamerge.sql(spark, merge.replace("(SELECT 1 AS id)", "nowhere") + " WHEN MATCHED THEN DELETE"),
        lambda: DeltaTable.forName(spark, "nowhere"),
        lambda: table.delete("nothing > 1"),
    ]
    found = []
    for action in tries:
        try:
            action()
        except AnalysisException as error:
            found.append(error.getCondition() or "")
    return found


def main() -> None:
    path = sys.argv[1]
    spark = small_session()
    deltamerge.write(spark.range(3), path)
    print(*refused_by_deltamerge(spark, path), flush=True)
    sys.stderr.write("BY SPARK\n")
    try:
        spark.sql("SELECT nothing_of_the_kind")
    except AnalysisException as error:
        print(error.getCondition(), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
