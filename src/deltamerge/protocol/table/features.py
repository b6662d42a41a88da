"""Table features: which a protocol requires, which are honoured here, and which others are refused by name.

Source: PROTOCOL.md, "Table Features" and "Valid Feature Names in Table Features"; preview names from delta-spark's TableFeature.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from deltamerge.errors import UnsupportedTableError
from deltamerge.protocol.schema.types import check_storable, fields_of, parse_schema, primitives_of
from deltamerge.protocol.table.actions import Metadata, Protocol

FEATURE_PROPERTY = "delta.feature."
READER_VERSION = 3
WRITER_VERSION = 7
# What the names of features end with that were there before their protocol was settled.
_PREVIEW = "-preview"


@dataclass(frozen=True, slots=True)
class Feature:
    """A table feature. `legacy` is its (reader, writer) version from the time before features had names.

    `reads` and `writes` say whether this library honours it. A feature that is not honoured may still be tolerated while
    `active` says that the table makes no use of it; None when metadata can't tell. `asked` says that metadata asks for
    the feature, which is what `active` says unless given. `requires` are the features that it can't be without.
    `concurrent` says that a transaction which began before a table got the feature may be committed after it: the feature only
    tells writers about vectors, checkpoints or clean-up, or about what else is in the same commit.
    `evolves` says that schema evolution enables the feature where a new column asks for it.
    """

    name: str
    reader: bool = False
    legacy: tuple[int, int] | None = None
    reads: bool = True
    writes: bool = False
    active: Callable[[Metadata], bool] = lambda metadata: True
    asked: Callable[[Metadata], bool] = lambda metadata: False
    requires: tuple[str, ...] = ()
    concurrent: bool = False
    evolves: bool = False


def _marks(*keys: str) -> Callable[[Metadata], bool]:
    def active(metadata: Metadata) -> bool:
        fields = fields_of(parse_schema(metadata.schema_string))
        return any(key in field.metadata for field in fields for key in keys)

    return active


def _property(key: str, *off: str) -> Callable[[Metadata], bool]:
    def active(metadata: Metadata) -> bool:
        return metadata.configuration.get(key, "false").strip().lower() not in ("false", *off)

    return active


def _types(*names: str) -> Callable[[Metadata], bool]:
    def active(metadata: Metadata) -> bool:
        return any(type.name.startswith(names) for type in primitives_of(parse_schema(metadata.schema_string)))

    return active


def _configured(prefix: str) -> Callable[[Metadata], bool]:
    return lambda metadata: any(key.startswith(prefix) for key in metadata.configuration)


def _partitioned(metadata: Metadata) -> bool:
    return bool(metadata.partition_columns)


_variant, _geospatial = _types("variant"), _types("geometry", "geography")
_shreds = _property("delta.enableVariantShredding")


def _used(name: str, active: Callable[[Metadata], bool], **more: Any) -> Feature:
    """A feature of which metadata tells whether the table uses it."""
    return Feature(name, active=active, asked=active, **more)


FEATURES: dict[str, Feature] = {
    feature.name: feature
    for feature in (
        _used("appendOnly", _property("delta.appendOnly"), legacy=(1, 2), writes=True),
        _used("invariants", _marks("delta.invariants"), legacy=(1, 2), writes=True),
        _used("checkConstraints", _configured("delta.constraints."), legacy=(1, 3), writes=True),
        _used("changeDataFeed", _property("delta.enableChangeDataFeed"), legacy=(1, 4), writes=True),
        _used("generatedColumns", _marks("delta.generationExpression"), legacy=(1, 4), writes=True),
        _used("columnMapping", _property("delta.columnMapping.mode", "none"), reader=True, legacy=(2, 5), writes=True),
        _used("identityColumns", _marks("delta.identity.start", "delta.identity.step"), legacy=(1, 6), writes=True),
        Feature("allowColumnDefaults", active=_marks("CURRENT_DEFAULT"), writes=True),
        Feature("timestampNtz", reader=True, writes=True, asked=_types("timestamp_ntz"), concurrent=True),
        Feature("vacuumProtocolCheck", reader=True, writes=True, concurrent=True),
        Feature("deletionVectors", reader=True, writes=True, asked=_property("delta.enableDeletionVectors"), concurrent=True),
        Feature("v2Checkpoint", reader=True, writes=True, asked=_property("delta.checkpointPolicy", "classic"), concurrent=True),
        Feature("typeWidening", reader=True, writes=True, asked=_property("delta.enableTypeWidening"), concurrent=True),
        Feature("typeWidening-preview", reader=True, writes=True, concurrent=True),
        # A type that no column has asks nothing of files, of statistics, or of the log: delta-rs lists variantType without one.
        _used("variantType", _variant, reader=True, writes=True, evolves=True),
        Feature("variantType-preview", reader=True, writes=True),
        # Shredding is a writer's choice, file by file: here variants are written whole, and shredded ones are read.
        Feature("variantShredding", reader=True, writes=True, requires=("variantType",)),
        Feature("variantShredding-preview", reader=True, writes=True, asked=_shreds, requires=("variantType",)),
        _used("geospatial", _geospatial, reader=True, reads=False),
        Feature("geospatial-dev", reader=True, reads=False, active=_geospatial),
        # Who commits, and where the log goes on, metadata does not tell: no use without the feature itself.
        Feature("catalogManaged", reader=True, reads=False, requires=("inCommitTimestamp", "vacuumProtocolCheck")),
        Feature("adaptiveMetadata-preview", reader=True, reads=False, requires=("catalogManaged", "rowTracking")),
        # These do nothing until a property says whereto, or by whom. A commit that sets it is written as any other.
        Feature(
            "redirectReaderWriter-preview", reader=True, reads=False, active=_configured("delta.redirectReaderWriter-preview")
        ),
        Feature("redirectWriterOnly-preview", active=_configured("delta.redirectWriterOnly-preview")),
        Feature(
            "coordinatedCommits-preview",
            active=_configured("delta.coordinatedCommits."),
            requires=("inCommitTimestamp", "vacuumProtocolCheck"),
        ),
        Feature("domainMetadata", writes=True, concurrent=True),
        _used("rowTracking", _property("delta.enableRowTracking"), writes=True, requires=("domainMetadata",)),
        _used("inCommitTimestamp", _property("delta.enableInCommitTimestamps"), writes=True),
        Feature("clustering", writes=True, requires=("domainMetadata",)),
        _used("collations", _marks("__COLLATIONS")),
        _used("icebergCompatV1", _property("delta.enableIcebergCompatV1"), requires=("columnMapping",)),
        _used("icebergCompatV2", _property("delta.enableIcebergCompatV2"), requires=("columnMapping",)),
        _used("icebergCompatV3", _property("delta.enableIcebergCompatV3"), requires=("columnMapping", "rowTracking")),
        Feature("checkpointProtection", writes=True, concurrent=True),
        Feature(
            "materializePartitionColumns",
            active=_partitioned,
            asked=_property("delta.enableMaterializePartitionColumnsFeature"),
        ),
    )
}

_EVERY_TABLE = frozenset({"appendOnly", "invariants"})


def needed(metadata: Metadata) -> Protocol:
    """The lowest protocol that a table of this metadata needs; also what `delta.feature.<name> = supported` asks for."""
    return lowest(_EVERY_TABLE | asked_features(metadata))


def asked_features(metadata: Metadata) -> frozenset[str]:
    """The features that metadata asks for, by its schema, by its properties, or by their names."""
    asked = {name for name, feature in FEATURES.items() if feature.asked(metadata)}
    for key, value in metadata.configuration.items():
        if key.startswith(FEATURE_PROPERTY) and value.strip().lower() in ("supported", "enabled"):
            asked.add(key.removeprefix(FEATURE_PROPERTY))
    return frozenset(asked)


def lowest(names: Iterable[str]) -> Protocol:
    """The lowest protocol that has these features, those that they require, and no others."""
    return _protocol_of(_with_required(names))


def upgraded(protocol: Protocol, names: Iterable[str]) -> Protocol:
    """The protocol with the features `names` and those that they require; the same one when it has them all.

    Never lowers a version and never forgets a feature, known or not: any may have been used in the table's history.
    """
    before = named_features(protocol)
    after = _with_required(before | set(names))
    if after == before:
        return protocol
    found = _protocol_of(after)
    if protocol.writer_features is None and found.writer_features is None:
        return Protocol(max(protocol.min_reader_version, found.min_reader_version), found.min_writer_version)
    readers = (protocol.reader_features or frozenset()) | {n for n in after if n in FEATURES and FEATURES[n].reader}
    version = max(protocol.min_reader_version, found.min_reader_version)
    return Protocol(version, WRITER_VERSION, readers if version == READER_VERSION else None, after)


def _with_required(names: Iterable[str]) -> frozenset[str]:
    found = set(names)
    waiting = list(found)
    while waiting:
        feature = FEATURES.get(waiting.pop())
        missing = set(feature.requires) - found if feature else set()
        found |= missing
        waiting += missing
    return frozenset(found)


def _protocol_of(names: frozenset[str]) -> Protocol:
    """The lowest protocol that has exactly these features: legacy versions where they imply them and no others."""
    readers = frozenset(name for name in names if name in FEATURES and FEATURES[name].reader)
    legacy = [FEATURES[name].legacy or (READER_VERSION, WRITER_VERSION) for name in names & FEATURES.keys()]
    writer = max((version for _, version in legacy), default=1)
    reader = max((FEATURES[name].legacy or (READER_VERSION, 0))[0] for name in readers) if readers else 1
    if writer < WRITER_VERSION and named_features(Protocol(reader, writer)) == names:
        return Protocol(reader, writer)
    return Protocol(reader, WRITER_VERSION, readers if reader == READER_VERSION else None, names)


def named_features(protocol: Protocol) -> frozenset[str]:
    """All features that a protocol requires, those of legacy versions spelled out."""
    names = set(protocol.reader_features or ()) | set(protocol.writer_features or ())
    for feature in FEATURES.values():
        if feature.legacy is None:
            continue
        reader, writer = feature.legacy
        by_writer = protocol.writer_features is None and protocol.min_writer_version >= writer
        by_reader = feature.reader and protocol.reader_features is None and protocol.min_reader_version >= reader
        if by_writer or by_reader:
            names.add(feature.name)
    return frozenset(names)


def features_of_versions(reader: int, writer: int) -> frozenset[str]:
    """The features that both versions reach, which are asked for with them; none by those that name their features."""
    legacy = {feature.name: feature.legacy for feature in FEATURES.values() if feature.legacy is not None}
    found = frozenset(name for name, least in legacy.items() if least[0] <= reader and least[1] <= writer)
    return found if writer < WRITER_VERSION else frozenset()


def evolved_protocol(protocol: Protocol, before: Metadata, after: Metadata) -> Protocol:
    """The protocol with the features for which `after` asks and `before` did not; the same one when it has them all.

    Raises UnsupportedTableError for one that schema evolution does not enable.
    """
    known = named_features(protocol)
    known |= {name.removesuffix(_PREVIEW) for name in known}
    missing = sorted(n for n, f in FEATURES.items() if n not in known and f.asked(after) and not f.asked(before))
    if not all(FEATURES[name].evolves for name in missing):
        missing = [name for name in missing if not FEATURES[name].evolves]
        texts = ", ".join(f"'{FEATURE_PROPERTY}{name}' = 'supported'" for name in missing)
        raise UnsupportedTableError(
            "DELTA_FEATURES_REQUIRE_MANUAL_ENABLEMENT",
            f"The table's schema would require the table feature(s) {', '.join(missing)}, which the table does not have.",
            parameters={"unsupportedFeatures": missing},
            hint=f"Enable them first: ALTER TABLE .. SET TBLPROPERTIES ({texts}).",
        )
    return upgraded(protocol, missing)


def in_commit_timestamps(protocol: Protocol, metadata: Metadata) -> bool:
    """Whether commits of the table carry their own timestamps (PROTOCOL.md, "In-Commit Timestamps")."""
    return "inCommitTimestamp" in named_features(protocol) and _property("delta.enableInCommitTimestamps")(metadata)


def assigns_row_ids(protocol: Protocol, metadata: Metadata) -> bool:
    """Whether commits to the table assign row ids (PROTOCOL.md, "Writer Requirements for Row Tracking")."""
    return "rowTracking" in named_features(protocol) and not _property("delta.rowTrackingSuspended")(metadata)


def check_readable(protocol: Protocol, metadata: Metadata, table: str) -> None:
    """Raise UnsupportedTableError naming each feature without which the table can't be read right."""
    if protocol.min_reader_version > READER_VERSION:
        raise _too_new(protocol, table)
    required = set(protocol.reader_features or ())
    if protocol.reader_features is None:
        required = {name for name in named_features(protocol) if name in FEATURES and FEATURES[name].reader}
    missing = sorted(name for name in required if not _honoured(name, metadata, "reads"))
    if missing:
        raise _unsupported("DELTA_UNSUPPORTED_FEATURES_FOR_READ", "read", "read", missing, table)


