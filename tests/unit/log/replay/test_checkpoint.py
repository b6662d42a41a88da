"""Checkpoints: written and read back, read as other writers make them, and read by delta-rs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from deltamerge.errors import CorruptTableError
from deltamerge.log.commit.checkpoint_write import CheckpointContent, parquet_bytes, write_checkpoint
from deltamerge.log.commit.upkeep import checkpoint
from deltamerge.log.replay.checkpoint import CheckpointState, read_checkpoint
from deltamerge.log.replay.files import FILE_SCHEMA, TOMBSTONE_SCHEMA, FileChunk, FileSet, table_of
from deltamerge.log.replay.last_checkpoint import LAST_CHECKPOINT, pointer_checksum
from deltamerge.log.replay.segment import CheckpointFiles, find_segment
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.protocol.table.actions import Action, DomainMetadata, Metadata, Protocol, Txn
from deltamerge.storage.local import LocalStore
from tests.unit.log.building import add, commit, create, delete_commits, load, log_file, remove, schema_text, vector

NAME = f"_delta_log/{3:020d}.checkpoint.parquet"
METADATA = Metadata(
    "id",
    schema_text(id="long", p="string", q="string"),
    ("p", "q"),
    {"delta.appendOnly": "false", "k": ""},
    name="n",
    description="d",
    created_time=5,
    provider_options={"o": "1"},
)
PROTOCOL = Protocol(3, 7, frozenset({"timestampNtz"}), frozenset({"timestampNtz", "appendOnly"}))
RICH = {
    "partitionValues": {"p": None, "q": "ä"},
    "stats": '{"numRecords":3}',
    "tags": {"k": "v"},
    "deletionVector": vector("v", 2),
    "baseRowId": 0,
    "defaultRowCommitVersion": 9,
    "clusteringProvider": "liquid",
}
ADDS = table_of([add("a")["add"], add("b%20c", **RICH)["add"], add("d", deletionVector=vector("v", None))["add"]], FILE_SCHEMA)
REMOVES = table_of(
    [
        remove("x")["remove"],
        remove("y", extendedFileMetadata=True, partitionValues={"p": "1"}, size=3, deletionVector=vector("w"))["remove"],
    ],
    TOMBSTONE_SCHEMA,
)
OTHERS: list[Action] = [PROTOCOL, METADATA, Txn("a", 1, 2), Txn("b", 3), DomainMetadata("d", "{}"), DomainMetadata("e", "", True)]


def content(adds: pa.Table, removes: pa.Table, others: list[Action], metadata: Metadata = METADATA) -> CheckpointContent:
    """The content of a checkpoint of version 3."""
    snapshot = Snapshot(LocalStore("/nowhere"), 3, 0, PROTOCOL, metadata, FileSet.of(adds))
    return CheckpointContent((FileChunk(adds),), removes, tuple(action.to_json() for action in others), snapshot)


def checkpoint_bytes(adds: pa.Table, removes: pa.Table, others: list[Action]) -> bytes:
    return parquet_bytes(content(adds, removes, others))


def adds_of(state: CheckpointState) -> pa.Table:
    """The live files of a checkpoint in one table."""
    return FileSet.of_chunks(state.adds).table()


def read_back(root: Path, *parts: bytes) -> CheckpointState:
    store = LocalStore(str(root))
    for number, data in enumerate(parts):
        store.put(f"_delta_log/part{number}", data)
    return read_checkpoint(store, CheckpointFiles(3, tuple(store.list("_delta_log", "part"))))


def parquet(**columns: pa.Array) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize("adds", [ADDS, ADDS.slice(0, 1), FILE_SCHEMA.empty_table()], ids=len)
@pytest.mark.parametrize("removes", [REMOVES, TOMBSTONE_SCHEMA.empty_table()], ids=len)
def test_a_checkpoint_survives_its_file(tmp_path: Path, adds: pa.Table, removes: pa.Table) -> None:
    state = read_back(tmp_path, checkpoint_bytes(adds, removes, OTHERS))
    assert adds_of(state).schema == FILE_SCHEMA
    assert adds_of(state).to_pylist() == adds.to_pylist()
    assert state.removes.schema == TOMBSTONE_SCHEMA
    assert state.removes.to_pylist() == removes.to_pylist()
    assert sorted(state.others, key=repr) == sorted(OTHERS, key=repr)


@pytest.mark.parametrize(
    "action", [Protocol(1, 2), Protocol(3, 7, frozenset(), frozenset()), Metadata("id", "{}"), Txn("", 0)], ids=repr
)
def test_an_action_with_little_in_it_survives_too(tmp_path: Path, action: Action) -> None:
    empty = FILE_SCHEMA.empty_table(), TOMBSTONE_SCHEMA.empty_table()
    assert read_back(tmp_path, checkpoint_bytes(*empty, [action])).others == (action,)


def test_the_parts_of_a_checkpoint_are_put_together(tmp_path: Path) -> None:
    nothing = TOMBSTONE_SCHEMA.empty_table()
    state = read_back(
        tmp_path,
        checkpoint_bytes(ADDS.slice(0, 2), nothing, OTHERS[:1]),
        checkpoint_bytes(ADDS.slice(2), REMOVES, OTHERS[1:2]),
    )
    assert adds_of(state).to_pylist() == ADDS.to_pylist()
    assert state.removes.num_rows == 2
    assert state.others == (PROTOCOL, METADATA)


def test_a_part_may_have_the_columns_of_its_own_actions_only(tmp_path: Path) -> None:
    fields = pa.struct([("appId", pa.string()), ("version", pa.int64())])
    removes = pa.array(
        [{"path": "x", "deletionTimestamp": 7}], pa.struct([("path", pa.string()), ("deletionTimestamp", pa.int64())])
    )
    state = read_back(
        tmp_path,
        checkpoint_bytes(ADDS, TOMBSTONE_SCHEMA.empty_table(), OTHERS[:2]),
        parquet(txn=pa.array([{"appId": "b", "version": 3}], fields)),
        parquet(remove=removes),
    )
    assert adds_of(state).to_pylist() == ADDS.to_pylist()
    assert state.removes["path"].to_pylist() == ["x"]
    assert state.others == (PROTOCOL, METADATA, Txn("b", 3))


def test_each_row_holds_one_action_and_no_file_is_a_data_change() -> None:
    table = pq.read_table(pa.BufferReader(checkpoint_bytes(ADDS, REMOVES, OTHERS)))
    rows = table.to_pylist()
    assert len(rows) == len(OTHERS) + 3 + 2
    assert all(sum(value is not None for value in row.values()) == 1 for row in rows)
    assert {row["add"]["dataChange"] for row in rows if row["add"]} == {False}
    assert {row["remove"]["dataChange"] for row in rows if row["remove"]} == {False}


def test_fields_that_an_older_writer_left_out_are_null(tmp_path: Path) -> None:
    fields = pa.struct([("path", pa.string()), ("partitionValues", pa.map_(pa.string(), pa.string())), ("size", pa.int64())])
    adds = pa.array([{"path": "a", "partitionValues": [("p", "1")], "size": 3}, None], fields)
    protocol = pa.array(
        [None, {"minReaderVersion": 1, "minWriterVersion": 2}],
        pa.struct({"minReaderVersion": pa.int32(), "minWriterVersion": pa.int32()}),
    )
    state = read_back(tmp_path, parquet(add=adds, protocol=protocol))
    assert adds_of(state).schema == FILE_SCHEMA
    (row,) = adds_of(state).to_pylist()
    assert {name: value for name, value in row.items() if value is not None} == {
        "path": "a",
        "partitionValues": [("p", "1")],
        "size": 3,
    }
    assert state.removes.num_rows == 0
    assert state.others == (Protocol(1, 2),)


def test_columns_and_fields_of_the_future_are_passed_over(tmp_path: Path) -> None:
    fields = pa.struct(
        [
            ("path", pa.large_string()),
            ("size", pa.int32()),
            ("stats_parsed", pa.struct({"numRecords": pa.int64()})),
            ("new", pa.int8()),
        ]
    )
    adds = pa.array([{"path": "a", "size": 3, "stats_parsed": {"numRecords": 1}, "new": 1}], fields)
    state = read_back(tmp_path, parquet(add=adds, future=pa.array(["x"])))
    assert adds_of(state)["path"].to_pylist() == ["a"]
    assert adds_of(state)["size"].to_pylist() == [3]


@pytest.mark.parametrize("data", [b"", b"PAR1", b"no parquet at all"], ids=repr)
def test_a_damaged_checkpoint_is_named(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(CorruptTableError) as caught:
        read_back(tmp_path, data)
    assert caught.value.condition == "DELTAMERGE_CORRUPT_CHECKPOINT"
    assert caught.value.parameters["file"] == "_delta_log/part0"


OF_NUMBERS = pa.struct({"path": pa.string(), "size": pa.int64(), "partitionValues": pa.map_(pa.string(), pa.int32())})


@pytest.mark.parametrize(
    "columns",
    [
        {"add": pa.array(["path"])},
        {"add": pa.array([{"path": "a", "size": "many"}])},
        {"add": pa.array([{"path": "a", "size": 3, "baseRowId": "0x10"}])},
        {"add": pa.array([{"path": 5, "size": 3}])},
        {"remove": pa.array([{"path": "a", "extendedFileMetadata": 7}])},
        {"add": pa.array([{"path": "a", "size": 3, "partitionValues": [("p", 5)]}], OF_NUMBERS)},
        {"protocol": pa.array([{"minReaderVersion": 1}])},
        {"txn": pa.array(["a"])},
        {"future": pa.array(["a"])},
    ],
    ids=repr,
)
def test_a_checkpoint_of_another_shape_is_named(tmp_path: Path, columns: dict[str, pa.Array]) -> None:
    with pytest.raises(CorruptTableError, match="_delta_log/part0"):
        read_back(tmp_path, parquet(**columns))


def test_a_checkpoint_that_vanished_is_named(tmp_path: Path) -> None:
    store = create(tmp_path, add("a"))
    checkpoint(load(store))
    segment = find_segment(store)
    log_file(tmp_path, f"{0:020d}.checkpoint.parquet").unlink()
    assert segment.checkpoint is not None
    with pytest.raises(CorruptTableError, match="the file is missing"):
        read_checkpoint(store, segment.checkpoint)


def test_the_pointer_counts_what_was_written(tmp_path: Path) -> None:
    store = LocalStore(str(tmp_path))
    txns = {"a": Txn("a", 1, 2)}
    write_checkpoint(Snapshot(store, 3, 0, PROTOCOL, METADATA, FileSet.of(ADDS), txns=txns), REMOVES)
    info = store.info(NAME)
    assert info is not None
    found = json.loads(store.read(LAST_CHECKPOINT))
    assert found.pop("checksum") == pointer_checksum(found)
    assert found == {"version": 3, "size": 3 + 3 + 2, "sizeInBytes": info.size, "numOfAddFiles": 3}


def data_file(root: Path, name: str, ids: list[int], **more: Any) -> dict[str, Any]:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": pa.array(ids, pa.int64()), "value": pa.array([str(i) for i in ids])}), path)
    stats = {
        "numRecords": len(ids),
        "minValues": {"id": min(ids), "value": str(min(ids))},
        "maxValues": {"id": max(ids), "value": str(max(ids))},
        "nullCount": {"id": 0, "value": 0},
    }
    return add(name, size=path.stat().st_size, stats=json.dumps(stats), **more)


def test_delta_rs_reads_a_table_from_our_checkpoint_alone(tmp_path: Path) -> None:
    schema = schema_text(id="long", value="string", p="date")
    store = create(
        tmp_path,
        data_file(tmp_path, "p=2020-01-01/a.parquet", [1, 2], partitionValues={"p": "2020-01-01"}),
        data_file(tmp_path, "p=2020-01-02/b.parquet", [3], partitionValues={"p": "2020-01-02"}),
        {"txn": {"appId": "app", "version": 7}},
        {"domainMetadata": {"domain": "user.d", "configuration": "{}", "removed": False}},
        schema=schema,
        partition_by=["p"],
        properties={"delta.appendOnly": "false"},
    )
    commit(tmp_path, 1, remove("p=2020-01-02/b.parquet", partitionValues={"p": "2020-01-02"}, size=1, extendedFileMetadata=True))
    commit(tmp_path, 2, data_file(tmp_path, "p=__HIVE_DEFAULT_PARTITION__/c.parquet", [4, 5], partitionValues={"p": None}))
    checkpoint(load(store))
    commit(tmp_path, 3, data_file(tmp_path, "p=2020-01-03/d.parquet", [6], partitionValues={"p": "2020-01-03"}))
    delete_commits(tmp_path, 3)

    table = DeltaTable(str(tmp_path))
    assert table.version() == 3
    assert table.metadata().partition_columns == ["p"]
    assert table.metadata().configuration == {"delta.appendOnly": "false"}
    assert table.transaction_version("app") == 7
    rows = pa.table(table.to_pyarrow_table()).sort_by("id").to_pydict()
    assert rows["id"] == [1, 2, 4, 5, 6]
    assert [None if day is None else day.isoformat() for day in rows["p"]] == [
        "2020-01-01",
        "2020-01-01",
        None,
        None,
        "2020-01-03",
    ]
    ours = load(store).files.table().sort_by("path")
    theirs = pa.table(table.get_add_actions(flatten=True)).sort_by("path")
    assert theirs["path"].to_pylist() == [path.replace("%20", " ") for path in ours["path"].to_pylist()]
    assert theirs["size_bytes"].to_pylist() == ours["size"].to_pylist()
    assert theirs["num_records"].to_pylist() == [2, 1, 2]


def test_we_read_a_table_from_the_checkpoint_of_delta_rs_alone(tmp_path: Path) -> None:
    store = create(tmp_path, data_file(tmp_path, "a.parquet", [1, 2]), data_file(tmp_path, "b.parquet", [3]))
    commit(tmp_path, 1, remove("b.parquet"), data_file(tmp_path, "c.parquet", [4]))
    expected = load(store)
    DeltaTable(str(tmp_path)).create_checkpoint()
    delete_commits(tmp_path, 2)
    found = load(store)
    assert found.checkpoint_version == 1
    assert found.metadata == expected.metadata
    assert found.protocol == expected.protocol
    columns = ["path", "partitionValues", "size", "modificationTime"]
    table = found.files.table().sort_by("path")
    assert table.select(columns) == expected.files.table().sort_by("path").select(columns)
    assert [json.loads(text)["numRecords"] for text in table["stats"].to_pylist()] == [2, 1]


def test_a_checkpoint_that_was_not_reconciled_is_refused(tmp_path: Path) -> None:
    removes = table_of([remove("d", deletionVector=vector("v", None))["remove"]], TOMBSTONE_SCHEMA)
    with pytest.raises(CorruptTableError, match="it holds a file both as added and as removed"):
        read_back(tmp_path, checkpoint_bytes(ADDS, removes, OTHERS))
    of_another_vector = table_of([remove("d", deletionVector=vector("w"))["remove"]], TOMBSTONE_SCHEMA)
    assert adds_of(read_back(tmp_path, checkpoint_bytes(ADDS, of_another_vector, OTHERS))).num_rows == 3
