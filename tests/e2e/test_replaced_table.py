"""A statement commits nothing into a table that was made anew at its path after it had read the old one."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from deltamerge.exceptions import MetadataChangedException
from deltamerge.tables import DeltaTable
from tests.e2e.meanwhile import interrupting
from tests.e2e.tables import content, make

SCHEMA = "id int, v string"
VECTORS = {"delta.enableDeletionVectors": "true"}


def merge(table: DeltaTable, spark: SparkSession) -> None:
    source = spark.createDataFrame([(1, "ours"), (9, "ours")], SCHEMA)
    clauses = table.alias("t").merge(source.alias("s"), "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll()
    clauses.retryConflicts(3).execute()


STATEMENTS: dict[str, Callable[[DeltaTable, SparkSession], object]] = {
    "merge": merge,
    "update": lambda table, spark: table.update("id < 3", {"v": "'ours'"}),
    "delete": lambda table, spark: table.delete("id = 1"),
}


@pytest.mark.parametrize("statement", STATEMENTS)
@pytest.mark.parametrize("vectors", [False, True], ids=["rewrites", "vectors"])
def test_a_statement_is_refused(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str, vectors: bool
) -> None:
    path = tmp_path / "t"
    table = make(spark, path, SCHEMA, [(id, "old") for id in range(6)], files=3, vectors=vectors)
    new = [(1, "new"), (2, "new")]

    def make_anew() -> None:
        shutil.rmtree(path)
        make(spark, path, SCHEMA, new, vectors=vectors)

    interrupting(monkeypatch, make_anew)
    with pytest.raises(MetadataChangedException, match=r"DELTAMERGE_TABLE_REPLACED.*Nothing was committed"):
        STATEMENTS[statement](table, spark)
    assert content(spark, path) == new
    assert [file.name for file in (path / "_delta_log").glob("*.json")] == [f"{0:020d}.json"]
    assert len(list(path.glob("*.parquet"))) == 1
    STATEMENTS[statement](table, spark)
    assert content(spark, path) != new
