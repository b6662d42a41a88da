"""The inputs that each target has kept: one file for each, so that a run begins where the runs before it have ended."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

FOLDER = Path(__file__).parent / "corpus"


def kept(name: str) -> list[bytes]:
    """What the target has kept so far."""
    path = _path(name)
    if not path.exists():
        return []
    return [text.encode("latin-1") for text in json.loads(lzma.decompress(path.read_bytes()))]


def keep(name: str, inputs: list[bytes]) -> None:
    """Keep these for the target, and nothing else."""
    FOLDER.mkdir(exist_ok=True)
    _path(name).write_bytes(lzma.compress(json.dumps([data.decode("latin-1") for data in inputs]).encode()))


def _path(name: str) -> Path:
    return FOLDER / f"{name.replace(' ', '_')}.json.xz"
