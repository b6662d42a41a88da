"""Object stores: S3 and what speaks its protocol, Azure Blob Storage, Google Cloud Storage.

Put-if-absent is a conditional create; what it leaves open, after a lost answer, is settled by reading back.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import cached_property, lru_cache, partial
from typing import Any
from urllib.parse import quote, urlsplit

import obstore
import pyarrow.fs as pf
from obstore import exceptions as oe
from obstore.store import AzureStore, GCSStore, S3Store

from deltamerge.errors import CommitStateUnknownError, StorageError
from deltamerge.storage.base import AlreadyExists, NotFound, ObjectInfo, StoreSpec
from deltamerge.storage.credentials import SECRETS, Options
from deltamerge.storage.location import AZURE, S3, Location

_PAGE = 1_000
_ATTEMPTS = 5
_RETRY: Any = {
    "max_retries": 5,
    "retry_timeout": timedelta(seconds=60),
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=5), "base": 2},
}
# What obstore raises is in part Python's own: FileNotFoundError is what every store's "not found" comes out as.
_FAILURES = (oe.BaseError, OSError)
_DENIED = (oe.PermissionDeniedError, oe.UnauthenticatedError)
_SETTLED = (*_DENIED, FileNotFoundError, oe.InvalidPathError, oe.UnknownConfigurationKeyError)
_proven: set[tuple[str, str]] = set()
_proving = threading.Lock()


class ObjectStore:
    """The objects below one key of a bucket or container. `options` are those of `credentials.options_for`."""

    def __init__(self, location: Location, options: Options) -> None:
        self._location = location
        self._given = options
        self._prefix = f"{location.path}/" if location.path else ""

    @property
    def url(self) -> str:
        return self._location.url

    @cached_property
    def spec(self) -> StoreSpec:
        root = f"{self._location.bucket}/{self._location.path}".rstrip("/")
        return StoreSpec(self._location.kind, root, self._options)

    @cached_property
    def _options(self) -> Options:
        """The options with the bucket's region, which costs a request the first time when nobody has told it."""
        if self._location.kind != S3 or "region" in self._given:
            return self._given
        region = "us-east-1" if "endpoint" in self._given else _region_of(self._location.bucket)
        return {**self._given, "region": region}

    @cached_property
    def _client(self) -> Any:
        return _client(self._location.kind, self._location.bucket, frozenset(self._options.items()))

    def list(self, folder: str, start: str = "") -> list[ObjectInfo]:
        below = f"{self._prefix}{folder}/" if folder else self._prefix
        try:
            found = self._from(below, start) if start else self._directly_in(below)
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

    def read(self, name: str) -> bytes:
        try:
            return obstore.get(self._client, self._prefix + name).bytes().to_bytes()
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
            return bool(next(iter(obstore.list(self._client, below or None, chunk_size=1)), ()))
        except FileNotFoundError:
            return False
        except _FAILURES as error:
            raise self._refused("list", folder, error) from None

    def put(self, name: str, data: bytes) -> None:
        try:
            obstore.put(self._client, self._prefix + name, data)
        except _FAILURES as error:
            raise self._refused("write", name, error) from None

    def put_if_absent(self, name: str, data: bytes) -> ObjectInfo:
        """As `Store.put_if_absent`. `data` must be this writer's alone: equal bytes are taken for its own.

        The time of the result is this machine's, because a store does not answer with its own. Raises
        CommitStateUnknownError when the store stops answering before it is known whether the object was written.
        """
        self._prove_conditional_put(name)
        for attempt in range(_ATTEMPTS):
            try:
                done = obstore.put(self._client, self._prefix + name, data, mode="create", use_multipart=False)
                return ObjectInfo(name, len(data), int(time.time() * 1000), _etag(done["e_tag"]))
            except (oe.NotSupportedError, NotImplementedError):
                raise self._without_put_if_absent() from None
            except _FAILURES as error:
                # Whatever it says, an earlier try of the same request may have got through: a lost answer, a retry, and
                # the object that "already exists" is this writer's own. What is there tells.
                last = error
            found = self._settled(name, data, last)
            if found is not None:
                return found
            time.sleep(0.1 * 2**attempt)
        raise self._unknown(name, last)

    def delete(self, name: str) -> None:
        try:
            obstore.delete(self._client, self._prefix + name)
        except FileNotFoundError:
            return
        except _FAILURES as error:
            raise self._refused("delete", name, error) from None

    def _settled(self, name: str, data: bytes, error: Exception) -> ObjectInfo | None:
        """How a failed conditional create ended: the object if it was written, None when it is to be tried again.

        Nothing being there settles nothing by itself, since a request may still be under way; creating it again does.
        """
        try:
            found = obstore.get(self._client, self._prefix + name)
            if found.bytes().to_bytes() != data:
                raise AlreadyExists(name)
            return self._info(found.meta)
        except FileNotFoundError:
            if isinstance(error, _SETTLED):
                raise self._refused("write", name, error) from None
        except _DENIED as denied:
            if isinstance(error, _SETTLED):
                raise self._refused("write", name, error) from None
            raise self._unknown(name, denied) from None
        except _FAILURES:
            return None
        return None

    def _prove_conditional_put(self, name: str) -> None:
        """See once per process that a store which only speaks S3's protocol refuses to create what is there.

        Some ignore the condition and overwrite, which loses commits without a word.
        """
        endpoint = self._options.get("endpoint", "")
        place = (endpoint, self._location.bucket)
        if self._location.kind != S3 or not endpoint or place in _proven:
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
        except (oe.AlreadyExistsError, oe.PreconditionError, oe.NotModifiedError):
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
        secrets = [value for name, value in self._given.items() if name in SECRETS and value]
        for secret in secrets:
            text = text.replace(secret, "***").replace(quote(secret, safe=""), "***")
        return re.sub(r"(?i)\b(sig|signature|token|x-amz-[a-z-]*)=[^&\s\"']+", r"\1=***", text)

    def _refused(self, verb: str, name: str, error: Exception) -> StorageError:
        hint = "Check the network, the endpoint and the region; nothing is half written, run it again."
        if isinstance(error, _DENIED):
            hint = "Grant the credentials permission to list, read, write and delete below the table's folder, or give others."
        elif isinstance(error, FileNotFoundError) or "NoSuchBucket" in str(error) or "ContainerNotFound" in str(error):
            hint = f"Create the bucket {self._location.bucket}, or correct its name."
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
            parameters={"path": self.url, "endpoint": self._options.get("endpoint", "")},
            hint="Use a store that honours If-None-Match on PUT (Amazon S3, Azure, Google, MinIO since 2024, Ceph, R2), update "
            "the server, and leave the option aws_conditional_put at etag.",
        )


