"""The files of a table as Arrow columns: no Python object per file.

Column names are the protocol's. A `FileSet` is immutable; versions share the chunks that they have in common.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.log.replay.paths import canonical_path, canonical_paths
from deltamerge.log.stats.stored import StoredStats
from deltamerge.log.stats.struct import json_texts, whole
from deltamerge.protocol.table.actions import AddFile, DeletionVector, RemoveFile

Mask = npt.NDArray[np.bool_]

_MOST_CHUNKS = 24
_LARGE_CHUNK = 100_000
_ROWS_AT_ONCE = 10_000
_TEXT_MAP = pa.map_(pa.string(), pa.string())
VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
FILE_SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("partitionValues", _TEXT_MAP),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("stats", pa.string()),
        ("tags", _TEXT_MAP),
        ("deletionVector", VECTOR),
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
        ("clusteringProvider", pa.string()),
    ]
)
TOMBSTONE_SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("deletionTimestamp", pa.int64()),
        ("extendedFileMetadata", pa.bool_()),
        ("partitionValues", _TEXT_MAP),
        ("size", pa.int64()),
        ("tags", _TEXT_MAP),
        ("deletionVector", VECTOR),
        ("baseRowId", pa.int64()),
        ("defaultRowCommitVersion", pa.int64()),
    ]
)


def table_of(rows: Sequence[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """The JSON values of add or remove actions as an Arrow table of `schema`. Raises pa.ArrowInvalid, TypeError, ValueError."""
    columns = []
    for field in schema:
        values = [row.get(field.name) for row in rows]
        if pa.types.is_int64(field.type) and float in set(map(type, values)):
            raise ValueError(f"a {field.name} is no whole number")
        if field.type == VECTOR and not all(map(_may_describe, values)):
            raise ValueError("the deletionVector of a file is not a descriptor")
        if pa.types.is_map(field.type):
            values = [None if value is None else list(value.items()) for value in values]
        columns.append(pa.array(values, field.type))
    return checked_files(pa.table(columns, schema=schema))


def _may_describe(value: Any) -> bool:
    """Whether a JSON value may be a vector's descriptor: an object with one of its fields, or with no value at all."""
    if not isinstance(value, Mapping):
        return value is None
    if any(isinstance(value.get(field.name), float) for field in VECTOR if pa.types.is_integer(field.type)):
        return False
    return any(value.get(name) is not None for name in VECTOR.names) or all(item is None for item in value.values())


def repeats_key(maps: pa.MapArray) -> bool:
    """Whether one of some maps has a key twice."""
    offsets = maps.offsets.to_numpy()
    lengths = np.diff(offsets)
    if lengths.max(initial=0) < 2:
        return False
    rows = np.repeat(np.arange(len(maps)), lengths)
    codes = pc.dictionary_encode(maps.keys.slice(offsets[0], offsets[-1] - offsets[0])).indices.to_numpy()
    return len(np.unique(rows * (int(codes.max()) + 1) + codes)) < len(codes)


def checked_files(table: pa.Table) -> pa.Table:
    """A file table without negative sizes, whose deletion vectors are descriptors or null: one of nulls alone, as some writers
    leave it, is none.

    Raises ValueError for a negative size, and for a descriptor that lacks a field without which it names no vector.
    """
    if (pc.min(table["size"]).as_py() or 0) < 0:
        raise ValueError("the size of a file is negative")
    vectors = whole(table["deletionVector"])
    if vectors.null_count == len(vectors):
        return table
    given = {name: pc.and_(pc.is_valid(vectors), pc.is_valid(pc.struct_field(vectors, name))) for name in VECTOR.names}
    there = functools.reduce(pc.or_, given.values())
    for name, has in given.items():
        if name != "offset" and not has.equals(there):
            raise ValueError(f"a deletion vector has no {name}")
    if there.equals(pc.is_valid(vectors)):
        return table
    none = pc.if_else(there, vectors, pa.scalar(None, VECTOR))
    return table.set_column(table.schema.get_field_index("deletionVector"), table.schema.field("deletionVector"), none)


def file_keys(table: pa.Table) -> pa.Array:
    """The identity of each logical file: its path in canonical form, and its deletion vector's id when it has one.

    Raises PathEscapes for a path that leads out of the table.
    """
    vector = whole(table["deletionVector"])
    path = canonical_paths(whole(table["path"]))
    if vector.null_count == len(vector):
        return path
    offset = pc.coalesce(pc.cast(pc.struct_field(vector, "offset"), pa.string()), "")
    kind, where = pc.struct_field(vector, "storageType"), pc.struct_field(vector, "pathOrInlineDv")
    identity = pc.binary_join_element_wise(kind, where, offset, "\0", null_handling="emit_null")
    return pc.if_else(pc.is_valid(vector), pc.binary_join_element_wise(path, identity, "\0"), path)


