"""Copy-on-write in place: a file is read, its changed rows leave, their new versions come in, and it is written again.

Unchanged rows never leave Arrow; rows that the file's deletion vector deletes stay behind. Changed rows arrive ordered by
position and are worked in as the file streams by, so that memory holds a batch of the file and the changed rows of that
batch, and a batch that is read ahead, whatever their sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.protocol.formats.parquet_file import ParquetFile
from deltamerge.protocol.formats.roaring import RowSet
from deltamerge.worker.parquet.plain import Reason
from deltamerge.worker.scan.conversions import cast
from deltamerge.worker.scan.prefetch import prefetched
from deltamerge.worker.scan.scan import ROW, FileTask, RowGroup, open_file, open_parquet, row_groups
from deltamerge.worker.scan.vectors import living, read_vector
from deltamerge.worker.write.by_partition import partition_key, split_by_partition
from deltamerge.worker.write.changes import DistinctRows
from deltamerge.worker.write.feed import DELETE, POSTIMAGE, PREIMAGE, FeedWriter
from deltamerge.worker.write.file_rows import all_rows
from deltamerge.worker.write.tracking import ROW_VERSION, TRACKED
from deltamerge.worker.write.write import (
    DataFileWriter,
    PartitionWriters,
    WriteSpec,
    WrittenFile,
    check_required,
)

CLAUSE = "__deltamerge_clause"


@dataclass(frozen=True)
class ClauseAction:
    """What a clause does to a row: `kind` is update, delete or insert; `assigned` names the columns that it sets."""

    kind: Literal["update", "delete", "insert"]
    assigned: frozenset[str] = frozenset()


@dataclass(frozen=True)
class ChangeSpec:
    """How changed rows are applied. Rows carry FILE, ROW, CLAUSE (an index into `clauses`) and columns of new values.

    `ignores_duplicate_matches` says that several source rows may change a target row, which counts once. A file is written
    again when more than `rewrite_share` of its rows are gone, else they are marked; 0 says that nothing is ever marked. With a
    `feed`, change data files are written by that specification. A file of fewer bytes than `together`, and any small one, is
    put together with the other rows that its task writes into its partition. With a `sample` nothing is written: rows are
    counted, and so many of each clause shown.
    """

    write: WriteSpec
    clauses: tuple[ClauseAction, ...]
    files: Mapping[int, FileTask]
    ignores_duplicate_matches: bool = False
    rewrite_share: float = 0.0
    feed: WriteSpec | None = None
    together: int = 0
    sample: int | None = None

    @property
    def updates(self) -> list[int]:
        """The clauses that update."""
        return [number for number, clause in enumerate(self.clauses) if clause.kind == "update"]

    @property
    def old_columns(self) -> frozenset[str]:
        """The columns of changed rows that are needed as they were: those that some update keeps, for the feed all."""
        names = frozenset(self.write.schema.names)
        if self.feed is not None:
            return names
        return names - names.intersection(*(self.clauses[number].assigned for number in self.updates))


@dataclass(frozen=True)
class ChangedFile:
    """What became of a file: the new files, how many of its rows were copied, changed by each clause, and changed more
    than once.

    `vector` has the deleted rows of one that stays, encoded, and `rows` counts all of its rows; None says that it is replaced.
    `plain` says why what did not change was not copied as bytes, None where it was; `pages` counts those that
    were copied of column chunks of which others changed.
    """

    file: int
    written: list[WrittenFile]
    copied: int
    counts: np.ndarray[Any, Any]
    collisions: int
    vector: bytes | None = None
    rows: int = 0
    plain: Reason | None = None
    pages: int = 0


@dataclass(frozen=True)
class Opened:
    """A file that is to be written again: its bytes, how it is read, and its rows that a deletion vector deletes."""

    source: Any
    file: ParquetFile
    deleted: RowSet


def open_target(spec: ChangeSpec, task: FileTask, deleted: RowSet | None = None) -> Opened:
    """Open a file that is to be written again. `deleted` rows are left behind, by default the vector's. Raises Refused."""
    source = open_file(spec.write.store, task)
    try:
        file = open_parquet(source, task.label, spec.write.store.remote)
        gone = read_vector(task.vector, task.label, file.metadata.num_rows) if deleted is None else deleted
    except BaseException:
        source.close()
        raise
    return Opened(source, file, gone)


