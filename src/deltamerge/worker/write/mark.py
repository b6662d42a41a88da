"""Merge on read: changed rows are marked in the file's deletion vector, their new versions go to other files.

A file of which too many rows would be marked is written again without them instead; one with none left is not.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from deltamerge.protocol.formats.roaring import Positions, decode, encode
from deltamerge.protocol.values.distinct import distinct
from deltamerge.worker.parquet.plain import Reason
from deltamerge.worker.scan.row_errors import in_file
from deltamerge.worker.scan.scan import ROW, FileTask, RowGroup, open_file, open_parquet, read_columns, row_groups
from deltamerge.worker.scan.vectors import read_vector
from deltamerge.worker.write.changes import DistinctRows
from deltamerge.worker.write.feed import FeedWriter
from deltamerge.worker.write.rewrite import CLAUSE, ChangedFile, ChangeSpec, FileRewriter, open_target, updated_rows
from deltamerge.worker.write.tracking import tracked
from deltamerge.worker.write.write import PartitionWriters


class FileMarker:
    """Marks rows of one file. Give it the changed rows in order of position (`take`), then `finish`.

    New versions of rows go to `others`, changes to the change data `feed`.
    """

    def __init__(
        self, spec: ChangeSpec, task: FileTask, number: int, others: PartitionWriters, feed: FeedWriter | None = None
    ) -> None:
        self._spec = spec
        self._task = task
        self._number = number
        self._others = others
        self._feed = feed
        self._distinct = DistinctRows(spec.ignores_duplicate_matches)
        self._old = _OldRows(spec, task)
        self._marked: list[Positions] = []
        self._counts = np.zeros(len(spec.clauses), np.int64)
        self._copy: FileRewriter | None = None

    def take(self, changed: pa.Table) -> None:
        """Take the next changed rows, whose positions are not below those before."""
        changed = self._distinct.take(changed)
        self._marked.append(changed.column(ROW).to_numpy())
        self._counts += np.bincount(changed.column(CLAUSE).to_numpy(), minlength=len(self._counts))
        updated = updated_rows(self._spec, changed, self._old.take, self._feed)
        if updated is not None:
            self._others.write(updated)

    def finish(self) -> ChangedFile:
        """The file's vector, in which rows changed here and deleted before are; or what is left of the file, written again."""
        rows = self._task.rows if self._task.rows is not None else self._old.rows
        before = read_vector(self._task.vector, self._task.label, rows).positions()
        gone = distinct(np.concatenate([before, *self._marked]))
        if self._is_marked(len(gone), rows):
            self._old.close()
            return self._changed(vector=encode(gone), rows=rows)
        # No row is lost because statistics counted too few.
        rows = self._old.rows
        self._old.close()
        if len(gone) == rows:
            return self._changed()
        if self._is_marked(len(gone), rows):
            return self._changed(vector=encode(gone), rows=rows)
        opened = open_target(self._spec, self._task, decode(encode(gone)))
        self._copy = FileRewriter(self._spec, self._task, opened, self._number, self._others, plain=Reason.VECTOR)
        copied = self._copy.finish()
        return self._changed(written=copied.written, copied=copied.copied, plain=copied.plain)

    def discard(self) -> None:
        """Delete what was written."""
        self._old.close()
        if self._copy is not None:
            self._copy.discard()

    def _is_marked(self, gone: int, rows: int) -> bool:
        return gone < rows and gone <= self._spec.rewrite_share * rows

    def _changed(self, **found: Any) -> ChangedFile:
        known = {"written": [], "copied": 0, "counts": self._counts, "collisions": self._distinct.collisions}
        return ChangedFile(self._task.file, **{**known, **found})


class _OldRows:
    """Columns of changed rows as they were, read from the row groups that hold such rows.

    The file is opened when it must be.
    """

    def __init__(self, spec: ChangeSpec, task: FileTask) -> None:
        self._store = spec.write.store
        self._task = task
        self._schema = pa.schema([field for field in spec.write.schema if field.name in spec.old_columns])
        self._source: Any = None
        self._file: pq.ParquetFile | None = None
        self._groups: list[RowGroup] = []
        self._read: tuple[int, pa.Table] | None = None

    @property
    def rows(self) -> int:
        """How many rows the file has, deleted ones included."""
        return int(self._opened().metadata.num_rows)

    def take(self, positions: Positions) -> pa.Table:
        """The columns of the rows at ascending positions."""
        if not len(self._schema):
            return self._schema.empty_table()
        file = self._opened()
        ends = np.array([group.first_row + group.rows for group in self._groups])
        groups = np.searchsorted(ends, positions, side="right")
        parts = []
        for group in np.unique(groups).tolist():
            chosen = positions[groups == group] - self._groups[group].first_row
            parts.append(self._group(file, group).take(pa.array(chosen)))
        return pa.concat_tables(parts)

    def close(self) -> None:
        """Let go of the file."""
        if self._source is not None:
            self._source.close()
            self._source = self._file = self._read = None

    def _opened(self) -> pq.ParquetFile:
        if self._file is None:
            self._source = open_file(self._store, self._task)
            self._file = open_parquet(self._source, self._task.label)
            self._groups = row_groups(self._file)
        return self._file

    def _group(self, file: pq.ParquetFile, group: int) -> pa.Table:
        if self._read is None or self._read[0] != group:
            self._read = None
            with in_file(self._task.label):
                rows = read_columns(file, group, self._schema, self._task.partition)
            self._read = group, tracked(rows, self._task, self._groups[group].first_row)
        return self._read[1]
