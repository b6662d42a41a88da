"""Where the pages of a column chunk are: by its offset index, or by a walk from page to page; and the index when they move."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from deltamerge.protocol.formats.thrift import I32, I64, LIST, STRUCT, Items, Malformed, Struct, read_struct, struct_bytes
from deltamerge.worker.parquet.footer import Chunk, ReadAt, get
from deltamerge.worker.parquet.plain import NotSpliceable, Reason

_INDEX = {1: LIST, 2: LIST}
_LOCATION = {1: I64, 2: I32, 3: I64}
_HEADER_BYTES = 4 << 10
DATA, DICTIONARY, DATA_V2 = 0, 2, 3
_NOTHING: Struct = {}


def offset_index(chunk: Chunk, data: bytes) -> Struct:
    """The offset index of a chunk, from its bytes. Raises NotSpliceable where its pages do not fill the chunk from end to end."""
    try:
        index, end = read_struct(data)
    except Malformed as error:
        raise NotSpliceable(Reason.INDEXES, str(error)) from error
    if end != len(data) or 1 not in index or any(_INDEX.get(id) != type for id, (type, _) in index.items()):
        raise NotSpliceable(Reason.INDEXES, "an offset index is not understood")
    place, row = chunk.meta[9][1], -1
    for location in locations(index):
        if {id: type for id, (type, _) in location.items()} != _LOCATION or location[1][1] != place or location[3][1] <= row:
            raise NotSpliceable(Reason.PAGES, "an offset index has others")
        place, row = place + location[2][1], location[3][1]
    if place != chunk.end:
        raise NotSpliceable(Reason.PAGES, "an offset index has others")
    return index


def locations(index: Struct) -> Sequence[Struct]:
    """The places of pages in an offset index, each with its length and its first row."""
    found = index[1][1]
    if found.values and found.type != STRUCT:
        raise NotSpliceable(Reason.INDEXES, "an offset index is not understood")
    values: Sequence[Struct] = found.values
    return values


def moved_index(index: Struct, by: int) -> bytes:
    """The bytes of an offset index whose pages lie so many bytes further on."""
    places = tuple({**location, 1: (I64, location[1][1] + by)} for location in locations(index))
    return struct_bytes({**index, 1: (LIST, Items(STRUCT, places))})


@dataclass(frozen=True, slots=True)
class Walked:
    """A page that a walk came by: its kind, its first byte and the one behind its last; if it has data, its values, how many of
    them its header says to be null (None where it does not say so), and the statistics in its header.
    """

    kind: int
    start: int
    end: int
    values: int
    nulls: int | None
    said: Struct


def walked(chunk: Chunk, read_at: ReadAt) -> Iterator[Walked]:
    """The pages from one to the next. Raises NotSpliceable where they do not fill the chunk, or have more or fewer values than
    it.
    """
    place, values = chunk.start, 0
    while place < chunk.end:
        try:
            header, length = read_struct(read_at(min(_HEADER_BYTES, chunk.end - place), place))
        except Malformed as error:
            raise NotSpliceable(Reason.PAGES, str(error)) from error
        kind, size = get(header, 1), get(header, 3)
        if not isinstance(size, int) or size < 0 or not _may_be(kind, place, chunk):
            raise NotSpliceable(Reason.PAGES)
        count, nulls, said = 0, None, _NOTHING
        if kind in (DATA, DATA_V2):
            page = get(header, 5 if kind == DATA else 8)
            count, (nulls, said) = _count(page), _said(kind, page)
        elif kind != DICTIONARY:
            raise NotSpliceable(Reason.PAGES, "a page is of an unknown kind")
        values += count
        yield Walked(kind, place, place + length + size, count, nulls, said)
        place += length + size
    if place != chunk.end or values != chunk.values:
        raise NotSpliceable(Reason.PAGES)


def _may_be(kind: object, place: int, chunk: Chunk) -> bool:
    """Whether a page of a kind may begin at a place: a dictionary comes first, and old writers take it for data."""
    first = chunk.meta[9][1]
    return (kind == DICTIONARY) == (place < first) or (kind == DICTIONARY and place == chunk.start == first)


def _count(page: object) -> int:
    count = get(page, 1) if isinstance(page, dict) else None
    if not isinstance(count, int) or count < 0:
        raise NotSpliceable(Reason.PAGES)
    return count


def _said(kind: int, page: Struct) -> tuple[int | None, Struct]:
    """How many values of a page are null, and its statistics, as far as its header says so."""
    found = get(page, 5 if kind == DATA else 8)
    said = found if isinstance(found, dict) else _NOTHING
    nulls = get(said, 3) if kind == DATA else get(page, 2)
    return nulls if isinstance(nulls, int) else None, said
