"""From what a user writes to a store: paths and URLs."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from urllib.parse import unquote

from deltamerge.errors import InvalidArgumentError
from deltamerge.storage.base import Store
from deltamerge.storage.credentials import from_environment, options_for
from deltamerge.storage.local import LocalStore
from deltamerge.storage.location import AZURE, FILE, KINDS, parse_location, scheme_of
from deltamerge.storage.object_store import ObjectStore

_FILE = re.compile(r"file:(?://[^/]*)?", re.IGNORECASE)


def open_store(location: str, *options: Mapping[str, str] | None) -> Store:
    """The store rooted at `location`: a local path, `file:` URL or object store URL. Asks the store nothing.

    `options` are its credentials and endpoint as `credentials.options_for` takes them, by falling precedence; what none
    of them sets comes from the environment. Raises StorageError, InvalidArgumentError.
    """
    place = parse_location(location)
    if place.kind == FILE:
        path = _FILE.sub("", location, count=1) or "/" if place.scheme else location
        return LocalStore(os.path.abspath(os.path.expanduser(path)))
    given = [source for source in options if source]
    found = options_for(place, *given, from_environment(place.kind, os.environ))
    if place.kind == AZURE and "account_name" not in found:
        raise InvalidArgumentError(
            "DELTAMERGE_MISSING_STORE_OPTION",
            f"{location} names no storage account.",
            parameters={"location": location, "option": "azure_storage_account_name"},
            hint="Write abfss://container@account.dfs.core.windows.net/folder, or set azure_storage_account_name.",
        )
    return ObjectStore(place, found)


def locate(store: Store, reference: str) -> tuple[Store, str]:
    """Where a log's reference to a file points: (store, name). It is relative to `store` or an absolute URL, percent-encoded."""
    scheme = scheme_of(reference)
    if not scheme and not reference.startswith("/"):
        return store, unquote(reference)
    if not scheme and store.spec.scheme != FILE:
        reference = f"{_authority(store.url)}{reference}"
    folder, _, name = reference.rpartition("/")
    place = unquote(folder) or "/"
    same_kind = KINDS.get(scheme_of(place)) == store.spec.scheme
    return open_store(place, store.spec.options if same_kind else None), unquote(name)


def _authority(url: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"
