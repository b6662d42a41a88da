"""Actions: each kind to a log line and back, and what a reader must tolerate or refuse."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltamerge.protocol.schema.types import StructType, parse_schema
from deltamerge.protocol.table.actions import (
    Action,
    AddFile,
    CdcFile,
    CommitInfo,
    DeletionVector,
    DomainMetadata,
    Metadata,
    Protocol,
    RemoveFile,
    Txn,
    action_line,
    parse_action,
)

texts = st.text(st.characters(codec="utf-8"), max_size=8)
some_text = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
counts = st.integers(0, 2**63 - 1)
maybe = st.none()
text_maps = st.dictionaries(texts, texts, max_size=3)
partitions = st.dictionaries(texts, maybe | texts, max_size=3)
vectors = st.builds(
    DeletionVector, st.sampled_from("uip"), texts, st.integers(0, 2**31 - 1), counts, maybe | st.integers(0, 2**31 - 1)
)
adds = st.builds(
    AddFile,
    path=some_text,
    partition_values=partitions,
    size=counts,
    modification_time=counts,
    stats=maybe | texts,
    data_change=st.booleans(),
    deletion_vector=maybe | vectors,
    tags=maybe | text_maps,
    base_row_id=maybe | counts,
    default_row_commit_version=maybe | counts,
    clustering_provider=maybe | texts,
)
removes = st.builds(
    RemoveFile,
    path=some_text,
    deletion_timestamp=maybe | counts,
    data_change=st.booleans(),
    partition_values=maybe | partitions,
    size=maybe | counts,
    tags=maybe | text_maps,
    deletion_vector=maybe | vectors,
    base_row_id=maybe | counts,
    default_row_commit_version=maybe | counts,
    stats=maybe | texts,
)
metadatas = st.builds(
    Metadata,
    id=texts,
    schema_string=texts,
    partition_columns=st.lists(texts, max_size=2).map(tuple),
    configuration=text_maps,
    name=maybe | texts,
    description=maybe | texts,
    created_time=maybe | counts,
    provider=texts,
    provider_options=text_maps,
)
feature_sets = maybe | st.frozensets(texts, max_size=3)
actions = st.one_of(
    adds,
    removes,
    metadatas,
    st.builds(CdcFile, some_text, partitions, counts, maybe | text_maps),
    st.builds(Protocol, st.integers(1, 9), st.integers(1, 9), feature_sets, feature_sets),
    st.builds(Txn, texts, counts, maybe | counts),
    st.builds(DomainMetadata, texts, texts, st.booleans()),
    st.builds(CommitInfo, st.dictionaries(texts, st.none() | st.booleans() | st.integers() | texts | text_maps, max_size=3)),
)


@settings(max_examples=60, deadline=None)
@given(actions)
def test_an_action_survives_its_line(action: Action) -> None:
    line = action_line(action)
    assert "\n" not in line
    assert parse_action(json.loads(line.encode())) == action


VECTOR = DeletionVector("u", "ab^-aqEH.-t@S}K{vb[*k^", 40, 6, 4)
ADD = AddFile("p=a%20b/x.parquet", {"p": "a b"}, 10, 20, '{"numRecords":3}', deletion_vector=VECTOR, base_row_id=0)


def test_the_line_of_an_add() -> None:
    assert json.loads(action_line(ADD)) == {
        "add": {
            "path": "p=a%20b/x.parquet",
            "partitionValues": {"p": "a b"},
            "size": 10,
            "modificationTime": 20,
            "dataChange": True,
            "stats": '{"numRecords":3}',
            "deletionVector": {
                "storageType": "u",
                "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^",
                "offset": 4,
                "sizeInBytes": 40,
                "cardinality": 6,
            },
            "baseRowId": 0,
        }
    }


def test_a_null_partition_value_stays_in_the_line() -> None:
    line = action_line(AddFile("x", {"p": None}, 1, 1))
    assert json.loads(line)["add"]["partitionValues"] == {"p": None}


def test_a_tombstone_has_all_that_its_file_had() -> None:
    removed = ADD.removed(99)
    assert removed == RemoveFile(
        path=ADD.path,
        deletion_timestamp=99,
        partition_values={"p": "a b"},
        size=10,
        deletion_vector=VECTOR,
        base_row_id=0,
        stats='{"numRecords":3}',
    )
    assert json.loads(action_line(removed))["remove"]["extendedFileMetadata"] is True


@pytest.mark.parametrize(
    "remove", [RemoveFile("x", 1), RemoveFile("x", 1, size=3), RemoveFile("x", 1, partition_values={})], ids=repr
)
def test_a_tombstone_without_size_or_partition_is_not_extended(remove: RemoveFile) -> None:
    assert json.loads(action_line(remove))["remove"]["extendedFileMetadata"] is False


def test_a_change_file_never_is_a_data_change() -> None:
    assert json.loads(action_line(CdcFile("x", {}, 1)))["cdc"]["dataChange"] is False


def test_features_are_written_in_order() -> None:
    line = action_line(Protocol(3, 7, frozenset({"b", "a"}), frozenset({"d", "c"})))
    assert line == (
        '{"protocol":{"minReaderVersion":3,"minWriterVersion":7,"readerFeatures":["a","b"],"writerFeatures":["c","d"]}}'
    )


def test_no_features_differ_from_features_left_out() -> None:
    assert "Features" not in action_line(Protocol(1, 2))
    assert parse_action(json.loads(action_line(Protocol(3, 7, frozenset(), frozenset())))) == Protocol(
        3, 7, frozenset(), frozenset()
    )


@pytest.mark.parametrize(("stats", "expected"), [('{"numRecords":3}', 3), ('{"minValues":{}}', None), (None, None), ("", None)])
def test_num_records_comes_from_the_statistics(stats: str | None, expected: int | None) -> None:
    assert AddFile("x", {}, 1, 1, stats).num_records == expected


def test_what_an_add_leaves_out_has_its_default() -> None:
    assert parse_action({"add": {"path": "x", "size": 1}}) == AddFile("x", {}, 1, 0)


@pytest.mark.parametrize("value", [{"futureAction": {"path": "x"}}, {}, {"add": None}, {"sidecar": {"path": "x"}}])
def test_an_unknown_action_is_ignored(value: dict[str, Any]) -> None:
    assert parse_action(value) is None


def test_null_kinds_beside_the_action_are_ignored() -> None:
    assert parse_action({"add": None, "txn": {"appId": "a", "version": 1}, "remove": None}) == Txn("a", 1)


def test_unknown_fields_are_ignored() -> None:
    assert parse_action({"txn": {"appId": "a", "version": 1, "future": True}}) == Txn("a", 1)


REQUIRED = {
    "add": {"path": "x", "size": 1},
    "remove": {"path": "x"},
    "cdc": {"path": "x", "size": 1},
    "metaData": {"id": "i"},
    "protocol": {"minReaderVersion": 1, "minWriterVersion": 2},
    "txn": {"appId": "a", "version": 1},
    "domainMetadata": {"domain": "d"},
}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, value in REQUIRED.items() for name in value])
def test_a_missing_field_raises(kind: str, name: str) -> None:
    assert parse_action({kind: REQUIRED[kind]}) is not None
    with pytest.raises(KeyError, match=name):
        parse_action({kind: {key: item for key, item in REQUIRED[kind].items() if key != name}})


@pytest.mark.parametrize("value", [{"id": "i"}, {"id": "i", "schemaString": None}])
def test_metadata_without_a_schema_has_no_columns(value: dict[str, Any]) -> None:
    assert parse_schema(Metadata.from_json(value).schema_string) == StructType(())


@pytest.mark.parametrize("name", ["storageType", "pathOrInlineDv", "sizeInBytes", "cardinality"])
def test_a_missing_field_of_a_vector_raises(name: str) -> None:
    vector = {key: item for key, item in VECTOR.to_json().items() if key != name}
    with pytest.raises(KeyError, match=name):
        parse_action({"add": {"path": "x", "size": 1, "deletionVector": vector}})


@pytest.mark.parametrize(
    "value",
    [
        {"add": {"path": "x", "size": "many"}},
        {"add": {"path": "x", "size": []}},
        {"protocol": {"minReaderVersion": None, "minWriterVersion": 2}},
        {"txn": {"appId": "a", "version": "v"}},
    ],
)
def test_a_field_of_another_type_raises(value: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError)):
        parse_action(value)


@pytest.mark.parametrize("stats", [None, "", "{", "[]", "5", '{"numRecords":null}', '{"numRecords":"x"}', '{"numRecords":1e999}'])
def test_rows_that_damaged_statistics_do_not_tell_are_unknown(stats: str | None) -> None:
    assert AddFile("a", {}, 1, 1, stats=stats).num_records is None
