"""Which files of a table's folder the newest version, or one that a reader may still go back to, needs.

Source: delta-spark's VacuumCommand.getValidFilesFromSnapshot. Times are in ms since 1970.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.errors import CorruptTableError
from deltamerge.log.replay.commit_file import CommitFile, has_vanished, read_commit
from deltamerge.log.replay.commit_times import ordered_times
from deltamerge.log.replay.paths import canonical_path
from deltamerge.log.replay.segment import all_commits
from deltamerge.log.replay.table import DeltaLog
from deltamerge.protocol.table.actions import DeletionVector
from deltamerge.protocol.table.deletion_vector import vector_reference
from deltamerge.storage import ObjectInfo, Store
from deltamerge.storage.location import is_absolute

_AT_ONCE = 16
_MARGIN = 86_400_000


def needed_names(table: DeltaLog, cutoff: int) -> set[str]:
    """The names within the table of the files that the newest version or one since `cutoff` needs.

    The commits since then are read one by one: of change data files a version's state tells nothing, and checkpoints may have
    been written when the table kept tombstones for a shorter time.
    """
    snapshot = table.snapshot()
    names = set(_names(snapshot.store, snapshot.files.column("path"), snapshot.files.column("deletionVector")))
    removed = snapshot.tombstones.table
    kept = removed.filter(pc.greater_equal(pc.coalesce(removed["deletionTimestamp"], 0), cutoff))
    names.update(_names(snapshot.store, kept["path"], kept["deletionVector"]))
    for commit in _commits_since(snapshot.store, cutoff):
        names.update(_names(snapshot.store, commit.removes["path"], commit.removes["deletionVector"]))
        names.update(_names_of(snapshot.store, (file.path for file in commit.cdc)))
    return names


def _commits_since(store: Store, cutoff: int) -> Iterator[CommitFile]:
    """The commits made from `cutoff` on. A margin is for their own timestamps, which may be later than their files'."""
    infos = [info for info in ordered_times(all_commits(store)) if info.modified >= cutoff - _MARGIN]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for start in range(0, len(infos), _AT_ONCE):
            for commit in pool.map(lambda info: _read(store, info), infos[start : start + _AT_ONCE]):
                if commit is not None and max(commit.timestamp, commit.file.modified) >= cutoff:
                    yield commit


def _read(store: Store, info: ObjectInfo) -> CommitFile | None:
    """A commit; None for one that clean-up has deleted meanwhile."""
    try:
        return read_commit(store, info)
    except CorruptTableError as error:
        if not has_vanished(error):
            raise
        return None


def _names(store: Store, paths: pa.ChunkedArray, vectors: pa.ChunkedArray) -> Iterator[str]:
    """The names of data files and of their deletion vectors' files."""
    yield from _names_of(store, paths.to_pylist())
    if vectors.null_count < len(vectors):
        found = vectors.filter(pc.is_valid(vectors)).to_pylist()
        references = (vector_reference(DeletionVector.from_json(vector), "a data file") for vector in found)
        yield from _names_of(store, (reference for reference in references if reference is not None))


def _names_of(store: Store, references: Iterable[str]) -> Iterator[str]:
    """The names within the table that a log's references stand for; those of files outside are left out."""
    for reference in references:
        whole = canonical_path(reference)
        if not is_absolute(whole):
            yield _decoded(whole)
        else:
            yield from _within(store, _decoded(whole))


def _decoded(path: str) -> str:
    """A path without its encoding: bytes that are no UTF-8 as the folders' listings have them."""
    return unquote(path, errors="surrogateescape")


def _within(store: Store, path: str) -> Iterator[str]:
    """The name of a whole path within the table, also where one of both goes over a link."""
    places = {(path, _decoded(canonical_path(store.url)))}
    if path.startswith("/"):
        places.add((os.path.realpath(path), os.path.realpath(store.url)))
    for place, root in places:
        if place.startswith(root.rstrip("/") + "/"):
            yield place[len(root.rstrip("/")) + 1 :]
