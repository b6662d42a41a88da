"""Values of the log that are of another kind than the protocol says: refused, where a guess would give other rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltamerge.errors import CorruptTableError
from deltamerge.log.commit.row_ids import high_water_mark
from deltamerge.log.replay.files import FILE_SCHEMA, TOMBSTONE_SCHEMA, repeats_key, table_of
from deltamerge.log.replay.segment import all_commits
from deltamerge.protocol.table.actions import DomainMetadata, Protocol, Txn
from deltamerge.storage.local import LocalStore
from tests.unit.log.building import PROTOCOL, V2, add, commit, create, load, log_file, metadata, paths, remove, vector

MAPS = pa.map_(pa.string(), pa.string())
VECTOR = vector("v", 1)


@pytest.mark.parametrize(
    "value",
    [[], [["storageType", "i"]], {"storagetype": "u", "pathorinlinedv": "v"}, {"x": 1}, 5, "u", {**VECTOR, "cardinality": None}]
    + [{**VECTOR, name: 1.5} for name in ("offset", "sizeInBytes", "cardinality")],
)
def test_a_vector_that_is_no_descriptor_is_refused(tmp_path: Path, value: Any) -> None:
    create(tmp_path)
    commit(tmp_path, 1, add("a", deletionVector=value))
    with pytest.raises(CorruptTableError, match=r"0001\.json"):
        load(LocalStore(str(tmp_path)))


@pytest.mark.parametrize("value", [None, {}, {"storageType": None, "pathOrInlineDv": None, "x": None}, {**VECTOR, "x": 1}])
def test_a_vector_of_nulls_is_none(tmp_path: Path, value: Any) -> None:
    create(tmp_path, add("a", deletionVector=value))
    vectors = load(LocalStore(str(tmp_path))).files.table()["deletionVector"]
    assert vectors.null_count == (0 if value and "sizeInBytes" in value else 1)


@pytest.mark.parametrize("name", ["size", "modificationTime", "baseRowId", "defaultRowCommitVersion"])
@pytest.mark.parametrize("value", [1.5, 1.0, "1", True, 2**63])
def test_a_number_of_a_file_is_whole(name: str, value: Any) -> None:
    with pytest.raises((ValueError, TypeError, OverflowError)):
        table_of([add("a")["add"], add("b", **{name: value})["add"]], FILE_SCHEMA)


def test_a_size_is_not_negative() -> None:
    with pytest.raises(ValueError, match="the size of a file is negative"):
        table_of([add("a", size=-1)["add"]], FILE_SCHEMA)
    assert table_of([add("a", size=0)["add"]], FILE_SCHEMA).num_rows == 1
    assert table_of([remove("a", size=None)["remove"]], TOMBSTONE_SCHEMA).num_rows == 1


@pytest.mark.parametrize("value", [1.7, "1", "1_0", "\uff11", True, None, 2**63])
def test_a_version_is_a_whole_number(value: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        Txn.from_json({"appId": "a", "version": value})
    with pytest.raises((ValueError, TypeError)):
        Protocol.from_json({"minReaderVersion": value, "minWriterVersion": 2})


@pytest.mark.parametrize("digits", ["\u0660", "\uff10", "\u0966"])
def test_digits_of_other_scripts_name_no_version(tmp_path: Path, digits: str) -> None:
    create(tmp_path, add("a"))
    commit(tmp_path, 1, add("b"))
    one = "".join(chr(ord(digits) + number) for number in [0] * 19 + [1])
    log_file(tmp_path, f"{one}.json").write_text(json.dumps(remove("a")) + "\n")
    log_file(tmp_path, f"{digits * 19}{chr(ord(digits) + 2)}.json").write_text(json.dumps(remove("b")) + "\n")
    store = LocalStore(str(tmp_path))
    assert paths(load(store)) == ["a", "b"]
    assert len(all_commits(store)) == 2


def test_a_compaction_that_says_who_wrote_and_nothing_more_is_passed_over(tmp_path: Path) -> None:
    create(tmp_path, add("a"))
    commit(tmp_path, 1, add("b"))
    commit(tmp_path, 2, add("c"))
    log_file(tmp_path, f"{1:020d}.{2:020d}.compacted.json").write_text('{"commitInfo":{"operation":"x"}}\n')
    assert paths(load(LocalStore(str(tmp_path)))) == ["a", "b", "c"]


@pytest.mark.parametrize("mark", [-2, -99, 2**63])
def test_a_mark_of_row_ids_is_one_that_was_given(mark: int) -> None:
    domain = DomainMetadata("delta.rowTracking", json.dumps({"rowIdHighWaterMark": mark}))
    with pytest.raises(CorruptTableError):
        high_water_mark({domain.domain: domain})


@pytest.mark.parametrize(
    ("maps", "expected"), [([[]], False), ([[("p", "1"), ("q", "1")], [("p", "2")]], False), ([None], False)]
)
def test_keys_of_a_map(maps: list[Any], expected: bool) -> None:
    assert repeats_key(pa.array(maps, MAPS)) is expected
    twice = pa.array([[("p", "1"), ("q", "2")], *maps, [("q", "1"), ("p", "1"), ("q", None)]], MAPS)
    assert repeats_key(twice)
    assert not repeats_key(twice.slice(0, len(maps) + 1))
    assert repeats_key(twice.slice(1))


def checkpoint(root: Path, *rows: dict[str, Any], name: str = f"{0:020d}.checkpoint.parquet", **types: pa.DataType) -> None:
    """A Parquet file in the log of these actions, whose values have the given types, or those that they seem to have."""
    kinds = {kind: [row.get(kind) for row in rows] for row in rows for kind in row}
    path = log_file(root, name)
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({kind: pa.array(values, types.get(kind)) for kind, values in kinds.items()}), path)


def refused(root: Path, words: str) -> None:
    """See that the table can't be read without its commits, as its checkpoint is damaged."""
    log_file(root, f"{0:020d}.json").unlink(missing_ok=True)
    with pytest.raises(CorruptTableError, match=words):
        load(LocalStore(str(root)))


