"""Table features: which a protocol demands, which are honoured here, and the refusal by name of the others.

Source: PROTOCOL.md, "Table Features" and "Valid Feature Names in Table Features"; preview names from delta-spark's TableFeature.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from deltamerge.errors import UnsupportedTableError
from deltamerge.protocol.actions import Metadata, Protocol
from deltamerge.protocol.schema import ArrayType, DataType, MapType, StructField, StructType, parse_schema

READER_VERSION = 3
WRITER_VERSION = 7


@dataclass(frozen=True, slots=True)
class Feature:
    """A table feature. `legacy` is its (reader, writer) version from the time before features had names.

    `reads` and `writes` say whether this library honours it. A feature that is not honoured on write may still be
    tolerated while `active` says that the table makes no use of it.
    """

    name: str
    reader: bool = False
    legacy: tuple[int, int] | None = None
    reads: bool = True
    writes: bool = False
    active: Callable[[Metadata], bool] = lambda metadata: True


def _fields(type: DataType) -> Iterator[StructField]:
    if isinstance(type, StructType):
        for field in type.fields:
            yield field
            yield from _fields(field.type)
    elif isinstance(type, ArrayType):
        yield from _fields(type.element)
    elif isinstance(type, MapType):
        yield from _fields(type.key)
        yield from _fields(type.value)


def _marks(*keys: str) -> Callable[[Metadata], bool]:
    def active(metadata: Metadata) -> bool:
        fields = _fields(parse_schema(metadata.schema_string))
        return any(key in field.metadata for field in fields for key in keys)

    return active


def _property(key: str, *off: str) -> Callable[[Metadata], bool]:
    def active(metadata: Metadata) -> bool:
        return metadata.configuration.get(key, "false").lower() not in ("false", *off)

    return active


def _constraints(metadata: Metadata) -> bool:
    return any(key.startswith("delta.constraints.") for key in metadata.configuration)


FEATURES: dict[str, Feature] = {
    feature.name: feature
    for feature in (
        Feature("appendOnly", legacy=(1, 2), writes=True),
        Feature("invariants", legacy=(1, 2), active=_marks("delta.invariants")),
        Feature("checkConstraints", legacy=(1, 3), active=_constraints),
        Feature("changeDataFeed", legacy=(1, 4), active=_property("delta.enableChangeDataFeed")),
        Feature("generatedColumns", legacy=(1, 4), active=_marks("delta.generationExpression")),
        Feature(
            "columnMapping",
            reader=True,
            legacy=(2, 5),
            reads=False,
            active=_property("delta.columnMapping.mode", "none"),
        ),
        Feature("identityColumns", legacy=(1, 6), active=_marks("delta.identity.start", "delta.identity.step")),
        Feature("allowColumnDefaults", active=_marks("CURRENT_DEFAULT")),
        Feature("timestampNtz", reader=True, writes=True),
        Feature("vacuumProtocolCheck", reader=True, writes=True),
        Feature("deletionVectors", reader=True, reads=False),
        Feature("v2Checkpoint", reader=True, writes=True),
        Feature("typeWidening", reader=True, reads=False),
        Feature("typeWidening-preview", reader=True, reads=False),
        Feature("variantType", reader=True, reads=False),
        Feature("variantType-preview", reader=True, reads=False),
        Feature("variantShredding", reader=True, reads=False),
        Feature("variantShredding-preview", reader=True, reads=False),
        Feature("geospatial", reader=True, reads=False),
        Feature("catalogManaged", reader=True, reads=False),
        Feature("domainMetadata", writes=True),
        Feature("rowTracking", active=_property("delta.enableRowTracking")),
        Feature("inCommitTimestamp", writes=True, active=_property("delta.enableInCommitTimestamps")),
        Feature("clustering"),
        Feature("collations"),
        Feature("icebergCompatV1", active=_property("delta.enableIcebergCompatV1")),
        Feature("icebergCompatV2", active=_property("delta.enableIcebergCompatV2")),
        Feature("icebergCompatV3", active=_property("delta.enableIcebergCompatV3")),
        Feature("checkpointProtection"),
        Feature("materializePartitionColumns"),
    )
}


def protocol_for(schema: StructType) -> Protocol:
    """The lowest protocol that a new table of this schema needs."""
    types = {str(field.type) for field in _fields(schema)}
    if "timestamp_ntz" in types:
        names = frozenset({"timestampNtz"})
        return Protocol(3, 7, names, names | {"appendOnly", "invariants"})
    return Protocol(1, 2)


def named_features(protocol: Protocol) -> frozenset[str]:
    """All features that a protocol demands, those of legacy versions spelled out."""
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
    demanded = set(protocol.reader_features or ())
    if protocol.reader_features is None:
        demanded = {name for name in named_features(protocol) if name in FEATURES and FEATURES[name].reader}
    missing = sorted(name for name in demanded if not _honoured(name, metadata, "reads"))
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
