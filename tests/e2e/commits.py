"""Commit files: what they say, and as other writers leave them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def put_commit(file: Path, text: str) -> None:
    """Write a commit file by hand, without the checksum file of the one that was there."""
    file.write_text(text)
    file.with_suffix(".crc").unlink(missing_ok=True)


def commits_from(path: Path, start: int) -> Iterator[list[tuple[str, Any]]]:
    """The commits of a table from a version on: the kind and the value of each action."""
    for file in sorted((path / "_delta_log").glob("*.json")):
        if file.stem.isdecimal() and int(file.stem) >= start:
            yield [item for line in file.read_text().splitlines() for item in json.loads(line).items()]


def live_files(path: Path) -> set[str]:
    """The paths of the data files that the newest version names, of a log without a checkpoint."""
    found: set[str] = set()
    for commit in commits_from(path, 0):
        found -= {action["path"] for kind, action in commit if kind == "remove"}
        found |= {action["path"] for kind, action in commit if kind == "add"}
    return found
