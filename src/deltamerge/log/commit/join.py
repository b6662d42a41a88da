"""Transactions that delete different rows of one data file: the later one joins its deletion vector with the winner's.

What is not certain is left as it is: the check of conflicts finds that the winner removed a file which was read. Such row-level
concurrency is known from Databricks; delta-spark has none.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.errors import CorruptTableError
from deltamerge.log.commit.dv_files import MarkedFile
from deltamerge.log.commit.proposal import Proposal
from deltamerge.log.replay.commit_file import CommitFile
from deltamerge.log.replay.files import add_files, file_key, file_keys
from deltamerge.log.replay.paths import canonical_path, canonical_paths
from deltamerge.log.stats.struct import whole
from deltamerge.protocol.formats.roaring import MalformedBitmap, Mask, Positions, RowSet, decode, encode
from deltamerge.protocol.table.actions import AddFile, DeletionVector
from deltamerge.protocol.table.deletion_vector import ABSOLUTE, deleted_rows, vector_reference
from deltamerge.protocol.values.partitions import decode_path
from deltamerge.storage import NotFound, ObjectTooLarge, Store

log = logging.getLogger("deltamerge.log")

ReadVector = Callable[[DeletionVector | None, str], Positions]

_MOST_BYTES = 64 << 20  # of a file of vectors, which is read whole
_MOST_ROWS = 1 << 26  # of a vector: 8 bytes each
_FILES = 8


class _Uncertain(Exception):
    """The vectors can't be joined; the message says why."""


def vector_reader(store: Store) -> ReadVector:
    """What gives the positions that a vector of the table in `store` deletes; the last few files of vectors are kept."""

    @lru_cache(_FILES)
    def content(name: str) -> bytes:
        return store.read(name, _MOST_BYTES)

    def read(vector: DeletionVector | None, of: str) -> Positions:
        if vector is None:
            return np.zeros(0, np.int64)
        if vector.storage_type == ABSOLUTE:
            raise _Uncertain("a vector lies outside the table")
        try:
            reference = vector_reference(vector, of)
            data = b"" if reference is None else content(decode_path(reference))
            return _positions(deleted_rows(vector, lambda offset, size: data[offset : offset + size], of))
        except (CorruptTableError, NotFound, ObjectTooLarge) as error:
            raise _Uncertain(str(error)) from error

    return read


def joined(proposal: Proposal, winner: CommitFile, read: ReadVector) -> Proposal:
    """The proposal as it would be, had `winner` come before it, as far as the winner has deleted other rows of the files that
    the transaction has read: it then has read the files as the winner left them, and marks them on top of that.

    Whether what the winner added stands in the way is left to the check of conflicts. Raises StorageError.
    """
    known = proposal.read
    if known.would_find is None or not winner.data_change or winner.is_blind_append:
        return proposal
    marked = {file_key(mark.file): mark for mark in proposal.marked}
    rewritten = proposal.removed_keys - marked.keys()
    found: dict[str, MarkedFile] = {}
    keys: dict[str, str] = {}
    for before, vector, file, new in _marked_again(winner, known.keys - rewritten):
        try:
            gone, after = read(vector, file.path), read(new, file.path)
            if not _within(gone, after).all():
                raise _Uncertain("rows come back")
            if before in marked:
                found[before] = _on_top(marked[before], gone, after, file)
            if known.would_find(replace(file, deletion_vector=vector), new):
                raise _Uncertain("it may have deleted rows that this transaction has found and left as they are")
            keys[before] = file_key(file)
        except _Uncertain as cause:
            log.info("version %d marks rows of %s, too, which is a conflict: %s", winner.version, file.path, cause)
    if not keys:
        return proposal
    log.info("joined %d deletion vectors with those of version %d", len(found), winner.version)
    # A vector that was the first of its file has another one before it.
    others = sum(marked[key].file.deletion_vector is None for key in found)
    metrics = {name: count + others * (name in proposal.vector_counts) for name, count in proposal.metrics.items()}
    read_files = replace(known, keys=(known.keys - keys.keys()) | frozenset(keys.values()))
    now_marked = tuple(found.get(key, mark) for key, mark in marked.items())
    return replace(proposal, marked=now_marked, read=read_files, metrics=metrics)


_Marked = tuple[str, DeletionVector | None, AddFile, DeletionVector]


def _marked_again(winner: CommitFile, keys: frozenset[str]) -> Iterator[_Marked]:
    """The files of those `keys` that `winner` left in place with another vector: key and vector before, file and vector after."""
    names = file_keys(winner.removes).to_pylist()
    rows = [row for row, key in enumerate(names) if key in keys]
    if not rows:
        return
    removed = winner.removes.take(pa.array(rows))
    paths = canonical_paths(whole(removed["path"]))
    files = add_files(winner.adds.filter(pc.is_in(canonical_paths(whole(winner.adds["path"])), paths)))
    removals, additions = Counter(paths.to_pylist()), Counter(canonical_path(file.path) for file in files)
    after = {canonical_path(file.path): (file, file.deletion_vector) for file in files if file.deletion_vector is not None}
    for row, path, vector in zip(rows, paths.to_pylist(), removed["deletionVector"].to_pylist(), strict=True):
        if removals[path] == additions[path] == 1 and path in after:
            yield names[row], None if vector is None else DeletionVector.from_json(vector), *after[path]


def _on_top(mark: MarkedFile, gone: Positions, after: Positions, file: AddFile) -> MarkedFile:
    """The marked file with the rows of a winner's vector, too, which has `after` in place of `gone`."""
    try:
        all_rows = _positions(decode(mark.vector))
    except MalformedBitmap as error:
        raise _Uncertain(str(error)) from error
    own = all_rows[~_within(all_rows, gone)]
    if len(own) + len(gone) != len(all_rows) or (len(after) and after[-1] >= mark.rows):
        raise _Uncertain("a vector does not belong to the file")
    if _within(own, after).any():
        raise _Uncertain("it has deleted the same rows")
    return MarkedFile(file, mark.rows, encode(np.sort(np.concatenate((after, own)))))


def _positions(rows: RowSet) -> Positions:
    if rows.rows > _MOST_ROWS:
        raise _Uncertain(f"a vector deletes {rows.rows} rows")
    return rows.positions()


def _within(values: Positions, others: Positions) -> Mask:
    """For each of some values whether it is among others; both ascend."""
    if not len(others):
        return np.zeros(len(values), np.bool_)
    places = np.minimum(np.searchsorted(others, values), len(others) - 1)
    found: Mask = others[places] == values
    return found
