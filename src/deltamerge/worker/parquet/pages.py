"""The pages of a column chunk without repeated values: where they are, their headers, and a chunk of other pages in their places.

Source: parquet-format's README.md, PageIndex.md and parquet.thrift.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from deltamerge.protocol.formats.thrift import I32, I64, LIST, STRUCT, Items, Malformed, Struct, read_struct, struct_bytes
from deltamerge.worker.parquet.footer import Chunk, ReadAt, get
from deltamerge.worker.parquet.places import DATA, DATA_V2, DICTIONARY, locations, walked
from deltamerge.worker.parquet.plain import NotPaged, NotSpliceable, Whole

PLAIN, PLAIN_DICTIONARY, RLE, RLE_DICTIONARY = 0, 2, 3, 8
DICTIONARY_ENCODINGS = (PLAIN_DICTIONARY, RLE_DICTIONARY)
_DETAILS = {DATA: 5, DICTIONARY: 7, DATA_V2: 8}
_ENCODING = {DATA: 2, DICTIONARY: 2, DATA_V2: 4}


@dataclass(frozen=True, slots=True)
class Page:
    """A data page: its first byte in the file and the one behind its last, its first row in the row group, and its rows."""

    start: int
    end: int
    first: int
    rows: int


def pages_of(chunk: Chunk, index: Struct | None, rows: int, read_at: ReadAt) -> tuple[Page, ...]:
    """The data pages of a chunk that has one value a row, by its offset index, or by a walk. Raises NotPaged."""
    if index is None:
        try:
            found = [page for page in walked(chunk, read_at) if page.kind != DICTIONARY]
        except NotSpliceable as error:
            raise NotPaged(Whole.PAGES) from error
        places, firsts = [(page.start, page.end) for page in found], []
        first = 0
        for page in found:
            firsts.append(first)
            first += page.values
        if first != rows:
            raise NotPaged(Whole.PAGES)
    else:
        known = locations(index)
        places = [(at[1][1], at[1][1] + at[2][1]) for at in known]
        firsts = [at[3][1] for at in known]
    ends = [*firsts[1:], rows]
    if not firsts or firsts[0] != 0 or any(one >= other for one, other in zip(firsts, ends, strict=True)):
        raise NotPaged(Whole.PAGES)
    return tuple(Page(*place, first, end - first) for place, first, end in zip(places, firsts, ends, strict=True))


@dataclass(frozen=True)
class Header:
    """What a page's header says: the page's kind, its encoding, its values, and its bytes before and after compression."""

    kind: int
    encoding: int
    values: int
    unpacked: int
    packed: int
    length: int

    @property
    def is_against_dictionary(self) -> bool:
        """Whether the page has places in the chunk's dictionary for values."""
        return self.encoding in DICTIONARY_ENCODINGS

    @property
    def whole(self) -> int:
        """The bytes of the page with its header, uncompressed."""
        return self.unpacked + self.length


def header_of(data: bytes, kinds: Iterable[int]) -> Header:
    """The header of a page that is one of some kinds and fills the bytes. Raises NotPaged."""
    try:
        fields, length = read_struct(data)
    except Malformed as error:
        raise NotPaged(Whole.PAGES) from error
    kind = get(fields, 1)
    details = get(fields, _DETAILS.get(kind, -1), {})
    if kind not in kinds or not isinstance(details, dict):
        raise NotPaged(Whole.PAGES)
    numbers = get(details, _ENCODING[kind]), get(details, 1), get(fields, 2), get(fields, 3)
    if not all(isinstance(number, int) and number >= 0 for number in numbers) or length + numbers[3] != len(data):
        raise NotPaged(Whole.PAGES)
    if kind == DATA_V2 and get(details, 3) != numbers[1]:
        raise NotPaged(Whole.PAGES)
    return Header(kind, *numbers, length)


def data_page(body: bytes, unpacked: int, values: int, encoding: int) -> bytes:
    """A data page of the first version of a body that is compressed, of which `unpacked` says how long it was."""
    return _page(DATA, body, unpacked, {1: (I32, values), 2: (I32, encoding), 3: (I32, RLE), 4: (I32, RLE)})


def dictionary_page(body: bytes, unpacked: int, values: int, encoding: int) -> bytes:
    """A dictionary page of a body that is compressed, of which `unpacked` says how long it was."""
    return _page(DICTIONARY, body, unpacked, {1: (I32, values), 2: (I32, encoding)})


