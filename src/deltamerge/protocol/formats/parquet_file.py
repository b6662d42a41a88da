"""A Parquet file as PyArrow opens it, and what its footer says of column chunks, read without PyArrow.

A footer that is damaged at the right place ends the process where PyArrow is asked for the metadata of a column chunk or for its
statistics: C++ throws there, and nobody can catch it (seen in 18 and 26: bounds that are too short, histograms of another size).
To open such a file and to read its rows is safe.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from deltamerge.protocol.formats.thrift import (
    BINARY,
    I32,
    I64,
    LIST,
    STRUCT,
    Malformed,
    Struct,
    number_at,
    places,
    read_struct,
    struct_places,
)

_MAGIC = b"PAR1"
_TAIL_BYTES = 64 << 10  # a request to an object store costs more than so many bytes
_BY_TYPE = 1
_WIDTHS = {1: 4, 2: 8}  # of INT32 and INT64
_INT96 = 3  # has no order that all writers keep

# The type of each field and where its value begins.
Places = Mapping[int, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class ColumnChunk:
    """What a footer says of a column chunk: its physical type, its values, nulls included, its bytes after decompression, where
    its first page is, how many values are null, and the smallest and the largest of the others as they are stored; None for
    what it doesn't say.
    """

    kind: int
    values: int
    size: int
    first_page: int
    nulls: int | None
    bounds: tuple[bytes, bytes] | None

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
        fields, _ = places(footer)
        groups = struct_places(footer, _place(fields, 4, LIST))
        self._groups = [struct_places(footer, _place(places(footer, at)[0], 1, LIST)) for at in groups]
        self._by_type = self._orders(fields)

    def _orders(self, fields: Places) -> list[bool]:
        """Of each leaf column, whether its bounds are those by the order of its type."""
        if 7 not in fields:
            return []
        return [set(places(self._footer, at)[0]) == {_BY_TYPE} for at in struct_places(self._footer, _place(fields, 7, LIST))]

    def chunk(self, group: int, number: int) -> ColumnChunk:
        """The chunk of a row group and a leaf column, both by number."""
        try:
            fields, _ = places(self._footer, self._groups[group][number])
        except IndexError as error:
            raise Malformed(f"the row group {group} lacks a column chunk") from error
        meta, _ = places(self._footer, _place(fields, 3, STRUCT))
        dictionary, first = self._number(meta, 11) if 11 in meta else 0, self._number(meta, 9)
        values, size = self._number(meta, 5), self._number(meta, 6)
        statistics: Struct = read_struct(self._footer, _place(meta, 12, STRUCT))[0] if 12 in meta else {}
        by_type = number < len(self._by_type) and self._by_type[number]
        kind, nulls = self._number(meta, 1), _get(statistics, 3, I64)
        bounds = None if kind == _INT96 else _bounds(statistics, by_type, _WIDTHS.get(kind))
        return ColumnChunk(kind, values, size, dictionary if 0 < dictionary < first else first, nulls, bounds)

    def _number(self, fields: Places, id: int) -> int:
        return number_at(self._footer, _place(fields, id, I32, I64))


class ParquetFile(pq.ParquetFile):  # type: ignore[misc]
    """PyArrow's, with its options, of a source that is asked once for its last bytes."""

    def __init__(self, source: pa.NativeFile, **options: Any) -> None:
        self._footer = _footer(source)
        metadata = None
        if self._footer is not None:
            end = len(self._footer).to_bytes(4, "little") + _MAGIC
            metadata = pq.read_metadata(pa.BufferReader(_MAGIC + self._footer + end))
        super().__init__(source, metadata=metadata, **options)
        self._chunks: ColumnChunks | None = None
        self._top_level: dict[str, int] | None = None

    @property
    def top_level(self) -> dict[str, int]:
        """Leaf columns that are within no other: their numbers by name. Raises UnicodeDecodeError for one that is no text."""
        if self._top_level is None:
            leaves = [self.schema.column(number) for number in range(len(self.schema))]
            self._top_level = {leaf.name: number for number, leaf in enumerate(leaves) if leaf.name == leaf.path}
        return self._top_level

    @property
    def chunks(self) -> ColumnChunks:
        """What the footer says of column chunks. Raises Malformed."""
        if self._footer is None:
            raise Malformed("it has no footer")
        if self._chunks is None:
            self._chunks = ColumnChunks(self._footer)
        return self._chunks


def _footer(source: pa.NativeFile) -> bytes | None:
    """The bytes of a footer; None where there is none that is plain, of which PyArrow says what is wrong with it."""
    size = source.size()
    begin = max(0, size - _TAIL_BYTES)
    tail = source.read_at(size - begin, begin)
    length = int.from_bytes(tail[-8:-4], "little")
    if tail[-4:] != _MAGIC or not 0 < length <= size - 12:
        return None
    start = size - 8 - length
    return tail[start - begin : -8] if start >= begin else bytes(source.read_at(length, start))


def _place(fields: Places, id: int, *types: int) -> int:
    if id not in fields or fields[id][0] not in types:
        raise Malformed(f"the field {id} is missing")
    return fields[id][1]


def _get(fields: Struct, id: int, type: int) -> Any:
    return fields[id][1] if id in fields and fields[id][0] == type else None


def _bounds(statistics: Struct, by_type: bool, width: int | None) -> tuple[bytes, bytes] | None:
    """The least and the greatest value. Those of whole numbers are the same by the order of their type and by that of Java, in
    which the old fields are; others only count where the footer says that they are by the order of their type.
    """
    for low, high in ((6, 5), (2, 1)):
        found = _get(statistics, low, BINARY), _get(statistics, high, BINARY)
        if None not in found and (by_type and low == 6 if width is None else len(found[0]) == len(found[1]) == width):
            return found
    return None
