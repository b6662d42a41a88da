"""A preview tells what the merge then does: the same strategy, the same counts, the same touched files."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from deltamerge.merge import line
from deltamerge.spark.source.facts import Evaluation
from deltamerge.tables import DeltaMergeBuilder, DeltaTable
from tests.e2e.tables import LARGE_SOURCES, conf, make

SCHEMA = "k long, v int, w string"
ROWS = [(n, 10 * n, f"w{n}") for n in range(40)]
FEW = [(3, 1, "w3"), (5, 2, "y"), (None, 5, "new"), (12, 2, "y"), (-1, 4, "new")]
TYPES = pa.schema([("k", pa.int64()), ("v", pa.int32()), ("w", pa.string())])


def write(place: Path, rows: list[tuple[Any, ...]], time: int) -> None:
    """The rows in a Parquet file that is as long whatever the numbers are."""
    table = pa.Table.from_pylist([dict(zip("kvw", row, strict=True)) for row in rows], TYPES)
    pq.write_table(table, place, compression="none", use_dictionary=False)
    os.utime(place, (time, time))


def upsert(spark: SparkSession, table: Path, source: Path) -> DeltaMergeBuilder:
    """An upsert of the source's file."""
    merge = DeltaTable.forPath(spark, str(table)).alias("t").merge(spark.read.parquet(str(source)).alias("s"), "t.k = s.k")
    return merge.whenMatchedUpdateAll().whenNotMatchedInsertAll()


@pytest.mark.classic
def test_a_source_that_changes_meanwhile_is_evaluated_anew_as_by_the_merge(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: Callable[..., None]
) -> None:
    limit(**LARGE_SOURCES, deferred_share=1e9, range_task_bytes=1)
    place = tmp_path / "changes.parquet"
    write(place, FEW, 1_700_000_000)
    make(spark, tmp_path / "t", SCHEMA, ROWS, files=3)
    evaluate = line.evaluate

    def later(*given: Any) -> Any:
        found = evaluate(*given)
        if found.facts.evaluation is Evaluation.DEFERRED:
            write(place, [(row[0] and row[0] + 25, *row[1:]) for row in FEW], 1_700_000_009)
        return found

    monkeypatch.setattr(line, "evaluate", later)
    found = upsert(spark, tmp_path / "t", place).preview()
    assert (found.updated, found.inserted, found.touched_files) == (4, 1, 1 + 1)


@pytest.mark.classic
def test_a_merge_that_may_run_again_has_the_strategy_that_its_preview_names(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: Callable[..., None]
) -> None:
    limit(**LARGE_SOURCES, range_task_bytes=1, hash_least_tasks=2)
    place = tmp_path / "changes.parquet"
    write(place, FEW, 1_700_000_000)
    make(spark, tmp_path / "t", SCHEMA, sorted(ROWS, key=lambda row: row[0] % 7), files=3)
    with conf(spark, {"spark.deltamerge.conflictRetries": "1"}):
        merge = upsert(spark, tmp_path / "t", place)
        strategy = merge.preview().strategy
        assert merge.run().strategy == strategy == "spark_join"


def test_what_is_shown_of_a_merge(spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Each of its objects has a page for notebooks, short text, and JSON; nothing that a table holds is code on a page."""
    table = make(spark, tmp_path / "table", "id long, `<i>` string", [(1, "a"), (2, "b")])
    source = spark.createDataFrame([(2, "<script>"), (3, "c")], "id long, `<i>` string").alias("s")
    merge = table.alias("t").merge(source, "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll()
    with caplog.at_level("INFO", "deltamerge.merge"):
        preview, plan, report = merge.preview(), merge.explain(), merge.run()
    shown = [merge, preview, plan, report, table]
    pages = [each._repr_html_() for each in shown]
    assert [
        word in page for word, page in zip(("SET *", "&lt;script&gt;", "broadcast", "1 updated", "&lt;i&gt;"), pages, strict=True)
    ] == [True] * 5
    assert not any("<script" in page or "<i>" in page for page in pages)
    assert "  after   2   <script>*" in str(preview).splitlines()
    assert isinstance(plan, str)
    assert json.loads(preview.to_json())["clauses"][0]["sample"] == [
        {"before": {"id": 2, "<i>": "b"}, "after": {"id": 2, "<i>": "<script>"}}
    ]
    assert json.loads(report.to_json())["rows"] == {"affected": 2, "updated": 1, "deleted": 0, "inserted": 1}
    assert f"committed version 1 of {tmp_path / 'table'}: 1 updated, 1 inserted, " in caplog.messages[-1]
    assert "  version         1" in str(table).splitlines()
    history, detail = table.history(), table.detail()
    assert [word in history._repr_html_() for word in (str(tmp_path / "table"), "<td>MERGE</td>", "<td>WRITE</td>")] == [True] * 3
    assert "&lt;i&gt;" in detail._repr_html_()
    assert (history.select("version").first()[0], detail.first().format) == (1, "delta")
