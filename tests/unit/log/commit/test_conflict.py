"""Optimistic concurrency: which winners a transaction may follow, under each isolation level."""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from deltamerge.errors import (
    ConcurrentAppendError,
    ConcurrentDeleteDeleteError,
    ConcurrentDeleteReadError,
    ConcurrentModificationError,
    ConcurrentTransactionError,
    MetadataChangedError,
    ProtocolChangedError,
)
from deltamerge.log.commit.conflict import Isolation, ReadSet, check_conflict
from deltamerge.log.replay.commit_file import CommitFile, parse_commit
from deltamerge.log.replay.files import FileSet, Mask
from deltamerge.protocol.table.actions import Metadata, Protocol
from deltamerge.storage import ObjectInfo
from deltamerge.storage.local import LocalStore
from tests.unit.log.building import PROTOCOL, add, info, metadata, remove, vector

BEFORE = Protocol(1, 2)
SETTINGS = Metadata.from_json(metadata(properties={"set": "before"})["metaData"])
UPGRADE = {
    "protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["appendOnly", "invariants", "newFeature"]}
}
SERIAL, WRITE, SNAPSHOT = Isolation.SERIALIZABLE, Isolation.WRITE_SERIALIZABLE, Isolation.SNAPSHOT


def winner(*actions: dict[str, Any]) -> CommitFile:
    data = "\n".join(json.dumps(action) for action in actions).encode()
    return parse_commit(data, ObjectInfo(f"_delta_log/{5:020d}.json", 1, 1, "e"), LocalStore("/t"))


def would_read_r(files: FileSet) -> Mask:
    return np.array([path.startswith("r") for path in files.column("path").to_pylist()], np.bool_)


def everything(files: FileSet) -> Mask:
    return np.ones(len(files), np.bool_)


def check(
    read: ReadSet,
    won: CommitFile,
    isolation: Isolation = SERIAL,
    removed: frozenset[str] = frozenset(),
    before: Metadata | None = None,
    **more: Any,
) -> None:
    check_conflict(read, removed, isolation, won, table="my_table", protocol=BEFORE, metadata=before or SETTINGS, **more)


BLIND_APPEND = winner(info(isBlindAppend=True), add("r1"))
BLIND_ELSEWHERE = winner(info(isBlindAppend=True), add("x1"))
APPEND = winner(info(isBlindAppend=False), add("r1"))
APPEND_ELSEWHERE = winner(info(isBlindAppend=False), add("x1"))
APPEND_OF_OTHERS = winner(add("r1"))
REARRANGED = winner(info(), remove("r0", dataChange=False), add("r1", dataChange=False))
DELETE = winner(info(), remove("r0"))
DELETE_ELSEWHERE = winner(info(), remove("x0"))
MARK = winner(info(), remove("r0"), add("r0", deletionVector=vector("v")))
EMPTY = winner(info(operation="SET TBLPROPERTIES"))

NOTHING = ReadSet()
READ_R = ReadSet(frozenset({"r0"}), would_read_r)
READ_R_OF_LATER = ReadSet(frozenset({"r9"}), would_read_r)
READ_R0_ONLY = ReadSet(frozenset({"r0"}))
WHOLE = ReadSet(whole_table=True, would_read=everything)
REMOVES = frozenset({"r0"})
NONE: frozenset[str] = frozenset()

CASES: list[tuple[str, ReadSet, frozenset[str], Isolation, CommitFile, type[ConcurrentModificationError] | None]] = [
    ("append after append", NOTHING, NONE, SERIAL, APPEND, None),
    ("append after blind append", NOTHING, NONE, SERIAL, BLIND_APPEND, None),
    ("append after delete", NOTHING, NONE, SERIAL, DELETE, None),
    ("append after rewrite", NOTHING, NONE, SERIAL, MARK, None),
    ("read after blind append", READ_R, NONE, SERIAL, BLIND_APPEND, ConcurrentAppendError),
    ("read after blind append, write serializable", READ_R, NONE, WRITE, BLIND_APPEND, None),
    ("read after blind append, snapshot", READ_R, NONE, SNAPSHOT, BLIND_APPEND, None),
    ("read after blind append elsewhere", READ_R, NONE, SERIAL, BLIND_ELSEWHERE, None),
    ("read after append", READ_R, NONE, SERIAL, APPEND, ConcurrentAppendError),
    ("read after append, write serializable", READ_R, NONE, WRITE, APPEND, ConcurrentAppendError),
    ("read after append, snapshot", READ_R, NONE, SNAPSHOT, APPEND, None),
    ("read after append elsewhere", READ_R, NONE, WRITE, APPEND_ELSEWHERE, None),
    ("read after append that says nothing", READ_R, NONE, WRITE, APPEND_OF_OTHERS, ConcurrentAppendError),
    ("read of all after append elsewhere", WHOLE, NONE, SERIAL, APPEND_ELSEWHERE, ConcurrentAppendError),
    ("read of all after blind append", WHOLE, NONE, WRITE, BLIND_ELSEWHERE, None),
    ("read of all after delete", WHOLE, NONE, WRITE, DELETE_ELSEWHERE, ConcurrentDeleteReadError),
    ("read of all after an empty commit", WHOLE, NONE, SERIAL, EMPTY, None),
    ("read after delete", READ_R, NONE, WRITE, DELETE, ConcurrentDeleteReadError),
    ("read after delete, snapshot", READ_R, NONE, SNAPSHOT, DELETE, ConcurrentDeleteReadError),
    ("read after delete elsewhere", READ_R, NONE, SERIAL, DELETE_ELSEWHERE, None),
    ("read after a rewrite of other files", READ_R_OF_LATER, NONE, SERIAL, REARRANGED, None),
    ("read of a file after its rewrite", READ_R0_ONLY, NONE, SERIAL, REARRANGED, ConcurrentDeleteReadError),
    ("read of a file after its marking", READ_R0_ONLY, NONE, SERIAL, MARK, ConcurrentDeleteReadError),
    ("delete after the same delete", NOTHING, REMOVES, WRITE, DELETE, ConcurrentDeleteDeleteError),
    ("delete after the same delete, snapshot", NOTHING, REMOVES, SNAPSHOT, DELETE, ConcurrentDeleteDeleteError),
    ("delete after another delete", NOTHING, REMOVES, SERIAL, DELETE_ELSEWHERE, None),
    ("delete after marking of the same file", NOTHING, REMOVES, SERIAL, MARK, ConcurrentDeleteDeleteError),
    ("delete of a marked file after its delete unmarked", NOTHING, frozenset({"r0\0u\0v\x001"}), SERIAL, DELETE, None),
]


