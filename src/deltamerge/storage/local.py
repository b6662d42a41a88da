"""Local disks. Put-if-absent is a temporary file, synced, then linked to its name: whole or not there.

What a call has written is on the disk when it returns, unless the store is told to leave that to the system.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePath

from deltamerge.disk import SYNC, make_folder, sync_folders, with_folders_above
from deltamerge.errors import CommitStateUnknownError, StorageError
from deltamerge.storage.base import AlreadyExists, Listing, NotFound, ObjectInfo, ObjectTooLarge, StoreSpec, not_synced

_AT_ONCE = 8
# Answers of a network file system to a request that it may have served, or may serve yet.
_UNANSWERED = frozenset({errno.EIO, errno.ETIMEDOUT, errno.ESTALE})


class LocalStore:
    """The files below one folder of the local disk; what is written is `synced`, or left to the system to write at some time."""

    def __init__(self, root: str, synced: bool = True) -> None:
        self._root = Path(root)
        self._synced = synced

    @property
    def url(self) -> str:
        return str(self._root)

    @property
    def spec(self) -> StoreSpec:
        return StoreSpec("file", str(self._root), {} if self._synced else {SYNC: "false"})

    def list(self, folder: str, start: str = "") -> list[ObjectInfo]:
        found = []
        try:
            with os.scandir(self._root / folder) as entries:
                for entry in entries:
                    # A file may vanish between its listing and its stat: another writer's temporary one does.
                    with contextlib.suppress(FileNotFoundError):
                        if entry.name >= start and _is_file(entry):
                            name = f"{folder}/{entry.name}" if folder else entry.name
                            found.append(_info(name, entry.stat()))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise _refused("list", self._root / folder, error) from error
        found.sort(key=lambda info: info.name)
        return found

    def read(self, name: str, most: int | None = None) -> bytes:
        try:
            # A pipe would be waited for until somebody writes into it.
            with open(self._root / name, "rb", opener=_without_waiting) as file:
                found = os.stat(file.fileno())
                if not stat.S_ISREG(found.st_mode):
                    raise NotFound(name)
                if most is not None and found.st_size > most:
                    raise ObjectTooLarge(name, most)
                return file.read()
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
            raise NotFound(name) from error
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise NotFound(name) from error
            raise _refused("read", self._root / name, error) from error

    def info(self, name: str) -> ObjectInfo | None:
        try:
            found = (self._root / name).stat()
            return _info(name, found) if stat.S_ISREG(found.st_mode) else None
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            if error.errno == errno.ELOOP:
                return None
            raise _refused("read", self._root / name, error) from error

    def exists_folder(self, folder: str) -> bool:
        return (self._root / folder).is_dir()

    def put(self, name: str, data: bytes) -> None:
        target = self._root / name
        with _Temporary(target, data, self._synced, _is_data(name)) as temporary:
            os.replace(temporary, target)
            # Hadoop keeps a checksum beside a file and refuses a file that no longer fits it.
            (target.parent / f".{target.name}.crc").unlink(missing_ok=True)
            if self._synced:
                sync_folders([str(target.parent)])

    def put_if_absent(self, name: str, data: bytes) -> ObjectInfo:
        target = self._root / name
        if os.path.exists(target):
            raise AlreadyExists(name)
        with _Temporary(target, data, self._synced) as temporary:
            info = _info(name, temporary.stat())
            try:
                os.link(temporary, target)
            except OSError as error:
                if not _is_linked(target, temporary):
                    raise _not_linked(name, target, error) from error
            # The name is taken and seen by others: from here on the write has happened, whatever the sync says.
            if self._synced:
                try:
                    sync_folders([str(target.parent)])
                except OSError as error:
                    raise not_synced(str(target), str(error.strerror or error)) from error
        return info

    def sync(self, folders: Iterable[str], above: bool = False) -> None:
        if not self._synced:
            return
        chosen = [str(self._root / folder) for folder in with_folders_above(folders)]
        if above:
            chosen += map(str, PurePath(os.path.abspath(self._root)).parents)
        try:
            sync_folders(chosen)
        except OSError as error:
            raise _refused("write", Path(error.filename or self._root), error) from error

    def delete(self, name: str) -> None:
        target = self._root / name
        try:
            target.unlink(missing_ok=True)
            (target.parent / f".{target.name}.crc").unlink(missing_ok=True)
        except NotADirectoryError:
            return
        except OSError as error:
            raise _refused("delete", target, error) from error

    def walk(self, is_hidden: Callable[[str], bool]) -> Iterator[Listing]:
        folders = [""]
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            while folders:
                below: list[str] = []
                for listing in pool.map(lambda folder: self._scanned(folder, is_hidden), folders):
                    below += [folder.name for folder in listing.folders]
                    yield listing
                folders = below

    def _scanned(self, folder: str, is_hidden: Callable[[str], bool]) -> Listing:
        """What is directly in a folder. A link to a folder is neither followed nor told: what is behind it may be anybody's."""
        files, folders = [], []
        try:
            with os.scandir(self._root / folder) as entries:
                for entry in entries:
                    name = f"{folder}/{entry.name}" if folder else entry.name
                    with contextlib.suppress(FileNotFoundError):
                        if is_hidden(entry.name):
                            continue
                        if entry.is_dir(follow_symlinks=False):
                            folders.append(_info(name, entry.stat()))
                        elif _is_file(entry):
                            files.append(_info(name, entry.stat()))
        except (FileNotFoundError, NotADirectoryError):
            return Listing()
        except OSError as error:
            raise _refused("list", self._root / folder, error) from error
        return Listing(files, folders)

    def delete_all(self, names: Sequence[str]) -> int:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return sum(pool.map(self._was_deleted, names))

    def _was_deleted(self, name: str) -> bool:
        there = os.path.lexists(self._root / name)
        self.delete(name)
        return there

    def delete_empty_folders(self, names: Sequence[str]) -> int:
        gone = 0
        for name in names:
            with contextlib.suppress(OSError):
                (self._root / name).rmdir()
                gone += 1
        return gone


