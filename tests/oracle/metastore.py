"""A Hive metastore: `make` has delta-spark make tables in it; `merge` merges into them in a process without delta-spark's JAR."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import deltamerge
from deltamerge.errors import DeltaMergeError
from deltamerge.tables import DeltaTable
from tests.java import INTERPRETED, QUICK_JAVA

# The JAR is there or not by the caller's choice, so that both sessions are the same but for it.
JAR = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "1",
}


def session(folder: Path, jar: bool, connect: bool = False) -> SparkSession:
    """A session on the folder's metastore and warehouse."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
        "spark.sql.shuffle.partitions": "1",
        "spark.driver.memory": "1g",
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder / 'metastore'};create=true",
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={folder} {QUICK_JAVA}",
        **INTERPRETED,
    }
    builder: Any = SparkSession.builder
    builder = builder.remote("local[1]") if connect else builder.master("local[1]")
    for key, value in {**settings, **(JAR if jar else {})}.items():
        builder = builder.config(key, value)
    if jar:
        from delta import configure_spark_with_delta_pip

        builder = configure_spark_with_delta_pip(builder)
    found: SparkSession = builder.getOrCreate()
    return found


def make(folder: Path) -> None:
    """Tables as delta-spark makes them: managed, partitioned, at a path; and what is no Delta table of the catalog."""
    spark = session(folder, jar=True)
    for statement in (
        "CREATE TABLE people (id INT, name STRING, n INT) USING delta COMMENT 'see\nLocation: Berlin'",
        "INSERT INTO people VALUES (1, 'a', 10), (2, 'b', 20)",
        "UPDATE people SET n = n + 1",
        "CREATE DATABASE other",
        "CREATE TABLE other.people (id INT, name STRING, n INT) USING delta",
        "INSERT INTO other.people VALUES (2, 'B', 200), (3, 'C', 300)",
        "CREATE TABLE parts (id INT, p STRING) USING delta PARTITIONED BY (p)",
        "INSERT INTO parts VALUES (1, 'x'), (2, 'y')",
        f"CREATE TABLE t_x (id INT, n INT) USING delta LOCATION '{folder}/a place%20'",
        "INSERT INTO t_x VALUES (1, 1), (2, 2)",
        "CREATE TABLE tax (id INT, n INT) USING delta",
        f"CREATE TABLE files USING parquet LOCATION '{folder}/a place%20'",
        "CREATE TABLE numbers USING parquet AS SELECT 2 AS id, 5 AS n",
        "CREATE VIEW everyone AS SELECT * FROM people",
    ):
        spark.sql(statement)
    spark.stop()


def merge(folder: Path, connect: bool) -> dict[str, Any]:
    """What merges by name make of a copy of the metastore: rows and conditions of errors, by what was done."""
    copy = folder / f"copy-{connect}"
    shutil.copytree(folder / "metastore", copy / "metastore", ignore=shutil.ignore_patterns("*.lck"))
    (copy / "warehouse").symlink_to(folder / "warehouse")
    spark = session(copy, jar=False, connect=connect)

    def rows(name: str) -> list[list[Any]]:
        return sorted(list(row) for row in DeltaTable.forName(spark, name).toDF().collect())

    def condition(action: Callable[[], object]) -> str | None:
        try:
            action()
        except DeltaMergeError as error:
            return error.condition if error.hint else f"no hint: {error}"
        return None

    def sql(text: str) -> None:
        deltamerge.sql(spark, text)

    found: dict[str, Any] = {"read": {name: rows(name) for name in NAMES}}
    sql(
        """MERGE INTO people USING other.people ON default.people.id = spark_catalog.other.people.id
        WHEN MATCHED THEN UPDATE SET default.people.n = other.people.n + default.people.n"""
    )
    found["both by database"] = rows("people")
    DeltaTable.forName(spark, "people").merge(spark.table("numbers"), "people.id = default.numbers.id").whenMatchedUpdate(
        "default.people.name = 'b'", {"people.n": "spark_catalog.default.people.n + numbers.n"}
    ).execute()
    found["builder"] = rows("people")
    sql(
        """WITH people AS (SELECT id, n FROM people VERSION AS OF 1)
        MERGE INTO t_x USING (SELECT p.id, default.parts.p, p.n FROM people p JOIN parts ON p.id = parts.id) s ON t_x.id = s.id
        WHEN MATCHED AND s.p = 'y' THEN UPDATE SET n = (SELECT max(people.n) FROM other.people)
        WHEN MATCHED THEN UPDATE SET n = s.n"""
    )
    found["queries"] = rows("t_x")
    sql(
        """MERGE INTO parts USING numbers ON parts.id = numbers.id
        WHEN MATCHED THEN UPDATE SET p = (SELECT max(other.people.name) FROM other.people)"""
    )
    DeltaTable.forName(spark, "default.parts").delete("default.parts.id = 1")
    found["partitions"] = rows("parts")
    match = "MERGE INTO people t USING numbers s ON t.id = s.id WHEN MATCHED THEN"
    into = "MERGE INTO {0} t USING {1} s ON t.id = s.id WHEN MATCHED THEN DELETE"
    found["errors"] = {
        "forName files": condition(lambda: rows("files")),
        "forName numbers": condition(lambda: rows("numbers")),
        "forName everyone": condition(lambda: rows("everyone")),
        "forName peeple": condition(lambda: rows("peeple")),
        "into files": condition(lambda: sql(into.format("files", "numbers"))),
        "using files": condition(lambda: sql(into.format("people", "files"))),
        "into peeple": condition(lambda: sql(into.format("peeple", "numbers"))),
        "using everyone": condition(lambda: sql(into.format("people", "everyone"))),
        "set from a query over everyone": condition(lambda: sql(f"{match} UPDATE SET n = (SELECT max(n) FROM everyone)")),
        "using a query over everyone": condition(lambda: sql(into.format("people", "(SELECT * FROM everyone)"))),
    }
    found["folders"] = sorted(path.name for path in folder.iterdir() if path.name.startswith("a place"))
    spark.stop()
    return found


NAMES = ("people", "default.people", "Spark_Catalog.DEFAULT.People", "other.people", "parts", "t_x", "tax")


if __name__ == "__main__":
    what, place = sys.argv[1], Path(sys.argv[2])
    print(json.dumps(make(place) if what == "make" else merge(place, what == "connect")), flush=True)
