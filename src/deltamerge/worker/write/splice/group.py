"""A row group in which rows change or leave: what its columns are afterwards, by pages where that is certain and has gain."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from deltamerge.worker.parquet.footer import get
from deltamerge.worker.parquet.pages import PagedChunk
from deltamerge.worker.parquet.plain import NotPaged, Whole
from deltamerge.worker.scan.columns import stored_table
from deltamerge.worker.scan.scan import ROW, FileTask, RowGroup, open_parquet
from deltamerge.worker.write.feed import FeedWriter
from deltamerge.worker.write.file_rows import all_rows
from deltamerge.worker.write.rewrite import CLAUSE, ChangeSpec, updated_rows
from deltamerge.worker.write.splice.base import Base, Indexes
from deltamerge.worker.write.splice.known import Known, Place, known_of, place_of, seen_after, with_nulls, with_seen
from deltamerge.worker.write.splice.paged import (
    Compact,
    Cut,
    PagedColumn,
    PagedSet,
    compact,
    cut,
    encoded,
    held_bytes,
    paged_column,
    paged_sets,
)
from deltamerge.worker.write.stats import StatsColumn
from deltamerge.worker.write.tracking import TRACKED
from deltamerge.worker.write.write import check_lengths, check_required

log = logging.getLogger("deltamerge.worker")


@dataclass(frozen=True)
class GroupChange:
    """A row group's changed rows, the columns that are written for them (`touched`, by logical names), and what is needed for it.

    Values of the `checked` columns all have to be looked at.
    """

    spec: ChangeSpec
    task: FileTask
    base: Base
    indexes: Indexes
    group: RowGroup
    changed: pa.Table
    touched: tuple[str, ...]
    checked: frozenset[str]
    feed: FeedWriter | None

    @property
    def positions(self) -> np.ndarray[Any, Any]:
        """The changed rows in the row group."""
        found: np.ndarray[Any, Any] = self.changed.column(ROW).to_numpy() - self.group.first_row
        return found

    @property
    def updates(self) -> np.ndarray[Any, Any]:
        """Which of the changed rows stay."""
        return np.isin(self.changed.column(CLAUSE).to_numpy(), self.spec.updates)

    @property
    def physical(self) -> Mapping[str, str]:
        """The columns' physical names by logical ones."""
        return {logical: physical for physical, logical in self.base.names.items()}

    @property
    def rows(self) -> int:
        """How many rows stay."""
        return self.group.rows - int((~self.updates).sum())


@dataclass(frozen=True)
class ChangedColumns:
    """What becomes of a row group: how many rows, whole columns by physical names, and others by pages, by their leaves.

    `counted` says of the values of columns by pages what the statistics need.
    """

    rows: int
    whole: pa.Table | None = None
    paged: Mapping[int, PagedChunk] = field(default_factory=dict)
    counted: Sequence[tuple[StatsColumn, Known]] = ()

    @property
    def names(self) -> list[str]:
        """The leading names of all columns that change."""
        paged = [chunk.chunk.path[0].decode() for chunk in self.paged.values()]
        return [*(self.whole.column_names if self.whole is not None else ()), *paged]

    @property
    def copied_pages(self) -> int:
        """Pages that were copied of columns of which others changed."""
        return sum(chunk.copied for chunk in self.paged.values())


