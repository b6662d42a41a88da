"""Statements that change different rows of one file at the same time, and statements beside OPTIMIZE."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import deltamerge
from deltamerge.exceptions import (
    ConcurrentAppendException,
    ConcurrentDeleteReadException,
    DeltaConcurrentModificationException,
)
from deltamerge.merge import line
from deltamerge.tables import DeltaTable
from tests.e2e.feeds import VECTORS, changes, feed_table
from tests.e2e.meanwhile import interrupting
from tests.e2e.refusals import files_below
from tests.e2e.tables import LARGE_SOURCES, conf, content, make, noted, source, version
from tests.e2e.vectors import actions_of, vectors_of

SCHEMA = "id int, v string, n int"
ROWS = [(number, f"row {number}", number * 10) for number in range(20)]
WRITERS = 10


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "t"


@pytest.fixture
def table(spark: SparkSession, path: Path) -> DeltaTable:
    """Twenty rows in one file."""
    return feed_table(spark, path, SCHEMA, ROWS, **VECTORS)


def statements(spark: SparkSession, table: DeltaTable, id: int) -> dict[str, Callable[[], object]]:
    """Statements about one row each."""
    row = source(spark, SCHEMA, [(id, "new", id)])
    upsert = table.merge(row, "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll()
    return {
        "upsert": upsert.execute,
        "merge delete": table.merge(row, "t.id = s.id").whenMatchedDelete().execute,
        "update": lambda: table.update(f"id = {id}", {"v": "'new'", "n": str(id)}),
        "delete": lambda: table.delete(f"id = {id}"),
    }


def after(rows: list[tuple[Any, ...]], kind: str, id: int) -> list[tuple[Any, ...]]:
    """The rows after one of the statements."""
    kept = [row for row in rows if row[0] != id]
    there = len(kept) < len(rows)
    return sorted([*kept, (id, "new", id)] if kind == "upsert" or (kind == "update" and there) else kept)


@pytest.mark.parametrize("first", ["upsert", "merge delete", "update", "delete"])
@pytest.mark.parametrize("second", ["upsert", "merge delete", "update", "delete"])
def test_statements_about_different_rows_follow_each_other(
    spark: SparkSession, table: DeltaTable, path: Path, monkeypatch: pytest.MonkeyPatch, first: str, second: str
) -> None:
    other = DeltaTable.forPath(spark, str(path)).alias("t")
    interrupting(monkeypatch, statements(spark, other, 3)[first])
    statements(spark, table, 7)[second]()
    assert content(spark, path) == after(after(ROWS, first, 3), second, 7)
    assert (version(path), vectors_of(path)[actions_of(path, 0, "add")[0]["path"]]) == (2, 2)
    kinds = {"upsert": ["update_postimage", "update_preimage"], "update": ["update_postimage", "update_preimage"]}
    assert [row[-1] for row in changes(spark, path, 2)] == kinds.get(second, ["delete"])
    assert {row[0] for row in changes(spark, path, 2)} == {7}
    assert {row[0] for row in changes(spark, path, 1)} == {3}
    (info,) = actions_of(path, 2, "commitInfo")
    counts = {name: count for name, count in info["operationMetrics"].items() if "DeletionVectors" in name}
    assert list(counts.values()) == ["1", "1", "1"], counts
    assert len(list(path.glob("deletion_vector_*.bin"))) == 2


def test_the_report_tells_what_history_does(
    spark: SparkSession, table: DeltaTable, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = DeltaTable.forPath(spark, str(path))
    interrupting(monkeypatch, lambda: other.delete("id = 1"))
    report = table.merge(source(spark, "id int", [(2,)]), "t.id = s.id").whenMatchedDelete().run()
    assert (report.version, report.attempts, report.metrics["numTargetDeletionVectorsUpdated"]) == (2, 2, 1)
    (info,) = actions_of(path, 2, "commitInfo")
    assert info["operationMetrics"] == {name: str(count) for name, count in report.metrics.items()}


@pytest.mark.parametrize("second", ["upsert", "merge delete", "update", "delete"])
def test_statements_about_one_row_conflict(
    spark: SparkSession, table: DeltaTable, path: Path, monkeypatch: pytest.MonkeyPatch, second: str
) -> None:
    other = DeltaTable.forPath(spark, str(path))
    before = files_below(path)
    interrupting(monkeypatch, lambda: other.update("id = 7", {"n": "n + 1"}))
    with pytest.raises(ConcurrentAppendException):
        statements(spark, table, 7)[second]()
    data = [name for name in set(files_below(path)) - set(before) if "_delta_log" not in name]
    assert len([name for name in data if "_change_data" not in name]) == 2  # the winner's vector and its file
    assert content(spark, path) == [(id, v, n + (id == 7)) for id, v, n in ROWS]


def test_joining_can_be_switched_off(spark: SparkSession, table: DeltaTable, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = DeltaTable.forPath(spark, str(path))
    interrupting(monkeypatch, lambda: other.delete("id = 1"))
    with conf(spark, {"spark.deltamerge.joinVectors": "false"}), pytest.raises(ConcurrentAppendException):
        table.delete("id = 2")


@pytest.mark.parametrize("gone", [3, 9])
@pytest.mark.parametrize("clauses", ["condition", "insert", "unchanged", "update only"])
def test_a_row_that_matches_and_stays_must_not_vanish_where_rows_are_inserted(
    spark: SparkSession, table: DeltaTable, path: Path, monkeypatch: pytest.MonkeyPatch, clauses: str, gone: int
) -> None:
    """Row 3 keeps a source row from being inserted; row 9 matches none."""
    other = DeltaTable.forPath(spark, str(path))
    rows = source(spark, SCHEMA, [(3, "row 3", 30), (4, "row 4", 50), (30, "new", 0)])
    merge = table.merge(rows, "t.id = s.id")
    if clauses == "unchanged":
        merge = merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().skipUnchanged()
    elif clauses == "condition":
        merge = merge.whenMatchedUpdateAll("s.n > t.n").whenNotMatchedInsertAll()
    elif clauses == "insert":
        merge = merge.whenNotMatchedInsertAll()
    else:
        merge = merge.whenMatchedUpdateAll("s.n > t.n")
    interrupting(monkeypatch, lambda: other.delete(f"id = {gone}"))
    expected = {row[0]: row for row in ROWS if row[0] != gone}
    expected |= {4: (4, "row 4", 50)} if clauses != "insert" else {}
    expected |= {30: (30, "new", 0)} if clauses != "update only" else {}
    if gone == 3 and clauses != "update only":
        with pytest.raises(DeltaConcurrentModificationException):
            merge.execute()
        merge = merge.retryConflicts(1)
        expected[3] = ROWS[3]
    merge.execute()
    assert content(spark, path) == sorted(expected.values())


SOME = [("merge", 40), ("update", 40), ("delete", 40), ("by source", 40), ("merge", 5), ("update", 5), ("delete", 5)]


@pytest.mark.parametrize(("statement", "key"), SOME)
def test_rows_that_are_added_between_those_of_a_statement_are_looked_at(
    spark: SparkSession, path: Path, monkeypatch: pytest.MonkeyPatch, statement: str, key: int
) -> None:
    """By their keys: the statistics of the new file leave room for those of the statement."""
    table = make(spark, path, SCHEMA, ROWS, vectors=True)
    new = spark.createDataFrame([(-1, "low", 0), (key, "new", 0), (90, "high", 0)], SCHEMA).coalesce(1)
    keys = source(spark, "id int", [(0,), (5,), (60,)])
    run: dict[str, Callable[[], object]] = {
        "merge": table.merge(keys, "t.id = s.id").whenMatchedUpdate(set={"n": "-1"}).execute,
        "update": lambda: table.update("id IN (0, 5, 60)", {"n": "-1"}),
        "delete": lambda: table.delete("id = 0 OR id = 5 OR id = 60"),
        "by source": table.merge(keys, "t.id = s.id").whenNotMatchedBySourceDelete("t.n >= 0").execute,
    }
    interrupting(monkeypatch, lambda: deltamerge.write(new, str(path), mode="append"))
    if key == 5 or statement == "by source":
        with pytest.raises(ConcurrentAppendException):
            run[statement]()
        return
    run[statement]()
    kept = [row for row in ROWS if row[0] not in (0, 5)]
    changed = [] if statement == "delete" else [(0, "row 0", -1), (5, "row 5", -1)]
    assert content(spark, path) == sorted([*kept, *changed, (-1, "low", 0), (40, "new", 0), (90, "high", 0)])


@pytest.mark.parametrize("why", ["too large", "gone", "a source that is not collected"])
def test_rows_that_can_not_be_looked_at_are_a_conflict(
    spark: SparkSession, path: Path, monkeypatch: pytest.MonkeyPatch, limit: Callable[..., None], why: str
) -> None:
    table = make(spark, path, SCHEMA, ROWS, vectors=True)
    new = spark.createDataFrame([(-1, "low", 0), (90, "high", 0)], SCHEMA).coalesce(1)
    if why == "too large":
        limit(driver_match_bytes=0)
    elif why != "gone":
        limit(**LARGE_SOURCES)

    def append() -> None:
        deltamerge.write(new, str(path), mode="append")
        if why == "gone":
            (path / actions_of(path, 1, "add")[0]["path"]).unlink()

    interrupting(monkeypatch, append)
    with pytest.raises(ConcurrentAppendException):
        table.merge(source(spark, "id int", [(0,), (5,)]), "t.id = s.id").whenMatchedDelete().execute()


def test_a_row_that_begins_to_match_is_a_conflict(
    spark: SparkSession, table: DeltaTable, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = DeltaTable.forPath(spark, str(path))
    interrupting(monkeypatch, lambda: other.update("id = 1", {"n": "1000"}))
    with pytest.raises(ConcurrentAppendException):
        table.delete("n > 150")


@pytest.mark.parametrize(("first", "second"), [("id < 15", "id = 17"), ("id = 17", "id < 15")])
def test_a_statement_runs_again_by_itself_where_a_file_is_written_again(
    spark: SparkSession, path: Path, monkeypatch: pytest.MonkeyPatch, first: str, second: str
) -> None:
    """More than half of the rows of a file are deleted, none of which the other statement looks for."""
    table = make(spark, path, SCHEMA, ROWS, vectors=True)
    interrupting(monkeypatch, lambda: DeltaTable.forPath(spark, str(path)).delete(first))
    table.delete(second)
    assert content(spark, path) == [row for row in ROWS if row[0] in (15, 16, 18, 19)]
    (info,) = actions_of(path, 2, "commitInfo")
    assert info["readVersion"] == 1


@pytest.mark.parametrize("why", ["one row", "no vectors", "switched off", "too large", "too many rows"])
def test_a_file_that_is_written_again_is_a_conflict_where_rows_may_have_changed(
    spark: SparkSession, path: Path, monkeypatch: pytest.MonkeyPatch, limit: Callable[..., None], why: str
) -> None:
    table = make(spark, path, SCHEMA, ROWS, vectors=why != "no vectors")
    if why == "too large":
        limit(driver_match_bytes=0)
    elif why == "too many rows":
        limit(compared_rows=1)
    first = "id < 16 AND id <> 14 AND id <> 1" if why == "one row" else "id < 14 AND id <> 1"
    interrupting(monkeypatch, lambda: DeltaTable.forPath(spark, str(path)).update(first, {"n": "n + 1"}))
    setting = {"spark.deltamerge.joinVectors": "false"} if why == "switched off" else {}
    with conf(spark, setting), pytest.raises(ConcurrentAppendException):
        table.delete("id IN (14, 15)")
    assert version(path) == 1


@pytest.mark.parametrize("change", ["changed", "gone", "new"])
def test_a_merge_does_not_run_again_by_itself_where_its_rows_have_changed(
    spark: SparkSession, path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    table = make(spark, path, SCHEMA, ROWS, vectors=True)
    other = DeltaTable.forPath(spark, str(path)).alias("t")
    rows = source(spark, SCHEMA, [(0, "new", 0), (90, "new", 0)])
    merge = table.merge(rows, "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll()
    many = [(id, "other", 0) for id in range(1, 16)]
    extra = {"changed": (0, "other", 0), "gone": (0, "gone", 0), "new": (90, "other", 0)}[change]
    winner = other.merge(source(spark, SCHEMA, [*many, extra]), "t.id = s.id")
    winner = winner.whenMatchedDelete("s.v = 'gone'").whenMatchedUpdateAll().whenNotMatchedInsertAll()
    interrupting(monkeypatch, winner.execute)
    with pytest.raises(DeltaConcurrentModificationException):
        merge.execute()


def test_row_ids_stay(spark: SparkSession, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deltamerge.write(
        spark.createDataFrame(ROWS, SCHEMA).coalesce(1),
        str(path),
        properties={"delta.enableRowTracking": "true", "delta.enableDeletionVectors": "true"},
    )
    table = DeltaTable.forPath(spark, str(path)).alias("t")
    interrupting(monkeypatch, lambda: DeltaTable.forPath(spark, str(path)).update("id = 3", {"n": "-3"}))
    table.update("id = 7", {"n": "-7"})
    assert content(spark, path) == [(id, v, -id if id in (3, 7) else n) for id, v, n in ROWS]
    first, last = actions_of(path, 1, "add"), actions_of(path, 2, "add")
    assert sorted(file["defaultRowCommitVersion"] for file in first) == sorted({*range(2)} - {2})
    assert {file["baseRowId"] for file in last} & {file["baseRowId"] for file in first} == {0}
    assert max(file["defaultRowCommitVersion"] for file in last) == 2


@pytest.mark.parametrize("statement", ["merge", "update", "delete"])
def test_an_optimize_meanwhile_lets_a_statement_run_again(
    spark: SparkSession, path: Path, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    table = make(spark, path, SCHEMA, ROWS, files=2, vectors=True)
    other = DeltaTable.forPath(spark, str(path))
    rows = source(spark, SCHEMA, [(3, "new", 3), (30, "new", 30)])
    merge = table.merge(rows, "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll()
    waiting = interrupting(monkeypatch, lambda: other.optimize().executeCompaction())
    expected = [row for row in ROWS if row[0] != 3]
    if statement == "merge":
        report = merge.run()
        assert (report.version, report.updated, report.inserted) == (3, 1, 1)
        expected += [(3, "new", 3), (30, "new", 30)]
    elif statement == "update":
        table.update("id = 3", {"n": "3"})
        expected += [(3, "row 3", 3)]
    else:
        table.delete("id = 3")
    assert (waiting, content(spark, path)) == ([], sorted(expected))
    (optimized,), (info,) = actions_of(path, 2, "commitInfo"), actions_of(path, 3, "commitInfo")
    assert (optimized["operation"], info["readVersion"]) == ("OPTIMIZE", 2)


@pytest.mark.parametrize(("changed", "vectors", "runs"), [(3, True, False), (5, True, True), (5, False, False)])
def test_a_merge_does_not_run_again_over_changes_that_came_with_an_optimize(
    spark: SparkSession, path: Path, monkeypatch: pytest.MonkeyPatch, changed: int, vectors: bool, runs: bool
) -> None:
    """Its source may have been made of its rows as they were. Without vectors nobody looks which rows have changed."""
    table = make(spark, path, SCHEMA, ROWS, files=2, vectors=vectors)
    other = DeltaTable.forPath(spark, str(path))
    merge = table.merge(source(spark, SCHEMA, [(3, "new", 3)]), "t.id = s.id").whenMatchedUpdateAll()

    def optimize_and_change() -> None:
        other.optimize().executeCompaction()
        other.update(f"id = {changed}", {"n": "n + 1"})

    interrupting(monkeypatch, optimize_and_change)
    if runs:
        merge.execute()
        assert content(spark, path)[3:6] == [(3, "new", 3), ROWS[4], (5, "row 5", 51)]
        return
    with pytest.raises(DeltaConcurrentModificationException):
        merge.execute()


def test_a_merge_gives_up_beside_one_optimize_after_the_other(
    spark: SparkSession, path: Path, monkeypatch: pytest.MonkeyPatch, limit: Callable[..., None]
) -> None:
    limit(moved_rows=1)
    table = make(spark, path, SCHEMA, ROWS, files=2, vectors=True)
    other = DeltaTable.forPath(spark, str(path))

    def split_and_optimize() -> None:
        deltamerge.write(spark.createDataFrame([(90, "x", 0)], SCHEMA), str(path), mode="append")
        other.optimize().executeCompaction()

    interrupting(monkeypatch, split_and_optimize, split_and_optimize)
    with pytest.raises(ConcurrentDeleteReadException):
        table.delete("id = 3")


def test_the_source_of_a_merge_beside_an_optimize_is_evaluated_once(
    spark: SparkSession, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make(spark, path, SCHEMA, ROWS, files=2)
    other = DeltaTable.forPath(spark, str(path))
    evaluations = noted(monkeypatch, line, "evaluate")
    waiting = interrupting(monkeypatch, lambda: other.optimize().executeCompaction())
    assert table.merge(source(spark, "id int", [(3,)]), "t.id = s.id").whenMatchedDelete().run().version == 3
    assert (waiting, len(evaluations)) == ([], 1)


def keys_of(writer: int, layout: str) -> list[int]:
    """Ten keys of a writer: side by side, or between those of the others."""
    return [writer * 10 + key if layout == "blocks" else key * WRITERS + writer for key in range(10)]


@pytest.mark.parametrize("layout", ["blocks", "between"])
@pytest.mark.parametrize("kind", ["merge", "mixed"])
def test_ten_writers_of_different_keys_all_win(spark: SparkSession, path: Path, layout: str, kind: str) -> None:
    rows = [(key, "before", 0) for key in range(WRITERS * 10)]
    make(spark, path, SCHEMA, rows, vectors=True)

    def write(writer: int) -> list[int]:
        keys, versions = keys_of(writer, layout), []
        for step in range(3):
            table = DeltaTable.forPath(spark, str(path)).alias("t")
            mine = ", ".join(map(str, keys))
            if kind == "mixed" and step == 1:
                table.update(f"id IN ({mine})", {"n": "n + 1"})
            elif kind == "mixed" and step == 2:
                table.delete(f"id = {keys[0]}")
            else:
                data = pa.table({"id": pa.array(keys, pa.int32()), "v": ["after"] * 10, "n": pa.array([1] * 10, pa.int32())})
                frame = spark.createDataFrame(data).alias("s")
                merge = table.merge(frame, "t.id = s.id").whenMatchedUpdate(set={"v": "s.v", "n": "t.n + s.n"})
                versions.append(merge.whenNotMatchedInsertAll().run().version)
        return versions

    with ThreadPoolExecutor(WRITERS) as pool:
        versions = [version for found in pool.map(write, range(WRITERS)) for version in found]
    assert len(set(versions)) == len(versions)
    gone = {keys_of(writer, layout)[0] for writer in range(WRITERS)} if kind == "mixed" else set()
    expected = [(key, "after", 2 if kind == "mixed" else 3) for key in range(WRITERS * 10) if key not in gone]
    assert content(spark, path) == expected
    assert version(path) == WRITERS * 3
    texts = [file.read_text() for file in (path / "_delta_log").glob("*.json")]
    named = {
        json.loads(line)["add"]["deletionVector"]["pathOrInlineDv"]
        for text in texts
        for line in text.splitlines()
        if "deletionVector" in json.loads(line).get("add", {})
    }
    assert len(list(path.glob("deletion_vector_*.bin"))) == len(named)
