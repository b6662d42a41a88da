"""What a store can do, and the plain description by which a worker opens the same store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from deltamerge.errors import CommitStateUnknownError

UNSYNCED = "DELTAMERGE_COMMIT_NOT_SYNCED"


def not_synced(path: str, cause: str) -> CommitStateUnknownError:
    """The error for an object that is written and seen by others, of which the disk did not say that it keeps it."""
    return CommitStateUnknownError(
        UNSYNCED,
        f"{path} was written, but the disk did not say that it would keep it after a loss of power: {cause}",
        parameters={"path": path},
        hint="The operation is done: do not run it again. Look at the disk, and at DeltaTable.history() after a loss of power.",
    )


class AlreadyExists(Exception):
    """Put-if-absent lost: the name is taken."""


class NotFound(Exception):
    """No object has this name."""


class ObjectTooLarge(ValueError):
    """An object is larger than the caller would take."""

    def __init__(self, name: str, most: int) -> None:
        super().__init__(f"{name} has more than {most} bytes")


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One object: `name` relative to the store's root, `size` in bytes, `modified` in ms since 1970.

    `etag` changes whenever the object is another one.
    """

    name: str
    size: int
    modified: int
    etag: str


@dataclass(frozen=True, slots=True)
class Listing:
    """Objects, and folders with when their content last changed. Only disks have folders of their own."""

    files: Sequence[ObjectInfo] = ()
    folders: Sequence[ObjectInfo] = ()


@dataclass(frozen=True, slots=True)
class StoreSpec:
    """How a worker reaches the store: a scheme, a root within it, and options that never appear in a repr."""

    scheme: str
    root: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)


class Store(Protocol):
    """A flat space of named objects below one root. Names are relative, with `/`, never encoded."""

    def __hash__(self) -> int: ...

    @property
    def url(self) -> str:
        """The root, as a user would write it, without secrets."""
        ...

    @property
    def spec(self) -> StoreSpec:
        """The description with which a worker opens this store."""
        ...

    def list(self, folder: str, start: str = "") -> list[ObjectInfo]:
        """The objects directly in `folder` with a base name of at least `start`, sorted; [] without such a folder."""
        ...

    def read(self, name: str, most: int | None = None) -> bytes:
        """The whole object. Raises NotFound, and ObjectTooLarge, without fetching it, where it has more than `most` bytes."""
        ...

    def info(self, name: str) -> ObjectInfo | None:
        """Size and time of the object, or None when it does not exist."""
        ...

    def exists_folder(self, folder: str) -> bool:
        """Whether anything at all lies below `folder`; on a disk an empty folder counts."""
        ...

    def put(self, name: str, data: bytes) -> None:
        """Write the object whole, replacing what is there; a reader sees the old or the new, never a part."""
        ...

    def put_if_absent(self, name: str, data: bytes) -> ObjectInfo:
        """Write the object whole and return it, or raise AlreadyExists; of several racing writers exactly one wins.

        `data` must hold something that is this writer's alone, as a commit's txnId is: where an answer got lost, equal bytes
        show who won. Any other error than CommitStateUnknownError says that the object was not written and will not be.
        """
        ...

    def sync(self, folders: Iterable[str], above: bool = False) -> None:
        """Wait until what is in `folders` and in those above them, up to the root, can no longer be lost with power; and up to
        the root of the disk, if those `above` the table are asked for, too.

        The content of files is for those to sync who write them. Raises StorageError.
        """
        ...

    def delete(self, name: str) -> None:
        """Remove the object; no error when it is gone."""
        ...

    def walk(self, is_hidden: Callable[[str], bool]) -> Iterator[Listing]:
        """All objects and folders below the root, in parts; what has a hidden base name is left out with all below it."""
        ...

    def delete_all(self, names: Sequence[str]) -> int:
        """Remove objects, many at once; how many were there, as far as the store tells."""
        ...

    def delete_empty_folders(self, names: Sequence[str]) -> int:
        """Remove folders in which nothing is, in this order, and return how many; the others stay."""
        ...
