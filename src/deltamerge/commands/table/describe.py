"""A table's history and details, as rows of delta-spark's DESCRIBE HISTORY and DESCRIBE DETAIL."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from deltamerge.display.views import Grid, Page, Pairs, counted, grid_of, size_text
from deltamerge.log.commit.clustering import clustering_names
from deltamerge.log.replay.commit_file import CommitFile
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.log.replay.table import DeltaLog
from deltamerge.protocol.table.features import named_features
from deltamerge.storage.location import location_text

_JOB = ("jobId", "jobName", "jobRunId", "runId", "jobOwnerId", "triggerType")
_TEXTS = pa.map_(pa.string(), pa.string())
_MOMENT = pa.timestamp("us", "UTC")
HISTORY_SCHEMA = pa.schema(
    [
        ("version", pa.int64()),
        ("timestamp", _MOMENT),
        ("userId", pa.string()),
        ("userName", pa.string()),
        ("operation", pa.string()),
        ("operationParameters", _TEXTS),
        ("job", pa.struct([(name, pa.string()) for name in _JOB])),
        ("notebook", pa.struct([("notebookId", pa.string())])),
        ("clusterId", pa.string()),
        ("readVersion", pa.int64()),
        ("isolationLevel", pa.string()),
        ("isBlindAppend", pa.bool_()),
        ("operationMetrics", _TEXTS),
        ("userMetadata", pa.string()),
        ("engineInfo", pa.string()),
    ]
)
DETAIL_SCHEMA = pa.schema(
    [
        ("format", pa.string()),
        ("id", pa.string()),
        ("name", pa.string()),
        ("description", pa.string()),
        ("location", pa.string()),
        ("createdAt", _MOMENT),
        ("lastModified", _MOMENT),
        ("partitionColumns", pa.list_(pa.string())),
        ("clusteringColumns", pa.list_(pa.string())),
        ("numFiles", pa.int64()),
        ("sizeInBytes", pa.int64()),
        ("properties", _TEXTS),
        ("minReaderVersion", pa.int32()),
        ("minWriterVersion", pa.int32()),
        ("tableFeatures", pa.list_(pa.string())),
    ]
)

# The metrics that count the rows that a commit inserted, updated and deleted; those that it only copied are left out.
_CHANGED = {
    "MERGE": ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted"),
    "DELETE": (None, None, "numDeletedRows"),
    "UPDATE": (None, "numUpdatedRows", None),
}
_WRITTEN = ("numOutputRows", None, None)
_COUNTS = ("inserted", "updated", "deleted")
_MOST_COMMITS = 50


def history_table(log: DeltaLog, limit: int | None = None) -> pa.Table:
    """The commits that are still in the log, newest first, a row of HISTORY_SCHEMA each."""
    return pa.Table.from_pylist([_history_row(commit) for commit in log.commits(limit)], HISTORY_SCHEMA)


def detail_table(snapshot: Snapshot, name: str | None = None) -> pa.Table:
    """One row of DETAIL_SCHEMA about a snapshot; sizes in bytes. `name` is the whole one that a catalog has for the table."""
    metadata, protocol = snapshot.metadata, snapshot.protocol
    row = {
        "format": "delta",
        "id": metadata.id,
        "name": metadata.name if name is None else name,
        "description": metadata.description,
        "location": location_text(snapshot.store.url),
        "createdAt": None if metadata.created_time is None else _moment(metadata.created_time),
        "lastModified": _moment(snapshot.timestamp),
        "partitionColumns": list(metadata.partition_columns),
        "clusteringColumns": clustering_names(snapshot),
        "numFiles": len(snapshot.files),
        "sizeInBytes": snapshot.files.total_bytes,
        "properties": list(metadata.configuration.items()),
        "minReaderVersion": protocol.min_reader_version,
        "minWriterVersion": protocol.min_writer_version,
        "tableFeatures": sorted(named_features(protocol)),
    }
    return pa.Table.from_pylist([row], DETAIL_SCHEMA)


def detail_page(snapshot: Snapshot, most_columns: int | None = None) -> Page:
    """What is shown of a snapshot: files, size, layout, protocol, properties, and columns, at most so many of them."""
    (row,) = detail_table(snapshot).to_pylist()
    pairs = (
        ("version", f"{snapshot.version:,}"),
        ("files", f"{row['numFiles']:,}"),
        ("size", size_text(row["sizeInBytes"])),
        ("partitioned by", ", ".join(row["partitionColumns"]) or "-"),
        ("clustered by", ", ".join(row["clusteringColumns"]) or "-"),
        ("protocol", f"reader {row['minReaderVersion']}, writer {row['minWriterVersion']}"),
        ("features", ", ".join(row["tableFeatures"]) or "-"),
        *((name, value or "") for name, value in row["properties"]),
    )
    columns = [
        {"column": field.name, "type": str(field.type), "nullable": "yes" if field.nullable else "no"}
        for field in snapshot.schema
    ]
    schema = grid_of(counted(len(columns), "column"), columns, ("column", "type", "nullable"), (), most_columns, "column")
    return Page("Table", row["location"], (Pairs("", pairs), schema))


def history_page(history: pa.Table, url: str) -> Page:
    """What is shown of a table's commits: the newest ones."""
    return Page("History", location_text(url), (replace(history_view(history, _MOST_COMMITS), title=""),))


def history_view(history: pa.Table, most_rows: int | None = None) -> Grid:
    """Commits, newest first, at most so many of them, with the rows that each inserted, updated and deleted."""
    rows = [
        {
            "version": row["version"],
            "time (UTC)": row["timestamp"].strftime("%Y-%m-%d %H:%M:%S"),
            "operation": row["operation"] or "",
            **{name: "" if count is None else f"{count:,}" for name, count in changed_rows(row).items()},
            "by": row["engineInfo"] or "",
        }
        for row in history.to_pylist()
    ]
    columns = ("version", "time (UTC)", "operation", *_COUNTS, "by")
    return grid_of("History", rows, columns, ("version", *_COUNTS), most_rows, "commit")


def changed_rows(commit: Mapping[str, Any]) -> dict[str, int | None]:
    """The rows that a commit of a history inserted, updated and deleted; None where it does not say so."""
    metrics = dict(commit["operationMetrics"] or ())
    names = _CHANGED.get(commit["operation"] or "", _WRITTEN)
    found = [metrics.get(name, "") if name else "" for name in names]
    return {name: int(count) if count.isdecimal() else None for name, count in zip(_COUNTS, found, strict=True)}


def _history_row(commit: CommitFile) -> dict[str, Any]:
    info = commit.info
    return {
        "version": commit.version,
        "timestamp": _moment(commit.timestamp),
        "userId": info.get("userId"),
        "userName": info.get("userName"),
        "operation": info.get("operation"),
        "operationParameters": _texts(info.get("operationParameters")),
        "job": info.get("job"),
        "notebook": info.get("notebook"),
        "clusterId": info.get("clusterId"),
        "readVersion": info.get("readVersion"),
        "isolationLevel": info.get("isolationLevel"),
        "isBlindAppend": info.get("isBlindAppend"),
        "operationMetrics": _texts(info.get("operationMetrics")),
        "userMetadata": info.get("userMetadata"),
        "engineInfo": info.get("engineInfo"),
    }


def _texts(values: Mapping[str, Any] | None) -> list[tuple[str, str | None]] | None:
    return None if values is None else [(key, _text(value)) for key, value in values.items()]


def _text(value: Any) -> str | None:
    """A JSON value as text: a string as it is."""
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _moment(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
