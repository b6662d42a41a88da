"""A Parquet file as PyArrow opens it, and what its footer says of column chunks, read without PyArrow.

A footer that is damaged at the right place ends the process where PyArrow is asked for the metadata of a column chunk or for its
statistics: C++ throws there, and nobody can catch it (seen in 26: bounds that are too short, histograms of another size).
To open such a file and to read its rows is safe.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from deltamerge.protocol.formats.thrift import (
    BINARY,
    FALSE,
    I32,
    I64,
    LIST,
    STRUCT,
    Malformed,
    Struct,
    each_struct,
    number_at,
    places,
    read_struct,
    struct_end,
)

MAGIC = b"PAR1"
_TAIL_BYTES = 64 << 10  # one request for so many bytes costs less than two for fewer
_WIDE_BYTES = 1 << 20
_BY_TYPE = 1
_WIDTHS = {1: 4, 2: 8}  # of INT32 and INT64
_INT96 = 3  # has no order that all writers keep

# The type of each field and where its value begins.
Places = Mapping[int, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class ColumnChunk:
    """What a footer says of a column chunk."""

    kind: int  # the physical type
    values: int  # nulls included
    size: int  # bytes after decompression
    first_page: int  # where it begins in the file
    nulls: int | None  # None where the footer doesn't count them
    bounds: tuple[bytes, bytes] | None  # the smallest and the largest value as they are stored, None where they are not known
    exact: bool  # whether no bound is said to be below, or above, all values

    @property
    def numbers(self) -> tuple[int, int] | None:
        """The bounds of signed whole numbers, of dates, or of decimals without their point."""
        if self.bounds is None:
            return None
        order: Literal["little", "big"] = "little" if self.kind in _WIDTHS else "big"
        low, high = (int.from_bytes(bound, order, signed=True) for bound in self.bounds)
        return low, high


class ColumnChunks:
    """The column chunks that a footer names. Raises Malformed where it is damaged."""

    def __init__(self, footer: bytes) -> None:
        self._footer = footer
        self._groups: list[list[int]] = []
        fields, _ = places(footer, 0, {4: self._walk_groups})
        _place(fields, 4, LIST)
        orders: list[bool] = []
        if 7 in fields:
            each_struct(footer, _place(fields, 7, LIST), partial(self._walk_order, orders))
        self._by_type = orders

    def _walk_groups(self, at: int) -> int:
        return each_struct(self._footer, at, self._walk_group)

    def _walk_group(self, at: int) -> int:
        chunks: list[int] = []
        fields, end = places(self._footer, at, {1: partial(self._walk_chunks, chunks)})
        _place(fields, 1, LIST)
        self._groups.append(chunks)
        return end

    def _walk_chunks(self, chunks: list[int], at: int) -> int:
        def walk(at: int) -> int:
            chunks.append(at)
            return struct_end(self._footer, at)

        return each_struct(self._footer, at, walk)

    def _walk_order(self, orders: list[bool], at: int) -> int:
        """Whether the bounds of a leaf column are those by the order of its type."""
        fields, end = places(self._footer, at)
        orders.append(set(fields) == {_BY_TYPE})
        return end

    def chunk(self, group: int, number: int) -> ColumnChunk:
        """The chunk of a row group and a leaf column, both by number."""
        meta = self._meta(group, number)
        dictionary, first = self._number(meta, 11) if 11 in meta else 0, self._number(meta, 9)
        values, size = self._number(meta, 5), self._number(meta, 6)
        statistics: Struct = read_struct(self._footer, _place(meta, 12, STRUCT))[0] if 12 in meta else {}
        by_type = number < len(self._by_type) and self._by_type[number]
        kind, nulls = self._number(meta, 1), _get(statistics, 3, I64)
        bounds = None if kind == _INT96 else _bounds(statistics, by_type, _WIDTHS.get(kind))
        exact = all(_get(statistics, id, FALSE) is None for id in (7, 8))
        return ColumnChunk(kind, values, size, dictionary if 0 < dictionary < first else first, nulls, bounds, exact)

    def size(self, group: int, number: int) -> int:
        """The bytes of a chunk after decompression."""
        return self._number(self._meta(group, number), 6)

    def _meta(self, group: int, number: int) -> Places:
        try:
            fields, _ = places(self._footer, self._groups[group][number])
        except IndexError as error:
            raise Malformed(f"the row group {group} lacks a column chunk") from error
        return places(self._footer, _place(fields, 3, STRUCT))[0]

    def _number(self, fields: Places, id: int) -> int:
        return number_at(self._footer, _place(fields, id, I32, I64))


class ParquetFile(pq.ParquetFile):  # type: ignore[misc]
    """PyArrow's, with its options, of a source that is asked once for its last bytes.

    `footer` has the bytes of the footer, None where there is none that is plain, of which PyArrow says what is wrong with it.
    """

    def __init__(self, source: pa.NativeFile, **options: Any) -> None:
        self.footer = raw_footer(source.read_at, source.size())
        metadata = None
        if self.footer is not None:
            end = len(self.footer).to_bytes(4, "little") + MAGIC
            metadata = pq.read_metadata(pa.BufferReader(MAGIC + self.footer + end))
        super().__init__(source, metadata=metadata, **options)
        self._chunks: ColumnChunks | None = None
        self._top_level: dict[str, int] | None = None

    @property
    def top_level(self) -> dict[str, int]:
        """The leaf columns that are within no other, without names that several have: their numbers by name.

        Raises UnicodeDecodeError for a name that is no text.
        """
        if self._top_level is None:
            leaves = [self.schema.column(number) for number in range(len(self.schema))]
            counts = Counter(leaf.path for leaf in leaves)
            self._top_level = {
                leaf.name: number for number, leaf in enumerate(leaves) if leaf.name == leaf.path and counts[leaf.path] == 1
            }
        return self._top_level

    @property
    def is_wide(self) -> bool:
        """Whether the footer is so large that to walk through it takes longer than to read a few columns."""
        return self.footer is not None and len(self.footer) > _WIDE_BYTES

    @property
    def chunks(self) -> ColumnChunks:
        """What the footer says of column chunks, 10 microseconds each. Raises Malformed."""
        if self.footer is None:
            raise Malformed("it has no footer")
        if self._chunks is None:
            self._chunks = ColumnChunks(self.footer)
        return self._chunks


def raw_footer(read_at: Callable[[int, int], bytes], size: int) -> bytes | None:
    """The bytes of the footer of a file of so many bytes, None where there is none that is plain. `read_at` gives so many bytes,
    from a place on.
    """
    begin = max(0, size - _TAIL_BYTES)
    tail = read_at(size - begin, begin)
    length = int.from_bytes(tail[-8:-4], "little")
    if tail[-4:] != MAGIC or not 0 < length <= size - 12:
        return None
    start = size - 8 - length
    return bytes(tail[start - begin : -8] if start >= begin else read_at(length, start))


def _place(fields: Places, id: int, *types: int) -> int:
    if id not in fields or fields[id][0] not in types:
        raise Malformed(f"the field {id} is missing")
    return fields[id][1]


def _get(fields: Struct, id: int, type: int) -> Any:
    return fields[id][1] if id in fields and fields[id][0] == type else None


def _bounds(statistics: Struct, by_type: bool, width: int | None) -> tuple[bytes, bytes] | None:
    """The least and the greatest value, as PyArrow takes them. Where the footer says that bounds are by the order of the column's
    type, they are in the new fields (6, 5). Else only those of whole numbers count, in the old fields (2, 1).
    """
    low, high = (_get(statistics, id, BINARY) for id in ((6, 5) if by_type else (2, 1)))
    if low is None or high is None or (width is None and not by_type):
        return None
    return (low, high) if width is None or len(low) == len(high) == width else None