def _page(kind: int, body: bytes, unpacked: int, details: Struct) -> bytes:
    checksum = zlib.crc32(body)
    signed = checksum - (1 << 32) if checksum >> 31 else checksum
    fields: Struct = {1: (I32, kind), 2: (I32, unpacked), 3: (I32, len(body)), 4: (I32, signed)}
    return struct_bytes({**fields, _DETAILS[kind]: (STRUCT, details)}) + body


@dataclass(frozen=True)
class NewPage:
    """A page in the place of another: its bytes, and its rows."""

    data: bytes
    rows: int


@dataclass(frozen=True)
class PagedChunk:
    """A chunk of copied and of new pages, as if it began where the old one did: its bytes, or their places in the old file."""

    chunk: Chunk
    pieces: tuple[bytes | tuple[int, int], ...]
    offsets: Struct | None
    copied: int


def with_pages(
    chunk: Chunk,
    pages: Sequence[Page],
    new: dict[int, tuple[Header, Sequence[NewPage]]],
    indexed: bool,
    dictionary: tuple[Header, bytes] | None = None,
) -> PagedChunk:
    """The chunk with new pages in the places of some, of which the old headers are given. It has neither statistics nor
    a column index.

    It has another `dictionary` page if one is given, with the old one's header. A Bloom filter has no values of the new pages,
    and sizes and levels are of the old ones: the chunk is left without these.
    """
    at, row, unpacked, copied = pages[0].start, 0, chunk.meta[6][1], 0
    pieces: list[bytes | tuple[int, int]] = [(chunk.start, at)] if at > chunk.start else []
    if dictionary is not None:
        was, page_bytes = dictionary
        pieces = [page_bytes]
        at = chunk.start + len(page_bytes)
        unpacked += header_of(page_bytes, (DICTIONARY,)).whole - was.whole
    places: list[Struct] = []
    first = at
    encodings: Counter[tuple[int, int]] = Counter()
    for number, page in enumerate(pages):
        if number not in new:
            pieces.append((page.start, page.end))
            places.append(_location(at, page.end - page.start, row))
            at, row, copied = at + page.end - page.start, row + page.rows, copied + 1
            continue
        old, others = new[number]
        unpacked -= old.whole
        encodings[old.kind, old.encoding] -= 1
        for other in others:
            header = header_of(other.data, (DATA, DATA_V2))
            pieces.append(other.data)
            places.append(_location(at, len(other.data), row))
            at, row = at + len(other.data), row + other.rows
            unpacked += header.whole
            encodings[header.kind, header.encoding] += 1
    meta = {id: field for id, field in chunk.meta.items() if id not in (12, 13, 14, 15, 16)}
    if first > chunk.start:
        meta |= {9: (I64, first), 11: (I64, chunk.start)}
    meta |= {5: (I64, row), 6: (I64, unpacked), 7: (I64, at - chunk.start)}
    used = {encoding for (_, encoding), count in encodings.items() if count > 0}
    meta[2] = (LIST, Items(I32, tuple(dict.fromkeys((*chunk.meta[2][1].values, *sorted(used), RLE)))))
    counted = _counted(chunk, encodings)
    if counted is not None:
        meta[13] = (LIST, Items(STRUCT, counted))
    offsets: Struct | None = {1: (LIST, Items(STRUCT, tuple(places)))} if indexed else None
    changed = Chunk({2: (I64, 0), 3: (STRUCT, meta)}, meta, chunk.start, at)
    return PagedChunk(changed, tuple(pieces), offsets, copied)


def _location(start: int, length: int, row: int) -> Struct:
    return {1: (I64, start), 2: (I32, length), 3: (I64, row)}


def _counted(chunk: Chunk, changed: Counter[tuple[int, int]]) -> tuple[Struct, ...] | None:
    """How many pages there are of each kind and encoding; None where that was not said, or can't have been so."""
    if 13 not in chunk.meta:
        return None
    counts = Counter(changed)
    for known in chunk.meta[13][1].values:
        kind, encoding, count = (get(known, id) for id in (1, 2, 3))
        if not isinstance(kind, int) or not isinstance(encoding, int) or not isinstance(count, int):
            return None
        counts[kind, encoding] += count
    if any(count < 0 for count in counts.values()):
        return None
    # Dictionaries come first, as writers have it.
    order = sorted(counts.items(), key=lambda item: (item[0][0] != DICTIONARY, item[0]))
    return tuple({1: (I32, kind), 2: (I32, encoding), 3: (I32, count)} for (kind, encoding), count in order if count)
