"""A table's history and details, as rows of delta-spark's DESCRIBE HISTORY and DESCRIBE DETAIL."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
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
_NOTEBOOK = ("notebookId",)
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
        ("notebook", pa.struct([(name, pa.string()) for name in _NOTEBOOK])),
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
            "time (UTC)": row["timestamp"].strftime("%Y-%m-%d %H:%M:%S") if row["timestamp"] else "",
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
    return {name: _count(text) for name, text in zip(_COUNTS, found, strict=True)}


def _count(text: str | None) -> int | None:
    return int(text) if text and re.fullmatch(r"[0-9]{1,19}", text) else None


def _history_row(commit: CommitFile) -> dict[str, Any]:
    info = commit.info
    named = ("userId", "userName", "operation", "clusterId", "isolationLevel", "userMetadata", "engineInfo")
    blind = info.get("isBlindAppend")
    return {
        **{name: _text(info.get(name)) for name in named},
        "version": commit.version,
        "timestamp": _moment(commit.timestamp),
        "operationParameters": _texts(info.get("operationParameters")),
        "job": _fields(info.get("job"), _JOB),
        "notebook": _fields(info.get("notebook"), _NOTEBOOK),
        "readVersion": _version(info.get("readVersion")),
        "isBlindAppend": blind if isinstance(blind, bool) else None,
        "operationMetrics": _texts(info.get("operationMetrics")),
    }


# What a commit says of itself is free: a value of another kind than it should be is shown as its text, or not at all.


def _texts(values: object) -> list[tuple[str, str | None]] | None:
    return [(_whole(key), _text(value)) for key, value in values.items()] if isinstance(values, dict) else None


def _fields(value: object, names: Sequence[str]) -> dict[str, str | None] | None:
    return {name: _text(value.get(name)) for name in names} if isinstance(value, dict) else None


def _text(value: Any) -> str | None:
    """A JSON value as text: a string as it is."""
    return None if value is None else _whole(value) if isinstance(value, str) else _json_of(value)


def _json_of(value: Any) -> str | None:
    try:
        return _whole(json.dumps(value))
    except (RecursionError, ValueError):  # nested too deeply to be written, or a number of too many digits
        return None


def _whole(text: str) -> str:
    """A text without halves of surrogate pairs, which JSON has and Arrow has not."""
    return text.encode("utf-8", "replace").decode()


def _version(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63 else None


def _moment(milliseconds: int) -> datetime | None:
    """A time, None for one that is before the year 1 or behind the year 9999."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None