def is_small(spec: ChangeSpec, opened: Opened) -> bool:
    """Whether the rows of a file are put together with others."""
    return bool(opened.source.size() < max(spec.write.budgets.small_file_bytes, spec.together))


def folder_of(spec: WriteSpec, task: FileTask) -> str:
    """The folder of the file that takes another's place: the same, unless that lies outside the table."""
    if task.store is None:
        return task.name.rpartition("/")[0]
    return spec.folder({name: task.partition[name] for name in spec.partition_columns})


class FileRewriter:
    """Rewrites one file from its rows. Give it the changed rows in order of position (`take`), then `finish`.

    Rows whose new values belong to another partition go to `others`, and all rows of a small file do: so that small files
    and inserted rows come together. Changes go to the change data `feed`. `plain` says why it is not spliced.
    """

    def __init__(
        self,
        spec: ChangeSpec,
        task: FileTask,
        opened: Opened,
        number: int,
        others: PartitionWriters,
        feed: FeedWriter | None = None,
        plain: Reason | None = None,
    ) -> None:
        self._spec = spec
        self._task = task
        self._opened = opened
        self._writer = self._new_writer(number)
        self._others = others
        self._feed = feed
        self._plain = plain
        self._old_columns = [name for name in spec.write.schema.names if name in spec.old_columns]
        self._moves = any(clause.assigned & set(spec.write.partition_columns) for clause in spec.clauses)
        self._is_small = is_small(spec, opened)
        self._batches: Generator[pa.Table, None, None] | None = self._read(row_groups(opened.file))
        self._batch: pa.Table | None = None
        self._start = 0
        self._pending: list[pa.Table] = []
        self._distinct = DistinctRows(spec.ignores_duplicate_matches)
        self._copied = 0
        self._counts = np.zeros(len(spec.clauses), np.int64)

    def take(self, changed: pa.Table) -> None:
        """Take the next changed rows, whose positions are not below those before."""
        changed = self._distinct.take(changed)
        if not changed.num_rows:
            return
        self._pending.append(changed)
        self._advance(int(changed.column(ROW)[-1].as_py()))

    def finish(self) -> ChangedFile:
        """Copy the rest of the file and close the new one."""
        self._advance(None)
        written = self._writer.close()
        self._opened.source.close()
        return ChangedFile(self._task.file, written, self._copied, self._counts, self._distinct.collisions, plain=self._plain)

    def discard(self) -> None:
        """Delete what was written."""
        if self._batches is not None:
            self._batches.close()
        self._opened.source.close()
        self._writer.discard()

    def _new_writer(self, number: int) -> DataFileWriter:
        folder = folder_of(self._spec.write, self._task)
        return DataFileWriter(self._spec.write, self._task.partition, folder, number, rolls=False)

    def _read(self, groups: Sequence[RowGroup]) -> Generator[pa.Table, None, None]:
        rows = all_rows(self._spec.write, self._task, self._opened.file, groups)
        is_one = len(groups) < 2 and sum(group.rows for group in groups) <= self._spec.write.budgets.rewrite_rows
        return rows if is_one else prefetched(rows)

    def _advance(self, known: int | None) -> None:
        """Write every batch whose changed rows are all known: those that end at or before position `known`, all for None."""
        while True:
            if self._batch is None and self._batches is not None:
                self._batch = next(self._batches, None)
            if self._batch is None:
                return
            end = self._start + self._batch.num_rows
            if known is not None and end > known:
                return
            self._apply(self._batch, self._start, self._take_pending(end))
            self._batch, self._start = None, end

    def _take_pending(self, end: int) -> pa.Table | None:
        """The pending changed rows with positions below `end`."""
        if not self._pending:
            return None
        changed = pa.concat_tables(self._pending)
        cut = int(np.searchsorted(changed.column(ROW).to_numpy(), end))
        rest = changed.slice(cut)
        self._pending = [rest] if rest.num_rows else []
        return changed.slice(0, cut) if cut else None

    def _apply(self, batch: pa.Table, start: int, changed: pa.Table | None) -> None:
        stays = living(self._opened.deleted, start, batch.num_rows)
        if changed is None:
            kept = batch if stays is None else batch.filter(pa.array(stays))
            self._keep(kept)
            return
        self._counts += np.bincount(changed.column(CLAUSE).to_numpy(), minlength=len(self._counts))
        stays = np.ones(batch.num_rows, np.bool_) if stays is None else stays
        stays[changed.column(ROW).to_numpy() - start] = False
        self._keep(batch.filter(pa.array(stays)))
        old = batch.select(self._old_columns)
        updated = updated_rows(self._spec, changed, lambda rows: old.take(pa.array(rows - start)), self._feed)
        if updated is not None:
            self._write_updated(updated)

    def _keep(self, rows: pa.Table) -> None:
        self._copied += rows.num_rows
        self._write(rows)

    def _write(self, rows: pa.Table) -> None:
        if self._is_small:
            self._others.write_to(self._task.partition, rows)
        else:
            self._writer.write(rows)

    def _write_updated(self, rows: pa.Table) -> None:
        if not self._moves:
            self._write(rows)
            return
        if self._is_small:
            self._others.write(rows)
            return
        columns = self._spec.write.partition_columns
        here = partition_key({name: self._task.partition[name] for name in columns})
        for partition, part in split_by_partition(rows, columns):
            (self._writer if partition_key(partition) == here else self._others).write(part)


