"""A table's files as the planner of a stream reads them, beside Spark's driver: by pyarrow, as workers do.

It reads only. Where a log names files outside of the table, it opens none that the table's own store doesn't reach.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from deltamerge.errors import StorageError
from deltamerge.protocol.table.actions import DeletionVector
from deltamerge.protocol.table.deletion_vector import vector_reference
from deltamerge.storage.base import NotFound, ObjectInfo, ObjectTooLarge, StoreSpec
from deltamerge.worker.scan.row_errors import Refused
from deltamerge.worker.scan.store import DataStore
from deltamerge.worker.scan.vectors import Vector

_WHOLE = re.compile(r"/|[A-Za-z][A-Za-z0-9+.-]+:")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")


@dataclass(frozen=True)
class PlannerStore:
    """What the log's functions need of a store to read a table at `url`, which has no secrets."""

    url: str
    data: DataStore = field(repr=False)

    @property
    def spec(self) -> StoreSpec:
        """The description of the store."""
        return StoreSpec(self.data.scheme, self.data.root, self.data.options)

    def list(self, folder: str, start: str = "") -> list[ObjectInfo]:
        """The files directly in `folder` with a base name of at least `start`, sorted. Raises StorageError."""
        try:
            found = self.data.infos(folder)
        except (OSError, pa.ArrowException) as error:
            raise self._refused("list", folder, error) from None
        return sorted((_info(f"{folder}/{info.base_name}", info) for info in found if info.base_name >= start), key=_name)

    def read(self, name: str, most: int | None = None) -> bytes:
        """The whole file. Raises NotFound, StorageError, and ObjectTooLarge where it has more than `most` bytes."""
        try:
            with self.data.naming(name), self.data.open(name) as source:
                if most is not None and source.size() > most:
                    raise ObjectTooLarge(name, most)
                found: bytes = source.read()
                return found
        except FileNotFoundError as error:
            raise NotFound(name) from error
        except (OSError, pa.ArrowException) as error:
            if self.info(name) is None:
                raise NotFound(name) from None
            raise self._refused("read", name, error) from None

    def info(self, name: str) -> ObjectInfo | None:
        """Size and time of a file, or None when it does not exist. Raises StorageError."""
        try:
            found = self.data.info(name)
        except (OSError, pa.ArrowException) as error:
            raise self._refused("read", name, error) from None
        return None if found is None else _info(name, found)

    def place(self, reference: str) -> tuple[str, DataStore | None]:
        """The name of a file that the log names, and its store where it lies outside of the table. Raises StorageError."""
        if not _WHOLE.match(reference):
            return unquote(reference), None
        try:
            if self.data.remote and not _SCHEME.match(reference):
                bucket = self.data.root.partition("/")[0]
                return unquote(reference).lstrip("/"), DataStore(self.data.scheme, bucket, self.data.options)
            if self.data.remote and reference.lower().startswith("file:"):
                raise Refused("", "", reference)
            store, name = self.data.of_url(reference)
            return unquote(name), store
        except Refused:
            raise StorageError(
                "DELTAMERGE_FILE_IN_OTHER_STORE",
                f"The log of {self.url} names a file that lies where no credentials are sent by themselves.",
                parameters={"table": self.url},
                hint="A stream reads tables whose files are in one bucket, or on this machine's disks.",
            ) from None

    def vector(self, descriptor: DeletionVector | None, path: str) -> Vector | None:
        """The deletion vector of the data file at `path`. Raises CorruptTableError, StorageError."""
        if descriptor is None:
            return None
        reference = vector_reference(descriptor, path)
        if reference is None:
            return Vector(descriptor)
        name, store = self.place(reference)
        return Vector(descriptor, store or self.data, name)

    def _refused(self, verb: str, name: str, error: Exception) -> StorageError:
        place = f"{self.url}/{name}"
        return StorageError(
            "DELTAMERGE_STORAGE_REFUSED",
            f"Cannot {verb} {place}: {error}",
            parameters={"path": place},
            hint="The machine of Spark's driver reads the table's log. It needs the same access as the workers.",
        )


def _info(name: str, found: Any) -> ObjectInfo:
    modified = (found.mtime_ns or 0) // 1_000_000
    return ObjectInfo(name, found.size or 0, modified, f"{found.mtime_ns}-{found.size}")


def _name(info: ObjectInfo) -> str:
    return info.name
