"""Merges under a limit on the size of files; run by test_storage in a process of its own, says a JSON line per merge."""

from __future__ import annotations

import json
import resource
import sys
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from deltamerge.tables import DeltaMergeBuilder, DeltaTable
from tests.faults.processes import small_session


def main(wide: Path, narrow: Path) -> None:
    """Merge into a table of wide rows and one of narrow rows; each merge fails at another place."""
    spark = small_session()
    report("data file", wide, 40_000, merge(spark, wide).whenMatchedUpdateAll().whenNotMatchedInsertAll())
    comment = f"'{'x' * 30_000}' <> s.name"
    report("commit file", narrow, 10_000, merge(spark, narrow).whenMatchedUpdateAll().whenNotMatchedInsertAll(comment))
    report("rows for Spark", narrow, 100, merge(spark, narrow).whenMatchedUpdateAll("upper(s.name) <> t.name"))
    spark.conf.set("spark.deltamerge.strategy", "join")
    report("data file on a worker", wide, None, merge(spark, wide).whenMatchedUpdateAll().whenNotMatchedInsertAll())


def merge(spark: SparkSession, path: Path) -> DeltaMergeBuilder:
    return DeltaTable.forPath(spark, str(path)).alias("t").merge(changes(spark), "t.id = s.id")


def changes(spark: SparkSession) -> DataFrame:
    rows = pa.table({"id": pa.array([1, 1001, 9999], pa.int32()), "name": ["one", "many", "new"]})
    return spark.createDataFrame(rows).alias("s")


def report(place: str, path: Path, limit: int | None, builder: DeltaMergeBuilder) -> None:
    """Run a merge that may not write files of more than `limit` bytes, and say how it ended."""
    before = files(path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft if limit is None else limit, hard))
    error: Exception | None = None
    try:
        builder.execute()
    except Exception as caught:
        error = caught
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    classes = [kind.__name__ for kind in type(error).__mro__]
    print(json.dumps({"place": place, "classes": classes, "text": str(error), "new": sorted(files(path) - before)}))


def files(path: Path) -> set[str]:
    return {str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()}


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