def _is_file(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_file()
    except OSError as error:
        if error.errno == errno.ELOOP:
            return False
        raise


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def _is_data(name: str) -> bool:
    """Whether a file lies among the table's data, not in a folder whose every visible file is taken for one of its own."""
    return not name.startswith((".", "_"))


def _info(name: str, found: os.stat_result) -> ObjectInfo:
    etag = f"{found.st_ino}-{found.st_mtime_ns}-{found.st_size}"
    return ObjectInfo(name, found.st_size, found.st_mtime_ns // 1_000_000, etag)


def _is_linked(target: Path, temporary: Path) -> bool:
    """Whether a link that is said to have failed is there: a network file system may lose an answer, and ask again by itself."""
    with contextlib.suppress(OSError):
        return os.path.samefile(target, temporary)
    return False


def _not_linked(name: str, target: Path, error: OSError) -> Exception:
    if isinstance(error, FileExistsError):
        return AlreadyExists(name)
    if error.errno not in _UNANSWERED:
        return error
    return CommitStateUnknownError(
        "DELTAMERGE_COMMIT_STATE_UNKNOWN",
        f"It is not known whether {target} was written: {error.strerror or error}.",
        parameters={"path": str(target), "errno": error.errno},
        hint="When the disk answers again, look whether the file is there before running the operation again: "
        "if it is, the operation is done.",
    )


class _Temporary:
    """A synced file with `data` beside `target`, gone again on leaving; OS errors come out named.

    A process that is killed leaves it. That of a data file (`is_data`) is not hidden, so that VACUUM finds it.
    """

    def __init__(self, target: Path, data: bytes, synced: bool, is_data: bool = False) -> None:
        self._target = target
        self._data = data
        self._synced = synced
        self._path = target.parent / f"{'' if is_data else '.'}{target.name}.{uuid.uuid4()}.tmp"

    def __enter__(self) -> Path:
        try:
            make_folder(str(self._target.parent), self._synced)
            with open(self._path, "xb") as file:
                file.write(self._data)
                file.flush()
                if self._synced:
                    os.fsync(file.fileno())
        except OSError as error:
            self._remove()
            raise _refused("write", self._target, error) from error
        return self._path

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._remove()
        if isinstance(error, OSError):
            raise _refused("write", self._target, error) from error

    def _remove(self) -> None:
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)


def _refused(verb: str, path: Path, error: OSError) -> StorageError:
    hints = {
        errno.ENOSPC: "The disk is full: free some space and run again; the table is as it was.",
        errno.EDQUOT: "The disk quota is used up: free some space and run again; the table is as it was.",
        errno.EFBIG: "The file is larger than this process may write: raise `ulimit -f` and run again; the table is as it was.",
        errno.EACCES: "Grant this user permission on the folder.",
        errno.EPERM: "Grant this user permission; put-if-absent also needs a file system with hard links.",
        errno.EROFS: "The file system is mounted read-only.",
        errno.EOPNOTSUPP: "Put-if-absent needs a file system with hard links.",
    }
    return StorageError(
        "DELTAMERGE_STORAGE_REFUSED",
        f"Cannot {verb} {path}: {error.strerror or error}.",
        parameters={"path": str(path), "errno": error.errno},
        hint=hints.get(error.errno or 0),
    )
