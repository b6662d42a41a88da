"""Which files of a table's folder the newest version, or one that a reader may still go back to, needs.

Source: delta-spark's VacuumCommand.getValidFilesFromSnapshot. Times are in ms since 1970.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.commands.layout.kept import Kept
from deltamerge.errors import CorruptTableError
from deltamerge.log.replay.commit_file import CommitFile, has_vanished, read_commit
from deltamerge.log.replay.commit_times import ordered_times
from deltamerge.log.replay.segment import all_commits
from deltamerge.log.replay.table import DeltaLog
from deltamerge.protocol.table.actions import DeletionVector
from deltamerge.protocol.table.deletion_vector import vector_reference
from deltamerge.storage import ObjectInfo, Store

_AT_ONCE = 16
_MARGIN = 86_400_000


def needed_names(table: DeltaLog, cutoff: int) -> Kept:
    """The names within the table of the files that the newest version or one since `cutoff` needs.

    The commits since then are read one by one: of change data files a version's state tells nothing, and checkpoints may have
    been written when the table kept tombstones for a shorter time.
    """
    snapshot = table.snapshot()
    needed = Kept(snapshot.store)
    _add(needed, snapshot.files.column("path"), snapshot.files.column("deletionVector"))
    removed = snapshot.tombstones.table
    late = removed.filter(pc.greater_equal(pc.coalesce(removed["deletionTimestamp"], 0), cutoff))
    _add(needed, late["path"], late["deletionVector"])
    for commit in _commits_since(snapshot.store, cutoff):
        _add(needed, commit.removes["path"], commit.removes["deletionVector"])
        needed.add(file.path for file in commit.cdc)
    return needed


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


def _add(kept: Kept, paths: pa.ChunkedArray, vectors: pa.ChunkedArray) -> None:
    """Keep data files and their deletion vectors' files."""
    kept.add(paths.to_pylist())
    if vectors.null_count < len(vectors):
        found = vectors.filter(pc.is_valid(vectors)).to_pylist()
        references = (vector_reference(DeletionVector.from_json(vector), "a data file") for vector in found)
        kept.add(reference for reference in references if reference is not None)