@pytest.mark.parametrize(
    ("read", "removed", "isolation", "won", "expected"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_what_may_follow_what(
    read: ReadSet,
    removed: frozenset[str],
    isolation: Isolation,
    won: CommitFile,
    expected: type[ConcurrentModificationError] | None,
) -> None:
    if expected is None:
        check(read, won, isolation, removed)
        return
    with pytest.raises(ConcurrentModificationError) as caught:
        check(read, won, isolation, removed)
    assert type(caught.value) is expected


@pytest.mark.parametrize("isolation", [SERIAL, WRITE, SNAPSHOT])
@pytest.mark.parametrize(
    ("won", "expected"), [(winner(UPGRADE), ProtocolChangedError), (winner(metadata()), MetadataChangedError)]
)
def test_nothing_follows_a_changed_protocol_or_metadata(
    isolation: Isolation, won: CommitFile, expected: type[ConcurrentModificationError]
) -> None:
    with pytest.raises(expected):
        check(NOTHING, won, isolation)


def test_metadata_that_stays_as_it_was_does_not_conflict() -> None:
    won = winner(metadata(properties={"set": "before"}), features(*LEGACY, "vacuumProtocolCheck"))
    check(READ_R, won)
    with pytest.raises(MetadataChangedError):
        check(READ_R, won, changes_metadata=True)
    with pytest.raises(MetadataChangedError):
        check(READ_R, winner(metadata(properties={"set": "after"})))


def test_a_change_of_metadata_does_not_skip_blind_appends() -> None:
    check(READ_R, BLIND_APPEND, WRITE, changes_metadata=False)
    with pytest.raises(ConcurrentAppendError):
        check(READ_R, BLIND_APPEND, WRITE, changes_metadata=True)


def test_two_transactions_of_one_application_do_not_follow_each_other() -> None:
    won = winner({"txn": {"appId": "app", "version": 1}})
    check(ReadSet(app_ids=frozenset({"other"})), won)
    with pytest.raises(ConcurrentTransactionError):
        check(ReadSet(app_ids=frozenset({"app"})), won)


def test_a_conflict_says_who_won_and_what_to_do() -> None:
    with pytest.raises(ConcurrentAppendError) as caught:
        check(READ_R, winner(info(operation="MERGE"), add("r1")))
    error = caught.value
    assert error.condition == "DELTA_CONCURRENT_APPEND"
    assert error.parameters == {"tableName": "my_table", "version": 5, "operation": "MERGE"}
    assert "concurrent MERGE added data" in str(error)
    assert "version 5 of my_table" in str(error)
    assert error.hint
    assert error.retryable


@pytest.mark.parametrize(
    ("won", "read", "removed", "condition"),
    [
        (winner(UPGRADE), NOTHING, NONE, "DELTA_PROTOCOL_CHANGED"),
        (winner(metadata()), NOTHING, NONE, "DELTA_METADATA_CHANGED"),
        (winner({"txn": {"appId": "a", "version": 1}}), ReadSet(app_ids=frozenset("a")), NONE, "DELTA_CONCURRENT_TRANSACTION"),
        (DELETE, READ_R, NONE, "DELTA_CONCURRENT_DELETE_READ"),
        (DELETE, NOTHING, REMOVES, "DELTA_CONCURRENT_DELETE_DELETE"),
    ],
)
def test_the_condition_of_each_conflict(won: CommitFile, read: ReadSet, removed: frozenset[str], condition: str) -> None:
    with pytest.raises(ConcurrentModificationError) as caught:
        check(read, won, SERIAL, removed)
    assert caught.value.condition == condition
    assert caught.value.retryable


def features(*names: str) -> dict[str, Any]:
    return {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [], "writerFeatures": list(names)}}


LEGACY = ("appendOnly", "invariants")


@pytest.mark.parametrize(
    ("won", "conflicts"),
    [
        (PROTOCOL, False),
        (features(*LEGACY), False),
        (features(*LEGACY, "domainMetadata", "v2Checkpoint", "deletionVectors"), False),
        (features("appendOnly"), True),
        (features(*LEGACY, "columnMapping", "checkConstraints", "generatedColumns", "identityColumns"), False),
        (features(*LEGACY, "rowTracking", "inCommitTimestamp", "icebergCompatV2"), False),
        (features(*LEGACY, "clustering"), True),
        (features(*LEGACY, "variantType"), False),
        (features(*LEGACY, "catalogManaged"), True),
        (features(*LEGACY, "newFeature"), True),
    ],
)
def test_a_protocol_that_asks_nothing_of_others_does_not_conflict(won: dict[str, Any], conflicts: bool) -> None:
    with pytest.raises(ProtocolChangedError) if conflicts else nullcontext():
        check(READ_R, winner(won))
    with pytest.raises(ProtocolChangedError):
        check(READ_R, winner(won), changes_protocol=True)


@pytest.mark.parametrize(
    ("name", "properties"),
    [
        ("checkConstraints", {"delta.constraints.c": "id > 0"}),
        ("changeDataFeed", {"delta.enableChangeDataFeed": "true"}),
        ("rowTracking", {"delta.enableRowTracking": "true"}),
        ("columnMapping", {"delta.columnMapping.mode": "name"}),
    ],
)
def test_a_feature_that_the_table_uses_already_binds_writers_from_now_on(name: str, properties: dict[str, str]) -> None:
    used = Metadata.from_json(metadata(properties=properties)["metaData"])
    with pytest.raises(ProtocolChangedError):
        check(READ_R, winner(features(*LEGACY, name)), before=used)
    check(READ_R, winner(features(*LEGACY, "vacuumProtocolCheck")), before=used)


def domain(name: str) -> dict[str, Any]:
    return {"domainMetadata": {"domain": name, "configuration": "{}", "removed": False}}


def test_one_metadata_domain_is_changed_by_one_transaction_only() -> None:
    check(NOTHING, winner(domain("a")), domains=frozenset({"b"}))
    check(NOTHING, winner(domain("delta.rowTracking")), domains=frozenset({"delta.rowTracking"}))
    with pytest.raises(ConcurrentTransactionError, match="the metadata domain a;"):
        check(NOTHING, winner(domain("a"), domain("c")), domains=frozenset({"a", "b"}))


ONLY_TRACKS = info(tags={"rowTrackingEnablementOnly": "true"})
TRACKED = {"delta.enableRowTracking": "true", "delta.rowTracking.materializedRowIdColumnName": "_row-id-col-1"}


@pytest.mark.parametrize(
    ("properties", "conflicts"),
    [
        (TRACKED, False),
        ({"delta.enableRowTracking": "true"}, False),
        ({"delta.enableRowTracking": "false"}, False),
        ({**TRACKED, "delta.appendOnly": "true"}, True),
        ({"delta.rowTrackingSuspended": "true"}, True),
        ({"set": "after"}, True),
    ],
)
def test_rows_that_are_tracked_from_now_on_are_no_conflict(properties: dict[str, str], conflicts: bool) -> None:
    won = winner(ONLY_TRACKS, metadata(properties={"set": "before", **properties}))
    with pytest.raises(MetadataChangedError) if conflicts else nullcontext():
        check(READ_R, won)
    with pytest.raises(MetadataChangedError):
        check(READ_R, won, changes_metadata=True)


@pytest.mark.parametrize(
    "won",
    [
        winner(ONLY_TRACKS, metadata(properties=TRACKED)),
        winner(ONLY_TRACKS, metadata(properties={"set": "before", **TRACKED}, id="0f2f7a5e-51e5-4b0e-a54c-5f6f2a0c5c11")),
        winner(info(tags=["rowTrackingEnablementOnly"]), metadata(properties={"set": "before", **TRACKED})),
        winner(info(), metadata(properties={"set": "before", **TRACKED})),
    ],
    ids=["a property is gone", "another table", "no tags", "said by nobody"],
)
def test_other_metadata_of_tracked_rows_are_a_conflict(won: CommitFile) -> None:
    with pytest.raises(MetadataChangedError):
        check(READ_R, won)


def test_other_columns_for_ids_are_a_conflict() -> None:
    before = Metadata.from_json(metadata(properties=TRACKED)["metaData"])
    other = {**TRACKED, "delta.rowTracking.materializedRowIdColumnName": "_row-id-col-2"}
    with pytest.raises(MetadataChangedError):
        check(READ_R, winner(ONLY_TRACKS, metadata(properties=other)), before=before)
