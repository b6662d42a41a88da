"""What a loss of power leaves of a folder: of each file the content that was synced, of each folder the names that were.

The worst disk that keeps its word, one that has written all names on its own and none of the contents, and disks that have
written some names, in any order, and of each content that was not synced a part, or zeros in its place.
"""

from __future__ import annotations

import os
import random
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

KEEPS_ITS_WORD, ALL_NAMES = "keeps its word", "all names"

# What of a file or folder tells it from all others, as long as it is held open.
Node = int


class Disk:
    """The folder `root` as a disk holds it, all that is there at first being synced.

    At each step, a sync, a link, a replacement or a deletion, `lost` is called with the text of the step.
    """

    def __init__(self, root: Path, lost: Callable[[str], None]) -> None:
        self._root = root
        self._lost = lost
        self._lock = threading.RLock()
        self._open: list[int] = []
        self._content: dict[Node, bytes] = {}
        self._names: dict[Node, dict[str, Node]] = {}
        for folder in (root, *(path for path in root.rglob("*") if path.is_dir())):
            for path in (folder, *(path for path in folder.iterdir() if path.is_file())):
                handle = os.open(path, os.O_RDONLY)
                self._keep(handle)
                os.close(handle)

    @contextmanager
    def watched(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """Every step of this process within is known here."""
        with monkeypatch.context() as patch:
            for name in ("fsync", "link", "replace", "unlink"):
                patch.setattr(os, name, self._watched(name, getattr(os, name)))
            yield

    def left(self, place: Path, how: str | int) -> None:
        """Write to `place` what the disk has now: as one that keeps its word, one that has written all names, or, by the seed
        of a random choice, one that has written some names and parts of contents.
        """
        with self._lock:
            self._copy(os.stat(self._root).st_ino, self._root, place, how)

    def close(self) -> None:
        """Let go of the files."""
        for handle in self._open:
            os.close(handle)

    def _watched(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def step(*args: Any, **more: Any) -> Any:
            with self._lock:
                result = real(*args, **more)
                if name == "fsync":
                    self._keep(args[0])
                self._lost(f"{name} {os.readlink(f'/proc/self/fd/{args[0]}') if name == 'fsync' else args}")
                return result

        return step

    def _keep(self, handle: int) -> None:
        found = os.fstat(handle)
        # Held, so that no other file becomes this one.
        self._open.append(os.dup(handle))
        if stat.S_ISDIR(found.st_mode):
            self._names[found.st_ino] = _names(f"/proc/self/fd/{handle}")
        else:
            self._content[found.st_ino] = Path(f"/proc/self/fd/{handle}").read_bytes()

    def _copy(self, node: Node, live: Path, place: Path, how: str | int) -> None:
        place.mkdir()
        synced, now = self._names.get(node, {}), _names(str(live))
        for name in sorted(synced | now):
            chance = random.Random(f"{how} {live / name}")
            before, after = synced.get(name), now.get(name)
            inner = before if how == KEEPS_ITS_WORD else after if how == ALL_NAMES else chance.choice([before, after])
            if inner in self._content:
                (place / name).write_bytes(self._content[inner])
            elif inner in self._names or (inner is not None and inner == after and (live / name).is_dir()):
                self._copy(inner, live / name, place / name, how)
            elif inner is not None:
                (place / name).write_bytes(_torn(live / name if inner == after else None, how, chance))


def _torn(file: Path | None, how: str | int, chance: random.Random) -> bytes:
    """What there is of a content that was not synced."""
    if file is None or isinstance(how, str):
        return b""
    content = file.read_bytes()
    begin = content[: chance.randrange(len(content) + 1)]
    return chance.choice([begin, begin + bytes(len(content) - len(begin)), b"", content])


def _names(folder: str) -> dict[str, Node]:
    with os.scandir(folder) as entries:
        return {entry.name: entry.inode() for entry in entries}
