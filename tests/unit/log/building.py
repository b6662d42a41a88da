"""Small Delta logs written by hand, as JSON, without the code under test."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from deltamerge.log.replay import load as loading
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.storage.local import LocalStore

Json = dict[str, Any]

PROTOCOL: Json = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
V2: Json = {
    "protocol": {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["v2Checkpoint"],
        "writerFeatures": ["v2Checkpoint"],
    }
}


def schema_text(**types: Any) -> str:
    """A `schemaString` of nullable fields, each given as `name=type` with the type's JSON value."""
    fields = [{"name": name, "type": type, "nullable": True, "metadata": {}} for name, type in types.items()]
    return json.dumps({"type": "struct", "fields": fields})


def metadata(
    schema: str | None = None,
    partition_by: Iterable[str] = (),
    properties: Mapping[str, str] | None = None,
    id: str = "4a8b1ff0-8f0a-4bd0-93b7-5b0f0a1ee8a4",
) -> Json:
    """A `metaData` action."""
    return {
        "metaData": {
            "id": id,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": schema or schema_text(id="long", value="string"),
            "partitionColumns": list(partition_by),
            "configuration": dict(properties or {}),
            "createdTime": 1,
        }
    }


def vector(where: str, offset: int | None = 1) -> Json:
    """A deletion vector's descriptor, one for each `where` and offset."""
    found: Json = {"storageType": "u", "pathOrInlineDv": where, "sizeInBytes": 36, "cardinality": 1}
    return found if offset is None else {**found, "offset": offset}


def add(path: str, **more: Any) -> Json:
    """An `add` action of a file."""
    return {"add": {"path": path, "partitionValues": {}, "size": 10, "modificationTime": 5, "dataChange": True, **more}}


def remove(path: str, **more: Any) -> Json:
    """A `remove` action of a file."""
    return {"remove": {"path": path, "deletionTimestamp": 7, "dataChange": True, **more}}


def info(**more: Any) -> Json:
    """A `commitInfo` action."""
    return {"commitInfo": {"timestamp": 1, "operation": "WRITE", **more}}


def log_file(root: Path, name: str) -> Path:
    """A path in the table's log; its folder exists."""
    folder = root / "_delta_log"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / name


def commit(root: Path, version: int, *actions: Json) -> Path:
    """Write a commit file."""
    path = log_file(root, f"{version:020d}.json")
    path.write_text("".join(json.dumps(action) + "\n" for action in actions), encoding="utf-8")
    return path


def create(root: Path, *actions: Json, **more: Any) -> LocalStore:
    """Write version 0 with a protocol, a metadata action and `actions`; the store of the table."""
    commit(root, 0, PROTOCOL, metadata(**more), *actions)
    return LocalStore(str(root))


def delete_commits(root: Path, before: int) -> None:
    """Delete the commit files of the versions below `before`, as log cleanup does."""
    for path in (root / "_delta_log").glob("*.json"):
        if int(path.name[:20]) < before:
            path.unlink()


def load(store: LocalStore, version: int | None = None) -> Snapshot:
    """A version of the table, replayed from its files."""
    return loading.load(store, version)


def paths(snapshot: Snapshot) -> list[str]:
    """The live files' paths, sorted."""
    return sorted(snapshot.files.column("path").to_pylist())


def naive(*parts: int) -> datetime:
    """A time without zone, as `timestamp_ntz` has it."""
    return datetime(*parts, tzinfo=UTC).replace(tzinfo=None)  # type: ignore[misc,arg-type]
