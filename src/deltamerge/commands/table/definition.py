"""What a table is to be, as a user says it, and the actions by which a log says it.

Source: delta-spark's CreateDeltaTableCommand and OptimisticTransaction.updateMetadata. Must not know Spark.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from deltamerge.commands.rows.schema import check_new_schema
from deltamerge.errors import AnalysisError
from deltamerge.log.commit.clustering import DOMAIN, clustering_domain
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.protocol.schema.types import StructType, fields_of, schema_json
from deltamerge.protocol.table.actions import DomainMetadata, Metadata, Protocol
from deltamerge.protocol.table.column_mapping import MAX_ID, MappingMode, assigned, highest_id, mode_of, without_mapping
from deltamerge.protocol.table.constraints import default_of
from deltamerge.protocol.table.features import FEATURE_PROPERTY, check_writable, named_features, needed, upgraded
from deltamerge.protocol.table.known_properties import features_of_properties, is_of_protocol, kept_defaults
from deltamerge.protocol.table.row_tracking import with_column_names

_SUPPORTED = "supported"
# What a table that is replaced keeps of its properties, unless it is said otherwise.
_STAYING = ("delta.enableDeletionVectors", "delta.checkpointPolicy", "delta.enableRowTracking")
_CLUSTERING, _DEFAULTS = f"{FEATURE_PROPERTY}clustering", f"{FEATURE_PROPERTY}allowColumnDefaults"


NO_COLUMNS = StructType(())


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """A table's columns with what the log notes about them, its layout, its properties, and what it is for."""

    columns: StructType = NO_COLUMNS
    partition_by: tuple[str, ...] = ()
    cluster_by: tuple[tuple[str, ...], ...] | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None


@dataclass(frozen=True, slots=True)
class Settled:
    """A table as the log says it. `domains` is what its commit says of metadata domains."""

    protocol: Protocol
    metadata: Metadata
    schema: StructType
    domains: tuple[DomainMetadata, ...] = ()


def settled(definition: TableDefinition, defaults: Mapping[str, str], table: str, before: Snapshot | None = None) -> Settled:
    """The definition as protocol and metadata of a table, or of the one that replaces `before`.

    `defaults` are properties that the session gives to each new table. A protocol that `before` has is never lowered.
    Raises AnalysisError, UnsupportedTableError for what no table can be, or none that this library writes.
    """
    kept = kept_defaults(definition.properties, defaults)
    had = {} if before is None else before.metadata.configuration
    asked = {**{key: had[key] for key in _STAYING if key in had}, **kept, **definition.properties}
    schema = without_mapping(definition.columns)
    metadata = Metadata(
        id=str(uuid.uuid4()),
        schema_string=schema_json(schema),
        partition_columns=tuple(_spelled(schema, name) for name in definition.partition_by),
        configuration=asked,
        description=definition.comment,
        created_time=int(time.time() * 1000),
    )
    mapped = mode_of(metadata) is not MappingMode.NONE
    if len(schema) or definition.partition_by:
        check_new_schema(schema, definition.partition_by, any_name=mapped)
    _check_defaults(schema, asked)
    _check_layout(definition, before)
    protocol = _protocol(metadata, definition, before)
    highest = 0 if before is None else highest_id(before.metadata)
    if mapped:
        schema, highest = assigned(schema, highest)
        metadata = replace(metadata, schema_string=schema_json(schema))
    configuration = {key: value for key, value in asked.items() if not is_of_protocol(key)}
    if mapped:
        configuration[MAX_ID] = str(highest)
    metadata = replace(metadata, configuration=with_column_names(protocol, configuration, had))
    check_writable(protocol, metadata, table)
    domain = clustering_domain(schema, definition.cluster_by or (), metadata, definition.partition_by)
    clustered = definition.cluster_by is not None or (before is not None and DOMAIN in before.domains)
    return Settled(protocol, metadata, schema, (domain,) if clustered else ())


def _protocol(metadata: Metadata, definition: TableDefinition, before: Snapshot | None) -> Protocol:
    """The lowest protocol of these versions, features and properties that is not below that of the table before."""
    asked = dict(metadata.configuration)
    if definition.cluster_by is not None:
        asked[_CLUSTERING] = _SUPPORTED
    found = needed(replace(metadata, configuration=asked))
    names = named_features(found) | features_of_properties(asked)
    if before is not None:
        return upgraded(before.protocol, names)
    return upgraded(Protocol(1, 1), names) if names != named_features(found) else found


def _check_layout(definition: TableDefinition, before: Snapshot | None) -> None:
    if definition.partition_by and before is not None and "clustering" in named_features(before.protocol):
        raise AnalysisError(
            "DELTA_CLUSTERING_REPLACE_TABLE_WITH_PARTITIONED_TABLE",
            "Replacing a clustered Delta table with a partitioned table is not allowed.",
            hint="Make the table at another place.",
        )


def _check_defaults(schema: StructType, asked: Mapping[str, str]) -> None:
    found = [field.name for field in fields_of(schema) if default_of(field) is not None]
    if found and asked.get(_DEFAULTS) is None:
        raise AnalysisError(
            "WRONG_COLUMN_DEFAULTS_FOR_DELTA_FEATURE_NOT_ENABLED",
            f"The columns {', '.join(found)} have defaults, for which the table needs the feature allowColumnDefaults.",
            parameters={"commandType": "CREATE TABLE", "columns": found},
            hint=f"Give the table the property '{_DEFAULTS}' = '{_SUPPORTED}'.",
        )


def _spelled(schema: StructType, name: str) -> str:
    found = schema.find(name)
    return name if found is None else found.name


def differences(definition: TableDefinition, schema: StructType) -> Sequence[str]:
    """How the columns of a definition differ from those that a table has, as a user sees them; () where they don't."""
    wanted, found = definition.columns, schema
    lines = [f"the table lacks {f.name}" for f in wanted if found.find(f.name) is None]
    lines += [f"the table also has {f.name}" for f in found if wanted.find(f.name) is None]
    for column in wanted:
        other = found.find(column.name)
        if other is not None and other.type != column.type:
            lines.append(f"{column.name} is {other.type}, not {column.type}")
        elif other is not None and other.nullable != column.nullable:
            lines.append(f"{column.name} is {'nullable' if other.nullable else 'NOT NULL'}")
    return lines