@dataclass(frozen=True)
class _Part:
    """Columns of some rows as they were, by logical names; the rows' positions are None for all of the row group."""

    names: frozenset[str]
    before: pa.Table
    rows: np.ndarray[Any, Any] | None = None
    set: PagedSet | None = None
    cut: Cut | None = None

    def at(self, positions: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Where the rows of some positions are."""
        return positions if self.rows is None else np.searchsorted(self.rows, positions)


def changed_columns(of: GroupChange) -> ChangedColumns:
    """The columns that change, after it; the feed gets all changed rows. Raises Refused."""
    if not of.touched and (of.feed is None or not of.changed.num_rows):
        return ChangedColumns(of.rows)
    wanted = of.base.names.values() if of.feed is not None else of.touched
    parts = [*_paged_parts(of)] if of.changed.num_rows else []
    taken = frozenset().union(*(part.names for part in parts))
    rest = frozenset(wanted) - taken
    if rest:
        parts.append(_Part(rest, _rows(of, rest)))

    def old_rows(at: np.ndarray[Any, Any]) -> pa.Table:
        columns: dict[str, Any] = {}
        for part in parts:
            rows = part.before.take(pa.array(part.at(at - of.group.first_row)))
            columns |= dict(zip(rows.column_names, rows.columns, strict=True))
        schema = pa.schema([field for field in of.spec.write.schema if of.feed is not None or field.name in columns])
        return pa.table([columns.get(field.name, _constant(of, field, len(at))) for field in schema], schema=schema)

    new = updated_rows(of.spec, of.changed, old_rows, of.feed, None if of.feed is not None else of.touched)
    if not of.touched:
        return ChangedColumns(of.rows)
    chunks: dict[int, PagedChunk] = {}
    counted: list[tuple[StatsColumn, Known]] = []
    late = []
    for part in parts:
        mine = [name for name in of.touched if name in part.names]
        if part.set is None or not mine:
            continue
        paged, known, others = _by_pages(of, part, mine, new)
        chunks |= paged
        counted += known
        late += others
    whole = [name for name in of.touched if name in rest]
    tables = [part.before.select(whole) for part in parts if part.set is None and whole]
    if late:
        tables.append(_rows(of, late))
    columns = {name: table.column(name) for table in tables for name in table.column_names}
    return ChangedColumns(of.rows, _whole(of, columns, new) if columns else None, chunks, counted)


def _constant(of: GroupChange, field: pa.Field, rows: int) -> pa.Array:
    """The values of a column that is not in the file."""
    partition = of.task.partition
    return pa.repeat(partition[field.name], rows) if field.name in partition else pa.nulls(rows, field.type)


def _whole(of: GroupChange, columns: Mapping[str, Any], new: pa.Table | None) -> pa.Table:
    schema = pa.schema([field for field in of.spec.write.schema if field.name in columns])
    rows = pa.table([columns[name] for name in schema.names], schema=schema)
    after, stays = _after(of, rows, new, of.positions)
    kept = after if stays is None else after.filter(pa.array(stays))
    check_required(of.spec.write.required, kept)
    check_lengths(of.spec.write.lengths, kept)
    return _in_file(of, kept)


def _after(
    of: GroupChange, rows: pa.Table, new: pa.Table | None, places: np.ndarray[Any, Any]
) -> tuple[pa.Table, np.ndarray[Any, Any] | None]:
    """The rows with new ones in their places, the changed ones being at some places; and which rows stay, None for all."""
    updates = of.updates
    if new is not None:
        rows = _placed(rows, new.select(rows.column_names), places[updates])
    if updates.all():
        return rows, None
    stays = np.ones(rows.num_rows, np.bool_)
    stays[places[~updates]] = False
    return rows, stays


def _placed(rows: pa.Table, new: pa.Table, places: np.ndarray[Any, Any]) -> pa.Table:
    """The rows with new ones at some places."""
    order = np.arange(rows.num_rows)
    order[places] = rows.num_rows + np.arange(new.num_rows)
    both = pa.concat_tables([rows, new]).combine_chunks()
    return both.take(pa.array(order))


def _paged_parts(of: GroupChange) -> Iterator[_Part]:
    """The columns that go by pages, the changed pages of each being read."""
    budgets = of.spec.write.budgets
    share = budgets.page_share
    if not share:
        return
    names = list(of.base.names.values()) if of.feed is not None else of.touched
    chunks = of.base.footer.groups[of.group.index].chunks
    leaves = [chunks[leaf] for name in names for leaf in of.base.leaves_of(of.physical[name])]
    if sum(map(held_bytes, leaves)) < budgets.page_bytes:
        log.debug("%s of %s are encoded as a whole: %s", names, of.task.label, Whole.FEW)
        return
    columns = []
    for name in names:
        try:
            columns.append(_paged(of, name))
        except NotPaged as error:
            log.debug("%s of %s is encoded as a whole: %s", name, of.task.label, error)
    for found in paged_sets(columns, of.group.index, of.positions, share, budgets.page_bytes):
        try:
            pages = cut(of.base, found)
        except NotPaged as error:
            log.debug("%s of %s are encoded as a whole: %s", found.names, of.task.label, error)
            continue
        mine = frozenset(of.base.names[name] for name in found.names)
        file = open_parquet(pa.BufferReader(pages.file), of.task.label)
        rows = found.rows
        before = _read(of, file, RowGroup(0, 0, len(rows)), mine)
        yield _Part(mine, before, rows, found, pages)


def _paged(of: GroupChange, name: str) -> PagedColumn:
    """A column by its pages. Raises NotPaged."""
    share = of.spec.write.budgets.page_share
    column = paged_column(of.base, of.indexes, of.group.index, of.physical[name], of.positions, share)
    if name in TRACKED and get(column.chunk.statistics, 3) != 0:
        raise NotPaged(Whole.FILLED)
    if name in of.touched:
        if name in of.checked:
            raise NotPaged(Whole.CHECKED)
        _stats_of(of, column)
    return column


def _stats_of(of: GroupChange, column: PagedColumn) -> tuple[StatsColumn, Place, Known] | None:
    """What is known of a column with statistics, None for one without. Raises NotPaged."""
    for stats in of.spec.write.stats:
        if stats.path == (column.name,):
            place = place_of(of.base.columns, stats.path)
            assert place is not None
            footer = of.base.footer
            known = known_of(column.chunk, stats, place, footer.writer, footer.nan_free(of.base.name), of.group.rows)
            if known is None or known.has_nan:
                raise NotPaged(Whole.STATISTICS)
            return stats, place, known
    return None


def _by_pages(
    of: GroupChange, part: _Part, names: Sequence[str], new: pa.Table | None
) -> tuple[dict[int, PagedChunk], list[tuple[StatsColumn, Known]], list[str]]:
    """The chunks of some columns by pages, what is known of their values, and the columns that can't go by pages."""
    assert part.set is not None
    assert part.cut is not None
    places = part.at(of.positions)
    after, stays = _after(of, part.before.select(names), new, places)
    check_required(of.spec.write.required, after)
    before, after = _in_file(of, part.before.select(names)), _in_file(of, after)
    tables = []
    start = 0
    for end in part.set.ends:
        rows = after.slice(start, end - start)
        tables.append(rows if stays is None else rows.filter(pa.array(stays[start:end])))
        start = end
    kept = pa.concat_tables(tables)
    settled: dict[int, tuple[StatsColumn, Place, Any] | int | None] = {}
    counted: list[tuple[StatsColumn, Known]] = []
    compacts: dict[str, Compact] = {}
    late = []
    removed = before.take(pa.array(places))
    for column in part.set.columns:
        if column.name not in before.column_names:
            continue
        was, now = before.column(column.name), kept.column(column.name)
        try:
            new_pages = compact(column, part.cut, tables)
            found = _stats_of(of, column)
            if found is None:
                nulls = get(column.chunk.statistics, 3)
                settled[column.leaf] = None if nulls is None else nulls - was.null_count + now.null_count
            else:
                stats, place, known = found
                seen = seen_after(column.chunk, stats, known, was, removed.column(column.name), now)
                texts = seen.bounds if pa.types.is_string(stats.type) else None
                settled[column.leaf] = (stats, place, seen) if stats.bounded else seen.nulls
                counted.append((stats, Known(seen.nulls, seen.nans > 0, texts)))
            compacts[column.name] = new_pages
        except NotPaged as error:
            log.debug("%s of %s is encoded as a whole: %s", column.name, of.task.label, error)
            late.append(of.base.names[column.name])
    chunks = encoded(of.base, of.indexes, part.set, part.cut, tables, compacts) if compacts else {}
    told = {leaf: _told(chunk, settled[leaf]) for leaf, chunk in chunks.items()}
    return told, counted, late


def _told(chunk: PagedChunk, found: Any) -> PagedChunk:
    told = with_nulls(chunk.chunk, found) if not isinstance(found, tuple) else with_seen(chunk.chunk, *found)
    return replace(chunk, chunk=told)


def _rows(of: GroupChange, columns: Collection[str]) -> pa.Table:
    return _read(of, of.base.opened.file, of.group, columns)


def _read(of: GroupChange, file: Any, group: RowGroup, columns: Collection[str]) -> pa.Table:
    return pa.concat_tables(all_rows(of.spec.write, of.task, file, [group], columns))


def _in_file(of: GroupChange, rows: pa.Table) -> pa.Table:
    """Rows by logical names as a data file has them."""
    physical = of.physical
    names = [name for name in rows.column_names if name in physical]
    schema = pa.schema([of.spec.write.stored.field(physical[name]) for name in names])
    return stored_table(rows.select(names), schema)