FILE = pa.struct([("path", pa.string()), ("partitionValues", MAPS), ("size", pa.int64())])


def head(**more: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The protocol and the metadata without empty maps, whose types nothing tells."""
    given = {key: value for key, value in metadata(**more)["metaData"].items() if value not in ({}, [])}
    return PROTOCOL, {"metaData": {**given, "format": {"provider": "parquet"}}}


def test_a_file_with_two_values_of_one_partition_column_is_refused(tmp_path: Path) -> None:
    for values, good in (([("p", "1")], True), ([("p", "1"), ("p", "2")], False)):
        root = tmp_path / str(good)
        checkpoint(root, *head(), {"add": {"path": "a", "partitionValues": values, "size": 1}}, add=FILE)
        if good:
            assert paths(load(LocalStore(str(root)))) == ["a"]
        else:
            refused(root, "two values for one partition column")


def test_a_struct_that_is_no_descriptor_of_a_vector_is_refused(tmp_path: Path) -> None:
    type = pa.struct([*FILE, ("deletionVector", pa.struct([("x", pa.int32())]))])
    checkpoint(tmp_path / "null", *head(), {"add": {"path": "a", "size": 1}}, add=type)
    assert paths(load(LocalStore(str(tmp_path / "null")))) == ["a"]
    checkpoint(tmp_path / "x", *head(), {"add": {"path": "a", "size": 1, "deletionVector": {"x": 1}}}, add=type)
    refused(tmp_path / "x", "the deletionVector of a file is not a descriptor")


def test_a_column_of_nulls_alone_is_one_of_any_kind(tmp_path: Path) -> None:
    type = pa.struct([*FILE, ("tags", pa.null()), ("stats", pa.null()), ("baseRowId", pa.null())])
    checkpoint(tmp_path, *head(), {"add": {"path": "a", "size": 1}}, add=type)
    assert load(LocalStore(str(tmp_path))).files.table()["tags"].to_pylist() == [None]


def test_a_checkpoint_has_one_action_about_one_thing(tmp_path: Path) -> None:
    protocol, meta = head()
    other = {"metaData": {**meta["metaData"], "id": "other"}}
    txns = [{"txn": {"appId": "a", "version": version}} for version in (1, 2)]
    checkpoint(tmp_path / "same", protocol, protocol, meta, meta, txns[0], txns[0])
    assert load(LocalStore(str(tmp_path / "same"))).txns["a"].version == 1
    for name, rows in {"metaData": (meta, other), "txn a": (meta, *txns)}.items():
        checkpoint(tmp_path / name, protocol, *rows)
        refused(tmp_path / name, f"different actions of {name}")


SIDECAR = "_sidecars/s.parquet"
UUID = f"{0:020d}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.parquet"


@pytest.mark.parametrize("action", [head()[1], {"sidecar": {"path": "t.parquet", "sizeInBytes": 1}}])
def test_a_sidecar_holds_files_alone(tmp_path: Path, action: dict[str, Any]) -> None:
    for more in ((), (action,)):
        root = tmp_path / str(len(more))
        checkpoint(root, {"add": {"path": "a", "size": 1}}, *more, name=SIDECAR, add=FILE)
        size = log_file(root, SIDECAR).stat().st_size
        top = ({"checkpointMetadata": {"version": 0}}, {"sidecar": {"path": "s.parquet", "sizeInBytes": size}})
        checkpoint(root, V2, head()[1], *top, name=UUID)
        if more:
            refused(root, "a sidecar holds an action that is about no file")
        else:
            assert paths(load(LocalStore(str(root)))) == ["a"]


@pytest.mark.parametrize("versions", [(0, 9), (0.0,), ("0",)])
def test_a_checkpoint_says_once_of_which_version_it_is(tmp_path: Path, versions: tuple[Any, ...]) -> None:
    checkpoint(tmp_path, V2, head()[1], *({"checkpointMetadata": {"version": version}} for version in versions), name=UUID)
    refused(tmp_path, "checkpointMetadata|whole number")
