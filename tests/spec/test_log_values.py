"""Logs with a value of another kind at any place: whatever is read or written then works, or names what is wrong."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamerge.errors import DeltaMergeError
from deltamerge.log.commit.clustering import clustering_columns
from deltamerge.log.commit.transaction import Proposal, commit
from deltamerge.log.commit.upkeep import checkpoint
from deltamerge.log.replay.checksum import checksum_value
from deltamerge.log.replay.files import add_files
from deltamerge.log.replay.load import load
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.log.replay.table import DeltaLog
from deltamerge.log.skipping.skipping import could_match
from deltamerge.protocol.table.actions import AddFile
from deltamerge.protocol.table.constraints import constraints_of
from deltamerge.protocol.table.features import check_writable
from deltamerge.protocol.table.identity import identity_columns
from deltamerge.protocol.values.predicate import And, Compare, IsNull, OneOf, Or, StartsWith
from deltamerge.storage.local import LocalStore
from tests.effort import examples
from tests.unit.log.building import add, info, remove, vector
from tests.unit.log.building import commit as write

READER = ["columnMapping", "v2Checkpoint", "deletionVectors", "typeWidening"]
WRITER = ["rowTracking", "domainMetadata", "inCommitTimestamp", "invariants", "identityColumns", "clustering", "checkConstraints"]
FIELD = {
    "delta.typeChanges": [{"fromType": "integer", "toType": "long", "fieldPath": "element"}],
    "delta.identity.start": 1,
    "delta.identity.step": 1,
    "delta.identity.highWaterMark": 3,
    "delta.identity.allowExplicitInsert": False,
    "delta.invariants": json.dumps({"expression": {"expression": "id > 1"}}),
}
CONFIGURATION = {
    "delta.columnMapping.mode": "name",
    "delta.columnMapping.maxColumnId": "5",
    "delta.enableRowTracking": "true",
    "delta.rowTracking.materializedRowIdColumnName": "_r",
    "delta.rowTracking.materializedRowCommitVersionColumnName": "_v",
    "delta.enableInCommitTimestamps": "true",
    "delta.inCommitTimestampEnablementVersion": "0",
    "delta.inCommitTimestampEnablementTimestamp": "5",
    "delta.dataSkippingStatsColumns": "id,s.x",
    "delta.checkpointInterval": "1",
}
WHERE = And(
    (
        Compare(("id",), "=", pa.scalar(3, pa.int64())),
        Or((IsNull(("s", "x")), StartsWith(("p",), "x"))),
        OneOf(("p",), pa.array(["x"])),
    )
)
# fmt: off
OTHERS = [None, [], {}, "", "x", -1, 0, 1.5, True, 10**30, [None], [[]], {"": None}, {"a": 1}, "\ud800", "\0", "9" * 5_000, 2**63]
# fmt: on


def field(id: int, name: str, type: Any, **more: Any) -> dict[str, Any]:
    mapped = {"delta.columnMapping.id": id, "delta.columnMapping.physicalName": name}
    return {"name": name, "type": type, "nullable": True, "metadata": {**mapped, **more}}


def stats(number: int) -> dict[str, Any]:
    bounds = {"id": number, "s": {"x": 1.25}}
    return {"numRecords": number, "minValues": bounds, "maxValues": bounds, "nullCount": {"id": 0, "s": {"x": 0}, "a": 0}}


def versions() -> list[list[dict[str, Any]]]:
    """The actions of a small table that uses many features; what is JSON text in a log is still an object."""
    dates = {"type": "map", "keyType": "string", "valueType": "date", "valueContainsNull": True}
    fields = [
        field(1, "id", "long", **FIELD),
        field(2, "p", "string"),
        field(3, "s", {"type": "struct", "fields": [field(4, "x", "decimal(10,2)")]}),
        field(5, "a", {"type": "array", "elementType": dates, "containsNull": True}),
    ]
    features = {"readerFeatures": READER, "writerFeatures": READER + WRITER}
    metadata = {
        "id": "i",
        "name": "n",
        "description": "d",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": {"type": "struct", "fields": fields},
        "partitionColumns": ["p"],
        "configuration": CONFIGURATION,
        "createdTime": 3,
    }
    clustering = {"clusteringColumns": [["id"]], "domainName": "delta.clustering"}
    ids = {"partitionValues": {"p": "x"}, "baseRowId": 0, "defaultRowCommitVersion": 1}
    return [
        [
            info(inCommitTimestamp=5, txnId="t", isBlindAppend=False),
            {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}},
            {"metaData": metadata},
            {"domainMetadata": {"domain": "delta.rowTracking", "configuration": {"rowIdHighWaterMark": 9}, "removed": False}},
            {"domainMetadata": {"domain": "delta.clustering", "configuration": clustering, "removed": False}},
            {"txn": {"appId": "a", "version": 3, "lastUpdated": 7}},
        ],
        [
            info(inCommitTimestamp=6),
            add("p=x/f0", stats=stats(3), tags={"a": "b"}, deletionVector=vector("ab^-aqEH.-t@S}K{vb[*k^"), **ids),
            add("p=x/f1", stats=stats(4), **ids),
        ],
        [
            info(inCommitTimestamp=7),
            remove("p=x/f1", extendedFileMetadata=True, size=10, tags={"a": "b"}, **ids),
            {"cdc": {"path": "_change_data/x", "partitionValues": {"p": "x"}, "size": 3, "dataChange": False, "tags": {}}},
        ],
    ]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every value within an action."""
    if len(path) > 2:
        yield path
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield from places(value[key], (*path, key))


