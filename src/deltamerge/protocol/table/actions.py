"""The actions of a commit as frozen data, to and from the JSON of the transaction log.

Source: PROTOCOL.md, "Actions". Live files of a snapshot are Arrow rows (`deltamerge.log.replay.files`); an `AddFile` object
exists only for the few files that a commit names.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Union

from deltamerge.protocol.formats.json_text import json_value
from deltamerge.protocol.values.values import long, long_or_none, text, text_map, text_or_none, texts

Json = dict[str, Any]
Action = Union["AddFile", "RemoveFile", "CdcFile", "Metadata", "Protocol", "Txn", "DomainMetadata", "CommitInfo"]

# A `schemaString` of no columns.
_NO_COLUMNS = '{"type":"struct","fields":[]}'


@dataclass(frozen=True, slots=True)
class DeletionVector:
    """Where the deleted row positions of a data file are (PROTOCOL.md, "Deletion Vectors")."""

    storage_type: str
    path_or_inline: str
    size_in_bytes: int
    cardinality: int
    offset: int | None = None

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> DeletionVector:
        """The descriptor in an add or remove action."""
        return cls(
            value["storageType"],
            value["pathOrInlineDv"],
            long(value["sizeInBytes"]),
            long(value["cardinality"]),
            value.get("offset"),
        )

    def to_json(self) -> Json:
        """The descriptor as the log has it."""
        return _without_none(
            {
                "storageType": self.storage_type,
                "pathOrInlineDv": self.path_or_inline,
                "offset": self.offset,
                "sizeInBytes": self.size_in_bytes,
                "cardinality": self.cardinality,
            }
        )


@dataclass(frozen=True, slots=True)
class AddFile:
    """A data file that becomes part of the table: `path` percent-encoded, relative to the table; size in bytes, time in ms."""

    path: str
    partition_values: Mapping[str, str | None]
    size: int
    modification_time: int
    stats: str | None = None
    data_change: bool = True
    deletion_vector: DeletionVector | None = None
    tags: Mapping[str, str] | None = None
    base_row_id: int | None = None
    default_row_commit_version: int | None = None
    clustering_provider: str | None = None

    @property
    def num_records(self) -> int | None:
        """Rows in the file, deleted ones included, when its statistics say so."""
        try:
            found = json_value(self.stats)["numRecords"] if self.stats else None
            return None if found is None else int(found)
        except (ValueError, LookupError, TypeError, OverflowError):
            return None

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> AddFile:
        """An `add` action's value."""
        vector = value.get("deletionVector")
        return cls(
            path=value["path"],
            partition_values=dict(value.get("partitionValues") or {}),
            size=long(value["size"]),
            modification_time=int(value.get("modificationTime") or 0),
            stats=value.get("stats"),
            data_change=bool(value.get("dataChange", True)),
            deletion_vector=DeletionVector.from_json(vector) if vector else None,
            tags=value.get("tags"),
            base_row_id=value.get("baseRowId"),
            default_row_commit_version=value.get("defaultRowCommitVersion"),
            clustering_provider=value.get("clusteringProvider"),
        )

    def to_json(self) -> Json:
        """The action as one line of a commit holds it."""
        value = {
            "path": self.path,
            "partitionValues": dict(self.partition_values),
            "size": self.size,
            "modificationTime": self.modification_time,
            "dataChange": self.data_change,
            "stats": self.stats,
            "tags": dict(self.tags) if self.tags is not None else None,
            "deletionVector": self.deletion_vector.to_json() if self.deletion_vector else None,
            "baseRowId": self.base_row_id,
            "defaultRowCommitVersion": self.default_row_commit_version,
            "clusteringProvider": self.clustering_provider,
        }
        return {"add": _without_none(value)}

    def removed(self, at: int, data_change: bool = True) -> RemoveFile:
        """The tombstone of this file, `at` in ms since 1970."""
        return RemoveFile(
            path=self.path,
            deletion_timestamp=at,
            data_change=data_change,
            partition_values=self.partition_values,
            size=self.size,
            tags=self.tags,
            deletion_vector=self.deletion_vector,
            base_row_id=self.base_row_id,
            default_row_commit_version=self.default_row_commit_version,
            stats=self.stats,
        )


