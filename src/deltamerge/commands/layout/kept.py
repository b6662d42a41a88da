"""Which names of a table's folder the references of its log stand for, however a log spells a whole path.

As storage's `locate` finds a file: by the kind of store, bucket, account and key. Where it is not sure that a whole path leads
elsewhere, as with a mounted bucket, every file counts as meant whose name ends the path: to keep one too many costs space only.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from urllib.parse import unquote

from deltamerge.errors import InvalidArgumentError, StorageError
from deltamerge.log.replay.paths import canonical_path
from deltamerge.storage import Store
from deltamerge.storage.location import FILE, Location, is_absolute, parse_location

_WHOLE = re.compile(r"(?:file:)?([^:/]+://[^/]*)?(.*)", re.DOTALL | re.IGNORECASE)


class Kept:
    """The names that are added by their references; `name in kept` asks for one."""

    def __init__(self, store: Store) -> None:
        self._table = parse_location(store.url)
        # For one VACUUM only: links may lead elsewhere by the next one.
        self._resolved = lru_cache(maxsize=1024)(os.path.realpath)
        self._names: set[str] = set()
        # Whole paths of which nobody knows whether they lie in the table, by their last parts.
        self._doubtful: dict[str, set[str]] = {}

    def add(self, references: Iterable[str]) -> None:
        """Keep what these references of the log stand for."""
        for reference in references:
            path = canonical_path(reference)
            if is_absolute(path):
                self._add_whole(path)
            else:
                self._names.add(_decoded(path))

    def __contains__(self, name: str) -> bool:
        alike = self._doubtful.get(name.rpartition("/")[2], ())
        return name in self._names or any(path.endswith(f"/{name}") for path in alike)

    def _add_whole(self, whole: str) -> None:
        found = _WHOLE.fullmatch(whole)
        assert found is not None
        path = "/" + posixpath.normpath(f"/{_decoded(found[2])}").lstrip("/")
        place = _place(found[1]) if found[1] else None
        if place is not None and place.kind == self._table.kind:
            within = _below(f"/{self._table.path}", path) if _is_same(place, self._table) else []
        else:
            is_local = self._table.kind == FILE and place is None
            within = list(_local_names(self._resolved, self._table.path, path)) if is_local else []
            if not within:
                self._doubtful.setdefault(path.rpartition("/")[2], set()).add(path)
        self._names.update(within)


def _decoded(path: str) -> str:
    """A path without its encoding: bytes that are no UTF-8 as the folders' listings have them."""
    return unquote(path, errors="surrogateescape")


@lru_cache(maxsize=1024)
def _place(authority: str) -> Location | None:
    """The bucket of a URL; None for one that this library can't open."""
    try:
        return parse_location(authority)
    except (StorageError, InvalidArgumentError):
        return None


def _is_same(one: Location, other: Location) -> bool:
    """Whether both are in one bucket, or may be: a URL need not name its account."""
    accounts = {place.account.lower() for place in (one, other)} - {""}
    return one.bucket.lower() == other.bucket.lower() and len(accounts) < 2


def _below(root: str, path: str) -> list[str]:
    """The name of a path below a root, if it is below it."""
    start = root.rstrip("/") + "/"
    return [path.removeprefix(start)] if path.startswith(start) else []


def _local_names(resolved: Callable[[str], str], root: str, path: str) -> Iterator[str]:
    """The names of a local path within the table, also where one of both goes over a link, or the file is one."""
    folder, _, name = path.rpartition("/")
    yield from _below(root, path)
    yield from _below(resolved(root), f"{resolved(folder or '/').rstrip('/')}/{name}")
    yield from _below(resolved(root), os.path.realpath(path))