def as_log(actions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The actions with JSON texts where the log has such."""
    texts = {"metaData": "schemaString", "domainMetadata": "configuration", "add": "stats"}
    for action in actions:
        for kind, name in texts.items():
            content = action.get(kind)
            if isinstance(content, dict) and isinstance(content.get(name), dict | list):
                content[name] = json.dumps(content[name])
    return actions


def use(root: Path) -> None:
    """Read and write a table in every way in which its log is looked at."""
    (root / "p=x").mkdir()  # as the writer of the data file that is added would
    store = LocalStore(str(root))
    snapshot = load(store)
    look_at(snapshot)
    log = DeltaLog(store)
    log.commits()
    log.snapshot(timestamp=6)
    check_writable(snapshot.protocol, snapshot.metadata, store.url)
    added = AddFile("p=x/g", {"p": "x"}, 5, 5, json.dumps(stats(2)))
    checkpoint(commit(snapshot, Proposal("WRITE", [added])).snapshot)
    look_at(load(store))


def look_at(snapshot: Snapshot) -> None:
    checksum_value(snapshot)
    clustering_columns(snapshot)
    constraints_of(snapshot.schema, snapshot.metadata.configuration)
    identity_columns(snapshot.schema)
    assert len(could_match(snapshot.files, WHERE, snapshot.schema, snapshot.partition_columns)) == len(snapshot.files)
    assert len(snapshot.partition_schema) == len(snapshot.partition_columns)
    assert len(add_files(snapshot.files.table())) == len(snapshot.files)


PLACES = [path for number, actions in enumerate(versions()) for path in places(actions, (number,))]


@examples(300)
@given(st.sampled_from(PLACES), st.sampled_from(OTHERS))
def test_a_value_of_another_kind_raises_nothing_strange(
    tmp_path_factory: pytest.TempPathFactory, place: tuple[Any, ...], value: Any
) -> None:
    root = tmp_path_factory.mktemp("t")
    actions: Any = copy.deepcopy(versions())
    inner = actions
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    for number, content in enumerate(actions):
        write(root, number, *as_log(content))
    try:
        use(root)
    except DeltaMergeError:
        return


def test_the_table_as_it_is_can_be_used(tmp_path: Path) -> None:
    for number, content in enumerate(versions()):
        write(tmp_path, number, *as_log(copy.deepcopy(content)))
    use(tmp_path)