def updated_rows(
    spec: ChangeSpec,
    changed: pa.Table,
    old_rows: Callable[[np.ndarray[Any, Any]], pa.Table],
    feed: FeedWriter | None,
    columns: Collection[str] | None = None,
) -> pa.Table | None:
    """The updated ones among the changed rows, as they are afterwards; None when there are none. All changes go to `feed`.

    `old_rows` gives the rows at some positions as they were. Without a feed only some `columns` may be asked for.
    """
    if not changed.num_rows:
        return None
    clauses = changed.column(CLAUSE).to_numpy()
    updates = np.isin(clauses, spec.updates)
    updated = changed if updates.all() else changed.filter(pa.array(updates))
    if feed is None:
        if not updated.num_rows:
            return None
        return new_rows(spec, old_rows(updated.column(ROW).to_numpy()), updated, clauses[updates], columns)
    old = old_rows(changed.column(ROW).to_numpy())
    feed.write(old, np.where(updates, PREIMAGE, DELETE))
    if not updated.num_rows:
        return None
    new = new_rows(spec, old.filter(pa.array(updates)), updated, clauses[updates])
    feed.write(new, POSTIMAGE)
    return new


def new_rows(
    spec: ChangeSpec,
    old: pa.Table,
    changed: pa.Table,
    clauses: np.ndarray[Any, Any],
    only: Collection[str] | None = None,
) -> pa.Table:
    """The rows after their updates: assigned columns from `changed`, the others from `old`; both in the same order.

    A row's id is kept, its commit version becomes that of the commit to come. The columns are those of the table, or `only` some.
    """
    check_required(spec.write.elements, changed)
    schema = pa.schema([field for field in spec.write.schema if only is None or field.name in only])
    present = np.unique(clauses).tolist()
    columns = []
    for field in schema:
        if field.name == ROW_VERSION:
            columns.append(pa.nulls(changed.num_rows, field.type))
            continue
        setters = [number for number in present if field.name in spec.clauses[number].assigned]
        if not setters:
            columns.append(old.column(field.name))
            continue
        new = conform_column(changed.column(field.name), field.type)
        whole = len(setters) == len(present)
        columns.append(new if whole else pick(pa.array(np.isin(clauses, setters)), new, old.column(field.name)))
    return pa.table(columns, schema=schema)


def inserted_rows(spec: WriteSpec, changed: pa.Table) -> pa.Table:
    """Inserted rows as the table's rows; their ids and commit versions are those of their place."""
    columns = [
        pa.nulls(changed.num_rows, field.type)
        if field.name in TRACKED
        else conform_column(changed.column(field.name), field.type)
        for field in spec.schema
    ]
    inserted = pa.table(columns, schema=spec.schema)
    check_required(spec.elements, inserted)
    return inserted


def conform_column(values: Any, type: pa.DataType) -> Any:
    """A column as Spark sent it, as one of `type`: other time zone label, other nullability, same values."""
    if values.type.equals(type):
        return values
    flat = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    return cast(flat, type)


def pick(mask: pa.Array, yes: Any, no: Any) -> Any:
    """`yes` where the mask is true, else `no`; for nested types too."""
    if pa.types.is_nested(yes.type):
        both = pa.concat_arrays([_flat(yes), _flat(no)])
        place = np.arange(len(mask))
        return both.take(pa.array(np.where(mask.to_numpy(zero_copy_only=False), place, place + len(mask))))
    return pc.if_else(mask, yes, no)


def _flat(values: Any) -> Any:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