@dataclass(frozen=True, slots=True)
class RemoveFile:
    """A data file that leaves the table; `deletion_timestamp` in ms. Kept as a tombstone until it expires."""

    path: str
    deletion_timestamp: int | None
    data_change: bool = True
    partition_values: Mapping[str, str | None] | None = None
    size: int | None = None
    tags: Mapping[str, str] | None = None
    deletion_vector: DeletionVector | None = None
    base_row_id: int | None = None
    default_row_commit_version: int | None = None
    stats: str | None = None

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> RemoveFile:
        """A `remove` action's value."""
        vector = value.get("deletionVector")
        return cls(
            path=value["path"],
            deletion_timestamp=value.get("deletionTimestamp"),
            data_change=bool(value.get("dataChange", True)),
            partition_values=value.get("partitionValues"),
            size=value.get("size"),
            tags=value.get("tags"),
            deletion_vector=DeletionVector.from_json(vector) if vector else None,
            base_row_id=value.get("baseRowId"),
            default_row_commit_version=value.get("defaultRowCommitVersion"),
            stats=value.get("stats"),
        )

    def to_json(self) -> Json:
        """The action as one line of a commit holds it."""
        extended = self.partition_values is not None and self.size is not None
        value = {
            "path": self.path,
            "deletionTimestamp": self.deletion_timestamp,
            "dataChange": self.data_change,
            "extendedFileMetadata": extended,
            "partitionValues": dict(self.partition_values) if self.partition_values is not None else None,
            "size": self.size,
            "tags": dict(self.tags) if self.tags is not None else None,
            "deletionVector": self.deletion_vector.to_json() if self.deletion_vector else None,
            "baseRowId": self.base_row_id,
            "defaultRowCommitVersion": self.default_row_commit_version,
            "stats": self.stats,
        }
        return {"remove": _without_none(value)}


@dataclass(frozen=True, slots=True)
class CdcFile:
    """A change data file of this version; never part of the table's state."""

    path: str
    partition_values: Mapping[str, str | None]
    size: int
    tags: Mapping[str, str] | None = None

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> CdcFile:
        """A `cdc` action's value."""
        return cls(value["path"], dict(value.get("partitionValues") or {}), long(value["size"]), value.get("tags"))

    def to_json(self) -> Json:
        """The action as one line of a commit holds it."""
        value = {
            "path": self.path,
            "partitionValues": dict(self.partition_values),
            "size": self.size,
            "dataChange": False,
            "tags": dict(self.tags) if self.tags is not None else None,
        }
        return {"cdc": _without_none(value)}


@dataclass(frozen=True, slots=True)
class Metadata:
    """The table's id, schema, partition columns and properties; `created_time` in ms."""

    id: str
    schema_string: str
    partition_columns: tuple[str, ...] = ()
    configuration: Mapping[str, str] = field(default_factory=dict)
    name: str | None = None
    description: str | None = None
    created_time: int | None = None
    provider: str = "parquet"
    provider_options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Metadata:
        """A `metaData` action's value. A null `schemaString` is a schema without columns, as it is for delta-spark."""
        format = value.get("format") or {}
        return cls(
            id=text(value["id"]),
            schema_string=_NO_COLUMNS if (schema := value.get("schemaString")) is None else text(schema),
            partition_columns=texts(value.get("partitionColumns")),
            configuration=text_map(value.get("configuration")),
            name=text_or_none(value.get("name")),
            description=text_or_none(value.get("description")),
            created_time=long_or_none(value.get("createdTime")),
            provider=text(format.get("provider", "parquet")),
            provider_options=text_map(format.get("options")),
        )

    def to_json(self) -> Json:
        """The action as one line of a commit holds it."""
        value = {
            "id": self.id,
            "name": self.name,
            "description": self.description,
            "format": {"provider": self.provider, "options": dict(self.provider_options)},
            "schemaString": self.schema_string,
            "partitionColumns": list(self.partition_columns),
            "configuration": dict(self.configuration),
            "createdTime": self.created_time,
        }
        return {"metaData": _without_none(value)}


