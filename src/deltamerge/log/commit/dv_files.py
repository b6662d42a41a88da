"""Files of deletion vectors, and the actions that name them.

Source: PROTOCOL.md, "Deletion Vector Files", "Per-file Statistics"; delta-spark's updateStatsToWideBounds.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from deltamerge.errors import StorageError
from deltamerge.protocol.formats.json_text import json_value
from deltamerge.protocol.formats.roaring import decode
from deltamerge.protocol.table.actions import AddFile, DeletionVector, RemoveFile
from deltamerge.protocol.table.deletion_vector import RELATIVE, file_of_vectors, vector_file_name, z85_encode
from deltamerge.storage import Store

_MOST_BYTES = 256 << 20


@dataclass(frozen=True)
class MarkedFile:
    """A data file that stays, of `rows` rows, those in the encoded `vector` deleted: all of them, those that were before, too.

    `file` is as the table has it before. `place` is where the vector is, None until it is written.
    """

    file: AddFile
    rows: int
    vector: bytes = field(repr=False)
    place: DeletionVector | None = None

    def actions(self, now: int) -> tuple[RemoveFile, AddFile]:
        """What a commit says of the file, at `now` in ms. The vector has its place."""
        assert self.place is not None, self.file.path
        return self.file.removed(now), with_vector(self.file, self.place, self.rows)


def placed(store: Store, marked: Sequence[MarkedFile]) -> tuple[tuple[MarkedFile, ...], list[str]]:
    """The same files with each vector in its place, and the names of the files that were written. Raises as `write_vectors`."""
    waiting = [mark for mark in marked if mark.place is None]
    places, names = write_vectors(store, [(mark.vector, decode(mark.vector).rows) for mark in waiting])
    found = iter(places)
    return tuple(replace(mark, place=next(found)) if mark.place is None else mark for mark in marked), names


def write_vectors(store: Store, vectors: Sequence[tuple[bytes, int]]) -> tuple[list[DeletionVector], list[str]]:
    """Write encoded vectors, each with its number of rows; their descriptors in order, and the names of the files.

    All go to one file at the table's root, but for the sake of 32-bit offsets. Raises StorageError; nothing is then left.
    """
    descriptors: list[DeletionVector] = []
    names: list[str] = []
    try:
        for group in _groups(vectors):
            id = uuid.uuid4()
            data, offsets = file_of_vectors([vector for vector, _ in group])
            names.append(vector_file_name(id))
            store.put(names[-1], data)
            where = z85_encode(id.bytes)
            for (vector, rows), offset in zip(group, offsets, strict=True):
                descriptors.append(DeletionVector(RELATIVE, where, len(vector), rows, offset))
    except BaseException:
        for name in names:
            with contextlib.suppress(OSError, StorageError):
                store.delete(name)
        raise
    return descriptors, names


def _groups(vectors: Sequence[tuple[bytes, int]]) -> list[list[tuple[bytes, int]]]:
    groups: list[list[tuple[bytes, int]]] = []
    room = 0
    for vector in vectors:
        if len(vector[0]) > room:
            groups.append([])
            room = _MOST_BYTES
        groups[-1].append(vector)
        room -= len(vector[0])
    return groups


def with_vector(file: AddFile, vector: DeletionVector, rows: int) -> AddFile:
    """The same data file, of `rows` rows, with another deletion vector; its bounds are those of more rows than it shows."""
    deleted = file.deletion_vector.cardinality if file.deletion_vector else 0
    return replace(file, deletion_vector=vector, stats=wide_stats(file.stats, rows, deleted))


def wide_stats(stats: str | None, rows: int, deleted: int) -> str:
    """Statistics of a file of `rows` rows, `deleted` of which were not counted, that stay true when more rows are deleted.

    A null count then only says whether all rows or none are null, where all are all that the file has. Numbers keep their text.
    """
    try:
        found = json_value(stats or "{}", parse_int=_Number, parse_float=_Number, parse_constant=_Number)
    except ValueError:
        found = {}
    found = found if isinstance(found, dict) else {}
    if deleted and found.get("tightBounds", True) and isinstance(found.get("nullCount"), dict):
        found["nullCount"] = _replaced(found["nullCount"], str(rows - deleted), _Number(rows))
    return _text({**found, "numRecords": _Number(rows), "tightBounds": False})


class _Number(str):
    """A number by its text."""

    __slots__ = ()


def _replaced(counts: dict[str, Any], old: str, new: _Number) -> dict[str, Any]:
    return {
        name: _replaced(count, old, new) if isinstance(count, dict) else new if count == old else count
        for name, count in counts.items()
    }


def _text(value: Any) -> str:
    if isinstance(value, _Number):
        return value
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key, ensure_ascii=False)}:{_text(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_text, value)) + "]"
    return json.dumps(value, ensure_ascii=False)
