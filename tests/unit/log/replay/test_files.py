"""File sets: identities of files, replay of commits, and the order that masks, columns and tables share."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from deltamerge.log.replay.files import FILE_SCHEMA, TOMBSTONE_SCHEMA, FileSet, add_files, file_keys, table_of
from deltamerge.protocol.table.actions import AddFile, DeletionVector
from tests.unit.log.building import add, remove, vector


def adds(*paths: str, **more: Any) -> pa.Table:
    return table_of([add(path, **more)["add"] for path in paths], FILE_SCHEMA)


def paths(files: FileSet) -> list[str]:
    return files.column("path").to_pylist()


def grown(count: int) -> FileSet:
    files = FileSet()
    for number in range(count):
        files = files.replay(adds(f"f{number}", size=number), [])
    return files


def test_the_key_is_the_path_and_the_vector() -> None:
    table = pa.concat_tables([adds("a"), adds("a", deletionVector=vector("v", 1)), adds("a", deletionVector=vector("v", None))])
    assert file_keys(table).to_pylist() == ["a", "a\0u\0v\x001", "a\0u\0v\0"]


def test_a_tombstone_has_the_key_of_its_file() -> None:
    for more in ({}, {"deletionVector": vector("v", 1)}, {"deletionVector": vector("v", None)}):
        tombstone = table_of([remove("a", **more)["remove"]], TOMBSTONE_SCHEMA)
        assert file_keys(tombstone).to_pylist() == file_keys(adds("a", **more)).to_pylist()


def test_a_vector_of_another_place_or_offset_is_another_file() -> None:
    vectors = [vector("v", 1), vector("v", 2), vector("w", 1), {**vector("v", 1), "storageType": "p"}, vector("v", None)]
    keys = file_keys(pa.concat_tables([adds("a", deletionVector=v) for v in vectors])).to_pylist()
    assert len(set(keys)) == len(vectors)


def test_an_empty_set_has_no_files() -> None:
    files = FileSet()
    assert len(files) == 0
    assert files.total_bytes == 0
    assert files.table() == FILE_SCHEMA.empty_table()
    assert files.column("path").to_pylist() == []
    assert files.select(np.zeros(0, np.bool_)).num_rows == 0


def test_replay_removes_then_adds() -> None:
    files = FileSet.of(adds("a", "b", "c")).replay(adds("d"), ["b"])
    assert paths(files) == ["a", "c", "d"]
    assert len(files) == 3


def test_replay_leaves_the_set_before_as_it_was() -> None:
    before = FileSet.of(adds("a", "b"))
    before.replay(adds("c"), ["a"])
    assert paths(before) == ["a", "b"]


def test_an_add_replaces_the_file_of_the_same_key() -> None:
    files = FileSet.of(adds("a", "b")).replay(adds("a", size=99), [])
    assert files.table().select(["path", "size"]).to_pylist() == [{"path": "b", "size": 10}, {"path": "a", "size": 99}]


def test_an_add_with_a_vector_lives_beside_until_the_old_one_is_removed() -> None:
    marked = adds("a", deletionVector=vector("v"))
    assert len(FileSet.of(adds("a")).replay(marked, [])) == 2
    assert FileSet.of(adds("a")).replay(marked, ["a"]).table() == marked


def test_removing_what_is_not_there_changes_nothing() -> None:
    files = FileSet.of(adds("a"))
    assert paths(files.replay(FILE_SCHEMA.empty_table(), ["x"])) == ["a"]


def test_bytes_count_live_files_only() -> None:
    assert FileSet.of(adds("a", "b", size=7)).replay(adds("c", size=100), ["a"]).total_bytes == 107


def test_vectors_count_live_files_only() -> None:
    marked = {**vector("x"), "cardinality": 5}
    files = FileSet.of(adds("plain"), adds("a", "b", deletionVector=marked), adds("c", deletionVector=vector("y")))
    assert files.vectors == (3, 11)
    assert files.replay(adds(), file_keys(adds("a", deletionVector=marked)).to_pylist()).vectors == (2, 6)


def test_chunks_without_a_live_file_are_dropped() -> None:
    files = FileSet.of(adds("a")).replay(adds("b"), []).replay(adds("c"), ["a", "b"])
    assert len(files.chunks) == 1


def test_versions_share_their_chunks() -> None:
    before = FileSet.of(adds("a", "b"))
    after = before.replay(adds("c"), ["a"])
    assert after.chunks[0] is before.chunks[0]


def test_many_small_commits_are_compacted_with_all_their_files() -> None:
    files = grown(100)
    assert len(files.chunks) <= 24
    assert sorted(paths(files)) == sorted(f"f{number}" for number in range(100))
    assert files.total_bytes == sum(range(100))


def test_compaction_drops_dead_files_and_keeps_the_largest_chunk() -> None:
    large = FileSet.of(adds(*(f"large{number}" for number in range(50))))
    files = large
    for number in range(60):
        files = files.replay(adds(f"a{number}", f"b{number}"), [f"a{number}" for number in range(number)])
    files = files.replay(FILE_SCHEMA.empty_table(), ["large0", "b59"])
    assert len(files.chunks) <= 24
    assert any(chunk is large.chunks[0] for chunk in files.chunks)
    assert sorted(paths(files)) == sorted(["a59", *(f"b{n}" for n in range(59)), *(f"large{n}" for n in range(1, 50))])


def test_selecting_column_and_table_share_one_order() -> None:
    files = grown(60).replay(adds("x", "y", "z"), [f"f{number}" for number in range(0, 60, 7)])
    table = files.table()
    assert table.num_rows == len(files)
    for name in FILE_SCHEMA.names:
        assert files.column(name).to_pylist() == table[name].to_pylist()
    chosen = np.arange(len(files)) % 3 == 0
    assert files.select(chosen).to_pylist() == table.filter(pa.array(chosen)).to_pylist()


@pytest.mark.parametrize("value", [False, True])
def test_selecting_none_or_all(value: bool) -> None:
    files = grown(30).replay(FILE_SCHEMA.empty_table(), ["f3"])
    assert files.select(np.full(len(files), value)).num_rows == (29 if value else 0)


def test_rows_as_actions() -> None:
    given = add(
        "a",
        partitionValues={"p": None, "q": "1"},
        stats='{"numRecords":1}',
        tags={"k": "v"},
        deletionVector=vector("v", 0),
        baseRowId=0,
        defaultRowCommitVersion=3,
        clusteringProvider="liquid",
    )["add"]
    assert add_files(table_of([given, {"path": "b", "size": 1}], FILE_SCHEMA)) == [
        AddFile(
            path="a",
            partition_values={"p": None, "q": "1"},
            size=10,
            modification_time=5,
            stats='{"numRecords":1}',
            deletion_vector=DeletionVector("u", "v", 36, 1, 0),
            tags={"k": "v"},
            base_row_id=0,
            default_row_commit_version=3,
            clustering_provider="liquid",
        ),
        AddFile("b", {}, 1, 0),
    ]