@dataclass(frozen=True, slots=True)
class Protocol:
    """The versions and named features that a reader and a writer must support."""

    min_reader_version: int
    min_writer_version: int
    reader_features: frozenset[str] | None = None
    writer_features: frozenset[str] | None = None

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Protocol:
        """A `protocol` action's value."""
        readers, writers = value.get("readerFeatures"), value.get("writerFeatures")
        return cls(
            long(value["minReaderVersion"]),
            long(value["minWriterVersion"]),
            None if readers is None else frozenset(texts(readers)),
            None if writers is None else frozenset(texts(writers)),
        )

    def to_json(self) -> Json:
        """The action as one line of a commit holds it."""
        value = {
            "minReaderVersion": self.min_reader_version,
            "minWriterVersion": self.min_writer_version,
            "readerFeatures": None if self.reader_features is None else sorted(self.reader_features),
            "writerFeatures": None if self.writer_features is None else sorted(self.writer_features),
        }
        return {"protocol": _without_none(value)}


@dataclass(frozen=True, slots=True)
class Txn:
    """The last version that an application has written, for idempotent writes; `last_updated` in ms."""

    app_id: str
    version: int
    last_updated: int | None = None

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Txn:
        """A `txn` action's value."""
        return cls(text(value["appId"]), long(value["version"]), long_or_none(value.get("lastUpdated")))

    def to_json(self) -> Json:
        """The action as one line of a commit holds it."""
        value = {"appId": self.app_id, "version": self.version, "lastUpdated": self.last_updated}
        return {"txn": _without_none(value)}


@dataclass(frozen=True, slots=True)
class DomainMetadata:
    """Configuration of a named domain, such as row tracking's high-water mark."""

    domain: str
    configuration: str
    removed: bool = False

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> DomainMetadata:
        """A `domainMetadata` action's value."""
        return cls(text(value["domain"]), text(value.get("configuration") or ""), bool(value.get("removed", False)))

    def to_json(self) -> Json:
        """The action as one line of a commit holds it."""
        value = {"domain": self.domain, "configuration": self.configuration, "removed": self.removed}
        return {"domainMetadata": value}


@dataclass(frozen=True, slots=True)
class CommitInfo:
    """Who did what in this version: free-form, kept as the JSON object that the log has."""

    value: Mapping[str, Any]

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> CommitInfo:
        """A `commitInfo` action's value."""
        return cls(dict(value.items()))

    def to_json(self) -> Json:
        """The action as one line of a commit holds it."""
        return {"commitInfo": dict(self.value)}


KINDS: dict[str, Any] = {
    "add": AddFile,
    "remove": RemoveFile,
    "cdc": CdcFile,
    "metaData": Metadata,
    "protocol": Protocol,
    "txn": Txn,
    "domainMetadata": DomainMetadata,
    "commitInfo": CommitInfo,
}


def parse_action(value: Mapping[str, Any]) -> Action | None:
    """The action of one log line; None for a kind that the protocol does not name, which readers ignore.

    Raises KeyError, TypeError, ValueError when a required field is missing or has another type.
    """
    for kind, content in value.items():
        if kind in KINDS and content is not None:
            action: Action = KINDS[kind].from_json(content)
            return action
    return None


def action_line(action: Action) -> str:
    """One line of a commit file, without the newline."""
    return json.dumps(action.to_json(), separators=(",", ":"), ensure_ascii=False)


def _without_none(value: Json) -> Json:
    return {key: item for key, item in value.items() if item is not None}
