"""The same case run by delta-spark and by deltamerge, each on its own copy of the table."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import deltamerge.tables
from tests.oracle.cases import Case, Column

COUNTERS = (
    "numTargetRowsInserted",
    "numTargetRowsUpdated",
    "numTargetRowsDeleted",
    "numTargetRowsMatchedUpdated",
    "numTargetRowsMatchedDeleted",
    "numTargetRowsNotMatchedBySourceUpdated",
    "numTargetRowsNotMatchedBySourceDeleted",
)
VECTOR_COUNTERS = (
    "numTargetRowsCopied",
    "numTargetFilesRemoved",
    "numTargetDeletionVectorsAdded",
    "numTargetDeletionVectorsUpdated",
    "numTargetDeletionVectorsRemoved",
)


@dataclass(frozen=True)
class Result:
    """How a merge ended: the result row, or the error's text, and the counters of the commit it made (None: no commit)."""

    counts: tuple[int, ...] | None
    error: str | None
    counters: dict[str, int] | None


def frame_of(spark: SparkSession, columns: tuple[Column, ...], rows: tuple[tuple[Any, ...], ...]) -> DataFrame:
    """Rows as a DataFrame of the columns' types."""
    schema = ", ".join(f"{c.name} {c.type}" for c in columns)
    return spark.createDataFrame(list(rows), schema)


def make_table(spark: SparkSession, case: Case, path: Path) -> None:
    """The case's table, written by delta-spark."""
    frame = frame_of(spark, case.columns, case.rows).repartition(case.files)
    writer = frame.write.format("delta")
    if case.partition_by:
        writer = writer.partitionBy(*case.partition_by)
    for key, value in case.properties:
        writer = writer.option(key, value)
    writer.save(str(path))
    if case.deleted:
        spark.sql(f"DELETE FROM delta.`{path}` WHERE {case.deleted}")
    if case.vectors == "off":
        spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')")


def copy_table(source: Path, target: Path) -> None:
    """A copy of a whole table."""
    shutil.copytree(source, target)


def run_delta_spark(spark: SparkSession, case: Case, path: Path) -> Result:
    """Run the case with delta-spark."""
    from delta.tables import DeltaTable

    table = DeltaTable.forPath(spark, str(path))
    before = table.history(1).collect()[0]["version"]
    return _run(spark, case, table, lambda: _metrics(table.history(1).collect()[0], before, names_of(case, 1)))


def names_of(case: Case, share: float) -> tuple[str, ...]:
    """The counters in which the engines agree: those of files only while no file with a vector is rewritten."""
    return (*COUNTERS, *VECTOR_COUNTERS) if case.vectors == "on" and share == 1 else COUNTERS


def run_deltamerge(spark: SparkSession, case: Case, path: Path, strategy: str = "auto", share: float = 1) -> Result:
    """Run the case with deltamerge, by a forced strategy if one is given, rewriting files of which more than `share` is gone."""
    spark.conf.set("spark.deltamerge.strategy", strategy)
    spark.conf.set("spark.deltamerge.rewriteShare", str(share))
    table = deltamerge.tables.DeltaTable.forPath(spark, str(path))
    before = table.history(1).collect()[0]["version"]
    return _run(spark, case, table, lambda: _metrics(table.history(1).collect()[0], before, names_of(case, share)))


def _metrics(row: Any, before: int, names: tuple[str, ...]) -> dict[str, int] | None:
    if row["version"] == before:
        return None
    return {name: int(row["operationMetrics"].get(name, 0)) for name in names}


def _run(spark: SparkSession, case: Case, table: Any, counters: Callable[[], dict[str, int] | None]) -> Result:
    source = frame_of(spark, case.source_columns, case.source_rows).alias("s")
    try:
        row = build(table.alias("t").merge(source, case.condition), case).execute().collect()[0]
    except (PySparkException, Exception) as error:
        return Result(None, f"{type(error).__name__}: {error}", counters())
    return Result(tuple(int(row[i]) for i in range(4)), None, counters())


def build(builder: Any, case: Case) -> Any:
    """The case's clauses on a merge builder of either library."""
    for clause in case.clauses:
        condition = clause.condition
        values = None if clause.values is None else dict(clause.values)
        if clause.side == "MATCHED" and clause.action == "DELETE":
            builder = builder.whenMatchedDelete(condition)
        elif clause.side == "MATCHED":
            builder = builder.whenMatchedUpdateAll(condition) if values is None else builder.whenMatchedUpdate(condition, values)
        elif clause.side == "NOT MATCHED":
            insert_all = values is None
            builder = (
                builder.whenNotMatchedInsertAll(condition) if insert_all else builder.whenNotMatchedInsert(condition, values)
            )
        elif clause.action == "DELETE":
            builder = builder.whenNotMatchedBySourceDelete(condition)
        else:
            builder = builder.whenNotMatchedBySourceUpdate(condition, values)
    return builder


def ambiguous_rows(spark: SparkSession, case: Case, path: Path) -> int:
    """Target rows to which a MATCHED clause applies for more than one source row, counted by Spark itself."""
    target = spark.read.format("delta").load(str(path)).select("*", F.monotonically_increasing_id().alias("row_number"))
    source = frame_of(spark, case.source_columns, case.source_rows)
    target.alias("t").createOrReplaceTempView("oracle_target")
    source.createOrReplaceTempView("oracle_source")
    tests = [clause.condition or "true" for clause in case.clauses if clause.side == "MATCHED"]
    applies = " OR ".join(f"({test})" for test in tests) or "false"
    query = (
        f"SELECT t.row_number FROM oracle_target t JOIN oracle_source s ON {case.condition} "
        f"WHERE {applies} GROUP BY t.row_number HAVING count(*) > 1"
    )
    return spark.sql(query).count()
