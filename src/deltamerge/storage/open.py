"""From what a user writes to a store: paths and URLs."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from urllib.parse import unquote

from deltamerge.errors import StorageError
from deltamerge.storage.base import Store
from deltamerge.storage.local import LocalStore

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
_FILE = re.compile(r"file:(?://[^/]*)?", re.IGNORECASE)


def open_store(location: str, options: Mapping[str, str] | None = None) -> Store:
    """The store rooted at `location`: a local path, `file:` URL or object store URL. Raises StorageError."""
    scheme = _scheme(location)
    if scheme in ("", "file"):
        path = _FILE.sub("", location, count=1) or "/" if scheme else location
        return LocalStore(os.path.abspath(os.path.expanduser(path)))
    raise StorageError(
        "DELTAMERGE_UNSUPPORTED_STORE",
        f"Cannot open {location}: the scheme {scheme!r} is not supported.",
        parameters={"location": location, "scheme": scheme},
        hint="Use a local path or a file: URL.",
    )


def locate(store: Store, reference: str) -> tuple[Store, str]:
    """Where a log's reference to a file points: (store, name). It is relative to `store` or an absolute URL, percent-encoded."""
    scheme = _scheme(reference)
    if not scheme and not reference.startswith("/"):
        return store, unquote(reference)
    folder, _, name = reference.rpartition("/")
    return open_store(unquote(folder) or "/", store.spec.options), unquote(name)


def _scheme(location: str) -> str:
    found = _SCHEME.match(location)
    return found[1].lower() if found else ""