def check_writable(protocol: Protocol, metadata: Metadata, table: str) -> None:
    """Raise UnsupportedTableError naming each feature without which the table can't be written right."""
    check_readable(protocol, metadata, table)
    if protocol.min_writer_version > WRITER_VERSION:
        raise _too_new(protocol, table)
    missing = sorted(name for name in named_features(protocol) if not _honoured(name, metadata, "writes"))
    if missing:
        raise _unsupported("DELTA_UNSUPPORTED_FEATURES_FOR_WRITE", "write", "written", missing, table)
    check_storable(parse_schema(metadata.schema_string))


def _honoured(name: str, metadata: Metadata, side: str) -> bool:
    feature = FEATURES.get(name)
    if feature is None:
        return False
    return bool(getattr(feature, side)) or not feature.active(metadata)


def _unsupported(condition: str, verb: str, done: str, names: list[str], table: str) -> UnsupportedTableError:
    return UnsupportedTableError(
        condition,
        f"Unsupported Delta {verb} feature: table {table} requires {', '.join(names)}.",
        parameters=_parameters(table, unsupported=names),
        hint=f"Use a tool that supports {' and '.join(names)}, or drop the feature from the table. Nothing was {done}.",
    )


def _too_new(protocol: Protocol, table: str) -> UnsupportedTableError:
    return UnsupportedTableError(
        "DELTA_INVALID_PROTOCOL_VERSION",
        f"Table {table} requires reader version {protocol.min_reader_version} and writer version "
        f"{protocol.min_writer_version}; supported are reader versions up to {READER_VERSION} and writer versions "
        f"up to {WRITER_VERSION}.",
        parameters=_parameters(table, readerRequired=protocol.min_reader_version, writerRequired=protocol.min_writer_version),
        hint="Upgrade deltamerge, or use the tool that upgraded the table.",
    )


def _parameters(table: str, **more: Any) -> dict[str, Any]:
    return {"tableNameOrPath": table, **more}
