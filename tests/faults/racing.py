"""Merges of one of several processes that race for a table; run by test_race, told when to go, says how each merge ended."""

from __future__ import annotations

import json
import sys

import pyarrow as pa
from pyspark.sql import SparkSession

from deltamerge.progress import Progress
from deltamerge.tables import DeltaMergeBuilder, DeltaTable
from tests.faults.processes import READY, small_session

COMMITTING = "committing"
SHARED = 0
MOST_ATTEMPTS = 100


def main(path: str, number: int, remote: str = "") -> None:
    """One merge that waits for its start and again before its commit, then a second one, again and again until it wins."""
    spark = SparkSession.builder.remote(remote).getOrCreate() if remote else small_session()
    first, second = 10 + 2 * number, 11 + 2 * number
    merge = upsert(spark, path, first)
    say(READY)
    sys.stdin.readline()
    say(attempt(merge, wait=True))
    sys.stdin.readline()
    for _ in range(MOST_ATTEMPTS):
        outcome = attempt(upsert(spark, path, second), wait=False)
        say(outcome)
        if not outcome:
            break


def upsert(spark: SparkSession, path: str, key: int) -> DeltaMergeBuilder:
    """Adds one to `n` of the shared row and inserts a row `key`; updates that too should it be there."""
    rows = spark.createDataFrame(pa.table({"id": [SHARED, key], "n": [1, 1]})).alias("s")
    merge = DeltaTable.forPath(spark, path).alias("t").merge(rows, "t.id = s.id")
    return merge.whenMatchedUpdate(set={"n": "t.n + s.n"}).whenNotMatchedInsertAll()


def attempt(merge: DeltaMergeBuilder, wait: bool) -> str:
    """Run a merge: '' when it is committed, else its error as JSON. With `wait` it commits when it is told to."""

    steps: list[str] = []

    def step(progress: Progress) -> None:
        steps.append(progress.step)
        if wait and steps.count(COMMITTING) == 1 and progress.step == COMMITTING:
            say(COMMITTING)
            sys.stdin.readline()

    try:
        merge.run(step)
    except Exception as error:
        return json.dumps({"classes": [kind.__name__ for kind in type(error).__mro__], "text": str(error)})
    return ""


def say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
