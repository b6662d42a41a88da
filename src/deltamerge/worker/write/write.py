"""Data files from Arrow rows: split by partition, rolled at the target size, with statistics.

A task may run twice, so that every file has a fresh name; only what a task returns becomes part of the table.
"""

from __future__ import annotations

import contextlib
import random
import string
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.budgets import DEFAULTS, Budgets
from deltamerge.protocol.schema.char_varchar import TextPath
from deltamerge.protocol.values.partitions import partition_folder, partition_text
from deltamerge.protocol.values.plain import plain
from deltamerge.worker.parquet.assembly import Assembly
from deltamerge.worker.parquet.encode import dictionary_columns, empty_footer, encoded, parquet_writer
from deltamerge.worker.parquet.footer import NAN_FREE, footer_without_nan, nan_free_text
from deltamerge.worker.scan.columns import stored_table, within
from deltamerge.worker.scan.row_errors import Refused
from deltamerge.worker.scan.store import DataStore
from deltamerge.worker.write.by_partition import partition_key, split_by_partition
from deltamerge.worker.write.stats import FileStats, StatsColumn

_LETTERS = string.ascii_letters + string.digits
_EXTENSIONS = {"none": "", "uncompressed": "", "gzip": ".gz", "lz4_raw": ".lz4raw"}


@dataclass(frozen=True)
class WriteSpec:
    """How data files of a table are written.

    `schema` is the Arrow schema of a row by logical names, partition columns included; `stored` that of a data file by
    physical names. `required` are the paths of logical names that must not be null, `elements` those within arrays and maps,
    which are demanded of new rows only: readers take such a null for a value. `lengths` are the most characters that CHAR and
    VARCHAR hold, by the paths of their texts. `codec` is a Parquet codec's name, `target_bytes` the size at which the next
    file is begun, `most_rows` the most rows of one, 0 for any number. With a `prefix_length`, files lie in folders of random
    names of so many characters instead of folders of their partition; all folders are in `base`, the table's own for ''. File
    names begin with `stem`. Files are read and written by so many `threads` at once.
    """

    store: DataStore
    schema: pa.Schema
    stored: pa.Schema
    partition_columns: tuple[str, ...]
    stats: tuple[StatsColumn, ...]
    required: tuple[TextPath, ...] = ()
    elements: tuple[TextPath, ...] = ()
    lengths: tuple[tuple[TextPath, int], ...] = ()
    codec: str = "snappy"
    target_bytes: int = 128 << 20
    most_rows: int = 0
    prefix_length: int = 0
    base: str = ""
    stem: str = "part"
    threads: int = 1
    budgets: Budgets = DEFAULTS

    @property
    def data_columns(self) -> list[str]:
        """Logical names of the columns that a data file holds, in order."""
        return [name for name in self.schema.names if name not in self.partition_columns]

    def threads_for(self, rows: pa.Table) -> int:
        """How many threads encode a row group of those rows."""
        return self.threads if rows.nbytes >= self.budgets.thread_bytes else 1

    def folder(self, partition: Mapping[str, Any]) -> str:
        """The folder of a partition's next files; '' for the table's own."""
        if self.prefix_length:
            below = "".join(random.choices(_LETTERS, k=self.prefix_length))
        else:
            below = partition_folder({name: partition_text(value) for name, value in partition.items()})
        return "/".join(filter(None, (self.base, below)))


@dataclass(frozen=True)
class WrittenFile:
    """A data file that was written: its name, partition values typed, sizes in bytes and rows, time in ms."""

    name: str
    partition: Mapping[str, Any]
    size: int
    modified: int
    rows: int
    stats: str


class OpenFile(Protocol):
    """A data file that is being written."""

    def write(self, group: pa.Table) -> int:
        """Write rows as a row group; the bytes of the file so far."""

    def close(self, partition: Mapping[str, Any]) -> WrittenFile:
        """Finish the file."""

    def abandon(self) -> None:
        """Delete what was written."""


