"""Copy-on-write in place: a file is read, its modified rows leave, their new versions come in, and it is written again.

Unmodified rows never leave Arrow. Modified rows arrive ordered by position and are worked in as the file streams by, so
that memory holds a batch of the file and the modified rows of that batch, whatever their sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.worker.calendar import gregorian
from deltamerge.worker.columns import conform_table, stored_names
from deltamerge.worker.refusal import in_file
from deltamerge.worker.scan import ROW, FileTask, open_parquet, with_partition
from deltamerge.worker.write import DataFileWriter, PartitionWriters, WriteSpec, WrittenFile, split_by_partition

CLAUSE = "__deltamerge_clause"
_BATCH_ROWS = 131_072


@dataclass(frozen=True)
class ClauseAction:
    """What a clause does to a row: `kind` is update, delete or insert; `assigned` names the columns that it sets."""

    kind: str
    assigned: frozenset[str] = frozenset()


@dataclass(frozen=True)
class ChangeSpec:
    """How modified rows are applied. Rows carry FILE, ROW, CLAUSE (an index into `clauses`) and columns of new values.

    `folds_duplicates` says that a target row may be hit more than once, which counts once.
    """

    write: WriteSpec
    clauses: tuple[ClauseAction, ...]
    files: Mapping[int, FileTask]
    folds_duplicates: bool = False


@dataclass(frozen=True)
class Rewritten:
    """A file that was written again: the new files, how many of its rows were copied, hit, and hit more than once."""

    file: int
    written: list[WrittenFile]
    copied: int
    counts: np.ndarray[Any, Any]
    collisions: int


class FileRewriter:
    """Rewrites one file. `feed` it the modified rows in order of position, then `finish`.

    Rows whose new values belong to another partition go to `others`.
    """

    def __init__(self, spec: ChangeSpec, task: FileTask, number: int, others: PartitionWriters) -> None:
        self._spec = spec
        self._task = task
        folder = task.name.rpartition("/")[0]
        self._writer = DataFileWriter(spec.write, task.partition, folder, number, rolls=False)
        self._others = others
        self._moves = any(clause.assigned & set(spec.write.partition_columns) for clause in spec.clauses)
        self._source = spec.write.store.open(task.name)
        self._file = open_parquet(self._source, task.name)
        self._batches = self._read()
        self._batch: pa.Table | None = None
        self._start = 0
        self._pending: list[pa.Table] = []
        self._last_row = -1
        self._last_collision = -1
        self._copied = 0
        self._collisions = 0
        self._counts = np.zeros(len(spec.clauses), np.int64)

    def feed(self, hits: pa.Table) -> None:
        """Take the next modified rows, whose positions are not below those before."""
        hits = self._distinct(hits)
        if not hits.num_rows:
            return
        self._pending.append(hits)
        self._last_row = int(hits.column(ROW)[-1].as_py())
        self._advance(self._last_row)

    def finish(self) -> Rewritten:
        """Copy the rest of the file and close the new one."""
        self._advance(None)
        written = self._writer.close()
        self._source.close()
        return Rewritten(self._task.file, written, self._copied, self._counts, self._collisions)

    def discard(self) -> None:
        """Delete what was written."""
        self._source.close()
        self._writer.discard()

    def _read(self) -> Iterator[pa.Table]:
        schema = self._spec.write.schema
        stored = pa.schema([field for field in schema if field.name not in self._task.partition])
        with in_file(self._task.name):
            names = stored_names(self._file, stored)
            for batch in self._file.iter_batches(batch_size=_BATCH_ROWS, columns=names, use_threads=False):
                table = conform_table(gregorian(pa.Table.from_batches([batch]), self._file), stored)
                yield with_partition(table, schema, self._task.partition, table.num_rows)

    def _distinct(self, hits: pa.Table) -> pa.Table:
        """The hits without repeated positions, which are counted as collisions unless the clauses fold them."""
        rows = hits.column(ROW).to_numpy()
        first = np.empty(len(rows), np.bool_)
        if len(rows):
            first[0] = rows[0] != self._last_row
            first[1:] = rows[1:] != rows[:-1]
        repeated = np.unique(rows[~first])
        if not len(repeated):
            return hits
        if not self._spec.folds_duplicates:
            self._collisions += int((repeated > self._last_collision).sum())
            self._last_collision = int(repeated[-1])
        return hits.filter(pa.array(first))

    def _advance(self, known: int | None) -> None:
        """Write every batch whose hits are all known: those that end at or before position `known`, all for None."""
        while True:
            if self._batch is None:
                self._batch = next(self._batches, None)
            if self._batch is None:
                return
            end = self._start + self._batch.num_rows
            if known is not None and end > known:
                return
            self._apply(self._batch, self._start, self._take_pending(end))
            self._batch, self._start = None, end

    def _take_pending(self, end: int) -> pa.Table | None:
        """The pending hits with positions below `end`."""
        if not self._pending:
            return None
        hits = pa.concat_tables(self._pending)
        cut = int(np.searchsorted(hits.column(ROW).to_numpy(), end))
        rest = hits.slice(cut)
        self._pending = [rest] if rest.num_rows else []
        return hits.slice(0, cut) if cut else None

    def _apply(self, batch: pa.Table, start: int, hits: pa.Table | None) -> None:
        if hits is None:
            self._copied += batch.num_rows
            self._writer.write(batch)
            return
        positions = hits.column(ROW).to_numpy() - start
        clauses = hits.column(CLAUSE).to_numpy()
        self._counts += np.bincount(clauses, minlength=len(self._counts))
        stays = np.ones(batch.num_rows, np.bool_)
        stays[positions] = False
        kept = batch.filter(pa.array(stays))
        self._copied += kept.num_rows
        updates = np.isin(clauses, [i for i, c in enumerate(self._spec.clauses) if c.kind == "update"])
        self._writer.write(kept)
        if updates.any():
            old = batch.take(pa.array(positions[updates]))
            self._write_updated(new_rows(self._spec, old, hits.filter(pa.array(updates)), clauses[updates]))

    def _write_updated(self, rows: pa.Table) -> None:
        if not self._moves:
            self._writer.write(rows)
            return
        for partition, part in split_by_partition(rows, self._spec.write.partition_columns):
            stays = all(value.equals(self._task.partition[name]) for name, value in partition.items())
            (self._writer if stays else self._others).write(part)


def new_rows(spec: ChangeSpec, old: pa.Table, hits: pa.Table, clauses: np.ndarray[Any, Any]) -> pa.Table:
    """The rows after their updates: assigned columns from `hits`, the others from `old`; both in the same order."""
    schema = spec.write.schema
    columns = []
    for field in schema:
        setters = [i for i, clause in enumerate(spec.clauses) if field.name in clause.assigned]
        chosen = np.isin(clauses, setters)
        if not chosen.any():
            columns.append(old.column(field.name))
            continue
        new = conform_column(hits.column(field.name), field.type)
        columns.append(new if chosen.all() else pick(pa.array(chosen), new, old.column(field.name)))
    return pa.table(columns, schema=schema)


def conform_column(values: Any, type: pa.DataType) -> Any:
    """A column as Spark sent it, as one of `type`: other time zone label, other nullability, same values."""
    if values.type.equals(type):
        return values
    flat = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    return flat.cast(type)


def pick(mask: pa.Array, yes: Any, no: Any) -> Any:
    """`yes` where the mask is true, else `no`; for nested types too."""
    if pa.types.is_nested(yes.type):
        both = pa.concat_arrays([_flat(yes), _flat(no)])
        place = np.arange(len(mask))
        return both.take(pa.array(np.where(mask.to_numpy(zero_copy_only=False), place, place + len(mask))))
    return pc.if_else(mask, yes, no)


def _flat(values: Any) -> Any:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