def file_key(action: AddFile | RemoveFile) -> str:
    """The identity of one logical file, as `file_keys` gives it."""
    path, vector = canonical_path(action.path), action.deletion_vector
    if vector is None:
        return path
    offset = "" if vector.offset is None else str(vector.offset)
    return f"{path}\0{vector.storage_type}\0{vector.path_or_inline}\0{offset}"


def last_of_each(table: pa.Table) -> pa.Table:
    """The files of a table, of several entries for one logical file the last."""
    keys = file_keys(table)
    if len(pc.unique(keys)) == len(keys):
        return table
    last = dict(zip(keys.to_pylist(), range(len(keys)), strict=True))
    return table.take(pa.array(sorted(last.values()), pa.int64()))


@dataclass(frozen=True)
class FileChunk:
    """Some files, all alive when they were read; statistics parsed from them are kept with them.

    `parsed` has the statistics of a checkpoint that keeps them as structs instead of JSON; `stats` is then null. `stored`
    says where a checkpoint keeps them as structs too.
    """

    table: pa.Table
    parsed: pa.StructArray | None = None
    stored: tuple[StoredStats, ...] = ()

    @cached_property
    def keys(self) -> pa.Array:
        """The identity of each file."""
        return file_keys(self.table)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def take(self, rows: pa.Array) -> FileChunk:
        """The files at the given rows."""
        return FileChunk(self.table.take(rows), None if self.parsed is None else self.parsed.take(rows))

    def chosen(self, rows: pa.Array | None) -> pa.Table:
        """The files at the given rows (None: all), with the JSON of their statistics."""
        table = self.table if rows is None else self.table.take(rows)
        if self.parsed is None:
            return table
        stats = json_texts(self.parsed if rows is None else self.parsed.take(rows))
        return table.set_column(table.schema.get_field_index("stats"), FILE_SCHEMA.field("stats"), stats)

    @cached_property
    def deleted_rows(self) -> npt.NDArray[np.int64] | None:
        """The number of rows that each file's deletion vector deletes, -1 for a file without one; None when none has one."""
        vectors = whole(self.table["deletionVector"])
        if vectors.null_count == len(vectors):
            return None
        counts = pc.struct_field(vectors, "cardinality")
        found: npt.NDArray[np.int64] = pc.if_else(vectors.is_valid(), pc.coalesce(counts, 0), -1).to_numpy()
        return found

    @cached_property
    def cache(self) -> dict[Any, Any]:
        """Columns derived from this chunk, by a key of whoever derived them."""
        return {}


@dataclass(frozen=True)
class FileSet:
    """The live files of one version: chunks, and for each a mask of what is still alive (None: all)."""

    chunks: tuple[FileChunk, ...] = ()
    alive: tuple[Mask | None, ...] = ()

    @classmethod
    def of(cls, *tables: pa.Table) -> FileSet:
        """All the files of some tables."""
        return cls.of_chunks([FileChunk(table.combine_chunks()) for table in tables])

    @classmethod
    def of_chunks(cls, chunks: Sequence[FileChunk]) -> FileSet:
        """All the files of some chunks."""
        return cls(tuple(chunks), (None,) * len(chunks))

    def __len__(self) -> int:
        return sum(_count(chunk, mask) for chunk, mask in self.parts())

    def parts(self) -> Iterator[tuple[FileChunk, Mask | None]]:
        """Each chunk with its mask."""
        return zip(self.chunks, self.alive, strict=True)

    @cached_property
    def total_bytes(self) -> int:
        """Sum of the live files' sizes, in bytes."""
        sizes = ((whole(chunk.table["size"]).to_numpy(), mask) for chunk, mask in self.parts())
        return sum(int(values.sum(where=True if mask is None else mask)) for values, mask in sizes)

    @cached_property
    def vectors(self) -> tuple[int, int]:
        """How many live files have deletion vectors, and how many rows these delete."""
        files = rows = 0
        for chunk, mask in self.parts():
            if (counts := chunk.deleted_rows) is not None:
                live = counts[mask & (counts >= 0)] if mask is not None else counts[counts >= 0]
                files, rows = files + len(live), rows + int(live.sum())
        return files, rows

    def column(self, name: str) -> pa.ChunkedArray:
        """One column but `stats` of the live files, in the set's order."""
        return pa.chunked_array(
            [_filter(whole(chunk.table[name]), mask) for chunk, mask in self.parts()],
            FILE_SCHEMA.field(name).type,
        )

    def table(self) -> pa.Table:
        """All columns of the live files, in the set's order."""
        return pa.concat_tables([_live(chunk, mask) for chunk, mask in self.parts()] or [FILE_SCHEMA.empty_table()])

    def select(self, chosen: Mask) -> pa.Table:
        """The live files at the true positions of `chosen`, which counts live files in the set's order."""
        tables = [chunk.chosen(pa.array(rows)) for chunk, rows in self.rows_of(chosen)]
        return pa.concat_tables(tables) if tables else FILE_SCHEMA.empty_table()

    def rows_of(self, chosen: Mask) -> Iterator[tuple[FileChunk, npt.NDArray[np.int64]]]:
        """Each chunk that has live files at the true positions of `chosen`, with the rows of these."""
        start = 0
        for chunk, mask in self.parts():
            count = _count(chunk, mask)
            part = chosen[start : start + count]
            start += count
            if part.any():
                yield chunk, np.flatnonzero(part) if mask is None else np.flatnonzero(mask)[part]

    def replay(self, added: pa.Table, removed: Sequence[str] | pa.Array) -> FileSet:
        """The set after a commit that adds `added` and removes the files with the given identities."""
        return self.replay_all([(added, removed)])

    def replay_all(self, steps: Sequence[tuple[pa.Table, Sequence[str] | pa.Array]]) -> FileSet:
        """The set after commits, oldest first, each with the files that it adds and the identities that it removes."""
        gone = pa.array([], pa.string())
        chunks: list[FileChunk] = []
        alive: list[Mask | None] = []
        for added, removed in reversed(steps):
            chunk = FileChunk(last_of_each(added).combine_chunks())
            if len(chunk):
                chunks.append(chunk)
                alive.append(_without(chunk, None, gone))
            gone = pa.concat_arrays([gone, pa.array(removed, pa.string()), chunk.keys])
        before = [_without(chunk, mask, gone) for chunk, mask in self.parts()]
        return _compacted(FileSet((*self.chunks, *chunks[::-1]), (*before, *alive[::-1])))


