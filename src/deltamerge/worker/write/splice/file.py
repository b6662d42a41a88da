"""A file that is written from the row groups and column chunks of another, and from rows."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from deltamerge.protocol.formats.thrift import BINARY, I32, I64, LIST, Items, Struct
from deltamerge.worker.parquet.footer import (
    MAGIC,
    Chunk,
    Footer,
    RowGroup,
    footer_bytes,
    get,
    group_fields,
    moved,
    parse_footer,
    with_meta,
    with_place,
    without_nan,
)
from deltamerge.worker.parquet.pages import PagedChunk
from deltamerge.worker.parquet.places import locations, moved_index, offset_index
from deltamerge.worker.write.splice.base import Base, Indexes, bloom_place
from deltamerge.worker.write.splice.group import ChangedColumns
from deltamerge.worker.write.splice.known import Place, Seen, known_of, place_of, seen_in, with_seen
from deltamerge.worker.write.stats import FileStats, StatsColumn, values_at
from deltamerge.worker.write.write import WriteSpec, WrittenFile, dictionary_columns, new_name, parquet_writer

_PIECE_BYTES = 8 << 20


@dataclass(frozen=True)
class _Behind:
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
    indexes: list[_Behind]
    kept: Struct | None = None


@dataclass(frozen=True)
class _Encoded:
    """Columns of a row group as Parquet bytes, in a file of their own."""

    data: memoryview
    footer: Footer


class SplicedFile:
    """A new file with the schema of `base`. Row groups come in their order: from rows (`write`), or kept from the base (`keep`).

    It has statistics of all of its values, those that are copied included. It is there as soon as something is in it.
    """

    def __init__(self, spec: WriteSpec, folder: str, task: int, base: Base, indexes: Indexes) -> None:
        self._store = spec.store
        self._codec = spec.codec
        self._base = base
        self.indexes = indexes
        self.name = new_name(spec, folder, task)
        self._stats = FileStats(spec.stats)
        self._columns = [(column, place) for column in spec.stats if (place := place_of(base.columns, column.path)) is not None]
        self._void = [column for column in spec.stats if pa.types.is_null(column.type)]
        self._nan_free = base.footer.nan_free(base.name)
        self._dictionaries: dict[str, list[str]] = {}
        self._groups: list[_Group] = []
        self._sink: Any = None
        self._at = 0
        self._span: tuple[int, int] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing was written."""
        return not self._groups

    def write(self, group: pa.Table) -> int:
        """Write rows, columns by physical names, as a row group; the bytes of the file so far."""
        self._stats.add(group)
        encoded = self._encoded(group.select(self._base.schema.names))
        new = self._begun(group.num_rows)
        for number, chunk in enumerate(encoded.footer.groups[0].chunks):
            self._add_encoded(new, encoded, chunk, number)
        return self._at

    def unknown(self, number: int, patched: Sequence[str]) -> list[str]:
        """The columns, by physical names, of which the statistics of a row group that is kept must be counted from their values;
        those `patched` aside.
        """
        group = self._base.footer.groups[number]
        found = [column.path[0] for column, place in self._kept(patched) if self._known(group, column, place) is None]
        return list(dict.fromkeys(found))

    def keep(self, number: int, changed: ChangedColumns, seen: Iterable[pa.Table], sorts: bool) -> None:
        """Copy a row group of the base, with its changed columns in place of its own; `sorts` says that its rows stay in order.

        `seen` has the columns that `unknown` gives, in parts.
        """
        group = self._base.footer.groups[number]
        whole = changed.whole
        names = [] if whole is None else whole.column_names
        self._stats.add_rows(changed.rows)
        chunks = self._count(group, changed, seen)
        ordered = [name for name in self._base.schema.names if name in names]
        encoded = None if whole is None else self._encoded(whole.select(ordered))
        taken = iter(() if encoded is None else encoded.footer.groups[0].chunks)
        new = self._begun(changed.rows, group.fields if sorts else None)
        if whole is not None:
            self._stats.count(whole, [column for column, _ in self._columns if column.path[0] in names])
        replaced = {leaf for name in names for leaf in self._base.leaves_of(name)}
        for leaf, chunk in enumerate(group.chunks):
            if leaf in replaced:
                assert encoded is not None
                self._add_encoded(new, encoded, next(taken), leaf)
            elif leaf in changed.paged:
                self._add_paged(new, changed.paged[leaf])
            else:
                self._add_copied(new, chunks.get(leaf, chunk), chunk, (number, leaf))
        if changed.names and not _are_aligned(new.indexes):
            # Parquet's Java library may give a wrong value for the last row that it finds by pages that end at different rows:
            # GH-3747 of apache/parquet-java.
            new.indexes = [replace(behind, column_index=None) for behind in new.indexes]

    def _kept(self, patched: Sequence[str]) -> list[tuple[StatsColumn, Place]]:
        return [(column, place) for column, place in self._columns if column.path[0] not in patched]

    def _known(self, group: RowGroup, column: StatsColumn, place: Place) -> Any:
        return known_of(group.chunks[place.leaf], column, place, self._base.footer.writer, self._nan_free, group.rows)

    def _count(self, group: RowGroup, changed: ChangedColumns, seen: Iterable[pa.Table]) -> Mapping[int, Chunk]:
        """Count the values that are not written whole; the copied chunks of which more is known now."""
        for column in self._void:
            self._stats.add_known(column, changed.rows)
        for column, known in changed.counted:
            self._stats.add_known(column, known.nulls, known.has_nan, known.texts)
        unknown: list[tuple[StatsColumn, Place]] = []
        for column, place in self._kept(changed.names):
            known = self._known(group, column, place)
            if known is None:
                unknown.append((column, place))
            else:
                self._stats.add_known(column, known.nulls, known.has_nan, known.texts)
        told = {place.leaf: (column, place, Seen(0)) for column, place in unknown if place.is_leaf and column.bounded}
        for rows in seen:
            self._stats.count(rows, [column for column, _ in unknown])
            for leaf, (column, place, found) in told.items():
                told[leaf] = column, place, found.with_others(seen_in(values_at(rows, column.path), column))
        return {leaf: with_seen(group.chunks[leaf], *found) for leaf, found in told.items()}

    def _encoded(self, rows: pa.Table) -> _Encoded:
        schema = pa.schema([self._base.schema.field(name) for name in rows.column_names])
        for name in rows.column_names:
            if name not in self._dictionaries:
                self._dictionaries[name] = dictionary_columns(rows.select([name]))
        sink = pa.BufferOutputStream()
        dictionaries = [path for name in rows.column_names for path in self._dictionaries[name]]
        with parquet_writer(sink, schema, self._codec, dictionaries, self.indexes.are_complete) as writer:
            writer.write_table(pa.table(rows.columns, schema=schema), row_group_size=rows.num_rows)
        data = memoryview(sink.getvalue())
        length = int.from_bytes(data[-8:-4], "little")
        footer = parse_footer(bytes(data[-8 - length : -8]), len(data) - 8 - length)
        assert [group.rows for group in footer.groups] == [rows.num_rows]
        return _Encoded(data, footer)

    def _begun(self, rows: int, kept: Struct | None = None) -> _Group:
        self._groups.append(_Group(rows, [], [], kept))
        return self._groups[-1]

    def _add_encoded(self, group: _Group, encoded: _Encoded, chunk: Chunk, leaf: int) -> None:
        placed = moved(chunk, self._at_next())
        path = self._path(leaf)
        placed = with_meta(placed, {**placed.meta, 3: (LIST, Items(BINARY, path))})
        self._flush_span()
        self._put(encoded.data[chunk.start : chunk.end])
        index = column_index = None
        if chunk.is_indexed:
            index = offset_index(chunk, bytes(_part(encoded.data, chunk, 4)))
            column_index = bytes(_part(encoded.data, chunk, 6))
        group.chunks.append(placed)
        group.indexes.append(_Behind(index, placed.start - chunk.start, column_index))

    def _path(self, leaf: int) -> tuple[bytes, ...]:
        return self._base.footer.groups[0].chunks[leaf].path

    def _add_copied(self, group: _Group, told: Chunk, chunk: Chunk, key: tuple[int, int]) -> None:
        placed = moved(told, self._at_next())
        self._copy(chunk.start, chunk.end)
        group.chunks.append(placed)
        by = placed.start - chunk.start
        group.indexes.append(_Behind(self.indexes.offsets.get(key), by, self.indexes.columns.get(key), bloom_place(chunk)))

    def _add_paged(self, group: _Group, paged: PagedChunk) -> None:
        placed = moved(paged.chunk, self._at_next())
        for piece in paged.pieces:
            if isinstance(piece, bytes):
                self._flush_span()
                self._put(piece)
            else:
                self._copy(*piece)
        group.chunks.append(placed)
        group.indexes.append(_Behind(paged.offsets, placed.start - paged.chunk.start))

    def _copy(self, start: int, end: int) -> None:
        span = self._span
        if span is not None and span[1] == start:
            self._span = span[0], end
        else:
            self._flush_span()
            self._span = start, end

    def _at_next(self) -> int:
        """Where the next chunk begins."""
        if self._sink is None:
            with self._store.naming(self.name):
                self._sink = self._store.create(self.name)
            self._put(MAGIC)
        waiting = 0 if self._span is None else self._span[1] - self._span[0]
        return self._at + waiting

    def _put(self, data: Any) -> None:
        with self._store.naming(self.name):
            self._sink.write(data)
        self._at += len(data)

    def _flush_span(self) -> None:
        """Copy the bytes that wait to be: neighbouring chunks are read and written in one."""
        if self._span is None:
            return
        start, end = self._span
        self._span = None
        for place in range(start, end, _PIECE_BYTES):
            self._put(self._base.read_at(min(_PIECE_BYTES, end - place), place))

    def close(self, partition: Mapping[str, Any]) -> WrittenFile:
        """Write what lies behind the row groups, and finish the file."""
        self._flush_span()
        for group in self._groups:
            for number, indexes in enumerate(group.indexes):
                self._put_bloom(group, number, indexes)
        nan_free = self._stats.nan_free
        for group in self._groups:
            for number, indexes in enumerate(group.indexes):
                if indexes.column_index is not None and without_nan(group.chunks[number], nan_free) is group.chunks[number]:
                    self._put_at(group, number, 6, indexes.column_index)
        for group in self._groups:
            for number, indexes in enumerate(group.indexes):
                if indexes.offsets is not None:
                    self._put_at(group, number, 4, moved_index(indexes.offsets, indexes.by))
        metadata = pq.read_metadata(pa.BufferReader(MAGIC + self._footer()))
        assert metadata.num_rows == self._stats.rows
        for group in self._groups:
            group.chunks = [without_nan(chunk, nan_free) for chunk in group.chunks]
        self._put(self._footer())
        with self._store.naming(self.name):
            self._sink.close()
        modified = self._store.modified(self.name)
        return WrittenFile(self.name, partition, self._at, modified, self._stats.rows, self._stats.finish(metadata))

    def _footer(self) -> bytes:
        groups = [group_fields(group.rows, group.chunks, number, group.kept) for number, group in enumerate(self._groups)]
        return footer_bytes(self._base.footer, groups, self.name, self._stats.nan_free)

    def _put_at(self, group: _Group, number: int, id: int, data: bytes) -> None:
        group.chunks[number] = with_place(group.chunks[number], id, (self._at, len(data)))
        self._put(data)

    def _put_bloom(self, group: _Group, number: int, indexes: _Behind) -> None:
        if indexes.bloom is None:
            return
        start, length = indexes.bloom
        chunk = group.chunks[number]
        group.chunks[number] = with_meta(chunk, {**chunk.meta, 14: (I64, self._at), 15: (I32, length)})
        self._put(self._base.read_at(length, start))

    def abandon(self) -> None:
        """Delete what was written."""
        if self._sink is not None:
            with contextlib.suppress(Exception):
                self._sink.close()
            self._store.delete(self.name)


def _are_aligned(indexes: Sequence[_Behind]) -> bool:
    """Whether the pages of all chunks of a row group begin at the same rows."""
    firsts = [None if one.offsets is None else [place[3][1] for place in locations(one.offsets)] for one in indexes]
    return firsts[0] is not None and all(first == firsts[0] for first in firsts)


def _part(data: memoryview, chunk: Chunk, id: int) -> memoryview:
    start, length = get(chunk.fields, id), get(chunk.fields, id + 1)
    return data[start : start + length]
