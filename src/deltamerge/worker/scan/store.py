"""Data files by name: opened for reading, created under new names, deleted when a task fails.

Knows local disks and, by pyarrow's own file systems, object stores; must not know what a transaction log is.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import PurePath
from typing import Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa
import pyarrow.fs as pf

from deltamerge.disk import SYNC, sync_files, sync_folders
from deltamerge.worker.scan.row_errors import Refused

_WHOLE_BYTES = 8 << 20
# Size in bytes and modification time in ns, None of a file that is gone.
Stamp = tuple[int | None, int | None]
_FILE = re.compile(r"(?:file:(?://[^/]*)?)?(/.*)", re.DOTALL)
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/]*)/(.*)", re.DOTALL)
_SECRETS = ("secret_access_key", "session_token", "account_key", "sas_key", "client_secret", "bearer_token")
_KINDS = {"s3": ("s3", "s3a", "s3n"), "gs": ("gs",)}


@dataclass(frozen=True)
class DataStore:
    """The folder of a table as a worker reaches it: `scheme` is file, s3, azure or gs, `root` starts with the bucket.

    `options` are those of `storage.credentials.options_for`; they never appear in a repr.
    """

    scheme: str
    root: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __reduce__(self) -> Any:
        return DataStore, (self.scheme, self.root, dict(self.options))

    @property
    def _system(self) -> Any:
        """The file system, made once in a process. Raises Refused when this Python's pyarrow can't reach such a store."""
        # No cached_property: its lock, in Python 3.11, can't be shipped.
        made = self.__dict__.get("_made")
        if made is None:
            made = self.__dict__["_made"] = self._make()
        return made

    def _make(self) -> Any:
        if self.scheme == "file":
            return pf.LocalFileSystem()
        try:
            return _SYSTEMS[self.scheme](self.options)
        except (ImportError, NotImplementedError) as error:
            message = f"The pyarrow {pa.__version__} of a worker can't reach a store of kind {self.scheme}: {error}"
            raise Refused("DELTAMERGE_WORKER_WITHOUT_STORE", message, self.scheme) from None

    def of_url(self, url: str) -> tuple[DataStore, str]:
        """The store of a file that the user has named by its URL or whole path, and its name there: a disk, or the same bucket.

        For what a log names only by a caller who has made sure that the log may name it. Raises Refused for any other place.
        """
        if found := _FILE.fullmatch(url):
            return DataStore("file", ""), found[1].lstrip("/")
        found = _URL.fullmatch(url)
        bucket = self.root.partition("/")[0]
        if found and found[1] in _KINDS.get(self.scheme, ()) and found[2] == bucket:
            store = replace(self, root=bucket)
            store.__dict__["_made"] = self._system
            return store, found[3]
        raise Refused("DELTAMERGE_FILE_IN_OTHER_STORE", f"The file {url} lies in another store than the table.", url)

    def _place(self, name: str) -> tuple[Any, str]:
        return self._system, f"{self.root.rstrip('/')}/{name}"

    @property
    def remote(self) -> bool:
        """Whether a file is reached by requests, each of which takes its time."""
        return self.scheme != "file"

    def open(self, name: str) -> Any:
        """The file for random reading; a small one of an object store is fetched whole, which is one request, not many."""
        system, path = self._place(name)
        if isinstance(system, pf.LocalFileSystem) and stat.S_ISFIFO(os.stat(path).st_mode):
            raise FileNotFoundError(errno.ENOENT, "It is no file but a pipe", path)
        with self._hiding_secrets():
            source = system.open_input_file(path)
            if isinstance(system, pf.LocalFileSystem) or source.size() > _WHOLE_BYTES:
                return source
            with source:
                return pa.BufferReader(source.read_buffer())

    def create(self, name: str) -> Any:
        """A new file for writing; its folder is made when it is not there. On an object store it appears when it is closed."""
        system, path = self._place(name)
        if isinstance(system, pf.LocalFileSystem):
            folder = path.rpartition("/")[0]
            with contextlib.suppress(FileExistsError):
                system.create_dir(folder, recursive=True)
        with self._hiding_secrets():
            return system.open_output_stream(path)

    @contextlib.contextmanager
    def naming(self, name: str) -> Iterator[None]:
        """What the file system refuses within comes out with the file's path, and without secrets."""
        try:
            with self._hiding_secrets():
                yield
        except OSError as error:
            if error.errno is None or error.filename is not None:
                raise
            raise OSError(error.errno, error.strerror, f"{self.root.rstrip('/')}/{name}") from error

    @contextlib.contextmanager
    def _hiding_secrets(self) -> Iterator[None]:
        """Azure's client puts a SAS token into the URLs that its errors show."""
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            text = shown = str(error)
            for secret in (self.options[name] for name in _SECRETS if self.options.get(name)):
                shown = shown.replace(secret, "***").replace(unquote(secret), "***")
            shown = re.sub(r"\bsig=[^&\s'\"]+", "sig=***", shown)
            if shown == text:
                raise
            raise type(error)(shown) from None

    def sync(self, names: Iterable[str], folders: bool = False) -> None:
        """Wait until the content of files is on the disk, and if asked for all `folders` that they lie in; an object store has it
        when they are closed.
        """
        if self.scheme == "file" and self.options.get(SYNC) != "false":
            paths = [self._place(name)[1] for name in names]
            sync_files(paths)
            if folders:
                sync_folders({str(above) for path in paths for above in PurePath(path).parents})

    def modified(self, name: str) -> int:
        """Modification time in ms of a file that was just written; on an object store this machine's time, not a request."""
        system, path = self._place(name)
        if isinstance(system, pf.LocalFileSystem):
            return int(system.get_file_info(path).mtime_ns // 1_000_000)
        return int(time.time() * 1000)

    def infos(self, folder: str) -> list[Any]:
        """The files directly in a folder, as pyarrow tells of them; [] where there is no such folder."""
        system, path = self._place(folder)
        with self.naming(folder):
            found: list[Any] = system.get_file_info(pf.FileSelector(path, allow_not_found=True))
        return [info for info in found if info.type == pf.FileType.File]

    def info(self, name: str) -> Any | None:
        """What pyarrow tells of a file; None where there is none."""
        system, path = self._place(name)
        with self.naming(name):
            found = system.get_file_info(path)
        return found if found.type == pf.FileType.File else None

    def stamp(self, name: str) -> Stamp:
        """What changes when another file takes a file's place."""
        system, path = self._place(name)
        with self._hiding_secrets():
            found = system.get_file_info(path)
        return found.size, found.mtime_ns

    def delete(self, name: str) -> None:
        """Remove a file, if it can be."""
        system, path = self._place(name)
        with contextlib.suppress(OSError, pa.ArrowException):
            system.delete_file(path)


def _s3(options: Mapping[str, str]) -> Any:
    arguments: dict[str, Any] = {
        "access_key": options.get("access_key_id"),
        "secret_key": options.get("secret_access_key"),
        "session_token": options.get("session_token"),
        "anonymous": options.get("skip_signature", "").lower() == "true",
        "region": options.get("region"),
    }
    if "endpoint" in options:
        url = urlsplit(options["endpoint"])
        virtual = options.get("virtual_hosted_style_request", "").lower() == "true"
        arguments |= {"scheme": url.scheme, "endpoint_override": url.netloc + url.path.rstrip("/")}
        arguments["force_virtual_addressing"] = virtual
    try:
        # Without it each file costs the three requests of a multipart upload.
        return pf.S3FileSystem(**arguments, allow_delayed_open=True)
    except TypeError:
        return pf.S3FileSystem(**arguments)


_AZURE_OPTIONS = ("sas_key", "client_id", "client_secret", "tenant_id")  # pyarrow takes them from 21 on


def _azure(options: Mapping[str, str]) -> Any:
    arguments: dict[str, Any] = {"account_key": options.get("account_key")}
    if "sas_key" in options:
        arguments["sas_token"] = f"?{options['sas_key']}"
    if "client_secret" in options:
        arguments |= {name: options.get(name) for name in ("client_id", "client_secret", "tenant_id")}
    elif "client_id" in options and "tenant_id" not in options:
        arguments["client_id"] = options["client_id"]
    if "endpoint" in options:
        url = urlsplit(options["endpoint"])
        # pyarrow puts the account before an authority that begins with a dot, behind any other as the emulator has it.
        blob = url.netloc.removeprefix(options["account_name"])
        arguments |= {"blob_storage_authority": blob, "blob_storage_scheme": url.scheme}
        arguments |= {"dfs_storage_authority": blob.replace(".blob.", ".dfs."), "dfs_storage_scheme": url.scheme}
    given = {key: value for key, value in arguments.items() if value}
    try:
        return pf.AzureFileSystem(options["account_name"], **given)
    except TypeError:
        names = ", ".join(name for name in _AZURE_OPTIONS if name in options)
        message = f"pyarrow {pa.__version__} can't open an Azure account by these options: {names}."
        raise Refused("DELTAMERGE_OLD_PYARROW", message) from None


def _google(options: Mapping[str, str]) -> Any:
    arguments: dict[str, Any] = {"anonymous": options.get("skip_signature", "").lower() == "true"}
    if "bearer_token" in options:
        expiry = datetime.now(UTC) + timedelta(hours=1)
        arguments |= {"access_token": options["bearer_token"], "credential_token_expiration": expiry}
    if "endpoint" in options:
        url = urlsplit(options["endpoint"])
        arguments |= {"scheme": url.scheme, "endpoint_override": url.netloc}
    variable = "GOOGLE_APPLICATION_CREDENTIALS"
    if "application_credentials" not in options:
        return pf.GcsFileSystem(**arguments)
    # The only way in which pyarrow takes a key file; it is read when the file system is made.
    before = os.environ.get(variable)
    os.environ[variable] = options["application_credentials"]
    try:
        return pf.GcsFileSystem(**arguments)
    finally:
        if before is None:
            del os.environ[variable]
        else:
            os.environ[variable] = before


_SYSTEMS = {"s3": _s3, "azure": _azure, "gs": _google}
