"""Where something lies: a path or URL taken apart into a kind of store, a bucket and a name. Opens nothing."""

from __future__ import annotations

import os
import posixpath
import re
from dataclasses import dataclass

from deltamerge.errors import InvalidArgumentError, StorageError

FILE, S3, AZURE, GOOGLE = "file", "s3", "azure", "gs"
KINDS = {
    "": FILE,
    "file": FILE,
    "s3": S3,
    "s3a": S3,
    "s3n": S3,
    "abfs": AZURE,
    "abfss": AZURE,
    "wasb": AZURE,
    "wasbs": AZURE,
    "az": AZURE,
    "azure": AZURE,
    "gs": GOOGLE,
}
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
_ABSOLUTE = re.compile(r"/|file:|[A-Za-z][A-Za-z0-9+.-]+:/", re.IGNORECASE)
_OBJECT_URL = re.compile(r"[^:]+://([^/]*)(.*)", re.DOTALL)
_BUCKET = re.compile(r"[A-Za-z0-9$][A-Za-z0-9._$-]*")
_AZURE_HOST = re.compile(r"[A-Za-z0-9-]+\.(?:dfs|blob)(?:\.[A-Za-z0-9-]+)+")
_USUAL = "Use a local path, or the table's s3a://, abfss:// or gs:// URL."
_HDFS = (
    "HDFS is only reached through a JVM client, which this library does not use. Mount it as a local folder (its NFS gateway), "
    "or keep the table on an object store or a local disk."
)
_HINTS = {
    "hdfs": _HDFS,
    "viewfs": _HDFS,
    "webhdfs": _HDFS,
    "swebhdfs": _HDFS,
    "dbfs": "DBFS has no put-if-absent. Use the URL of the cloud storage behind it: s3a://, abfss:// or gs://.",
    "adl": "Azure Data Lake Storage Gen1 has no put-if-absent and was retired. Use the abfss:// URL of a Gen2 account.",
    "http": "Use the table's s3a://, abfss:// or gs:// URL, and set the endpoint as an option.",
    "https": "Use the table's s3a://, abfss:// or gs:// URL, and set the endpoint as an option.",
    "oss": "If the store speaks the S3 protocol with If-None-Match, use an s3a:// URL with its endpoint.",
    "cos": "If the store speaks the S3 protocol with If-None-Match, use an s3a:// URL with its endpoint.",
    "obs": "If the store speaks the S3 protocol with If-None-Match, use an s3a:// URL with its endpoint.",
}


@dataclass(frozen=True, slots=True)
class Location:
    """A place in a store: its kind, the bucket or container, the key below it; `host` is an Azure account's, if named.

    On a local disk only `path` is set, as it was written.
    """

    scheme: str
    kind: str
    bucket: str
    path: str
    host: str = ""

    @property
    def url(self) -> str:
        """The place as a user writes it, without a trailing slash."""
        return f"{self.authority}/{self.path}".rstrip("/")

    @property
    def authority(self) -> str:
        """The URL of the whole bucket or container."""
        return f"{self.scheme}://{self.bucket}@{self.host}" if self.host else f"{self.scheme}://{self.bucket}"

    @property
    def account(self) -> str:
        """The Azure storage account of the host; '' when none is named."""
        return self.host.partition(".")[0]


def scheme_of(location: str) -> str:
    """The scheme of a URL in lower case, '' for a path."""
    found = _SCHEME.match(location)
    return found[1].lower() if found else ""


def is_absolute(reference: str) -> bool:
    """Whether a log's reference to a file is a URL or a whole path, instead of one within the table."""
    return _ABSOLUTE.match(reference) is not None


def parse_location(location: str) -> Location:
    """Take a path or URL apart.

    Raises StorageError for a scheme or a form that is not supported, InvalidArgumentError for what is no path at all.
    """
    if not isinstance(location, str) or not location:
        raise _no_path(location)
    scheme = scheme_of(location)
    kind = KINDS.get(scheme)
    if kind == FILE:
        return Location(scheme, FILE, "", location)
    if kind is None:
        raise _unsupported(location, scheme, f"the scheme {scheme!r} is not supported", _HINTS.get(scheme, _USUAL))
    found = _OBJECT_URL.fullmatch(location)
    if found is None or not found[1]:
        raise _unsupported(location, scheme, "it names no bucket", f"Write it as {scheme}://bucket/folder.")
    bucket, _, host = found[1].partition("@") if kind == AZURE else (found[1], "", "")
    if ":" in bucket or "@" in bucket + host:
        raise _unsupported(location, scheme, "it holds credentials", "Give them as options or settings, never in a URL.")
    if not _BUCKET.fullmatch(bucket):
        raise _unsupported(location, scheme, f"{bucket!r} is no name of a bucket", f"Write it as {scheme}://bucket/folder.")
    if host and not _AZURE_HOST.fullmatch(host):
        form = f"{scheme}://container@account.dfs.core.windows.net/folder"
        raise _unsupported(location, scheme, f"{host} is no host of an Azure account", f"Write it as {form}.")
    if "sig=" in found[2].partition("?")[2]:
        raise _unsupported(location, scheme, "it holds a signature", "Give a SAS token as the option azure_storage_sas_token.")
    path = posixpath.normpath(f"/{found[2]}").strip("/")
    return Location(scheme, kind, bucket, path, host)


def _no_path(location: object) -> InvalidArgumentError:
    return InvalidArgumentError(
        "DELTAMERGE_INVALID_PATH",
        f"The path of a table must be a string that is not empty, found {location!r}.",
        parameters={"path": location},
        # Taken as it is, a Path of s3://bucket would be a local folder s3:/bucket.
        hint="Write a pathlib.Path as str(path)." if isinstance(location, os.PathLike) else "For example '/data/table'.",
    )


def without_secrets(location: str) -> str:
    """A location as an error may show it."""
    shown = re.sub(r"^([^/?]*://)[^/@]*:[^/@]*@", r"\1***@", location)
    return re.sub(r"\?.*sig=.*", "?***", shown, flags=re.DOTALL) if scheme_of(location) else shown


def _unsupported(location: str, scheme: str, cause: str, hint: str) -> StorageError:
    shown = without_secrets(location)
    return StorageError(
        "DELTAMERGE_UNSUPPORTED_STORE",
        f"Cannot open {shown}: {cause}.",
        parameters={"location": shown, "scheme": scheme},
        hint=hint,
    )


def location_text(url: str) -> str:
    """The place of a table as Hadoop writes it."""
    return f"file:{url}" if url.startswith("/") else url
