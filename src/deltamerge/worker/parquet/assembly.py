"""A Parquet file that is put together from column chunks that are there as bytes: row groups, their indexes, and the footer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from deltamerge.protocol.formats.parquet_file import MAGIC
from deltamerge.protocol.formats.thrift import BINARY, I32, I64, LIST, Items, Struct
from deltamerge.worker.parquet.encode import EncodedChunk
from deltamerge.worker.parquet.footer import (
    Chunk,
    Footer,
    footer_bytes,
    group_fields,
    moved,
    with_meta,
    with_place,
    without_nan,
)
from deltamerge.worker.parquet.places import locations, moved_index, offset_index


@dataclass(frozen=True)
class Behind:
    """What belongs to a chunk and lies behind all of them: its indexes, how far it moved, and its Bloom filter."""

    offsets: Struct | None
    by: int
    column_index: bytes | None = None
    bloom: tuple[int, int] | None = None


@dataclass
class _Group:
    """A row group of the file: its rows, and its chunks where they are; what is sorted is as in `kept`."""

    rows: int
    chunks: list[Chunk]
    indexes: list[Behind]
    kept: Struct | None = None


class Assembly:
    """A file of row groups that come in their order, and their chunks in that of the schema's leaves. `write` takes its bytes."""

    def __init__(self, write: Callable[[Any], None]) -> None:
        self._write = write
        self._groups: list[_Group] = []
        self.at = 0

    @property
    def is_empty(self) -> bool:
        """Whether there is no row group."""
        return not self._groups

    def begin(self, rows: int, kept: Struct | None = None) -> None:
        """Begin a row group of so many rows; what is sorted in it is as in the group of `kept` fields."""
        if not self.at:
            self.put(MAGIC)
        self._groups.append(_Group(rows, [], [], kept))

    def put(self, data: Any) -> None:
        """Write the next bytes."""
        self._write(data)
        self.at += len(data)

    def add(self, chunk: Chunk, behind: Behind) -> None:
        """The next chunk, where it is in this file; whoever adds it puts its bytes there."""
        self._groups[-1].chunks.append(chunk)
        self._groups[-1].indexes.append(behind)

    def add_encoded(self, encoded: EncodedChunk, path: tuple[bytes, ...] | None = None) -> None:
        """The next chunk, with its bytes; its names are those of a `path`, if that is given."""
        chunk = encoded.chunk
        placed = moved(chunk, self.at)
        if path is not None:
            placed = with_meta(placed, {**placed.meta, 3: (LIST, Items(BINARY, path))})
        self.put(encoded.data)
        by = placed.start - chunk.start
        # Of NaN alone Arrow writes no column index.
        offsets = offset_index(chunk, encoded.index(4)) if 4 in chunk.fields else None
        self.add(placed, Behind(offsets, by, encoded.index(6) if 6 in chunk.fields else None))

    def align_indexes(self) -> None:
        """Leave out the column indexes of the last row group if pages of its chunks begin at different rows.

        Parquet's Java library may give a wrong value for the last row that it finds by such pages: GH-3747 of
        apache/parquet-java.
        """
        group = self._groups[-1]
        if not _are_aligned(group.indexes):
            group.indexes = [replace(behind, column_index=None) for behind in group.indexes]

    def finish(
        self, base: Footer, name: str, nan_free: Collection[tuple[str, ...]], bloom: Callable[[int, int], bytes] | None = None
    ) -> pq.FileMetaData:
        """Write what lies behind the row groups, with the schema of `base`; the metadata with all bounds.

        The columns `nan_free` have no NaN; of others with floating numbers the file has no bounds. `bloom` reads so many bytes
        of a Bloom filter at a place.
        """
        chunks = [(group, number, behind) for group in self._groups for number, behind in enumerate(group.indexes)]
        for group, number, behind in chunks:
            if behind.bloom is not None and bloom is not None:
                self._put_bloom(group, number, behind.bloom, bloom)
        for group, number, behind in chunks:
            if behind.column_index is not None and without_nan(group.chunks[number], nan_free) is group.chunks[number]:
                self._put_at(group, number, 6, behind.column_index)
        for group, number, behind in chunks:
            if behind.offsets is not None:
                self._put_at(group, number, 4, moved_index(behind.offsets, behind.by))
        metadata = pq.read_metadata(pa.BufferReader(MAGIC + self._footer(base, name, nan_free)))
        for group in self._groups:
            group.chunks = [without_nan(chunk, nan_free) for chunk in group.chunks]
        self.put(self._footer(base, name, nan_free))
        return metadata

    def _footer(self, base: Footer, name: str, nan_free: Collection[tuple[str, ...]]) -> bytes:
        groups = [group_fields(group.rows, group.chunks, number, group.kept) for number, group in enumerate(self._groups)]
        return footer_bytes(base, groups, name, nan_free)

    def _put_at(self, group: _Group, number: int, id: int, data: bytes) -> None:
        group.chunks[number] = with_place(group.chunks[number], id, (self.at, len(data)))
        self.put(data)

    def _put_bloom(self, group: _Group, number: int, place: tuple[int, int], read: Callable[[int, int], bytes]) -> None:
        start, length = place
        chunk = group.chunks[number]
        group.chunks[number] = with_meta(chunk, {**chunk.meta, 14: (I64, self.at), 15: (I32, length)})
        self.put(read(length, start))


def _are_aligned(indexes: Sequence[Behind]) -> bool:
    """Whether the pages of all chunks of a row group begin at the same rows."""
    firsts = [None if one.offsets is None else [place[3][1] for place in locations(one.offsets)] for one in indexes]
    return firsts[0] is not None and all(first == firsts[0] for first in firsts)
