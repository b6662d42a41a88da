"""What is on a disk for good: files and folders synced, so that a power loss takes nothing away that was promised.

Here is all that tells a disk to keep something. Knows paths only; is shipped to workers.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import PurePath

# The setting, and the option of a store on a local disk, that with the value `false` leaves all this to the operating system.
SYNC = "spark.deltamerge.sync"
_AT_ONCE = 8
# Of a file system that has nothing to sync, or of a folder that this user may not list.
_NOTHING_TO_SYNC = frozenset({errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EROFS})
_NOT_LISTED = frozenset({errno.EACCES, errno.EPERM})


def sync_files(paths: Iterable[str]) -> None:
    """Wait until the content of files is on the disk, of several at once. Raises OSError when it can't be written there."""
    _each(_sync, paths)


def sync_folders(paths: Iterable[str]) -> None:
    """Wait until folders have on the disk the names that they have now. Raises OSError."""
    _each(_sync_names, paths)


def make_folder(path: str, synced: bool) -> None:
    """Make a folder, and those above it, if it is not there; `synced`, all of them are on the disk then. Raises OSError.

    Those above may have been made a moment ago by somebody who has not synced them.
    """
    if os.path.isdir(path):
        return
    os.makedirs(path, exist_ok=True)
    if synced:
        sync_folders(map(str, PurePath(os.path.abspath(path)).parents))


def with_folders_above(folders: Iterable[str]) -> set[str]:
    """Relative folders, with `/` between their names, and all those that they lie in; '' is the one where they begin."""
    found: set[str] = set()
    for folder in folders:
        names = folder.split("/") if folder else []
        found.update("/".join(names[:length]) for length in range(len(names) + 1))
    return found


def _each(sync: Callable[[str], None], paths: Iterable[str]) -> None:
    found = list(paths)
    if len(found) < 2:
        for path in found:
            sync(path)
        return
    with ThreadPoolExecutor(min(len(found), _AT_ONCE)) as pool:
        for done in [pool.submit(sync, path) for path in found]:
            done.result()


def _sync(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in _NOTHING_TO_SYNC:
            raise OSError(error.errno, error.strerror, path) from error
    finally:
        os.close(handle)


def _sync_names(path: str) -> None:
    try:
        _sync(path)
    except OSError as error:
        if error.errno not in _NOT_LISTED:
            raise
