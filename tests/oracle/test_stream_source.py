"""The same tables read as streams by delta-spark and by this library: the same rows, ends of batches, and refusals."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from deltamerge.log.stream.options import stream_options
from deltamerge.spark.session.settings import time_zone
from deltamerge.spark.stream.frame import stream_frame

CONDITION = re.compile(r"\[((?:DELTA|DIFFERENT_DELTA)\w+)(?:\.\w+)*\]")
HISTORIES: dict[str, tuple[str, ...]] = {
    "appends": ("INSERT INTO {t} VALUES (3, 'a'), (4, 'b')", "OPTIMIZE {t}", "INSERT INTO {t} VALUES (5, 'c')"),
    "deletes": ("INSERT INTO {t} VALUES (3, 'a')", "DELETE FROM {t} WHERE p = 'b'", "INSERT INTO {t} VALUES (5, 'c')"),
    "updates": ("UPDATE {t} SET id = id + 10 WHERE p = 'a'", "INSERT INTO {t} VALUES (5, 'c')"),
    "vectors": (
        "INSERT INTO {t} SELECT /*+ COALESCE(1) */ * FROM VALUES (3, 'a'), (7, 'a')",
        "DELETE FROM {t} WHERE id = 7",
        "INSERT INTO {t} VALUES (5, 'c')",
    ),
    "columns": ("ALTER TABLE {t} ADD COLUMN x INT", "INSERT INTO {t} VALUES (5, 'c', 50)"),
    "renames": ("ALTER TABLE {t} RENAME COLUMN id TO n", "INSERT INTO {t} VALUES (5, 'c')"),
    "drops": ("ALTER TABLE {t} ADD COLUMN x INT", "ALTER TABLE {t} DROP COLUMN x", "INSERT INTO {t} VALUES (5, 'c')"),
    "widened": ("ALTER TABLE {t} ALTER COLUMN id TYPE BIGINT", "INSERT INTO {t} VALUES (5, 'c')"),
}
MAPPED = {"delta.columnMapping.mode": "name"}
PROPERTIES = {
    "vectors": {"delta.enableDeletionVectors": "true"},
    "renames": MAPPED,
    "drops": MAPPED,
    "widened": {"delta.enableTypeWidening": "true"},
}
FROM_START = {"startingVersion": "0"}
OPTIONS: dict[str, list[dict[str, str]]] = {
    "appends": [{}, {"maxFilesPerTrigger": "1", **FROM_START}, {"maxBytesPerTrigger": "1k"}, {"startingVersion": "1"}],
    "deletes": [{}, FROM_START, {"ignoreDeletes": "true", **FROM_START}, {"skipChangeCommits": "true", **FROM_START}],
    "updates": [
        FROM_START,
        {"ignoreDeletes": "true", **FROM_START},
        {"ignoreChanges": "true", **FROM_START},
        {"skipChangeCommits": "true", **FROM_START},
        {"readChangeFeed": "true", **FROM_START},
        {"readChangeFeed": "true", "startingVersion": "9"},
    ],
    "vectors": [
        {},
        {"ignoreChanges": "true", **FROM_START},
        {"readChangeFeed": "true", "maxFilesPerTrigger": "1", **FROM_START},
        {"readChangeFeed": "true"},
    ],
    "renames": [{}, FROM_START, {"startingVersion": "3"}],
    "drops": [{}, FROM_START, {"startingVersion": "4"}],
    "widened": [{}, FROM_START, {"startingVersion": "2"}],
    "columns": [{}, FROM_START, {"startingVersion": "latest"}, {"startingTimestamp": "2999-01-01"}],
}


def theirs(spark: SparkSession, path: Path, options: dict[str, str]) -> DataFrame:
    return spark.readStream.format("delta").options(**options).load(str(path))


def ours(spark: SparkSession, path: Path, options: dict[str, str]) -> DataFrame:
    return stream_frame(spark, str(path), stream_options(options, time_zone(spark)))


def told(
    spark: SparkSession, make: Any, path: Path, options: dict[str, str], checkpoint: Path
) -> tuple[Counter[str], list[Any], str | None]:
    """The rows that a query finds, where its batches end, and what it is refused for."""
    rows: Counter[str] = Counter()

    def count(batch: DataFrame, number: int) -> None:
        rows.update(map(str, batch.collect()))

    query, refusal = None, None
    try:
        writer = make(spark, path, options).writeStream.foreachBatch(count).option("checkpointLocation", str(checkpoint))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
    except Exception as error:
        found = CONDITION.search(str(error))
        refusal = str(error) if found is None else found[1]
    progress = [] if query is None else query.recentProgress
    ends = [source["endOffset"] for step in progress if step["numInputRows"] for source in step["sources"]]
    return rows, [json.loads(end) if isinstance(end, str) else end for end in ends], refusal


@pytest.mark.parametrize("history", HISTORIES)
def test_the_same_stream(spark: SparkSession, tmp_path: Path, history: str) -> None:
    table = f"delta.`{tmp_path / 't'}`"
    given = {"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": "false", **PROPERTIES.get(history, {})}
    properties = ", ".join(f"'{name}' = '{value}'" for name, value in given.items())
    spark.sql(
        f"CREATE TABLE {table} (id INT, p STRING) USING delta {'' if history == 'vectors' else 'PARTITIONED BY (p)'} "
        f"TBLPROPERTIES ({properties})"
    )
    for statement in ("INSERT INTO {t} VALUES (1, 'a'), (2, 'b')", *HISTORIES[history]):
        spark.sql(statement.format(t=table))
    for number, options in enumerate(OPTIONS[history]):
        found = [told(spark, make, tmp_path / "t", options, tmp_path / f"{make.__name__}_{number}") for make in (theirs, ours)]
        assert found[1] == found[0], (history, options)


def test_a_query_goes_on_where_the_other_has_stopped(spark: SparkSession, tmp_path: Path) -> None:
    place, rows = str(tmp_path / "t"), Counter[str]()
    spark.range(0, 40, 1, 4).write.format("delta").save(place)
    for version, make in enumerate((theirs, ours, theirs), 1):
        found = told(spark, make, tmp_path / "t", {"maxFilesPerTrigger": "3"}, tmp_path / "one")
        assert found[2] is None
        rows += found[0]
        spark.range(100 * version, 100 * version + 4, 1, 4).write.format("delta").mode("append").save(place)
    assert rows == Counter(f"Row(id={id})" for id in (*range(40), *range(100, 104), *range(200, 204)))
