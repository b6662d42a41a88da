"""A folder in a bucket with the methods of `pathlib.Path` that tests use, so that one test runs on disks and stores."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, ClassVar, NamedTuple

if TYPE_CHECKING:
    from tests.stores.server import S3Server


class Stat(NamedTuple):
    """What is known of an object; its size in bytes."""

    st_size: int


class StorePath(PurePosixPath):
    """`bucket/key`, whose text is a URL; the server is set for the time of a test."""

    server: ClassVar[S3Server]

    def __str__(self) -> str:
        return f"s3://{'/'.join(self.parts)}"

    def __fspath__(self) -> str:
        raise TypeError(f"{self} is on no disk")

    @property
    def key(self) -> str:
        """The name within the bucket."""
        return "/".join(self.parts[1:])

    def glob(self, pattern: str) -> Iterator[StorePath]:
        """What matches a pattern right in this folder, folders that hold something included."""
        depth = len(self.parts) + 1
        yield from sorted({StorePath(*path.parts[:depth]) for path in self._below() if fnmatch(path.parts[depth - 1], pattern)})

    def rglob(self, pattern: str) -> Iterator[StorePath]:
        """The objects below this folder whose last name matches a pattern."""
        yield from (path for path in self._below() if fnmatch(path.name, pattern))

    def is_file(self) -> bool:
        """Whether there is such an object."""
        return self.key in self.server.keys(self.parts[0], self.key)

    def exists(self) -> bool:
        """Whether there is such an object, or a folder that holds one."""
        return self.is_file() or bool(self._below())

    def stat(self) -> Stat:
        """The object's size."""
        return Stat(len(self.read_bytes()))

    def read_bytes(self) -> bytes:
        """The object's bytes."""
        return self.server.object(self.parts[0], self.key)

    def read_text(self) -> str:
        """The object's text."""
        return self.read_bytes().decode()

    def write_bytes(self, data: bytes) -> None:
        """Put an object."""
        self.server.client.put_object(Bucket=self.parts[0], Key=self.key, Body=data)

    def write_text(self, text: str) -> None:
        """Put an object of text."""
        self.write_bytes(text.encode())

    def mkdir(self, mode: int = 0o777, parents: bool = False, exist_ok: bool = False) -> None:
        """Nothing: there are no folders."""

    def unlink(self, missing_ok: bool = False) -> None:
        """Delete the object."""
        if not (missing_ok or self.exists()):
            raise FileNotFoundError(str(self))
        self.server.client.delete_object(Bucket=self.parts[0], Key=self.key)

    def _below(self) -> list[StorePath]:
        prefix = f"{self.key}/" if self.key else ""
        return [StorePath(self.parts[0], key) for key in self.server.keys(self.parts[0], prefix)]
