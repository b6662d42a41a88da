"""Schema evolution: each merge of `evolutions` ends as delta-spark's does, rewriting files or marking rows."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import deltamerge
from deltamerge.log.replay.table import open_log
from deltamerge.protocol.schema.types import parse_schema, type_value
from tests.oracle.engines import COUNTERS, copy_table
from tests.oracle.evolutions import EVOLUTIONS, Evolution
from tests.oracle.readers import by_delta_spark, by_deltamerge

CHOSEN = EVOLUTIONS if os.environ.get("DELTAMERGE_TEST_ALL") else EVOLUTIONS[::6]
_MARK = "ALTER TABLE {t} SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
_ROWS_FAIL = (
    "TASK_WRITE_FAILED",
    "DELTA_CAST_OVERFLOW_IN_TABLE_WRITE",
    "CAST_INVALID_INPUT",
    "DELTA_NOT_NULL_CONSTRAINT_VIOLATED",
)


@pytest.mark.parametrize("number", range(len(CHOSEN)), ids=[case.title for case in CHOSEN])
def test_an_evolution_ends_as_delta_sparks(spark: SparkSession, tmp_path: Path, number: int) -> None:
    case, theirs, ours = CHOSEN[number], tmp_path / "theirs", tmp_path / "ours"
    make(spark, case, theirs, vectors=number % 2 == 1)
    copy_table(theirs, ours)
    spark.conf.set("spark.deltamerge.strategy", "join" if number // 2 % 2 else "auto")
    before = described(ours)
    expected, found = run(spark, case, theirs), run(deltamerge, case, ours, spark)
    assert found == (case.differs or expected)
    if found != expected:
        assert described(ours) == before
        return
    assert described(ours) == described(theirs)
    assert by_delta_spark(spark, ours) == by_delta_spark(spark, theirs) == by_deltamerge(spark, ours)


def make(spark: SparkSession, case: Evolution, path: Path, vectors: bool) -> None:
    name = f"delta.`{path}`"
    columns = f"({case.columns})" if case.columns else ""
    spark.sql(f"CREATE TABLE {name} {columns} USING delta {case.options}")
    if case.rows:
        spark.sql(f"INSERT INTO {name} VALUES {', '.join(case.rows)}")
    for change in [*([_MARK] if vectors else []), *(f"ALTER TABLE {{t}} {change}" for change in case.changes)]:
        spark.sql(change.format(t=name))


def run(engine: Any, case: Evolution, path: Path, *session: SparkSession) -> str | None:
    """How the merge fails, by condition name; None when it does not."""
    source = case.source if case.source.startswith("SELECT") else f"SELECT * FROM {case.source}"
    evolution = "WITH SCHEMA EVOLUTION " if case.evolves else ""
    on = "t.id = s.id" if case.columns else "false"
    text = f"MERGE {evolution}INTO delta.`{path}` t USING ({source}) s ON {on} {case.clauses}"
    return failure(lambda: engine.sql(*session, text).collect())


def failure(run: Callable[[], Any]) -> str | None:
    """The condition name with which something fails, "rows" for rows that can't be written; None when it does not fail."""
    try:
        run()
    except Exception as error:
        names = re.findall(r"\[([A-Z][A-Z_]{8,})(?:\.[A-Z_]+)?\]|main error class '(\w+)'", str(error))
        found = next(name for pair in names for name in pair if name and name != "INTERNAL_ERROR")
        return "rows" if found in _ROWS_FAIL else found
    return None


def described(path: Path) -> tuple[Any, ...]:
    """What the last commit says: version, row counters, and the schema and properties in force, physical names aside."""
    table = open_log(str(path))
    snapshot = table.snapshot()
    metrics = table.commits(1)[0].info.get("operationMetrics", {})
    schema = re.sub(
        r'"col-[^"]+"', '"col"', json.dumps(type_value(parse_schema(snapshot.metadata.schema_string)), sort_keys=True)
    )
    counters = {name: int(metrics.get(name, 0)) for name in COUNTERS}
    return (
        snapshot.version,
        counters,
        schema,
        snapshot.metadata.configuration,
        snapshot.metadata.partition_columns,
        snapshot.protocol,
    )
