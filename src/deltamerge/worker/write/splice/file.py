"""A file that is written from the row groups and column chunks of another, and from rows."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from deltamerge.worker.parquet.assembly import Assembly, Behind
from deltamerge.worker.parquet.encode import EncodedChunk, dictionary_columns, encoded
from deltamerge.worker.parquet.footer import Chunk, RowGroup, moved
from deltamerge.worker.parquet.pages import PagedChunk
from deltamerge.worker.write.splice.base import Base, Indexes, bloom_place
from deltamerge.worker.write.splice.group import ChangedColumns
from deltamerge.worker.write.splice.known import Place, Seen, known_of, place_of, seen_in, with_seen
from deltamerge.worker.write.stats import FileStats, StatsColumn, values_at
from deltamerge.worker.write.write import WriteSpec, WrittenFile, new_name

_PIECE_BYTES = 8 << 20


class SplicedFile:
    """A new file with the schema of `base`. Row groups come in their order: from rows (`write`), or kept from the base (`keep`).

    It has statistics of all of its values, those that are copied included. It is there as soon as something is in it.
    """

    def __init__(self, spec: WriteSpec, folder: str, task: int, base: Base, indexes: Indexes) -> None:
        self._spec = spec
        self._store = spec.store
        self._base = base
        self.indexes = indexes
        self.name = new_name(spec, folder, task)
        self._stats = FileStats(spec.stats)
        self._columns = [(column, place) for column in spec.stats if (place := place_of(base.columns, column.path)) is not None]
        self._void = [column for column in spec.stats if pa.types.is_null(column.type)]
        self._nan_free = base.footer.nan_free(base.name)
        self._dictionaries: dict[str, list[str]] = {}
        self._sink: Any = None
        self._file = Assembly(self._write)
        self._span: tuple[int, int] | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing was written."""
        return self._file.is_empty

    def write(self, group: pa.Table) -> int:
        """Write rows, columns by physical names, as a row group; the bytes of the file so far."""
        self._stats.add(group)
        encoded = self._encoded(group.select(self._base.schema.names))
        self._flush_span()
        self._file.begin(group.num_rows)
        for leaf, chunk in enumerate(encoded):
            self._file.add_encoded(chunk, self._path(leaf))
        return self._file.at

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
        encoded = iter([] if whole is None else self._encoded(whole.select(ordered)))
        self._file.begin(changed.rows, group.fields if sorts else None)
        if whole is not None:
            self._stats.count(whole, [column for column, _ in self._columns if column.path[0] in names])
        replaced = {leaf for name in names for leaf in self._base.leaves_of(name)}
        for leaf, chunk in enumerate(group.chunks):
            if leaf in replaced:
                self._flush_span()
                self._file.add_encoded(next(encoded), self._path(leaf))
            elif leaf in changed.paged:
                self._add_paged(changed.paged[leaf])
            else:
                self._add_copied(chunks.get(leaf, chunk), chunk, (number, leaf))
        if changed.names:
            self._file.align_indexes()

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

    def _encoded(self, rows: pa.Table) -> list[EncodedChunk]:
        schema = pa.schema([self._base.schema.field(name) for name in rows.column_names])
        for name in rows.column_names:
            if name not in self._dictionaries:
                self._dictionaries[name] = dictionary_columns(rows.select([name]))
        dictionaries = [path for name in rows.column_names for path in self._dictionaries[name]]
        columns, threads = pa.table(rows.columns, schema=schema), self._spec.threads_for(rows)
        return encoded(columns, self._spec.codec, dictionaries, self.indexes.are_complete, threads)

    def _path(self, leaf: int) -> tuple[bytes, ...]:
        return self._base.footer.groups[0].chunks[leaf].path

    def _add_copied(self, told: Chunk, chunk: Chunk, key: tuple[int, int]) -> None:
        placed = moved(told, self._at_next())
        self._copy(chunk.start, chunk.end)
        by = placed.start - chunk.start
        self._file.add(placed, Behind(self.indexes.offsets.get(key), by, self.indexes.columns.get(key), bloom_place(chunk)))

    def _add_paged(self, paged: PagedChunk) -> None:
        placed = moved(paged.chunk, self._at_next())
        for piece in paged.pieces:
            if isinstance(piece, bytes):
                self._flush_span()
                self._file.put(piece)
            else:
                self._copy(*piece)
        self._file.add(placed, Behind(paged.offsets, placed.start - paged.chunk.start))

    def _copy(self, start: int, end: int) -> None:
        span = self._span
        if span is not None and span[1] == start:
            self._span = span[0], end
        else:
            self._flush_span()
            self._span = start, end

    def _at_next(self) -> int:
        """Where the next chunk begins."""
        waiting = 0 if self._span is None else self._span[1] - self._span[0]
        return self._file.at + waiting

    def _write(self, data: Any) -> None:
        with self._store.naming(self.name):
            if self._sink is None:
                self._sink = self._store.create(self.name)
            self._sink.write(data)

    def _flush_span(self) -> None:
        """Copy the bytes that wait to be: neighbouring chunks are read and written in one."""
        if self._span is None:
            return
        start, end = self._span
        self._span = None
        for place in range(start, end, _PIECE_BYTES):
            self._file.put(self._base.read_at(min(_PIECE_BYTES, end - place), place))

    def close(self, partition: Mapping[str, Any]) -> WrittenFile:
        """Write what lies behind the row groups, and finish the file."""
        self._flush_span()
        metadata = self._file.finish(self._base.footer, self.name, self._stats.nan_free, self._base.read_at)
        assert metadata.num_rows == self._stats.rows
        with self._store.naming(self.name):
            self._sink.close()
        modified = self._store.modified(self.name)
        return WrittenFile(self.name, partition, self._file.at, modified, self._stats.rows, self._stats.finish(metadata))

    def abandon(self) -> None:
        """Delete what was written."""
        if self._sink is not None:
            with contextlib.suppress(Exception):
                self._sink.close()
            self._store.delete(self.name)
