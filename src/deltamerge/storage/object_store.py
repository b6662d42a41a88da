"""Object stores: S3 and what speaks its protocol, Azure Blob Storage, Google Cloud Storage.

Put-if-absent is a conditional create; what it leaves open, after a lost answer, is settled by reading back.
"""

from __future__ import annotations

import contextlib
import random
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any, TypeVar
from urllib.parse import quote

import obstore
from obstore import exceptions as oe

from deltamerge.errors import CommitStateUnknownError, StorageError
from deltamerge.storage.base import AlreadyExists, Listing, NotFound, ObjectInfo, ObjectTooLarge, StoreSpec
from deltamerge.storage.clients import client, region_of
from deltamerge.storage.credentials import SECRETS, Options
from deltamerge.storage.elsewhere import Told
from deltamerge.storage.location import S3, Location

Found = TypeVar("Found")

_PAGE = 1_000
_ATTEMPTS = 8
_AT_ONCE = 8
_FIRST_WAIT, _LONGEST_WAIT = 0.1, 5.0
# What obstore raises is in part Python's own: FileNotFoundError is what every store's "not found" comes out as.
_FAILURES = (oe.BaseError, OSError)
_DENIED = (oe.PermissionDeniedError, oe.UnauthenticatedError)
_TAKEN = (oe.AlreadyExistsError, oe.PreconditionError, oe.NotModifiedError)
_REFUSED = (*_DENIED, FileNotFoundError, oe.InvalidPathError, oe.UnknownConfigurationKeyError)
# Redirections, and refusals that are not about time or other requests: the object was not written.
_REFUSING_STATUS = re.compile(r"non-2xx status code: (?:3\d\d|4(?!08|09|12|25|29|99)\d\d)\b|Received redirect without LOCATION")
# An answer that began and then broke off. The client sends a request again only until its answer begins.
_BROKEN = "response body error"
_READS = 3
_proven: set[tuple[str, str]] = set()
_proving = threading.Lock()


