"""Snapshots: replayed commit by commit, from zero, and from a checkpoint of any version, they are the same."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltamerge.errors import CorruptTableError, UnsupportedTableError
from deltamerge.log.commit.upkeep import checkpoint
from deltamerge.log.replay import files as files_module
from deltamerge.log.replay.commit_file import read_commit
from deltamerge.log.replay.files import FILE_SCHEMA, TOMBSTONE_SCHEMA, table_of
from deltamerge.log.replay.segment import commit_name
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.log.replay.tombstones import Tombstones
from deltamerge.protocol.table.actions import DomainMetadata, Protocol, Txn
from deltamerge.storage.local import LocalStore
from tests.unit.log.building import (
    PROTOCOL,
    add,
    commit,
    create,
    delete_commits,
    load,
    log_file,
    metadata,
    paths,
    remove,
    schema_text,
    vector,
)

Key = tuple[str, str | None]
NOW = int(time.time() * 1000)

keys = st.tuples(st.sampled_from("abcd"), st.sampled_from([None, "v", "w"]))


@st.composite
def changes(draw: st.DrawFn) -> tuple[dict[Key, int], set[Key]]:
    """One commit: sizes of added files by identity, and removed identities; no identity in both."""
    added = draw(st.dictionaries(keys, st.integers(1, 1000), max_size=4))
    removed = draw(st.sets(keys, max_size=4)) - set(added)
    return added, removed


def identity(key: Key) -> dict[str, Any]:
    path, where = key
    return {"path": path} if where is None else {"path": path, "deletionVector": vector(where)}


def action_lines(change: tuple[dict[Key, int], set[Key]]) -> list[dict[str, Any]]:
    added, removed = change
    return [
        *(remove(**identity(key), deletionTimestamp=NOW) for key in sorted(removed, key=repr)),
        *(add(**identity(key), size=size) for key, size in added.items()),
    ]


def key_of(row: dict[str, Any]) -> Key:
    where = row["deletionVector"]
    return row["path"], None if where is None else where["pathOrInlineDv"]


def live(snapshot: Snapshot) -> dict[Key, int]:
    rows = snapshot.files.table().to_pylist()
    found = {key_of(row): row["size"] for row in rows}
    assert len(found) == len(rows) == len(snapshot.files)
    assert snapshot.files.total_bytes == sum(found.values())
    return found


def buried(snapshot: Snapshot) -> set[Key]:
    rows = snapshot.tombstones.table.to_pylist()
    found = {key_of(row) for row in rows}
    assert len(found) == len(rows)
    return found


def modelled(history: list[tuple[dict[Key, int], set[Key]]]) -> tuple[dict[Key, int], set[Key]]:
    files: dict[Key, int] = {}
    tombstones: set[Key] = set()
    for added, removed in history:
        files = {key: size for key, size in files.items() if key not in removed} | added
        tombstones = (tombstones | removed) - set(added)
    return files, tombstones


@settings(max_examples=60, deadline=None)
@given(st.lists(changes(), min_size=1, max_size=30), st.data())
def test_all_ways_to_a_version_lead_to_the_same_files(
    history: list[tuple[dict[Key, int], set[Key]]], data: st.DataObject
) -> None:
    checkpointed = data.draw(st.integers(0, len(history)), label="checkpoint")
    most_chunks = data.draw(st.sampled_from([1, 2, 24]), label="chunks before compaction")
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(files_module, "_MOST_CHUNKS", most_chunks)
        root = Path(folder)
        store = create(root)
        for version, change in enumerate(history, 1):
            commit(root, version, {"commitInfo": {"operation": "WRITE"}}, *action_lines(change))
        snapshot = load(store, 0)
        for version in range(1, len(history) + 1):
            info = store.info(commit_name(version))
            assert info is not None
            snapshot = snapshot.advance(read_commit(store, info))
            assert (live(snapshot), buried(snapshot)) == modelled(history[:version])
        from_zero = load(store)
        checkpoint(load(store, checkpointed))
        delete_commits(root, checkpointed)
        from_checkpoint = load(store)
    assert from_checkpoint.checkpoint_version == checkpointed
    for found in (from_zero, from_checkpoint):
        assert (live(found), buried(found)) == modelled(history)
        assert (found.version, found.timestamp, found.tip) == (snapshot.version, snapshot.timestamp, snapshot.tip)
        assert (found.protocol, found.metadata) == (snapshot.protocol, snapshot.metadata)


def test_a_removed_file_that_is_added_again_is_alive(tmp_path: Path) -> None:
    store = create(tmp_path, add("a", size=1))
    commit(tmp_path, 1, remove("a"))
    commit(tmp_path, 2, add("a", size=2))
    snapshot = load(store)
    assert live(snapshot) == {("a", None): 2}
    assert snapshot.tombstones.table.num_rows == 0


def test_tombstones_of_many_versions_are_few_chunks() -> None:
    """A chunk takes some 20 KB whatever is in it: a session that merges for weeks would have a hundred thousand."""
    found = Tombstones()
    for number in range(1_000):
        removes = table_of([{"path": f"f{number}", "deletionTimestamp": number}], TOMBSTONE_SCHEMA)
        found = found.after(FILE_SCHEMA.empty_table(), removes)
    assert found.table.num_rows == 1_000
    assert all(column.num_chunks <= 70 for column in found.table.columns)


@pytest.mark.parametrize(
    "later",
    [
        [remove("b"), add("c")],
        [remove("b"), add("b", deletionVector=vector("v"))],
        [add("b", size=11), add("c")],
        [{"txn": {"appId": "i", "version": 2}}, add("c")],
        [{"domainMetadata": {"domain": "d", "configuration": "2"}}],
    ],
    ids=["file", "path", "file added twice", "transaction", "domain"],
)
def test_a_log_compaction_that_was_not_reconciled_is_passed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, later: list[Any]
) -> None:
    store = create(tmp_path, add("a"))
    first = [{"txn": {"appId": "i", "version": 1}}, {"domainMetadata": {"domain": "d", "configuration": "1"}}, add("b")]
    lines = [commit(tmp_path, version, *actions).read_text() for version, actions in ((1, first), (2, later))]
    expected = load(store)
    for text in (lines[0] + lines[1], lines[1] + lines[0]):
        log_file(tmp_path, f"{1:020d}.{2:020d}.compacted.json").write_text(text)
        found = load(store)
        assert sorted(found.files.table().to_pylist(), key=key_of) == sorted(expected.files.table().to_pylist(), key=key_of)
        assert (found.txns, found.domains) == (expected.txns, expected.domains)
    assert "it was not reconciled" in caplog.text
    commit(tmp_path, 3, add("z"))
    for version in (1, 2):
        log_file(tmp_path, f"{version:020d}.json").unlink()
    with pytest.raises(CorruptTableError, match="it was not reconciled"):
        load(store)


@pytest.mark.parametrize(
    ("first", "actions"), [(1, [{"whatever": {}}]), (0, [add("b"), add("c")])], ids=["unknown actions", "no protocol"]
)
def test_a_log_compaction_that_lacks_what_its_commits_have_is_passed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, first: int, actions: list[Any]
) -> None:
    store = create(tmp_path, add("a"))
    commit(tmp_path, 1, remove("a"), add("b"))
    commit(tmp_path, 2, add("c"))
    name = f"{first:020d}.{2:020d}.compacted.json"
    log_file(tmp_path, name).write_text("".join(json.dumps(action) + "\n" for action in actions))
    assert set(live(load(store))) == {("b", None), ("c", None)}
    assert name in caplog.text


def test_a_vector_buries_the_file_without_it(tmp_path: Path) -> None:
    store = create(tmp_path, add("a"))
    commit(tmp_path, 1, remove("a"), add("a", deletionVector=vector("v")))
    commit(tmp_path, 2, remove("a", deletionVector=vector("v")), add("a", deletionVector=vector("w")))
    snapshot = load(store)
    assert live(snapshot) == {("a", "w"): 10}
    assert buried(snapshot) == {("a", None), ("a", "v")}


def test_the_last_of_each_other_action_is_in_force(tmp_path: Path) -> None:
    store = create(
        tmp_path,
        {"txn": {"appId": "x", "version": 1}},
        {"domainMetadata": {"domain": "gone", "configuration": "{}", "removed": False}},
        {"domainMetadata": {"domain": "kept", "configuration": "old", "removed": False}},
    )
    commit(tmp_path, 1, {"txn": {"appId": "x", "version": 2}}, {"txn": {"appId": "y", "version": 1}})
    commit(tmp_path, 2, {"domainMetadata": {"domain": "gone", "configuration": "", "removed": True}})
    commit(tmp_path, 3, {"domainMetadata": {"domain": "kept", "configuration": "new", "removed": False}})
    commit(
        tmp_path,
        4,
        metadata(properties={"delta.appendOnly": "true"}),
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 3}},
    )
    advanced = load(store, 0)
    for version in range(1, 5):
        info = store.info(commit_name(version))
        assert info is not None
        advanced = advanced.advance(read_commit(store, info))
    loaded = load(store)
    checkpoint(loaded)
    delete_commits(tmp_path, 5)
    for snapshot in (advanced, loaded, load(store)):
        assert snapshot.txns == {"x": Txn("x", 2), "y": Txn("y", 1)}
        assert snapshot.domains == {"kept": DomainMetadata("kept", "new")}
        assert snapshot.properties.append_only
        assert snapshot.protocol == Protocol(1, 3)


def test_the_schema_is_split_by_partition_columns(tmp_path: Path) -> None:
    schema = schema_text(a="long", p="date", b="string", q="integer")
    snapshot = load(create(tmp_path, schema=schema, partition_by=["q", "p"]))
    assert snapshot.schema.names == ["a", "p", "b", "q"]
    assert snapshot.partition_columns == ("q", "p")
    assert snapshot.partition_schema.names == ["q", "p"]
    assert snapshot.data_schema.names == ["a", "b"]


def test_time_travel_sees_the_older_version(tmp_path: Path) -> None:
    store = create(tmp_path, add("a"))
    commit(tmp_path, 1, remove("a"), add("b"))
    assert paths(load(store, 0)) == ["a"]
    assert paths(load(store, 1)) == ["b"]


@pytest.mark.parametrize(("actions", "missing"), [([PROTOCOL], "metaData"), ([metadata()], "protocol"), ([], "protocol")])
def test_a_log_without_protocol_or_metadata_is_corrupt(tmp_path: Path, actions: list[Any], missing: str) -> None:
    commit(tmp_path, 0, *actions, add("a"))
    with pytest.raises(CorruptTableError) as caught:
        load(LocalStore(str(tmp_path)))
    assert caught.value.condition == "DELTA_STATE_RECOVER_ERROR"
    assert caught.value.parameters == {"operation": missing, "version": 0}


def test_an_unreadable_table_is_refused_by_load_and_by_advance(tmp_path: Path) -> None:
    store = create(tmp_path)
    snapshot = load(store)
    future = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["future"], "writerFeatures": ["future"]}
    commit(tmp_path, 1, {"protocol": future})
    info = store.info(commit_name(1))
    assert info is not None
    with pytest.raises(UnsupportedTableError, match="future"):
        snapshot.advance(read_commit(store, info))
    with pytest.raises(UnsupportedTableError, match="future"):
        load(store)


def test_a_damaged_schema_is_named_when_it_is_used(tmp_path: Path) -> None:
    snapshot = load(create(tmp_path, schema="{"))
    with pytest.raises(CorruptTableError, match="schemaString"):
        _ = snapshot.schema


def test_ten_thousand_files_are_replayed_column_by_column(tmp_path: Path) -> None:
    values = [add(f"part-{number}.parquet", size=number)["add"] for number in range(10_000)]
    store = create(tmp_path)
    commit(tmp_path, 1, *({"add": value} for value in values))
    commit(tmp_path, 2, *(remove(value["path"]) for value in values[::2]))
    expected = table_of(values[1::2], FILE_SCHEMA)
    assert load(store).files.table().to_pydict() == expected.to_pydict()


def test_json_of_other_spacing_is_the_same_log(tmp_path: Path) -> None:
    store = create(tmp_path, add("a"))
    before = load(store)
    path = tmp_path / commit_name(0)
    lines = [json.dumps(json.loads(line), separators=(" , ", " : ")) for line in path.read_text().splitlines()]
    path.write_text("\n\n".join(lines))
    after = load(store)
    assert after.files.table() == before.files.table()
    assert isinstance(after.files.table(), pa.Table)
    assert after.metadata == before.metadata