def _compacted(files: FileSet) -> FileSet:
    """The same files in fewer chunks, once there are many small ones; large ones keep what is derived from them."""
    kept = [(chunk, mask) for chunk, mask in files.parts() if mask is None or mask.any()]
    if len(kept) > _MOST_CHUNKS:
        base, *rest = sorted(kept, key=lambda part: -_count(*part))
        large = [part for part in rest if _count(*part) >= _LARGE_CHUNK]
        small = [part for part in rest if _count(*part) < _LARGE_CHUNK]
        kept = [base, *large]
        if small:
            merged = pa.concat_tables([_live(chunk, mask) for chunk, mask in small]).combine_chunks()
            kept.append((FileChunk(merged), None))
    return FileSet(tuple(chunk for chunk, _ in kept), tuple(mask for _, mask in kept))


def _count(chunk: FileChunk, mask: Mask | None) -> int:
    return chunk.table.num_rows if mask is None else int(mask.sum())


def _live(chunk: FileChunk, mask: Mask | None) -> pa.Table:
    return chunk.chosen(None if mask is None else pa.array(np.flatnonzero(mask)))


def _filter(values: Any, mask: Mask | None) -> Any:
    return values if mask is None else values.filter(pa.array(mask))


def _without(chunk: FileChunk, mask: Mask | None, gone: pa.Array) -> Mask | None:
    if not len(gone):
        return mask
    removed = pc.is_in(chunk.keys, gone)
    if not pc.any(removed).as_py():
        return mask
    stays: Mask = ~removed.to_numpy(zero_copy_only=False)
    return stays if mask is None else mask & stays


def add_files(table: pa.Table) -> list[AddFile]:
    """The rows of a file table as actions: for the files that a commit names."""
    return list(each_add_file(table))


def each_add_file(table: pa.Table) -> Iterator[AddFile]:
    """The rows of a file table as actions, one after the other. Files of one partition share its values."""
    partitions: dict[tuple[tuple[str, str | None], ...], dict[str, str | None]] = {}
    for batch in table.to_batches(max_chunksize=_ROWS_AT_ONCE):
        for row in batch.to_pylist():
            vector, values = row["deletionVector"], tuple(row["partitionValues"] or ())
            yield AddFile(
                path=row["path"],
                partition_values=partitions.setdefault(values, dict(values)),
                size=row["size"],
                modification_time=row["modificationTime"] or 0,
                stats=row["stats"],
                deletion_vector=DeletionVector.from_json(vector) if vector else None,
                tags=dict(row["tags"]) if row["tags"] is not None else None,
                base_row_id=row["baseRowId"],
                default_row_commit_version=row["defaultRowCommitVersion"],
                clustering_provider=row["clusteringProvider"],
            )
