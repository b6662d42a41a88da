"""How large columns of Parquet files are once they are decoded: found before they are.

A few bytes of a page can stand for a million rows, or for one text of a gigabyte. What a footer says of sizes is not believed:
the headers of the pages are what Arrow allocates by.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from deltamerge.protocol.formats.parquet_file import ColumnChunk, ParquetFile
from deltamerge.protocol.formats.thrift import Malformed, Struct, read_struct

MOST_BYTES, MOST_TIMES = 256 << 20, 100
# A value that is in Python's own objects, as those of few actions are, takes so many times its bytes in Arrow.
OBJECT_TIMES = 16
# A number or an offset, its levels and whether it is null.
_VALUE_BYTES = 16
_BATCH_BYTES = 16 << 20
# A bound on the texts of a column chunk that is above so many bytes and times the bytes of its pages is replaced by their sum.
_SMALL_BYTES, _LIKELY_TIMES = 1 << 16, 4
_HEADER_BYTES = 1 << 16
_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3
_PLAIN, _PLAIN_DICTIONARY, _DELTA_LENGTHS, _SPLIT, _RLE_DICTIONARY = 0, 2, 6, 9, 8
_CODED = (_PLAIN_DICTIONARY, _RLE_DICTIONARY)
_AS_THEY_ARE = (_PLAIN, _DELTA_LENGTHS, _SPLIT)


class TooLarge(ValueError):
    """The file would take more memory than it may; the message says how much that is."""


@dataclass(frozen=True, slots=True)
class _Page:
    """A page of so many values and so many bytes after decompression, or before if those are more: Arrow does not look at the
    size of a page that is not compressed. `encoding` is None for a dictionary.
    """

    encoding: int | None
    values: int
    size: int


class DecodedSize:
    """What is decoded of the files that make up one thing, added up; safe to share between threads.

    Raises TooLarge as soon as it is more than those files may take.
    """

    def __init__(self) -> None:
        self._most, self._spent = MOST_BYTES, 0
        self._lock = threading.Lock()

    def allow(self, file_bytes: int) -> None:
        """One more file, of so many bytes."""
        with self._lock:
            self._most += MOST_TIMES * file_bytes

    def add(self, size: int) -> None:
        """So many bytes more are decoded."""
        with self._lock:
            self._spent += size
        if self._spent > self._most:
            raise TooLarge(f"decoded it takes more than the {self._most} bytes that it may take")

    def add_columns(self, data: bytes, file: ParquetFile, columns: Sequence[str], group: int) -> None:
        """The given columns of a row group of `file`, whose bytes are `data`, with all that is below them."""
        for number in range(len(file.schema)):
            leaf = file.schema.column(number)
            if any(leaf.path == name or leaf.path.startswith(f"{name}.") for name in columns):
                self._add_chunk(data, file, group, number)

    def _add_chunk(self, data: bytes, file: ParquetFile, group: int, number: int) -> None:
        chunk, leaf = file.chunks.chunk(group, number), file.schema.column(number)
        self.add(_VALUE_BYTES * max(0, chunk.values))
        pages = []
        for page in _pages(data, chunk, leaf.path):
            # Arrow holds one page of a column at a time, whose values it then has, too.
            self.add(page.size)
            pages.append(page)
        if not leaf.physical_type.endswith("ARRAY"):
            return
        if leaf.length > 0:  # each value, nulls too, has so many bytes
            self.add(leaf.length * max(0, chunk.values))
            return
        if any(page.encoding not in (None, *_CODED, *_AS_THEY_ARE) for page in pages):
            self._add_in_batches(file, group, number, chunk.values, max(page.size for page in pages))
            return
        coded = sum(page.values for page in pages if page.encoding in _CODED)
        most = coded * max((page.size for page in pages if page.encoding is None), default=0)
        likely = _LIKELY_TIMES * sum(page.size for page in pages) + _SMALL_BYTES
        # Arrow reads a dictionary behind plain values, too; then the first row is not one of it.
        if most > likely and pages[0].encoding is None:
            self._add_coded(data, group, leaf.path, coded, likely)
        else:
            self.add(most)

    def _add_coded(self, data: bytes, group: int, path: str, values: int, likely: int) -> None:
        """A column of which so many values are numbers of those of a dictionary: as such it is no larger than its pages."""
        file = pq.ParquetFile(pa.BufferReader(data), read_dictionary=[path])
        first = next(file.iter_batches(1, [group], [path], use_threads=False), None)
        dictionaries = [] if first is None else [part.dictionary for part in _dictionaries(first.column(0))]
        longest = max((pc.max(_lengths(part)).as_py() for part in dictionaries if len(part)), default=None)
        if longest is not None and longest * values <= likely:
            self.add(longest * values)
            return
        for column in file.read_row_group(group, [path]).columns:
            for part in column.chunks:
                for found in _dictionaries(part):
                    self.add(pc.sum(_lengths(found.dictionary).take(found.indices), min_count=0).as_py())

    def _add_in_batches(self, file: ParquetFile, group: int, number: int, values: int, page_bytes: int) -> None:
        """A column in which values are made of those before them: each may be as long as a page, so that few are read at once."""
        leaf = file.schema.column(number)
        if leaf.max_repetition_level:  # a row may have any number of them
            self.add(values * page_bytes)
            return
        rows = max(1, _BATCH_BYTES // max(page_bytes, 1))
        for batch in file.iter_batches(rows, [group], [leaf.path], use_threads=False):
            self.add(batch.nbytes)


def _lengths(texts: pa.Array) -> pa.Array:
    return pc.binary_length(texts).cast(pa.int64())


def _dictionaries(values: pa.Array) -> Iterator[pa.DictionaryArray]:
    if pa.types.is_dictionary(values.type):
        yield values
    elif pa.types.is_struct(values.type):
        for number in range(values.type.num_fields):
            yield from _dictionaries(values.field(number))
    elif pa.types.is_map(values.type):
        yield from _dictionaries(values.keys)
        yield from _dictionaries(values.items)
    elif pa.types.is_list(values.type):
        yield from _dictionaries(values.values)


def _pages(data: bytes, chunk: ColumnChunk, path: str) -> Iterator[_Page]:
    """The pages that a reader of a column chunk reads: until there are as many values as its footer says."""
    at, seen = chunk.first_page, 0
    while seen < chunk.values and 0 <= at < len(data):
        try:
            header, length = read_struct(data[at : at + _HEADER_BYTES])
        except Malformed as error:
            raise ValueError(f"a page of {path} has a damaged header: {error}") from error
        page = _page(header)
        yield page
        seen += 0 if page.encoding is None else page.values
        at += length + _number(header, 3)


def _page(header: Struct) -> _Page:
    kind = _number(header, 1)
    size = max(_number(header, 2), _number(header, 3))
    if kind == _DICTIONARY:
        return _Page(None, 0, size)
    fields, encoding = (5, 2) if kind == _DATA else (8, 4)
    inner = header[fields][1] if kind in (_DATA, _DATA_V2) and fields in header else None
    if not isinstance(inner, dict):
        raise ValueError("a page is of an unknown kind")
    return _Page(_number(inner, encoding), _number(inner, 1), size)


def _number(fields: Struct, id: int) -> int:
    found = fields[id][1] if id in fields else None
    if not isinstance(found, int) or isinstance(found, bool) or found < 0:
        raise ValueError("the header of a page is damaged")
    return found
