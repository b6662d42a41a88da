"""Merges into tables with deletion vectors: which files stay, what their vectors hold, what is written and counted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import deltamerge
import deltamerge.worker.scan.scan as scan
from deltamerge.errors import DeltaMergeError
from deltamerge.exceptions import ConcurrentAppendException
from deltamerge.merge import commit as commit_step
from deltamerge.tables import DeltaTable
from tests.e2e.commits import put_commit
from tests.e2e.tables import conf, content, make, source, version
from tests.e2e.vectors import actions_of, stop_writing_vectors, vectors_of
from tests.live import ship_live_code

SCHEMA = "id int, name string, n int"
ROWS = [(number, f"row {number}", number * 10) for number in range(20)]

pytestmark = pytest.mark.usefixtures("strategy")


def data_files(path: Path) -> list[str]:
    return sorted(file.relative_to(path).as_posix() for file in path.rglob("*.parquet") if "_delta_log" not in str(file))


def test_updated_rows_are_marked_and_written_to_one_new_file(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS, files=2, vectors=True)
    before = data_files(tmp_path / "t")
    changes = source(spark, SCHEMA, [(3, "new", 1), (7, "new", 2), (12, "new", 3), (99, "added", 4)])
    report = table.merge(changes, "t.id = s.id").whenMatchedUpdateAll().whenNotMatchedInsertAll().run()
    expected = [row for row in ROWS if row[0] not in (3, 7, 12)]
    expected += [(3, "new", 1), (7, "new", 2), (12, "new", 3), (99, "added", 4)]
    assert content(spark, tmp_path / "t") == sorted(expected)
    assert sorted(vectors_of(tmp_path / "t").values()) == [1, 2]
    assert set(before) < set(data_files(tmp_path / "t"))
    metrics = report.metrics
    assert metrics["numTargetRowsCopied"] == 0
    assert metrics["numTargetFilesRemoved"] == 0
    assert metrics["numTargetFilesAdded"] == len(data_files(tmp_path / "t")) - len(before)
    assert (metrics["numTargetDeletionVectorsAdded"], metrics["numTargetDeletionVectorsUpdated"]) == (2, 0)
    assert len(list((tmp_path / "t").glob("deletion_vector_*.bin"))) == 1


def test_the_commit_has_each_marked_file_twice(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS, vectors=True)
    for number in (1, 2):
        table.merge(source(spark, "id int", [(number,)]), "t.id = s.id").whenMatchedDelete().execute()
    (first,), (second,) = actions_of(tmp_path / "t", 1, "add"), actions_of(tmp_path / "t", 2, "add")
    (gone,) = actions_of(tmp_path / "t", 2, "remove")
    assert "deletionVector" not in actions_of(tmp_path / "t", 1, "remove")[0]
    assert gone["deletionVector"] == first["deletionVector"]
    assert gone["path"] == first["path"] == second["path"]
    assert (first["deletionVector"]["cardinality"], second["deletionVector"]["cardinality"]) == (1, 2)
    assert second["modificationTime"] == first["modificationTime"]
    stats = json.loads(second["stats"])
    assert (stats["numRecords"], stats["tightBounds"], stats["maxValues"]["id"]) == (20, False, 19)
    assert stats == json.loads(first["stats"])


def test_a_vector_grows(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS, vectors=True)
    table.merge(source(spark, "id int", [(1,), (2,)]), "t.id = s.id").whenMatchedDelete().execute()
    report = table.merge(source(spark, SCHEMA, [(2, "again", 0), (5, "x", 0)]), "t.id = s.id").whenMatchedUpdateAll().run()
    assert report.updated == 1
    assert list(vectors_of(tmp_path / "t").values()) == [3]
    assert report.metrics["numTargetDeletionVectorsUpdated"] == 1
    assert content(spark, tmp_path / "t") == sorted([*(r for r in ROWS if r[0] not in (1, 2, 5)), (5, "x", 0)])


def test_a_file_without_rows_left_is_removed(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS, files=2, vectors=True)
    table.merge(source(spark, "id int", [(1,)]), "t.id = s.id").whenMatchedDelete().execute()
    rest = source(spark, "id int", [(number,) for number in range(10)])
    report = table.merge(rest, "t.id = s.id").whenMatchedDelete().run()
    assert report.deleted == 9
    assert content(spark, tmp_path / "t") == ROWS[10:]
    assert actions_of(tmp_path / "t", version(tmp_path / "t"), "add") == []
    assert len(list((tmp_path / "t").glob("deletion_vector_*.bin"))) == 1
    names = ("numTargetDeletionVectorsRemoved", "numTargetFilesRemoved", "numTargetFilesAdded", "numTargetRowsCopied")
    assert [report.metrics[name] for name in names] == [1, 1, 0, 0]


def test_a_file_of_which_most_is_gone_is_rewritten_beside_others_that_are_marked(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS, files=2, vectors=True)
    changes = source(spark, "id int", [(number,) for number in [0, 1, 2, 3, 4, 5, 15]])
    report = table.merge(changes, "t.id = s.id").whenMatchedUpdate(set={"n": "-1"}).run()
    assert content(spark, tmp_path / "t") == sorted((i, name, -1 if i in (0, 1, 2, 3, 4, 5, 15) else n) for i, name, n in ROWS)
    assert list(vectors_of(tmp_path / "t").values()) == [1]
    assert report.metrics["numTargetRowsCopied"] == 4
    assert report.metrics["numTargetFilesRemoved"] == 1


@pytest.mark.parametrize("share", ["0", "1"])
@pytest.mark.parametrize("of", ["session", "table", "both"])
def test_the_share_can_be_set(spark: SparkSession, tmp_path: Path, share: str, of: str) -> None:
    """By the table's property, and before that by the session's setting."""
    other = "0" if share == "1" else "1"
    properties = {} if of == "session" else {"deltamerge.rewriteShare": share if of == "table" else other}
    table = make(spark, tmp_path / "t", SCHEMA, ROWS, vectors=True, properties=properties)
    with conf(spark, {} if of == "table" else {"spark.deltamerge.rewriteShare": share}):
        changes = source(spark, "id int", [(number,) for number in range(19 if share == "1" else 1)])
        table.merge(changes, "t.id = s.id").whenMatchedDelete().execute()
    assert list(vectors_of(tmp_path / "t").values()) == ([19] if share == "1" else [])
    assert content(spark, tmp_path / "t") == (ROWS[19:] if share == "1" else ROWS[1:])


@pytest.mark.parametrize("share", ["half", "-1", "nan"])
@pytest.mark.parametrize("name", ["spark.deltamerge.rewriteShare", "deltamerge.rewriteShare"])
def test_a_share_that_is_none_is_refused(spark: SparkSession, tmp_path: Path, share: str, name: str) -> None:
    of_session = name.startswith("spark")
    table = make(spark, tmp_path / "t", SCHEMA, ROWS, vectors=True, properties={} if of_session else {name: share})
    with (
        conf(spark, {name: share} if of_session else {}),
        pytest.raises(DeltaMergeError, match=rf"DELTAMERGE_INVALID_SHARE\].* {name} is '{share}'"),
    ):
        table.merge(source(spark, "id int", [(1,)]), "t.id = s.id").whenMatchedDelete().execute()


def test_without_the_property_files_are_rewritten_and_deleted_rows_stay_away(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS, files=2, vectors=True)
    table.merge(source(spark, "id int", [(1,), (15,)]), "t.id = s.id").whenMatchedDelete().execute()
    vectors = vectors_of(tmp_path / "t")
    stop_writing_vectors(tmp_path / "t", 3)
    report = table.merge(source(spark, "id int", [(1,), (2,)]), "t.id = s.id").whenMatchedUpdate(set={"name": "'x'"}).run()
    assert (report.updated, report.metrics["numTargetRowsCopied"]) == (1, 8)
    expected = [(i, "x" if i == 2 else name, n) for i, name, n in ROWS if i not in (1, 15)]
    assert content(spark, tmp_path / "t") == expected
    (gone,) = actions_of(tmp_path / "t", version(tmp_path / "t"), "remove")
    assert gone["deletionVector"]["cardinality"] == vectors[gone["path"]]
    assert set(vectors_of(tmp_path / "t")) == set(vectors) - {gone["path"]}


def test_by_source_clauses_mark_rows(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS, files=4, vectors=True)
    keep = source(spark, "id int", [(number,) for number in range(20) if number not in (1, 6, 7)])
    merge = table.merge(keep, "t.id = s.id").whenNotMatchedBySourceUpdate("t.id = 1", {"name": "'old'"})
    report = merge.whenNotMatchedBySourceDelete().run()
    assert (report.updated, report.deleted) == (1, 2)
    assert content(spark, tmp_path / "t") == sorted([(1, "old", 10), *(r for r in ROWS if r[0] not in (1, 6, 7))])
    assert sorted(vectors_of(tmp_path / "t").values()) == [1, 2]


def test_rows_move_between_partitions(spark: SparkSession, tmp_path: Path) -> None:
    rows = [(number, "abcd"[number % 4], number) for number in range(16)]
    table = make(spark, tmp_path / "t", "id int, p string, v int", rows, partition_by=["p"], vectors=True)
    changes = source(spark, "id int, p string", [(0, "b"), (4, "a"), (5, "z"), (6, None), (77, "a")])
    merge = table.merge(changes, "t.id = s.id").whenMatchedUpdate(set={"p": "s.p"})
    merge.whenNotMatchedInsert(values={"id": "s.id", "p": "s.p"}).execute()
    moved = {0: "b", 4: "a", 5: "z", 6: None}
    expected = [(i, moved.get(i, p), v) for i, p, v in rows] + [(77, "a", None)]
    assert content(spark, tmp_path / "t") == sorted(expected)
    assert sum(vectors_of(tmp_path / "t").values()) == 4


def test_a_delete_reads_no_data_column_and_writes_no_data_file(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, strategy: str
) -> None:
    if strategy == "join":
        pytest.skip("the scan runs in other processes")
    table = make(spark, tmp_path / "t", SCHEMA, ROWS, vectors=True)
    read: list[str] = []
    original = scan.read_columns

    def recorded(file: Any, group: int, schema: Any, partition: Any) -> Any:
        read.extend(schema.names)
        return original(file, group, schema, partition)

    ship_live_code(monkeypatch)
    monkeypatch.setattr(scan, "read_columns", recorded)
    before = data_files(tmp_path / "t")
    table.merge(source(spark, SCHEMA, [(3, "", 0)]), "t.id = s.id").whenMatchedDelete().execute()
    assert set(read) == {"id"}
    assert data_files(tmp_path / "t") == before


def test_old_versions_are_read_with_their_vectors(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS, vectors=True)
    for number in (1, 2):
        table.merge(source(spark, "id int", [(number,)]), "t.id = s.id").whenMatchedDelete().execute()
    assert [len(content(spark, tmp_path / "t", version)) for version in (0, 1, 2)] == [20, 19, 18]
    frame = deltamerge.read(spark, str(tmp_path / "t"))
    assert frame.where("id < 4").select("name").orderBy("name").collect() == [("row 0",), ("row 3",)]
    assert table.toDF().where("t.id > 0").count() == 17


def test_a_damaged_vector_is_named_and_nothing_is_committed(spark: SparkSession, tmp_path: Path) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS, vectors=True)
    table.merge(source(spark, "id int", [(1,)]), "t.id = s.id").whenMatchedDelete().execute()
    (file,) = (tmp_path / "t").glob("deletion_vector_*.bin")
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    (name,) = vectors_of(tmp_path / "t")
    with pytest.raises(DeltaMergeError, match="checksum") as caught:
        table.merge(source(spark, "id int", [(2,)]), "t.id = s.id").whenMatchedDelete().execute()
    assert caught.value.condition == "DELTA_DELETION_VECTOR_CHECKSUM_MISMATCH"
    assert name in str(caught.value)
    assert version(tmp_path / "t") == 1


def test_two_merges_that_mark_one_row_conflict(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make(spark, tmp_path / "t", SCHEMA, ROWS, vectors=True)
    committed = commit_step.commit

    def after_another(*args: Any) -> Any:
        monkeypatch.setattr(commit_step, "commit", committed)
        table.merge(source(spark, "id int", [(5,)]), "t.id = s.id").whenMatchedDelete().execute()
        return committed(*args)

    monkeypatch.setattr(commit_step, "commit", after_another)
    with pytest.raises(ConcurrentAppendException):
        table.merge(source(spark, SCHEMA, [(2, "x", 0), (5, "x", 0)]), "t.id = s.id").whenMatchedUpdateAll().execute()
    assert content(spark, tmp_path / "t") == [row for row in ROWS if row[0] != 5]
    live = {path.name for path in (tmp_path / "t").glob("deletion_vector_*.bin")}
    assert len(live) == 1
    assert len(data_files(tmp_path / "t")) == 1


def test_statistics_without_a_row_count_get_one(spark: SparkSession, tmp_path: Path) -> None:
    make(spark, tmp_path / "t", SCHEMA, ROWS, vectors=True)
    first = tmp_path / "t" / "_delta_log" / f"{0:020d}.json"
    actions = [json.loads(line) for line in first.read_text().splitlines()]
    for action in actions:
        action.get("add", {}).pop("stats", None)
    put_commit(first, "\n".join(map(json.dumps, actions)) + "\n")
    table = DeltaTable.forPath(spark, str(tmp_path / "t")).alias("t")
    table.merge(source(spark, "id int", [(1,)]), "t.id = s.id").whenMatchedDelete().execute()
    (added,) = actions_of(tmp_path / "t", 1, "add")
    assert json.loads(added["stats"]) == {
        "numRecords": pq.read_metadata(pa.BufferReader((tmp_path / "t" / added["path"]).read_bytes())).num_rows,
        "tightBounds": False,
    }