def _etag(tag: str | None) -> str:
    """The tag as every answer of a store has it: some give it with quotes in one place and without in another."""
    return (tag or "").removeprefix("W/").strip('"')


@lru_cache(maxsize=256)
def _region_of(bucket: str) -> str:
    try:
        region: str = pf.resolve_s3_region(bucket)
    except (OSError, ValueError):
        return "us-east-1"
    return region


@lru_cache(maxsize=64)
def _client(kind: str, bucket: str, options: frozenset[tuple[str, str]]) -> Any:
    """A client with its connections, shared by all tables of a bucket."""
    given = dict(options)
    # A client's total timeout would cut off large objects on slow lines; a stalled line is noticed by the read timeout.
    http: Any = {
        "allow_http": given.get("endpoint", "").startswith("http://"),
        "connect_timeout": timedelta(seconds=10),
        "read_timeout": timedelta(seconds=30),
        "timeout": timedelta(minutes=10),
    }
    if kind == S3:
        return _s3_client(bucket, given, http)
    if kind == AZURE:
        return _azure_client(bucket, given, http)
    names = {"endpoint": "base_url"}
    config: Any = {names.get(key, key): value for key, value in given.items()}
    return GCSStore(bucket, config=config, client_options=http, retry_config=_RETRY)


def _s3_client(bucket: str, given: Options, http: Any) -> S3Store:
    config: Any = {"virtual_hosted_style_request": "false", "skip_signature": "false", **given}
    virtual = config["virtual_hosted_style_request"].lower() == "true"
    provider: Any = None
    endpoint = config.pop("endpoint", None)
    if endpoint is not None:
        url = urlsplit(endpoint)
        # The variable AWS_ENDPOINT_URL_S3 would override a mere `endpoint`.
        config["aws_endpoint_url_s3"] = f"{url.scheme}://{bucket}.{url.netloc}" if virtual else endpoint
    if "access_key_id" in config:
        # A provider, not options: those would be mixed with a session token of the environment.
        provider = partial(
            dict,
            access_key_id=config.pop("access_key_id"),
            secret_access_key=config.pop("secret_access_key", ""),
            token=config.pop("session_token", None),
            expires_at=None,
        )
    return S3Store(bucket, config=config, client_options=http, retry_config=_RETRY, credential_provider=provider)


def _azure_client(container: str, given: Options, http: Any) -> AzureStore:
    config: Any = dict(given)
    if "account_key" in config:
        config["credential_type"] = "access_key"
    elif "sas_key" in config:
        config["credential_type"] = "sas_token"
    elif "client_secret" in config:
        config["credential_type"] = "client_secret"
    return AzureStore(container, config=config, client_options=http, retry_config=_RETRY)
