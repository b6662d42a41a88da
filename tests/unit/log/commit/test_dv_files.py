"""Files of deletion vectors, and the statistics of the files that they belong to."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deltamerge.log.commit.dv_files as dv_files
from deltamerge.errors import StorageError
from deltamerge.log.commit.dv_files import wide_stats, with_vector, write_vectors
from deltamerge.protocol.formats.roaring import encode
from deltamerge.protocol.table.actions import AddFile, DeletionVector
from deltamerge.protocol.table.deletion_vector import deleted_rows, vector_reference
from deltamerge.storage.local import LocalStore

ROWS = [[0, 4], [7], list(range(5, 90_000, 3))]
VECTORS = [(encode(np.array(rows)), len(rows)) for rows in ROWS]


@pytest.mark.parametrize(("most", "files"), [(1 << 20, 1), (100, 2), (1, 3)])
def test_vectors_are_found_where_their_descriptors_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int, files: int
) -> None:
    monkeypatch.setattr(dv_files, "_MOST_BYTES", most)
    store = LocalStore(str(tmp_path))
    descriptors, names = write_vectors(store, VECTORS)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)
    assert len(names) == files
    for rows, descriptor in zip(ROWS, descriptors, strict=True):
        reference = vector_reference(descriptor, "f")
        assert reference in names
        data = store.read(reference)
        found = deleted_rows(descriptor, lambda offset, size, data=data: data[offset : offset + size], "f")
        assert found.positions().tolist() == rows


def test_no_vectors_are_no_file(tmp_path: Path) -> None:
    assert write_vectors(LocalStore(str(tmp_path)), []) == ([], [])
    assert list(tmp_path.iterdir()) == []


def test_a_failure_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dv_files, "_MOST_BYTES", 1)
    store = LocalStore(str(tmp_path))
    written = store.put
    calls: list[str] = []

    def failing(name: str, data: bytes) -> object:
        calls.append(name)
        if len(calls) == 3:
            raise StorageError("DELTAMERGE_STORAGE_REFUSED", "full")
        return written(name, data)

    monkeypatch.setattr(store, "put", failing)
    with pytest.raises(StorageError):
        write_vectors(store, VECTORS)
    assert len(calls) == 3
    assert list(tmp_path.iterdir()) == []


FILE = AddFile("part-1.parquet", {"p": "1"}, 100, 5, '{"numRecords":9,"minValues":{"a":1}}', tags={"x": "y"}, base_row_id=3)


def test_all_else_of_a_file_stays() -> None:
    vector = DeletionVector("u", "x" * 20, 40, 2, 1)
    found = with_vector(FILE, vector, 9)
    assert found.deletion_vector == vector
    assert (found.path, found.size, found.tags, found.base_row_id, found.data_change) == (
        "part-1.parquet",
        100,
        FILE.tags,
        3,
        True,
    )
    assert json.loads(found.stats or "") == {"numRecords": 9, "minValues": {"a": 1}, "tightBounds": False}


def test_numbers_keep_their_text() -> None:
    stats = (
        '{"numRecords":2,"minValues":{"a":12345678901234567890.10,"b":1E2,"c":"é\\"","d":{"e":-0.0},"f":NaN},"nullCount":{"a":0}}'
    )
    expected = stats[:-1] + ',"tightBounds":false}'
    assert wide_stats(stats, 2, 0) == expected
    assert wide_stats(expected, 2, 1) == expected


@pytest.mark.parametrize("stats", [None, "", "{}", "null", "[1]", "{broken", "[" * 100_000])
def test_a_file_with_a_vector_always_has_its_number_of_rows(stats: str | None) -> None:
    assert json.loads(wide_stats(stats, 7, 0)) == {"numRecords": 7, "tightBounds": False}


@settings(deadline=None)
@given(nulls=st.integers(0, 10), deleted=st.integers(0, 9), tight=st.sampled_from([True, False, None]))
def test_a_column_of_nulls_is_still_known_as_one(nulls: int, deleted: int, tight: bool | None) -> None:
    stats = {"numRecords": 10, "nullCount": {"a": nulls, "s": {"b": nulls}}, **({} if tight is None else {"tightBounds": tight})}
    found = json.loads(wide_stats(json.dumps(stats), 10, deleted))["nullCount"]
    expected = 10 if tight is not False and nulls == 10 - deleted else nulls
    assert found == {"a": expected, "s": {"b": expected}}