class ObjectStore:
    """The objects below one key of a bucket or container.

    `options` are those of `credentials.options_for`; `told` is all that the user has said of stores, and `elsewhere` the stores
    that are open for files which the table's log names outside of it, by the URLs of their buckets.
    """

    def __init__(self, location: Location, options: Options, told: Told) -> None:
        self.location = location
        self.options = options
        self.told = told
        self.elsewhere: dict[str, ObjectStore] = {}
        self._prefix = f"{location.path}/" if location.path else ""

    @property
    def url(self) -> str:
        return self.location.url

    @cached_property
    def spec(self) -> StoreSpec:
        root = f"{self.location.bucket}/{self.location.path}".rstrip("/")
        return StoreSpec(self.location.kind, root, self._used)

    @cached_property
    def _used(self) -> Options:
        """The options with the bucket's region, which costs a request the first time when nobody has told it."""
        if self.location.kind != S3 or "region" in self.options:
            return self.options
        region = "us-east-1" if "endpoint" in self.options else region_of(self.location.bucket)
        return {**self.options, "region": region}

    @cached_property
    def _client(self) -> Any:
        return client(self.location.kind, self.location.bucket, frozenset(self._used.items()))

    @cached_property
    def _once(self) -> Any:
        """The client of conditional creates: it sends a request once, as the answer to a second would hide what the first did."""
        return client(self.location.kind, self.location.bucket, frozenset(self._used.items()), retries=False)

    def list(self, folder: str, start: str = "") -> list[ObjectInfo]:
        below = f"{self._prefix}{folder}/" if folder else self._prefix
        try:
            found = _whole(lambda: self._from(below, start) if start else self._directly_in(below))
        except FileNotFoundError:
            return []
        except _FAILURES as error:
            raise self._refused("list", folder, error) from None
        infos = [self._info(meta) for meta in found]
        return sorted((info for info in infos if info.name.rpartition("/")[2] >= start), key=lambda info: info.name)

    def _directly_in(self, below: str) -> Sequence[Any]:
        return obstore.list_with_delimiter(self._client, below or None)["objects"]

    def _from(self, below: str, start: str) -> Sequence[Any]:
        """The objects in a folder from a little before `start`. Stores list subfolders' too, which are left out again."""
        pages = obstore.list(self._client, below or None, offset=below + start[:-1], chunk_size=_PAGE)
        return [meta for page in pages for meta in page if "/" not in meta["path"][len(below) :]]

    def read(self, name: str, most: int | None = None) -> bytes:
        try:
            found = obstore.get(self._client, self._prefix + name)
            if most is not None and found.meta["size"] > most:
                raise ObjectTooLarge(name, most)
            return found.bytes().to_bytes()
        except FileNotFoundError:
            raise NotFound(name) from None
        except _FAILURES as error:
            raise self._refused("read", name, error) from None

    def info(self, name: str) -> ObjectInfo | None:
        try:
            return self._info(obstore.head(self._client, self._prefix + name))
        except FileNotFoundError:
            return None
        except _FAILURES as error:
            raise self._refused("read", name, error) from None

    def exists_folder(self, folder: str) -> bool:
        below = f"{self._prefix}{folder}/" if folder else self._prefix
        try:
            return _whole(lambda: bool(next(iter(obstore.list(self._client, below or None, chunk_size=1)), ())))
        except FileNotFoundError:
            return False
        except _FAILURES as error:
            raise self._refused("list", folder, error) from None

    def put(self, name: str, data: bytes) -> None:
        try:
            _whole(lambda: obstore.put(self._client, self._prefix + name, data))
        except _FAILURES as error:
            raise self._refused("write", name, error) from None

    def put_if_absent(self, name: str, data: bytes) -> ObjectInfo:
        """As `Store.put_if_absent`. `data` must be this writer's alone: equal bytes are taken for its own.

        A request that got no clear answer may be served at any later time. What is there tells how it ended; as long as nothing
        is there, only creating the object again settles it. The time of the result is this machine's, because a store does not
        answer with its own.
        """
        self._prove_conditional_put(name)
        in_doubt = False
        for attempt in range(_ATTEMPTS):
            if attempt:
                time.sleep(random.uniform(0.5, 1) * min(_FIRST_WAIT * 2**attempt, _LONGEST_WAIT))
            try:
                done = obstore.put(self._once, self._prefix + name, data, mode="create", use_multipart=False)
                return ObjectInfo(name, len(data), int(time.time() * 1000), _etag(done["e_tag"]))
            except (*_FAILURES, NotImplementedError) as error:
                last = error
            refused = _is_refusal(last)
            in_doubt = in_doubt or not (refused or isinstance(last, _TAKEN))
            try:
                found = self._written(name, data)
            except _FAILURES as error:
                if refused and not in_doubt:
                    break
                if isinstance(error, _DENIED):
                    raise self._unknown(name, error) from None
                continue
            if found is not None:
                return found
            if refused:
                break
        if in_doubt:
            raise self._unknown(name, last)
        unsupported = isinstance(last, (oe.NotSupportedError, NotImplementedError))
        raise (self._without_put_if_absent() if unsupported else self._refused("write", name, last)) from None

    def sync(self, folders: Iterable[str], above: bool = False) -> None:
        """Nothing: what a store has taken it keeps."""

    def delete(self, name: str) -> None:
        try:
            obstore.delete(self._client, self._prefix + name)
        except FileNotFoundError:
            return
        except _FAILURES as error:
            raise self._refused("delete", name, error) from None

    def walk(self, is_hidden: Callable[[str], bool]) -> Iterator[Listing]:
        """Where an answer breaks off the walk goes on behind the last object, if the store has listed them in their order."""
        last, in_order, left = "", True, _READS
        while left:
            start = last
            try:
                for page in obstore.list(self._client, self._prefix or None, offset=start or None, chunk_size=_PAGE):
                    infos = []
                    for meta in page:
                        if meta["path"] <= start:  # some stores list from the beginning again
                            continue
                        in_order, last = in_order and meta["path"] > last, meta["path"]
                        infos.append(self._info(meta))
                    yield Listing([info for info in infos if not any(map(is_hidden, info.name.split("/")))])
                return
            except FileNotFoundError:
                return
            except _FAILURES as error:
                left -= 1
                if not (left and in_order and _BROKEN in str(error)):
                    raise self._refused("list", "", error) from None

    def delete_all(self, names: Sequence[str]) -> int:
        pages = [names[start : start + _PAGE] for start in range(0, len(names), _PAGE)]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return sum(pool.map(self._delete_page, pages))

    def _delete_page(self, names: Sequence[str]) -> int:
        try:
            _whole(lambda: obstore.delete(self._client, [self._prefix + name for name in names]))
        except FileNotFoundError:
            for name in names:
                self.delete(name)
        except _FAILURES as error:
            raise self._refused("delete", names[0], error) from None
        return len(names)

    def delete_empty_folders(self, names: Sequence[str]) -> int:
        """Nothing: a store has no folders."""
        return 0

    def _written(self, name: str, data: bytes) -> ObjectInfo | None:
        """The object if it is there, None if it is not. Raises AlreadyExists when it is another writer's."""
        try:
            found = obstore.get(self._client, self._prefix + name)
            if found.bytes().to_bytes() != data:
                raise AlreadyExists(name)
        except FileNotFoundError:
            return None
        return self._info(found.meta)

    def _prove_conditional_put(self, name: str) -> None:
        """See once per process that a store which only speaks S3's protocol refuses to create what is there.

        Some ignore the condition and overwrite, which loses commits without a word.
        """
        endpoint = self._used.get("endpoint", "")
        place = (endpoint, self.location.bucket)
        if self.location.kind != S3 or not endpoint or place in _proven:
            return
        with _proving:
            if place in _proven:
                return
            folder, slash, _ = name.rpartition("/")
            if not self._refuses_to_create_twice(f"{self._prefix}{folder}{slash}.put-if-absent-{uuid.uuid4()}"):
                raise self._without_put_if_absent()
            _proven.add(place)

    def _refuses_to_create_twice(self, probe: str) -> bool:
        try:
            obstore.put(self._client, probe, b"1", use_multipart=False)
        except _FAILURES as error:
            raise self._refused("write", probe.removeprefix(self._prefix), error) from None
        try:
            obstore.put(self._client, probe, b"2", mode="create", use_multipart=False)
        except _TAKEN:
            return True
        except (oe.NotSupportedError, NotImplementedError):
            return False
        except _FAILURES as error:
            if "NotImplemented" in str(error) or "501 Not Implemented" in str(error):
                return False
            raise self._refused("write", probe.removeprefix(self._prefix), error) from None
        finally:
            with contextlib.suppress(*_FAILURES):
                obstore.delete(self._client, probe)
        return False

    def _info(self, meta: Mapping[str, Any]) -> ObjectInfo:
        name = meta["path"][len(self._prefix) :]
        return ObjectInfo(name, meta["size"], int(meta["last_modified"].timestamp() * 1000), _etag(meta["e_tag"]))

    def _text(self, error: Exception) -> str:
        """The first line of an error without any secret."""
        text = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        secrets = [value for name, value in self.options.items() if name in SECRETS and value]
        for secret in secrets:
            text = text.replace(secret, "***").replace(quote(secret, safe=""), "***")
        return re.sub(r"(?i)\b(sig|signature|token|x-amz-[a-z-]*)=[^&\s\"']+", r"\1=***", text)

    def _refused(self, verb: str, name: str, error: Exception) -> StorageError:
        hint = "Check the network, the endpoint and the region; nothing is half written, run it again."
        if isinstance(error, _DENIED):
            hint = "Grant the credentials permission to list, read, write and delete below the table's folder, or give others."
        elif isinstance(error, FileNotFoundError) or "NoSuchBucket" in str(error) or "ContainerNotFound" in str(error):
            hint = f"Create the bucket {self.location.bucket}, or correct its name."
        elif "169.254" in str(error) or "redential" in str(error):
            hint = (
                "No credentials were found: set Spark's fs.s3a.*, fs.azure.* or fs.gs.* settings (Spark Connect hides those from "
                "its clients), pass storage_options, or set AWS_*, AZURE_* or GOOGLE_* in the environment."
            )
        place = f"{self.url}/{name}".rstrip("/")
        return StorageError(
            "DELTAMERGE_STORAGE_REFUSED",
            f"Cannot {verb} {place}: {self._text(error)}",
            parameters={"path": place},
            hint=hint,
        )

    def _unknown(self, name: str, error: Exception) -> CommitStateUnknownError:
        place = f"{self.url}/{name}"
        return CommitStateUnknownError(
            "DELTAMERGE_COMMIT_STATE_UNKNOWN",
            f"It is not known whether {place} was written: {self._text(error)}",
            parameters={"path": place},
            hint="When the store answers again, look whether the file is there before running the operation again: "
            "if it is, the operation is done.",
        )

    def _without_put_if_absent(self) -> StorageError:
        return StorageError(
            "DELTAMERGE_STORE_WITHOUT_PUT_IF_ABSENT",
            f"The store of {self.url} can't create an object only if it is absent, so that concurrent commits would be lost.",
            parameters={"path": self.url, "endpoint": self._used.get("endpoint", "")},
            hint="Use a store that honours If-None-Match on PUT (Amazon S3, Azure, Google, MinIO since 2024, Ceph, R2), update "
            "the server, and leave the option aws_conditional_put at etag.",
        )


def _is_refusal(error: Exception) -> bool:
    """Whether an answer to a request says for certain that it has written nothing, and would not if it were sent again."""
    if isinstance(error, (*_REFUSED, oe.NotSupportedError, NotImplementedError)):
        return True
    return not isinstance(error, _TAKEN) and _REFUSING_STATUS.search(str(error)) is not None


def _etag(tag: str | None) -> str:
    """The tag as every answer of a store has it: some give it with quotes in one place and without in another."""
    return (tag or "").removeprefix("W/").strip('"')


def _whole(ask: Callable[[], Found]) -> Found:
    """The answer to a request that may be sent again; it is, where the answer broke off."""
    for _ in range(_READS - 1):
        try:
            return ask()
        except oe.GenericError as error:
            if _BROKEN not in str(error):
                raise
    return ask()
