"""Tables with deletion vectors: asking for them, and looking at what a merge left."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from deltamerge.log.replay.table import open_log
from tests.e2e.commits import put_commit

FEATURES = ["deletionVectors"]


def ask_for_vectors(path: Path) -> None:
    """Make a table that has its first version only one with the deletion vectors feature."""
    first = path / "_delta_log" / f"{0:020d}.json"
    actions = [json.loads(line) for line in first.read_text().splitlines()]
    for action in actions:
        if "protocol" in action:
            action["protocol"] = {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": FEATURES,
                "writerFeatures": FEATURES,
            }
        if "metaData" in action:
            action["metaData"]["configuration"]["delta.enableDeletionVectors"] = "true"
    put_commit(first, "\n".join(map(json.dumps, actions)) + "\n")


def stop_writing_vectors(path: Path, version: int) -> None:
    """Commit `version`, which takes the property away; the feature and the vectors that there are stay."""
    (metadata,) = actions_of(path, 0, "metaData")
    metadata["configuration"]["delta.enableDeletionVectors"] = "false"
    (path / "_delta_log" / f"{version:020d}.json").write_text(json.dumps({"metaData": metadata}) + "\n")


def actions_of(path: Path, version: int, kind: str) -> list[dict[str, Any]]:
    """The actions of one kind in a commit."""
    lines = (path / "_delta_log" / f"{version:020d}.json").read_text().splitlines()
    return [action[kind] for action in map(json.loads, lines) if kind in action]


def vectors_of(path: Path) -> dict[str, int]:
    """The number of deleted rows of each live file that has a vector."""
    files = open_log(str(path)).snapshot().files.table()
    pairs = zip(files["path"].to_pylist(), files["deletionVector"].to_pylist(), strict=True)
    return {name: vector["cardinality"] for name, vector in pairs if vector is not None}
