"""The same merge run by delta-spark and by deltamerge, each on its own copy of the table."""

from __future__ import annotations

import contextlib
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import deltamerge
from tests.cases.running import Engine, Outcome, large_sources, run_at
from tests.cases.tables import create_table, source_view
from tests.oracle.cases import Merge

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


def _delta_spark() -> Engine:
    try:
        from delta.tables import DeltaTable
    except ImportError:
        return Engine(lambda spark, text: spark.sql(text), None)  # tests that need it are skipped
    return Engine(lambda spark, text: spark.sql(text), DeltaTable)


DELTA_SPARK = _delta_spark()
# delta-spark without vectors in merges: where its own check of marked rows fails ("did not match any merge clause").
DELTA_SPARK_REWRITING = replace(DELTA_SPARK, settings=(("spark.databricks.delta.merge.deletionVectors.persistent", "false"),))


def deltamerge_engine(strategy: str = "auto", share: float = 1) -> Engine:
    """This library, by a strategy, rewriting files with vectors of which more than `share` is gone.

    By the strategy `large` sources are joined, as if they could not be held.
    """
    large = strategy == "large"
    settings = (("spark.deltamerge.strategy", "auto" if large else strategy), ("spark.deltamerge.rewriteShare", str(share)))
    return Engine(deltamerge.sql, deltamerge.DeltaTable, settings, large_sources if large else contextlib.nullcontext)


@dataclass(frozen=True)
class Tried:
    """A merge's outcome, the folder of its table, and the counters of its commit (None: no commit)."""

    path: Path
    outcome: Outcome
    counters: dict[str, int] | None


def make_table(spark: SparkSession, merge: Merge, path: Path) -> None:
    """The merge's table; old deletes and changed properties are delta-spark's."""
    create_table(merge.case.target, path, vectors=False)
    if merge.deleted:
        spark.sql(f"DELETE FROM delta.`{path}` WHERE {merge.deleted}")
    if merge.vectors == "off":
        spark.sql(f"ALTER TABLE delta.`{path}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'false')")


def copy_table(source: Path, target: Path) -> None:
    """A copy of a whole table."""
    shutil.copytree(source, target)


def run_merge(spark: SparkSession, merge: Merge, made: Path, path: Path, engine: Engine, counters: tuple[str, ...]) -> Tried:
    """Run a merge by an engine on a copy at `path` of the table that was made."""
    copy_table(made, path)
    outcome = run_at(spark, merge.case, path, engine)
    found = {name: int(outcome.metrics.get(name, 0)) for name in counters} if outcome.committed else None
    return Tried(path, outcome, found)


def counters_of(merge: Merge, share: float) -> tuple[str, ...]:
    """The counters in which the engines agree: those of files only while no file with a vector is rewritten."""
    return (*COUNTERS, *VECTOR_COUNTERS) if merge.vectors == "on" and share == 1 else COUNTERS


def ambiguous_rows(spark: SparkSession, merge: Merge, path: Path) -> int:
    """Target rows to which a MATCHED clause applies for more than one source row, counted by Spark itself."""
    case = merge.case
    assert case.source is not None
    source_view(spark, case.source)
    target = spark.read.format("delta").load(str(path)).select("*", F.monotonically_increasing_id().alias("row_number"))
    target.createOrReplaceTempView("oracle_target")
    tests = [clause.condition or "true" for clause in merge.clauses if clause.side == "MATCHED" and clause.values != ()]
    applies = " OR ".join(f"({test})" for test in tests) or "false"
    query = (
        f"SELECT t.row_number FROM oracle_target t JOIN s ON {merge.condition} "
        f"WHERE {applies} GROUP BY t.row_number HAVING count(*) > 1"
    )
    return spark.sql(query).count()