class DataFileWriter:
    """One data file at a time within one partition; begins the next when a file has reached its target size or its most rows.

    The first one may be one that is `opened` already.
    """

    def __init__(
        self,
        spec: WriteSpec,
        partition: Mapping[str, Any],
        folder: str,
        task: int,
        rolls: bool = True,
        opened: OpenFile | None = None,
    ) -> None:
        self._spec = spec
        self._partition = partition
        self._folder = folder
        self._task = task
        self._rolls = rolls
        self._waiting: list[pa.Table] = []
        self._waiting_rows = 0
        self._waiting_bytes = 0
        self._group_rows = 0
        self._open_rows = 0
        self._open = opened
        self.finished: list[WrittenFile] = []

    def write(self, table: pa.Table) -> None:
        """Take rows by logical names, with or without the partition columns."""
        if not table.num_rows:
            return
        check_required(self._spec.required, table)
        check_lengths(self._spec.lengths, table)
        stored = stored_table(table.select(self._spec.data_columns), self._spec.stored)
        if not self._group_rows:
            per_row = max(1, stored.nbytes // stored.num_rows)
            group_bytes = min(
                self._spec.budgets.row_group_bytes, 2 * self._spec.target_bytes
            )  # about twice what comes of it in Parquet
            self._group_rows = min(max(group_bytes // per_row, 16_384), self._spec.budgets.row_group_rows)
        self._waiting.append(stored)
        self._waiting_rows += stored.num_rows
        self._waiting_bytes += stored.nbytes
        while self._waiting_rows >= self._group_rows:
            self._flush(self._group_rows)

    def close(self) -> list[WrittenFile]:
        """Finish the last file and return all of them, in order."""
        self.flush()
        self._finish()
        return self.finished

    @property
    def waiting_bytes(self) -> int:
        """Bytes of rows that are buffered."""
        return self._waiting_bytes

    def flush(self) -> None:
        """Write out the rows that are buffered, as a row group of their own."""
        while self._waiting_rows:
            self._flush(self._waiting_rows)

    def discard(self) -> None:
        """Delete everything that was written."""
        if self._open is not None:
            self._open.abandon()
            self._open = None
        for written in self.finished:
            self._spec.store.delete(written.name)

    def _flush(self, rows: int) -> None:
        most = self._spec.most_rows
        rows = min(rows, most - self._open_rows) if most else rows
        waiting = pa.concat_tables(self._waiting)
        group, rest = waiting.slice(0, rows), waiting.slice(rows)
        self._waiting = [rest] if rest.num_rows else []
        self._waiting_rows = rest.num_rows
        self._waiting_bytes = rest.nbytes if rest.num_rows else 0
        if self._open is None:
            # Arrow's writer takes less for a small file: to put one together is work for Python.
            kind = _NewFile if self._spec.threads_for(group) == 1 else _FileOfParts
            self._open = kind(self._spec, self._folder, self._task, group)
        is_large = self._open.write(group) >= self._spec.target_bytes and self._rolls
        self._open_rows += group.num_rows
        if is_large or self._open_rows == most:
            self._finish()

    def _finish(self) -> None:
        if self._open is not None:
            self.finished.append(self._open.close(self._partition))
            self._open, self._open_rows = None, 0


class PartitionWriters:
    """One writer per partition that occurs, for rows that belong to no file yet, or to small ones that are put together."""

    def __init__(self, spec: WriteSpec, number: int) -> None:
        self._spec = spec
        self._number = number
        self._writers: dict[tuple[str | None, ...], DataFileWriter] = {}

    def write(self, table: pa.Table) -> None:
        """Take rows of the table's schema."""
        for partition, rows in split_by_partition(table, self._spec.partition_columns):
            self._writer(partition).write(rows)
        self._relieve()

    def write_to(self, partition: Mapping[str, Any], table: pa.Table) -> None:
        """Take rows of one partition, with or without its columns; other columns of `partition` do not matter."""
        self._writer({name: partition[name] for name in self._spec.partition_columns}).write(table)
        self._relieve()

    def _writer(self, partition: Mapping[str, Any]) -> DataFileWriter:
        key = partition_key(partition)
        if key not in self._writers:
            self._writers[key] = DataFileWriter(self._spec, partition, self._spec.folder(partition), self._number)
        return self._writers[key]

    def close(self) -> list[WrittenFile]:
        """Finish all files and return them."""
        return [written for writer in self._writers.values() for written in writer.close()]

    def discard(self) -> None:
        """Delete everything that was written."""
        for writer in self._writers.values():
            writer.discard()

    def _relieve(self) -> None:
        """Finish the fullest writers' files while too many rows wait in memory; so no more files are open than must be."""
        waiting = sum(writer.waiting_bytes for writer in self._writers.values())
        while waiting > self._spec.budgets.open_partitions_bytes:
            fullest = max(self._writers.values(), key=lambda writer: writer.waiting_bytes)
            waiting -= fullest.waiting_bytes
            fullest.close()


class _NewFile:
    """A file that is written from rows alone."""

    def __init__(self, spec: WriteSpec, folder: str, task: int, sample: pa.Table) -> None:
        self._store = spec.store
        self.name = new_name(spec, folder, task)
        self._stats = FileStats(spec.stats)
        dictionaries = dictionary_columns(sample)
        self._sink = spec.store.create(self.name)
        try:
            with self._store.naming(self.name):
                self._writer = parquet_writer(self._sink, spec.stored, spec.codec, dictionaries)
        except BaseException:
            self.abandon()
            raise

    def write(self, group: pa.Table) -> int:
        self._stats.add(group)
        with self._store.naming(self.name):
            self._writer.write_table(group, row_group_size=group.num_rows)
            return int(self._sink.tell())

    def close(self, partition: Mapping[str, Any]) -> WrittenFile:
        with self._store.naming(self.name):
            if self._stats.nan_free:
                self._writer.add_key_value_metadata({NAN_FREE: nan_free_text(self.name, self._stats.nan_free)})
            self._writer.close()
            metadata = self._writer.writer.metadata
            self._forget_bounds(metadata)
            size = int(self._sink.tell())
            self._sink.close()
        modified = self._store.modified(self.name)
        stats = self._stats.finish(metadata)
        return WrittenFile(self.name, partition, size, modified, self._stats.rows, stats)

    def _forget_bounds(self, metadata: Any) -> None:
        """Put a footer behind Arrow's that has no bounds of columns with NaN; readers know of the last one only."""
        floating = [at for at in range(len(metadata.schema)) if metadata.schema.column(at).physical_type in ("FLOAT", "DOUBLE")]
        if len(floating) != len(self._stats.nan_free):
            footer = pa.BufferOutputStream()
            metadata.write_metadata_file(footer)
            old = footer.getvalue().to_pybytes()[4:-8]
            self._sink.write(footer_without_nan(old, int(self._sink.tell()), self._stats.nan_free))

    def abandon(self) -> None:
        with contextlib.suppress(Exception):
            self._writer.close()
        try:
            self._sink.close()
        finally:
            self._store.delete(self.name)


class _FileOfParts:
    """A file that is written from rows alone, whose columns several threads encode."""

    def __init__(self, spec: WriteSpec, folder: str, task: int, sample: pa.Table) -> None:
        self._spec = spec
        self._store = spec.store
        self.name = new_name(spec, folder, task)
        self._stats = FileStats(spec.stats)
        self._dictionaries = dictionary_columns(sample)
        self._sink = spec.store.create(self.name)
        self._file = Assembly(self._sink.write)

    def write(self, group: pa.Table) -> int:
        self._stats.add(group)
        chunks = encoded(group, self._spec.codec, self._dictionaries, threads=self._spec.threads_for(group))
        with self._store.naming(self.name):
            self._file.begin(group.num_rows)
            for chunk in chunks:
                self._file.add_encoded(chunk)
        return self._file.at

    def close(self, partition: Mapping[str, Any]) -> WrittenFile:
        with self._store.naming(self.name):
            metadata = self._file.finish(empty_footer(self._spec.stored), self.name, self._stats.nan_free)
            self._sink.close()
        modified = self._store.modified(self.name)
        return WrittenFile(self.name, partition, self._file.at, modified, self._stats.rows, self._stats.finish(metadata))

    def abandon(self) -> None:
        try:
            self._sink.close()
        finally:
            self._store.delete(self.name)


def new_name(spec: WriteSpec, folder: str, task: int) -> str:
    """The name of a new data file in a folder."""
    name = file_name(task, spec.codec, spec.stem)
    return f"{folder}/{name}" if folder else name


def check_required(required: Sequence[TextPath], table: pa.Table) -> None:
    """Raise Refused when what must not be null is; a field, an element or a value only counts where its parent is there."""
    for path in required:
        if path[0] not in table.column_names:
            continue
        values: Any = table.column(path[0])
        nulls = pc.is_null(values)
        if len(path) > 1:
            parents = within(values, path[1:-1])
            nulls = pc.is_null(within(parents, path[-1:]))
            if pa.types.is_struct(parents.type):
                nulls = pc.and_(nulls, pc.is_valid(parents))
        if pc.any(nulls).as_py():
            name = ".".join(path)
            raise Refused("DELTA_NOT_NULL_CONSTRAINT_VIOLATED", f"NOT NULL constraint violated for column: {name}.", name)


def check_lengths(lengths: Sequence[tuple[TextPath, int]], table: pa.Table) -> None:
    """Raise Refused when a text is longer than its CHAR or VARCHAR allows, in a column, a field, an element, a key or value."""
    for path, most in lengths:
        if path[0] not in table.column_names:
            continue
        values = within(table.column(path[0]), path[1:])
        long = values.filter(pc.greater(pc.utf8_length(values), most))
        if len(long):
            name = ".".join(path)
            raise Refused(
                "DELTA_EXCEED_CHAR_VARCHAR_LIMIT",
                f'Value "{plain(long[0])[:100]}" exceeds char/varchar type length limitation: column {name} holds {most}.',
                name,
            )


def file_name(task: int, codec: str, stem: str = "part") -> str:
    """A fresh data file name as Delta's writers make them."""
    extension = _EXTENSIONS.get(codec, f".{codec}")
    return f"{stem}-{task:05d}-{uuid.uuid4()}-c000{extension}.parquet"
