"""Table features: which a protocol demands, and the refusal by name of those that are not honoured."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deltamerge.errors import UnsupportedTableError
from deltamerge.protocol.schema.types import ArrayType, PrimitiveType, StructField, StructType, schema_json
from deltamerge.protocol.table import features as module
from deltamerge.protocol.table.actions import Metadata, Protocol
from deltamerge.protocol.table.features import (
    FEATURES,
    Feature,
    check_readable,
    check_writable,
    named_features,
    needed,
    upgraded,
)


def metadata(
    configuration: Mapping[str, str] | None = None, marks: Mapping[str, Any] | None = None, nested: bool = False
) -> Metadata:
    field: dict[str, Any] = {"name": "c", "type": "long", "nullable": True, "metadata": dict(marks or {})}
    if nested:
        struct = {"type": "struct", "fields": [field]}
        array = {"type": "array", "elementType": struct, "containsNull": True}
        field = {"name": "outer", "type": array, "nullable": True, "metadata": {}}
    return Metadata("id", json.dumps({"type": "struct", "fields": [field]}), configuration=configuration or {})


def named(*names: str, reads: bool = True) -> Protocol:
    return Protocol(3, 7, frozenset(names) if reads else frozenset(), frozenset(names))


def named_with(*names: str) -> Protocol:
    return Protocol(3, 7, frozenset(names), frozenset({"appendOnly", "invariants", *names}))


LEGACY = [
    (1, 1, ""),
    (1, 2, "appendOnly invariants"),
    (1, 3, "appendOnly invariants checkConstraints"),
    (1, 4, "appendOnly invariants checkConstraints changeDataFeed generatedColumns"),
    (1, 5, "appendOnly invariants checkConstraints changeDataFeed generatedColumns columnMapping"),
    (2, 5, "appendOnly invariants checkConstraints changeDataFeed generatedColumns columnMapping"),
    (2, 6, "appendOnly invariants checkConstraints changeDataFeed generatedColumns columnMapping identityColumns"),
]


@pytest.mark.parametrize(("reader", "writer", "expected"), LEGACY)
def test_legacy_versions_are_spelled_out(reader: int, writer: int, expected: str) -> None:
    assert named_features(Protocol(reader, writer)) == frozenset(expected.split())


def test_named_features_replace_the_legacy_ones() -> None:
    assert named_features(named("timestampNtz")) == {"timestampNtz"}


def test_a_legacy_reader_with_named_writer_features_still_means_column_mapping() -> None:
    protocol = Protocol(2, 7, None, frozenset({"appendOnly"}))
    assert named_features(protocol) == {"appendOnly", "columnMapping"}


@pytest.mark.parametrize("protocol", [Protocol(r, w) for r, w, _ in LEGACY] + [named("timestampNtz", "appendOnly")], ids=repr)
def test_a_table_that_uses_no_feature_is_read_and_written(protocol: Protocol) -> None:
    check_readable(protocol, metadata(), "t")
    check_writable(protocol, metadata(), "t")


def test_features_that_are_not_read_are_refused_by_name() -> None:
    refused = {name for name, feature in FEATURES.items() if feature.reader and not feature.reads and feature.active(metadata())}
    for name in refused:
        with pytest.raises(UnsupportedTableError) as caught:
            check_readable(named(name), metadata(), "my_table")
        assert caught.value.condition == "DELTA_UNSUPPORTED_FEATURES_FOR_READ"
        assert caught.value.parameters == {"tableNameOrPath": "my_table", "unsupported": [name]}
        assert name in str(caught.value)
        assert "Nothing was read." in (caught.value.hint or "")


def test_features_that_are_not_written_are_refused_by_name() -> None:
    refused = {name for name, feature in FEATURES.items() if not feature.writes and not feature.reader}
    assert refused
    for name in refused:
        if not FEATURES[name].active(metadata()):
            continue
        with pytest.raises(UnsupportedTableError) as caught:
            check_writable(named(name, reads=False), metadata(), "my_table")
        assert caught.value.condition == "DELTA_UNSUPPORTED_FEATURES_FOR_WRITE"
        assert caught.value.parameters == {"tableNameOrPath": "my_table", "unsupported": [name]}
        assert "Nothing was written." in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("name", "configuration"),
    [
        ("changeDataFeed", {"delta.enableChangeDataFeed": "true"}),
        ("rowTracking", {"delta.enableRowTracking": "true"}),
        ("clustering", {}),
        ("checkpointProtection", {}),
    ],
)
def test_features_that_are_written_where_they_are_used(name: str, configuration: dict[str, str]) -> None:
    check_writable(named(name, "domainMetadata", reads=False), metadata(configuration), "t")


def test_all_missing_features_are_named_in_order() -> None:
    with pytest.raises(UnsupportedTableError, match="table t requires aFuture, zFuture"):
        check_readable(named("zFuture", "timestampNtz", "aFuture"), metadata(), "t")


def test_an_unknown_writer_feature_hinders_only_writing() -> None:
    for protocol in (Protocol(1, 7, None, frozenset({"future"})), named("future", reads=False)):
        check_readable(protocol, metadata(), "t")
        with pytest.raises(UnsupportedTableError, match="future"):
            check_writable(protocol, metadata(), "t")


def test_an_unknown_reader_feature_hinders_both() -> None:
    for check in (check_readable, check_writable):
        with pytest.raises(UnsupportedTableError, match="future"):
            check(named("future"), metadata(), "t")


ACTIVE = [
    ("invariants", metadata(marks={"delta.invariants": "{}"})),
    ("invariants", metadata(marks={"delta.invariants": "{}"}, nested=True)),
    ("checkConstraints", metadata({"delta.constraints.positive": "c > 0"})),
    ("changeDataFeed", metadata({"delta.enableChangeDataFeed": "True"})),
    ("generatedColumns", metadata(marks={"delta.generationExpression": "c"})),
    ("columnMapping", metadata({"delta.columnMapping.mode": "name"})),
    ("columnMapping", metadata({"delta.columnMapping.mode": "id"})),
    ("identityColumns", metadata(marks={"delta.identity.start": 1})),
    ("allowColumnDefaults", metadata(marks={"CURRENT_DEFAULT": "1"})),
    ("inCommitTimestamp", metadata({"delta.enableInCommitTimestamps": "true"})),
]
TYPES = {
    "geometry(4326)": ("geospatial", "geospatial-dev"),
    "geography(OGC:CRS84, SPHERICAL)": ("geospatial", "geospatial-dev"),
}
PROPERTIES = {
    "delta.redirectReaderWriter-preview": "redirectReaderWriter-preview",
    "delta.redirectWriterOnly-preview": "redirectWriterOnly-preview",
    "delta.coordinatedCommits.commitCoordinator-preview": "coordinatedCommits-preview",
}
INACTIVE = [
    ("changeDataFeed", metadata({"delta.enableChangeDataFeed": "false"})),
    ("columnMapping", metadata({"delta.columnMapping.mode": "none"})),
    ("columnMapping", metadata({"delta.columnMapping.mode": "None"})),
    ("checkConstraints", metadata({"delta.appendOnly": "true"})),
    ("invariants", metadata(marks={"comment": "delta.invariants"})),
]


@pytest.mark.parametrize(("name", "used"), ACTIVE)
def test_a_feature_is_active_when_the_table_uses_it(name: str, used: Metadata) -> None:
    assert FEATURES[name].active(used)


@pytest.mark.parametrize(("name", "unused"), INACTIVE + [(name, metadata()) for name, _ in ACTIVE])
def test_a_feature_is_inactive_when_the_table_does_not(name: str, unused: Metadata) -> None:
    assert not FEATURES[name].active(unused)


def typed(type: str, nested: bool) -> Metadata:
    text = json.loads(metadata(nested=nested).schema_string)
    field = text["fields"][0]["type"]["elementType"]["fields"][0] if nested else text["fields"][0]
    field["type"] = type
    return Metadata("id", json.dumps(text))


@pytest.mark.parametrize(("type", "name"), [(type, name) for type, names in TYPES.items() for name in names])
@pytest.mark.parametrize("nested", [False, True])
def test_a_feature_of_a_type_hinders_nothing_while_no_column_has_the_type(type: str, name: str, nested: bool) -> None:
    check_writable(named(name), metadata(nested=nested), "t")
    for check in (check_readable, check_writable):
        with pytest.raises(UnsupportedTableError, match=name):
            check(named(name), typed(type, nested), "t")


@pytest.mark.parametrize("name", ["variantType", "variantType-preview", "variantShredding", "variantShredding-preview"])
@pytest.mark.parametrize("nested", [False, True])
def test_a_table_with_variants_is_written_and_its_type_asks_for_the_feature(name: str, nested: bool) -> None:
    check_writable(named(name), typed("variant", nested), "t")
    assert "variantType" in named_features(needed(typed("variant", nested)))


def test_shredding_is_asked_for_as_delta_spark_does() -> None:
    asked = named_features(needed(metadata({"delta.enableVariantShredding": "true"})))
    assert asked >= {"variantShredding-preview", "variantType"}


def test_a_table_of_delta_rs_with_vectors_is_written() -> None:
    check_writable(named_with("variantType", "deletionVectors"), metadata({"delta.enableDeletionVectors": "true"}), "t")


@pytest.mark.parametrize(("key", "name"), PROPERTIES.items())
@pytest.mark.parametrize("value", ["{}", "", "false"])
def test_a_feature_that_a_property_switches_on_hinders_nothing_before(key: str, name: str, value: str) -> None:
    reads = FEATURES[name].reader
    check_writable(named(name, reads=reads), metadata({"delta.appendOnly": "true"}), "t")
    with pytest.raises(UnsupportedTableError, match=name):
        check_writable(named(name, reads=reads), metadata({key: value}), "t")


def test_partition_columns_are_only_wanted_in_the_files_of_partitioned_tables() -> None:
    name = "materializePartitionColumns"
    check_writable(named(name, reads=False), metadata(), "t")
    with pytest.raises(UnsupportedTableError, match=name):
        check_writable(named(name, reads=False), replace(metadata(), partition_columns=("c",)), "t")


@pytest.mark.parametrize("name", ["catalogManaged", "catalogOwned-preview", "adaptiveMetadata-preview", "unheardOf"])
def test_features_of_which_metadata_does_not_tell_the_use_are_refused(name: str) -> None:
    with pytest.raises(UnsupportedTableError, match=name):
        check_readable(named(name), metadata(), "t")


def test_a_feature_is_tolerated_while_inactive(monkeypatch: pytest.MonkeyPatch) -> None:
    switched = Feature("switched", reader=True, reads=False, active=lambda m: m.configuration.get("switch") == "on")
    monkeypatch.setitem(module.FEATURES, "switched", switched)
    check_writable(named("switched"), metadata({"switch": "off"}), "t")
    for check in (check_readable, check_writable):
        with pytest.raises(UnsupportedTableError, match="switched"):
            check(named("switched"), metadata({"switch": "on"}), "t")


@pytest.mark.parametrize(
    ("check", "protocol"),
    [
        (check_readable, Protocol(4, 7, frozenset(), frozenset())),
        (check_writable, Protocol(4, 8, frozenset(), frozenset())),
        (check_writable, Protocol(1, 8)),
    ],
)
def test_a_protocol_that_is_too_new_is_refused(check: Any, protocol: Protocol) -> None:
    with pytest.raises(UnsupportedTableError) as caught:
        check(protocol, metadata(), "t")
    assert caught.value.condition == "DELTA_INVALID_PROTOCOL_VERSION"
    assert caught.value.parameters["readerRequired"] == protocol.min_reader_version
    assert caught.value.parameters["writerRequired"] == protocol.min_writer_version


def test_a_writer_that_is_too_new_does_not_hinder_reading() -> None:
    check_readable(Protocol(1, 8), metadata(), "t")


def test_a_plain_table_gets_the_plain_protocol() -> None:
    assert needed(metadata()) == Protocol(1, 2)


def test_timestamps_without_zone_at_any_depth_need_their_feature() -> None:
    inner = StructType((StructField("x", PrimitiveType("timestamp_ntz")),))
    schema = StructType((StructField("c", ArrayType(inner)),))
    protocol = needed(Metadata("id", schema_json(schema)))
    assert (protocol.min_reader_version, protocol.min_writer_version) == (3, 7)
    assert protocol.reader_features == {"timestampNtz"}
    assert "timestampNtz" in (protocol.writer_features or ())
    check_writable(protocol, Metadata("id", schema_json(schema)), "t")


def legacy_and(*names: str) -> frozenset[str]:
    return frozenset({"appendOnly", "invariants", *names})


NEEDED = [
    (metadata({"delta.columnMapping.mode": "name"}), Protocol(2, 7, None, legacy_and("columnMapping"))),
    (metadata({"delta.constraints.c": "c > 0"}), Protocol(1, 3)),
    (metadata({"delta.enableChangeDataFeed": "true"}), Protocol(1, 7, None, legacy_and("changeDataFeed"))),
    (
        metadata({"delta.enableDeletionVectors": "true"}),
        Protocol(3, 7, frozenset({"deletionVectors"}), legacy_and("deletionVectors")),
    ),
    (metadata({"delta.feature.vacuumProtocolCheck": "supported"}), named_with("vacuumProtocolCheck")),
    (metadata({"delta.enableRowTracking": "true"}), Protocol(1, 7, None, legacy_and("rowTracking", "domainMetadata"))),
    (metadata({"delta.feature.future": "supported"}), Protocol(1, 7, None, legacy_and("future"))),
]


@pytest.mark.parametrize(("table", "expected"), NEEDED, ids=lambda value: repr(value)[-90:])
def test_a_new_table_gets_the_lowest_protocol_that_has_its_features(table: Metadata, expected: Protocol) -> None:
    assert needed(table) == expected


def test_an_upgrade_keeps_what_legacy_versions_imply() -> None:
    found = upgraded(Protocol(1, 4), ["timestampNtz"])
    assert found == Protocol(3, 7, frozenset({"timestampNtz"}), named_features(Protocol(1, 4)) | {"timestampNtz"})
    assert upgraded(Protocol(1, 2), ["checkConstraints"]) == Protocol(1, 3)
    assert upgraded(Protocol(1, 1), ["appendOnly", "invariants"]) == Protocol(1, 2)
    mapped = upgraded(Protocol(2, 5), ["timestampNtz"])
    assert mapped.reader_features == {"columnMapping", "timestampNtz"}


def test_an_upgrade_keeps_unknown_features_and_adds_required_ones() -> None:
    found = upgraded(named("future"), ["clustering"])
    assert found == Protocol(3, 7, frozenset({"future"}), frozenset({"future", "clustering", "domainMetadata"}))


@pytest.mark.parametrize("protocol", [Protocol(1, 5), Protocol(2, 6), named("future", "columnMapping")], ids=repr)
def test_an_upgrade_to_what_is_there_changes_nothing(protocol: Protocol) -> None:
    assert upgraded(protocol, ["columnMapping"]) is protocol


@given(st.sets(st.sampled_from(sorted(FEATURES)), max_size=6), st.sampled_from([Protocol(r, w) for r, w, _ in LEGACY]))
def test_an_upgrade_has_old_and_new_features_and_no_lower_version(names: set[str], before: Protocol) -> None:
    after = upgraded(before, names)
    assert named_features(after) >= named_features(before) | names
    assert after.min_reader_version >= before.min_reader_version
    assert after.min_writer_version >= before.min_writer_version
    assert (after.reader_features is None) == (after.min_reader_version < 3)
    assert (after.writer_features is None) == (after.min_writer_version < 7)
    assert (after.reader_features or frozenset()) <= (after.writer_features or frozenset())
    assert upgraded(after, names) is after


NAMES = """appendOnly invariants checkConstraints generatedColumns allowColumnDefaults changeDataFeed columnMapping
    identityColumns deletionVectors rowTracking timestampNtz domainMetadata v2Checkpoint catalogManaged icebergCompatV1
    icebergCompatV2 icebergCompatV3 clustering vacuumProtocolCheck inCommitTimestamp typeWidening typeWidening-preview
    variantType variantType-preview variantShredding variantShredding-preview geospatial geospatial-dev
    materializePartitionColumns checkpointProtection coordinatedCommits-preview redirectReaderWriter-preview
    redirectWriterOnly-preview adaptiveMetadata-preview"""


def test_every_feature_of_the_protocol_and_of_delta_spark_is_known() -> None:
    assert set(NAMES.split()) <= FEATURES.keys()
    assert all(set(feature.requires) <= FEATURES.keys() for feature in FEATURES.values())


def test_column_mapping_and_type_widening_are_honoured_and_types_without_files_are_not_written() -> None:
    mapped = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "p"}
    table = metadata({"delta.columnMapping.mode": "id", "delta.enableTypeWidening": "true"}, mapped)
    check_writable(named("columnMapping", "typeWidening"), table, "t")
    void = Metadata("id", schema_json(StructType((StructField("c", ArrayType(PrimitiveType("void"))),))))
    check_readable(Protocol(1, 2), void, "t")
    with pytest.raises(UnsupportedTableError, match="array<void>"):
        check_writable(Protocol(1, 2), void, "t")
