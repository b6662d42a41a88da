"""Copy-on-write of what changes only: row groups without a changed row and columns that no clause assigns are copied as bytes.

Updated rows stay in their places. A row group that rows leave is written again from its rows, as in any rewrite.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa

from deltamerge.worker.parquet.footer import get
from deltamerge.worker.parquet.plain import NotSpliceable, Reason
from deltamerge.worker.scan.columns import stored_table
from deltamerge.worker.scan.scan import ROW, FileTask, RowGroup, row_groups
from deltamerge.worker.write.feed import FeedWriter
from deltamerge.worker.write.file_rows import all_rows
from deltamerge.worker.write.rewrite import (
    CLAUSE,
    ChangedFile,
    ChangeSpec,
    FileRewriter,
    folder_of,
    open_target,
)
from deltamerge.worker.write.splice.base import Base, base_of, indexes_of
from deltamerge.worker.write.splice.file import SplicedFile
from deltamerge.worker.write.splice.group import GroupChange, changed_columns
from deltamerge.worker.write.splice.paged import held_bytes, saves
from deltamerge.worker.write.tracking import ROW_VERSION, TRACKED
from deltamerge.worker.write.write import DataFileWriter, PartitionWriters, check_lengths, check_required

log = logging.getLogger("deltamerge.worker")


def rewriter(
    spec: ChangeSpec, task: FileTask, number: int, others: PartitionWriters, feed: FeedWriter | None = None
) -> FileRewriter:
    """What writes a file again: from its bytes where that is certain to be right, else from its rows."""
    opened = open_target(spec, task)
    try:
        base = base_of(spec, task, opened)
    except NotSpliceable as error:
        log.debug("%s is written from its rows: %s", task.label, error)
        return FileRewriter(spec, task, opened, number, others, feed, error.reason)
    except BaseException:
        opened.source.close()
        raise
    return FileSplicer(spec, task, base, number, others, feed)


class FileSplicer(FileRewriter):
    """Rewrites one file by its row groups, as `FileRewriter` does by its batches.

    It begins when all changes are known, or many: if there is nothing to keep the file is written from its rows.
    """

    def __init__(
        self,
        spec: ChangeSpec,
        task: FileTask,
        base: Base,
        number: int,
        others: PartitionWriters,
        feed: FeedWriter | None = None,
    ) -> None:
        super().__init__(spec, task, base.opened, number, others, feed)
        self._base = base
        self._number = number
        self._new: SplicedFile | None = None
        self._batches = None
        self._left = row_groups(base.opened.file)
        self._pages = 0
        self._physical = {logical: physical for physical, logical in base.names.items()}

    def finish(self) -> ChangedFile:
        """Copy the rest of the file and close the new one."""
        self._advance(None)
        self._writer.flush()
        if self._new is not None and self._new.is_empty:
            self._writer = self._new_writer(self._number)
        return replace(super().finish(), pages=self._pages)

    def _advance(self, known: int | None) -> None:
        """Settle every row group whose changed rows are all known: those that end at or before position `known`, all for None."""
        if self._new is None and self._plain is None:
            if known is not None and sum(rows.nbytes for rows in self._pending) <= self._spec.write.budgets.piece_bytes:
                return
            self._begin(known)
        while True:
            if self._batches is not None:
                super()._advance(known)
                if self._batch is not None:
                    return
                self._batches = None
            if not self._left or not self._settled(known):
                return

    def _begin(self, known: int | None) -> None:
        """Begin the new file; from all rows where nothing can be kept."""
        try:
            if known is None and all(rows.num_rows and not self._keeps(group, rows) for group, rows in self._groups()):
                raise NotSpliceable(Reason.WHOLE)
            indexes = indexes_of(self._base)
        except NotSpliceable as error:
            log.debug("%s is written from its rows: %s", self._task.label, error)
            self._plain = error.reason
            self._decode(self._left)
            return
        write = self._spec.write
        self._new = SplicedFile(write, folder_of(write, self._task), self._number, self._base, indexes)
        self._writer = DataFileWriter(write, self._task.partition, "", self._number, rolls=False, opened=self._new)

    def _groups(self) -> Iterator[tuple[RowGroup, pa.Table]]:
        return ((group, self._changes_of(group)) for group in self._left)

    def _settled(self, known: int | None) -> bool:
        """Whether the next row group was copied, or its rows are being read; else more changed rows have to be known."""
        group = self._left[0]
        if known is not None and group.first_row + group.rows > known:
            waiting = sum(rows.nbytes for rows in self._pending)
            if waiting <= self._spec.write.budgets.row_group_bytes:
                return False
            self._decode([group])
            return True
        changed = self._changes_of(group)
        if changed.num_rows and not self._keeps(group, changed):
            self._decode(self._run(known))
            return True
        self._take_pending(group.first_row + group.rows)
        self._keep_group(group, changed)
        self._left = self._left[1:]
        self._start = group.first_row + group.rows
        return True

    def _changes_of(self, group: RowGroup) -> pa.Table:
        """The pending changed rows of a row group."""
        if not self._pending:
            return pa.table({ROW: pa.array([], pa.int64()), CLAUSE: pa.array([], pa.int32())})
        self._pending = [pa.concat_tables(self._pending)]
        first, end = np.searchsorted(
            self._pending[0].column(ROW).to_numpy(), [group.first_row, group.first_row + group.rows]
        ).tolist()
        return self._pending[0].slice(first, end - first)

    def _run(self, known: int | None) -> list[RowGroup]:
        """The next row group, and those behind it that are read one after the other, too."""
        run = [self._left[0]]
        for group in self._left[1:]:
            if known is not None and group.first_row + group.rows > known:
                break
            changed = self._changes_of(group)
            if not changed.num_rows or self._keeps(group, changed):
                break
            run.append(group)
        return run

    def _decode(self, groups: list[RowGroup]) -> None:
        self._left = self._left[len(groups) :]
        self._start = groups[0].first_row
        self._batches = self._read(groups)

    def _keeps(self, group: RowGroup, changed: pa.Table) -> bool:
        """Whether something of a row group is copied: columns, or pages of them."""
        clauses = np.unique(changed.column(CLAUSE).to_numpy()).tolist()
        actions = [self._spec.clauses[number] for number in clauses]
        partition = set(self._spec.write.partition_columns)
        if any(action.kind not in ("update", "delete") or action.assigned & partition for action in actions):
            return False
        budgets = self._spec.write.budgets
        touched = self._touched(group, changed)
        if len(touched) == len(self._base.names):
            return self._saves(group, changed)
        chunks = self._base.footer.groups[group.index].chunks
        read = touched if self._feed is None else self._base.names.values()
        leaves = [chunks[leaf] for name in read for leaf in self._base.leaves_of(self._physical[name])]
        return sum(map(held_bytes, leaves)) <= 2 * budgets.row_group_bytes

    def _saves(self, group: RowGroup, changed: pa.Table) -> bool:
        """Whether of a row group all columns of which change few pages do, about."""
        budgets = self._spec.write.budgets
        stay = group.rows - int(np.isin(changed.column(CLAUSE).to_numpy(), self._spec.updates, invert=True).sum())
        if not budgets.page_share or not stay:
            return False
        chunks = self._base.footer.groups[group.index].chunks
        positions = changed.column(ROW).to_numpy() - group.first_row
        columns = [(node, [chunks[leaf] for leaf in self._base.leaves_of(node.name.decode())]) for node in self._base.columns]
        return saves(columns, group.rows, positions, budgets)

    def _touched(self, group: RowGroup, changed: pa.Table) -> list[str]:
        """The columns of a row group that are written anew, by logical names: what is assigned, and what tracks rows.

        Row ids and commit versions that are null are those of the file, and the new file has others.
        """
        chunks = self._base.footer.groups[group.index].chunks
        clauses = np.unique(changed.column(CLAUSE).to_numpy()).tolist()
        if any(self._spec.clauses[number].kind == "delete" for number in clauses):
            return list(self._base.names.values())
        names: set[str] = set().union(*(self._spec.clauses[number].assigned for number in clauses))
        if clauses:
            names.add(ROW_VERSION)
        for name in TRACKED:
            if name in self._physical and get(chunks[self._base.leaves_of(self._physical[name])[0]].statistics, 3) != 0:
                names.add(name)
        return [name for name in self._base.names.values() if name in names]

    def _keep_group(self, group: RowGroup, changed: pa.Table) -> None:
        assert self._new is not None
        self._writer.flush()
        if not group.rows:
            return
        touched = tuple(self._touched(group, changed))
        of = GroupChange(
            self._spec,
            self._task,
            self._base,
            self._new.indexes,
            group,
            changed,
            touched,
            frozenset(self._checked(group)),
            self._feed,
        )
        columns = changed_columns(of)
        self._counts += np.bincount(changed.column(CLAUSE).to_numpy(), minlength=len(self._counts))
        self._copied += group.rows - changed.num_rows
        self._pages += columns.copied_pages
        sorts = not any(self._spec.clauses[number].kind == "update" for number in np.unique(changed.column(CLAUSE)).tolist())
        self._new.keep(group.index, columns, self._seen(group, [self._physical[name] for name in touched]), sorts)

    def _checked(self, group: RowGroup) -> set[str]:
        """The columns of which all values have to be looked at."""
        write = self._spec.write
        return {path[0] for path in write.required if not self._is_null_free(group, path)} | {
            path[0] for path, _ in write.lengths
        }

    def _seen(self, group: RowGroup, patched: list[str]) -> Iterator[pa.Table]:
        """The columns that are copied whose values have to be looked at, in parts: for statistics, or to be checked."""
        assert self._new is not None
        write = self._spec.write
        named = {self._base.names[name] for name in self._new.unknown(group.index, patched)}
        names = (named | self._checked(group)) - {self._base.names[name] for name in patched}
        for rows in self._rows(group, names) if names else ():
            check_required(write.required, rows)
            check_lengths(write.lengths, rows)
            yield self._stored(rows)

    def _is_null_free(self, group: RowGroup, path: tuple[str, ...]) -> bool:
        """Whether the footer says that what must not be null is not."""
        physical = self._physical.get(path[0])
        if physical is None:
            return path[0] not in self._task.partition or self._task.partition[path[0]].is_valid
        leaves = self._base.leaves_of(physical)
        chunk = self._base.footer.groups[group.index].chunks[leaves[0]]
        return len(path) == len(chunk.path) == 1 and get(chunk.statistics, 3) == 0

    def _rows(self, group: RowGroup, columns: Collection[str] | None) -> Iterator[pa.Table]:
        return all_rows(self._spec.write, self._task, self._opened.file, [group], columns)

    def _stored(self, rows: pa.Table) -> pa.Table:
        """Rows by logical names as a data file has them."""
        names = [name for name in rows.column_names if name in self._physical]
        schema = pa.schema([self._spec.write.stored.field(self._physical[name]) for name in names])
        return stored_table(rows.select(names), schema)
