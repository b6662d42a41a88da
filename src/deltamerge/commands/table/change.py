"""One commit that changes what a table's log says of the table, and none of its rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from deltamerge.log.commit.conflict import ReadSet
from deltamerge.log.commit.proposal import Proposal
from deltamerge.log.commit.transaction import commit
from deltamerge.log.commit.upkeep import after_commit
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.log.replay.table import DeltaLog
from deltamerge.protocol.schema.types import StructType, changed_fields, parse_schema, schema_json
from deltamerge.protocol.table.actions import Action, DomainMetadata, Metadata, Protocol
from deltamerge.protocol.table.column_mapping import MAX_ID, NAME_KEY, MappingMode, assigned, highest_id, mode_of
from deltamerge.protocol.table.features import asked_features, check_writable, upgraded
from deltamerge.protocol.table.known_properties import features_of_properties, is_of_protocol
from deltamerge.protocol.table.row_tracking import with_column_names
from deltamerge.spark.session.delta_check import check_delta
from deltamerge.spark.session.frames import Session
from deltamerge.spark.session.settings import author


@dataclass(frozen=True, slots=True)
class Change:
    """What a commit changes: named and told as history tells it. What is None stays.

    `read` says what of the rows the change was made upon, `tags` what other writers know the commit by.
    """

    operation: str
    parameters: Mapping[str, Any]
    metadata: Metadata | None = None
    protocol: Protocol | None = None
    domains: tuple[DomainMetadata, ...] = ()
    read: ReadSet = field(default_factory=ReadSet)
    tags: Mapping[str, str] = field(default_factory=dict)


def told_json(value: object) -> str:
    """A value as history tells it among a commit's parameters: JSON without blanks."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def commit_change(spark: Session, log: DeltaLog, before: Snapshot, change: Change) -> int:
    """Commit a change of the table and return the version made. What the metadata asks for, the protocol gets.

    Raises UnsupportedTableError for a table that this library could not write afterwards, ConcurrentModificationError.
    """
    check_delta(spark, "ALTER")
    metadata = change.metadata or before.metadata
    protocol = change.protocol or _protocol(before.protocol, metadata)
    kept = {key: value for key, value in metadata.configuration.items() if not is_of_protocol(key)}
    metadata = replace(metadata, configuration=with_column_names(protocol, kept, before.metadata.configuration))
    check_writable(protocol, metadata, log.store.url)
    actions: list[Action] = [
        *([protocol] if protocol != before.protocol else []),
        *([metadata] if change.metadata is not None or metadata != before.metadata else []),
        *change.domains,
    ]
    proposal = Proposal(change.operation, actions, change.read, change.parameters, author=author(spark), tags=change.tags)
    committed = commit(before, proposal)
    log.remember(committed.snapshot)
    after_commit(committed.snapshot)
    return committed.version


def writable(log: DeltaLog) -> Snapshot:
    """The newest version of a table that this library may write. Raises UnsupportedTableError."""
    snapshot = log.snapshot()
    check_writable(snapshot.protocol, snapshot.metadata, log.store.url)
    return snapshot


def with_schema(metadata: Metadata, schema: StructType) -> Metadata:
    """The metadata with another schema, whose fields all have ids and physical names where the table maps columns."""
    if mode_of(metadata) is MappingMode.NONE:
        return replace(metadata, schema_string=schema_json(schema))
    schema, highest = assigned(schema, highest_id(metadata))
    configuration = {**metadata.configuration, MAX_ID: str(highest)}
    return replace(metadata, schema_string=schema_json(schema), configuration=configuration)


def mapped(metadata: Metadata) -> Metadata:
    """The metadata of a table that begins to map its columns: files have them under the names that they have."""
    schema = parse_schema(metadata.schema_string)
    return with_schema(metadata, changed_fields(schema, lambda f: replace(f, metadata={**f.metadata, NAME_KEY: f.name})))


def _protocol(protocol: Protocol, metadata: Metadata) -> Protocol:
    return upgraded(protocol, asked_features(metadata) | features_of_properties(metadata.configuration))
