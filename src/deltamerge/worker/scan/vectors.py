"""The deletion vector of a data file, read where the file is read. What is damaged is refused by the data file's name."""

from __future__ import annotations

from dataclasses import dataclass

from deltamerge.errors import CorruptTableError
from deltamerge.protocol.formats.roaring import Mask, RowSet
from deltamerge.protocol.table.actions import DeletionVector
from deltamerge.protocol.table.deletion_vector import check_rows, deleted_rows
from deltamerge.worker.scan.row_errors import Refused
from deltamerge.worker.scan.store import DataStore


@dataclass(frozen=True)
class Vector:
    """A deletion vector as a worker finds it: in the file `name` of `store`; an inline one is in its descriptor."""

    descriptor: DeletionVector
    store: DataStore | None = None
    name: str = ""


def read_vector(vector: Vector | None, of: str, rows: int) -> RowSet:
    """The deleted rows of the data file `of`, which has `rows` rows. Raises Refused naming it when the vector is damaged."""
    if vector is None:
        return RowSet()
    try:
        found = _read(vector, of)
        check_rows(found, rows, of)
    except CorruptTableError as error:
        raise Refused(error.condition, error.detail, of) from error
    return found


def _read(vector: Vector, of: str) -> RowSet:
    if vector.store is None:
        return deleted_rows(vector.descriptor, lambda offset, size: b"", of)
    with vector.store.open(vector.name) as source:
        length = int(source.size())

        def read(offset: int, size: int) -> bytes:
            # A damaged descriptor may ask for more than there is, and room is made for what is asked.
            return bytes(source.read_at(max(0, min(size, length - offset)), offset))

        return deleted_rows(vector.descriptor, read, of)


def shown(deleted: RowSet, among: RowSet | None, first: int, count: int) -> Mask | None:
    """Which of `count` rows from position `first` on are not deleted, and are `among` some if they are given; None for all."""
    alive = living(deleted, first, count)
    if among is None:
        return alive
    inside = among.mask(first, count)
    return inside if alive is None else alive & inside


def living(deleted: RowSet, first: int, count: int) -> Mask | None:
    """Which of `count` rows from position `first` on are not deleted; None for all."""
    if not deleted.containers:
        return None
    found = ~deleted.mask(first, count)
    return None if found.all() else found
