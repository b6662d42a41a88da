"""Version checksum files: what they say, when they are written, and what a contradiction leads to."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deltamerge.errors import CorruptTableError
from deltamerge.log.commit.checkpoint_write import write_checkpoint
from deltamerge.log.commit.transaction import Proposal, commit
from deltamerge.log.commit.upkeep import after_commit
from deltamerge.log.replay.checksum import checksum_value, write_checksum
from deltamerge.log.replay.files import FILE_SCHEMA, TOMBSTONE_SCHEMA, FileSet, table_of
from deltamerge.log.replay.segment import checksum_name, commit_name
from deltamerge.log.replay.table import DeltaLog
from deltamerge.protocol.table.actions import AddFile, Protocol
from tests.unit.log import building
from tests.unit.log.building import add, create, load, metadata, paths, remove


def test_a_checksum_counts_the_live_files(tmp_path: Path) -> None:
    store = create(tmp_path, add("a", size=3), add("b", size=4), {"txn": {"appId": "i", "version": 5}})
    building.commit(tmp_path, 1, remove("a"), add("c", size=5), {"domainMetadata": {"domain": "d", "configuration": "x"}})
    value = checksum_value(load(store))
    assert value.pop("metadata") == {**metadata()["metaData"]}
    assert value == {
        "tableSizeBytes": 9,
        "numFiles": 2,
        "numMetadata": 1,
        "numProtocol": 1,
        "protocol": {"minReaderVersion": 1, "minWriterVersion": 2},
        "setTransactions": [{"appId": "i", "version": 5}],
        "domainMetadata": [{"domain": "d", "configuration": "x", "removed": False}],
    }


def test_a_checksum_counts_deletion_vectors_where_they_are_allowed(tmp_path: Path) -> None:
    snapshot = load(create(tmp_path, add("a", deletionVector={**building.vector("x"), "cardinality": 7}), add("b")))
    allowed = Protocol(3, 7, frozenset({"deletionVectors"}), frozenset({"deletionVectors"}))
    value = checksum_value(replace(snapshot, protocol=allowed))
    assert (value["numDeletionVectorsOpt"], value["numDeletedRecordsOpt"]) == (1, 7)


def test_transactions_that_may_expire_are_left_out(tmp_path: Path) -> None:
    properties = {"delta.setTransactionRetentionDuration": "interval 1 day"}
    store = create(tmp_path, {"txn": {"appId": "i", "version": 5}}, properties=properties)
    assert "setTransactions" not in checksum_value(load(store))


def test_a_commit_is_followed_by_its_checksum(tmp_path: Path) -> None:
    store = create(tmp_path, add("a"))
    done = commit(load(store), Proposal("WRITE", [AddFile("b", {}, 7, 1)]))
    after_commit(done.snapshot)
    assert json.loads(store.read(checksum_name(1)))["numFiles"] == 2
    assert load(store).version == 1


def test_a_checksum_is_never_overwritten(tmp_path: Path) -> None:
    store = create(tmp_path, add("a"))
    store.put(checksum_name(0), b"{}")
    write_checksum(load(store))
    assert store.read(checksum_name(0)) == b"{}"


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b'{"numFiles":"x"}', b"\xff"])
def test_a_damaged_checksum_is_passed_over(tmp_path: Path, content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    store = create(tmp_path, add("a"))
    store.put(checksum_name(0), content)
    with caplog.at_level(logging.WARNING, "deltamerge.log"):
        assert paths(load(store)) == ["a"]
    assert "is passed over" in caplog.text


@pytest.mark.parametrize("key", ["numFiles", "tableSizeBytes", "protocol", "metadata"])
def test_a_contradiction_is_told(tmp_path: Path, key: str, caplog: pytest.LogCaptureFixture) -> None:
    store = create(tmp_path, add("a"))
    other = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 1}, "metadata": metadata(id="other")["metaData"]}
    value = {**checksum_value(load(store)), key: other.get(key, 99)}
    store.put(checksum_name(0), json.dumps(value).encode())
    with caplog.at_level(logging.WARNING, "deltamerge.log"):
        assert paths(load(store)) == ["a"]
    assert f"differs from its checksum file in {key}" in caplog.text


@pytest.mark.parametrize(
    ("lost", "told"),
    [
        ({"txn": {"appId": "i", "version": 6}}, "setTransactions"),
        ({"domainMetadata": {"domain": "d", "configuration": "2", "removed": False}}, "domainMetadata"),
        (add("a", deletionVector={**building.vector("x"), "cardinality": 7}), "deletion vectors"),
    ],
)
def test_a_shortened_commit_is_told_by_whatever_it_lost(tmp_path: Path, lost: dict[str, Any], told: str) -> None:
    old = {"domainMetadata": {"domain": "d", "configuration": "1", "removed": False}}
    store = create(tmp_path, add("a"), {"txn": {"appId": "i", "version": 5}}, old)
    building.commit(tmp_path, 1, {"commitInfo": {}}, lost)
    whole = load(store)
    features = frozenset({"deletionVectors"})
    value = checksum_value(replace(whole, protocol=Protocol(3, 7, features, features)))
    store.put(checksum_name(1), json.dumps({**value, "protocol": whole.protocol.to_json()["protocol"]}).encode())
    assert load(store).contradicted == ()
    building.commit(tmp_path, 1, {"commitInfo": {}})
    assert told in load(store).contradicted


def test_a_checksum_need_not_tell_all_transactions(tmp_path: Path) -> None:
    store = create(tmp_path, add("a"), {"txn": {"appId": "i", "version": 5}}, {"txn": {"appId": "expired", "version": 1}})
    value = checksum_value(load(store))
    value["setTransactions"] = value["setTransactions"][:1]
    store.put(checksum_name(0), json.dumps(value).encode())
    assert load(store).contradicted == ()


@pytest.mark.parametrize("kept", [False, True])
def test_nothing_is_written_onto_a_version_that_its_checksum_contradicts(tmp_path: Path, kept: bool) -> None:
    log = DeltaLog(create(tmp_path, add("a")))
    if kept:
        log.snapshot()
    building.commit(tmp_path, 1, add("b"), add("c"))
    write_checksum(load(log.store))
    building.commit(tmp_path, 1, add("b"))  # the file was shortened
    found = log.snapshot()
    assert paths(found) == ["a", "b"]
    with pytest.raises(CorruptTableError, match=r"version 1 differs from .*1\.crc in numFiles, tableSizeBytes") as caught:
        commit(found, Proposal("WRITE", [AddFile("d", {}, 7, 1)]))
    assert caught.value.condition == "DELTA_TXN_LOG_FAILED_INTEGRITY"
    assert log.store.info(commit_name(2)) is None
    building.commit(tmp_path, 1, add("b"), add("c"))  # the file is restored
    assert commit(log.snapshot(), Proposal("WRITE", [AddFile("d", {}, 7, 1)])).snapshot.version == 2


def wrong_checkpoint(root: Path) -> None:
    """A readable checkpoint of version 1 that has lost a file."""
    right = load(building.LocalStore(str(root)))
    lost = replace(right, files=FileSet.of(table_of([add("a")["add"]], FILE_SCHEMA)))
    write_checkpoint(lost, TOMBSTONE_SCHEMA.empty_table())


def test_a_checkpoint_that_checksum_and_commits_contradict_is_passed_over(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = create(tmp_path, add("a"))
    building.commit(tmp_path, 1, add("b"))
    write_checksum(load(store))
    wrong_checkpoint(tmp_path)
    with caplog.at_level(logging.WARNING, "deltamerge.log"):
        found = load(store)
    assert paths(found) == ["a", "b"]
    assert found.checkpoint_version is None
    assert "the commits agree with the checksum" in caplog.text


def test_a_checksum_alone_overrules_nothing(tmp_path: Path) -> None:
    store = create(tmp_path, add("a"))
    building.commit(tmp_path, 1, add("b"))
    store.put(checksum_name(1), json.dumps({**checksum_value(load(store)), "numFiles": 99}).encode())
    wrong_checkpoint(tmp_path)
    assert load(store).checkpoint_version == 1
