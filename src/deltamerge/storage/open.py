"""From what a user writes to a store: paths and URLs; and from what a log writes to a file, which may lie in another one."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Mapping
from urllib.parse import unquote

from deltamerge.disk import SYNC
from deltamerge.errors import InvalidArgumentError, StorageError
from deltamerge.storage.base import Store
from deltamerge.storage.elsewhere import Told, options_elsewhere
from deltamerge.storage.local import LocalStore
from deltamerge.storage.location import AZURE, FILE, KINDS, is_absolute, parse_location, scheme_of, without_secrets
from deltamerge.storage.object_store import ObjectStore

_FILE = re.compile(r"file:(?://[^/]*)?", re.IGNORECASE)
_AUTHORITY = re.compile(r"([^:/]+://[^/]*)?(.*)", re.DOTALL)
_WHOLE_DISK = LocalStore("/")


def open_store(location: str, options: Mapping[str, str] | None = None, settings: Mapping[str, str] | None = None) -> Store:
    """The store rooted at `location`: a local path, `file:` URL or object store URL. Asks the store nothing.

    Credentials and endpoint come from `options`, which are for this place, from `settings`, which may be for any, and from the
    environment, as `credentials.options_for` takes them. Raises StorageError, InvalidArgumentError.
    """
    place = parse_location(location)
    if place.kind == FILE:
        path = _FILE.sub("", location, count=1) or "/" if place.scheme else location
        synced = (settings or {}).get(SYNC) != "false"
        return LocalStore(os.path.abspath(os.path.expanduser(path)), synced)
    told = Told(options or {}, settings or {}, os.environ)
    found = told.of(place)
    if place.kind == AZURE and "account_name" not in found:
        raise InvalidArgumentError(
            "DELTAMERGE_MISSING_STORE_OPTION",
            f"{location} names no storage account.",
            parameters={"location": location, "option": "azure_storage_account_name"},
            hint="Write abfss://container@account.dfs.core.windows.net/folder, or set azure_storage_account_name.",
        )
    return ObjectStore(place, found, told)


def locate(store: Store, reference: str) -> tuple[Store, str]:
    """Where a log's reference to a file points: (store, name). It is percent-encoded, relative to `store` or a URL or whole path.

    What lies elsewhere is opened with what the user has configured for that place; without it no request is sent. Raises
    StorageError where the user has not named the place, InvalidArgumentError for a setting that can't be heeded.
    """
    if not is_absolute(reference):
        return store, unquote(reference)
    kind = KINDS.get(scheme_of(reference))
    if isinstance(store, ObjectStore):
        found = _AUTHORITY.fullmatch(reference)
        assert found is not None
        place, name = found[1] or store.location.authority, _name(found[2])
        if not scheme_of(reference) or kind == store.location.kind:
            other = store.elsewhere.get(place) or _opened(store, place)
            if other is not None:
                store.elsewhere[place] = other
                return other, name
    elif kind == FILE:
        return _WHOLE_DISK, _name(_FILE.sub("", reference, count=1))
    shown = without_secrets(reference)
    raise StorageError(
        "DELTAMERGE_FILE_IN_OTHER_STORE",
        f"The log of {store.url} names the file {shown}, which lies where no credentials are sent by themselves.",
        parameters={"path": shown, "table": store.url},
        hint="If the log can be trusted, configure the bucket (fs.s3a.bucket.<bucket>.access.key, or keys for all buckets) or "
        "the account (fs.azure.account.auth.type.<account's host> and the like) in the session.",
    )


def _opened(store: ObjectStore, authority: str) -> ObjectStore | None:
    place = parse_location(authority)
    options = options_elsewhere(store.location, store.options, place, store.told)
    return None if options is None else ObjectStore(place, options, store.told)


def _name(path: str) -> str:
    """A percent-encoded whole path as a name below the root."""
    return posixpath.normpath(f"/{unquote(path)}").lstrip("/")
