"""The state of a table by the plainest replay of its JSON commits, to compare with."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deltamerge.log.replay.paths import canonical_path
from deltamerge.log.replay.snapshot import Snapshot

Key = tuple[str, str | None]


@dataclass
class State:
    """Live files by path and deletion vector, and the last of everything else."""

    files: dict[Key, dict[str, Any]] = field(default_factory=dict)
    removed: set[Key] = field(default_factory=set)
    metadata: dict[str, Any] | None = None
    protocol: dict[str, Any] | None = None
    txns: dict[str, int] = field(default_factory=dict)
    domains: dict[str, str] = field(default_factory=dict)


def replay(log: Path, version: int | None = None) -> State:
    """The state of a version from its commit files alone."""
    state = State()
    for path in sorted(log.glob("*.json")):
        stem = path.name.removesuffix(".json")
        if len(stem) == 20 and (version is None or int(stem) <= version):
            actions = [json.loads(line) for line in path.read_bytes().decode().split("\n") if line.strip()]
            for kind in ("remove", "add"):
                for action in actions:
                    if action.get(kind) is not None:
                        apply_file(state, kind, action[kind])
            for action in actions:
                apply_other(state, action)
    return state


def apply_file(state: State, kind: str, value: dict[str, Any]) -> None:
    """One add or remove."""
    key = (canonical_path(value["path"]), vector_id(value.get("deletionVector")))
    state.files.pop(key, None)
    if kind == "add":
        state.files[key] = value
        state.removed.discard(key)
    else:
        state.removed.add(key)


def apply_other(state: State, action: dict[str, Any]) -> None:
    """Any other action."""
    if action.get("metaData") is not None:
        state.metadata = action["metaData"]
    if action.get("protocol") is not None:
        state.protocol = action["protocol"]
    if action.get("txn") is not None:
        state.txns[action["txn"]["appId"]] = action["txn"]["version"]
    domain = action.get("domainMetadata")
    if domain is not None:
        state.domains.pop(domain["domain"], None)
        if not domain.get("removed"):
            state.domains[domain["domain"]] = domain.get("configuration") or ""


def vector_id(value: Any) -> str | None:
    """The unique id of a deletion vector's descriptor."""
    if not value:
        return None
    offset = value.get("offset")
    return f"{value['storageType']}{value['pathOrInlineDv']}" + ("" if offset is None else f"@{offset}")


def assert_same(snapshot: Snapshot, state: State) -> None:
    """The snapshot holds what the plain replay found, statistics included."""
    rows = snapshot.files.table().to_pylist()
    found = {(canonical_path(row["path"]), vector_id(row["deletionVector"])): row for row in rows}
    assert len(found) == len(rows)
    assert found.keys() == state.files.keys()
    for key, row in found.items():
        value = state.files[key]
        assert row["size"] == value["size"]
        assert dict(row["partitionValues"] or ()) == (value.get("partitionValues") or {})
        assert parsed(row["stats"]) == parsed(value.get("stats"))
    gone = snapshot.tombstones.table.to_pylist()
    assert {(canonical_path(row["path"]), vector_id(row["deletionVector"])) for row in gone} <= state.removed
    assert state.metadata is not None
    schema = state.metadata.get("schemaString")
    assert snapshot.metadata.schema_string == schema or (schema is None and not len(snapshot.schema))
    assert dict(snapshot.metadata.configuration) == (state.metadata.get("configuration") or {})
    assert state.protocol is not None
    assert snapshot.protocol.min_writer_version == state.protocol["minWriterVersion"]
    assert {name: txn.version for name, txn in snapshot.txns.items()} == state.txns
    assert {name: domain.configuration for name, domain in snapshot.domains.items()} == state.domains


def parsed(text: str | None) -> Any:
    """Statistics as JSON; a text that is none is itself."""
    try:
        return None if text is None else json.loads(text)
    except ValueError:
        return text
