"""The second half of a routed merge: a task owns some files of the table, and all source rows that can match theirs come to it.

Source rows are matched as they come, a chunk at a time; what is held of them are those that change a row of the task's files,
two for each at most: a second one tells that the match is ambiguous. Where that is too much, Spark joins.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.budgets import DEFAULTS, Budgets
from deltamerge.protocol.values.widths import least_width
from deltamerge.worker.join.pairs import OFTEN, Hits, Indices, few_of_each, pairs_of
from deltamerge.worker.join.route import Ranges, numbers
from deltamerge.worker.join.sized import Chunk, Held, pieces
from deltamerge.worker.scan.keys import KeyFilter, build_filter
from deltamerge.worker.scan.scan import POSITION_FIELDS, RANK, ROW, FileTask, ScanSpec, scan_file
from deltamerge.worker.scan.source import BIN, PLACE
from deltamerge.worker.scan.streams import read_stream
from deltamerge.worker.write.rewrite import CLAUSE, conform_column

SourceKeys = tuple[KeyFilter, pa.Array]


@dataclass(frozen=True)
class RoutedClause:
    """What a clause without a condition writes: for each column that it sets the source's column, None for a null."""

    number: int
    values: tuple[tuple[str, str | None], ...] = ()

    @property
    def columns(self) -> list[str]:
        """The source's columns that it writes."""
        return sorted({name for _, name in self.values if name is not None})


@dataclass(frozen=True)
class OwnedSpec:
    """How routed rows are matched. `pairs` are the key columns of the table and of the source, `key` is the source's column
    that `ranges` are about. `scan` reads the key columns of the table; `written` are the columns that clauses set.

    Of the three clauses those that are None do nothing; `by_source` deletes. With `refers` rows to be inserted are not
    written but referred to, by BIN and PLACE.
    """

    scan: ScanSpec
    pairs: tuple[tuple[str, str], ...]
    key: str
    ranges: Ranges
    written: pa.Schema
    matched: RoutedClause | None = None
    inserts: RoutedClause | None = None
    by_source: RoutedClause | None = None
    refers: bool = False
    budgets: Budgets = DEFAULTS

    @property
    def changes(self) -> pa.Schema:
        """The schema of changed rows."""
        nullable = [field.with_nullable(True) for field in (*POSITION_FIELDS, *self.written)]
        return pa.schema([*nullable[:2], pa.field(CLAUSE, pa.int32()), *nullable[2:]])


class Owner:
    """A task of the second half: `changes` of the rows that come to it, then `new` ones that it refers to."""

    def __init__(self, spec: OwnedSpec, files: Mapping[int, FileTask]) -> None:
        self._spec = spec
        self._files = files
        self._task = -1
        self._owned: tuple[int, ...] = ()
        self._waiting = Chunk(spec.budgets)
        self._changed: dict[int, list[pa.Table]] = {}
        self._hits: dict[int, Hits] = {}
        self._new: list[pa.Table] = []
        self._held = Held(spec.budgets.exchange_buffer_bytes)
        self._width = least_width(spec.changes)

    def changes(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batches of `ROUTED` in, changed rows out: inserted ones first, then those of each of the task's files by position."""
        for batch in batches:
            for task, payload in zip(batch.column(1).to_pylist(), batch.column(2), strict=True):
                self._start(task)
                if payload.is_valid:
                    yield from self._take(read_stream(payload))
        yield from self._finish()

    def new(self) -> Iterator[tuple[int, Indices]]:
        """The source rows to be inserted that `changes` did not give: for each bin of the source their places, ascending."""
        yield from new_places(self._new)

    def _start(self, task: int) -> None:
        if self._task < 0:
            files = self._spec.ranges.files
            self._task, self._owned = task, files[task] if task < len(files) else ()
            self._changed = {file: [] for file in self._owned}
            self._hits = {file: Hits() for file in self._owned}

    def _take(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        """Source rows; yields inserted ones."""
        if self._waiting.add(rows):
            yield from self._match(self._waiting.take())

    def _finish(self) -> Iterator[pa.RecordBatch]:
        """What is left to be inserted, then the changes of the files, file by file, in the order of their rows."""
        rest = self._waiting.take()
        if rest is not None:
            yield from self._match(rest)
        for file in self._owned:
            changed = self._changed.pop(file)
            changed += self._deleted(file)
            if changed:
                rows = pa.concat_tables(changed)
                yield from (rows.sort_by(ROW) if len(changed) > 1 else rows).to_batches()

    def _match(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        spec, source = self._spec, rows.combine_chunks()
        keys = source_keys(spec, source)
        matched = np.zeros(source.num_rows, np.bool_)
        for file in self._owned:
            partners, positions, hit = self._pairs(keys, file)
            if not len(positions):
                continue
            first = self._hits[file].add(positions)
            if spec.matched is not None and first.any():
                for changed in clause_pieces(spec, spec.matched, source, partners[first], file, positions[first]):
                    self._held.add(changed)
                    self._changed[file].append(changed)
            matched |= hit
        if spec.inserts is not None:
            alone = self._unmatched(source, np.flatnonzero(~matched))
            if spec.refers:
                self._new.append(source.select([BIN, PLACE]).take(pa.array(alone)))
            else:
                yield from clause_rows(spec, spec.inserts, source, alone).to_batches()

    def _pairs(self, keys: SourceKeys, file: int) -> tuple[Indices, Indices, npt.NDArray[np.bool_]]:
        """The source row and the position of the file's row in each pair, ordered by position, and which source rows have a
        partner there; of source rows with one key two are paired.
        """
        scan = replace(self._spec.scan, keys=keys[0], ranked=True)
        found = pa.Table.from_batches(scan_file(scan, self._files[file]), scan.output)
        self._held.expect(int(found.num_rows * self._width))
        ranks = found.column(RANK)
        pairs = pairs_of(ranks, few_of_each(keys[1], OFTEN))
        assert pairs is not None
        rows, partners = pairs
        hit = pc.fill_null(pc.is_in(keys[1], value_set=pc.unique(ranks)), False).to_numpy(zero_copy_only=False)
        return partners, found.column(ROW).to_numpy()[rows], np.asarray(hit) & keys[1].is_valid().to_numpy(zero_copy_only=False)

    def _unmatched(self, source: pa.Table, alone: Indices) -> Indices:
        """Of the source rows `alone`, that match none of the task's files, those that match no other file either.

        Those that fall into several tasks' ranges are left to the first of them.
        """
        if not self._owned:
            return alone
        ranges = self._spec.ranges
        keys, _ = numbers(source.column(self._spec.key).take(pa.array(alone)))
        first, last = ranges.covering(keys)
        decided = first == self._task
        alone, last = alone[decided], last[decided]
        for task in range(self._task + 1, int(last.max(initial=0))):
            for file in ranges.files[task]:
                chosen = np.flatnonzero(last > task)
                if not len(chosen):
                    break
                _, _, hit = self._pairs(source_keys(self._spec, source.take(pa.array(alone[chosen]))), file)
                alone, last = np.delete(alone, chosen[hit]), np.delete(last, chosen[hit])
        return alone

    def _deleted(self, file: int) -> list[pa.Table]:
        """The rows of a file without a partner, which a NOT MATCHED BY SOURCE clause deletes."""
        spec = self._spec
        if spec.by_source is None:
            return []
        scan = replace(spec.scan, schema=pa.schema([]))
        rows = _joined([batch.column(ROW).to_numpy() for batch in scan_file(scan, self._files[file])])
        gone = self._hits.pop(file).without(rows)
        return [changed_rows(spec, spec.by_source, pa.table({}), len(gone), file, gone)] if len(gone) else []


def source_keys(spec: OwnedSpec, source: pa.Table) -> SourceKeys:
    """What the keys of source rows are looked up by, and each row's rank among them."""
    types = {name: spec.scan.schema.field(name).type for name, _ in spec.pairs}
    arrays = [source.column(name).combine_chunks().cast(types[target]) for target, name in spec.pairs]
    return build_filter([target for target, _ in spec.pairs], arrays, [False] * len(arrays))


def new_places(found: list[pa.Table]) -> Iterator[tuple[int, Indices]]:
    """For each bin of the source the places found in it, ascending."""
    if found:
        rows = pa.concat_tables(found)
        bins, places = rows.column(BIN).to_numpy(), rows.column(PLACE).to_numpy()
        for number in np.flatnonzero(np.bincount(bins)).tolist():
            yield number, np.sort(places[bins == number])


def clause_pieces(
    spec: OwnedSpec, clause: RoutedClause, source: pa.Table, chosen: Indices, files: Any, positions: Indices
) -> Iterator[pa.Table]:
    """Changed rows of a file, or of one file each, in pieces: one long source row may have many partners."""
    for piece in pieces(source.select(clause.columns), chosen, spec.budgets.piece_bytes):
        place = files if isinstance(files, int) else files[piece]
        yield clause_rows(spec, clause, source, chosen[piece], place, positions[piece])


def clause_rows(
    spec: OwnedSpec, clause: RoutedClause, source: pa.Table, chosen: Indices, files: Any = None, positions: Any = None
) -> pa.Table:
    """Changed rows as a clause writes them: of the `chosen` source rows; inserted ones if there is no file."""
    own = source.select(clause.columns)
    own = own.take(pa.array(chosen)) if own.num_columns and not _is_whole(chosen, source.num_rows) else own
    return changed_rows(spec, clause, own, len(chosen), files, positions)


def changed_rows(
    spec: OwnedSpec, clause: RoutedClause, source: pa.Table, count: int, files: Any = None, positions: Any = None
) -> pa.Table:
    """Some `count` rows as a clause changes them, by the source's columns.

    They are of one of the `files` each, or of one for all; inserted ones if there is none.
    """
    values = dict(clause.values)
    files = pa.nulls(count, pa.int32()) if files is None else pa.array(np.broadcast_to(files, count), pa.int32())
    places = pa.nulls(count, pa.int64()) if positions is None else pa.array(positions, pa.int64())
    columns = [files, places, pa.array(np.full(count, clause.number, np.int32))]
    for written in spec.written:
        name = values.get(written.name)
        columns.append(pa.nulls(count, written.type) if name is None else conform_column(source.column(name), written.type))
    return pa.table(columns, schema=spec.changes)


def _is_whole(chosen: Indices, rows: int) -> bool:
    """Whether all rows are chosen, in order."""
    return len(chosen) == rows and bool((np.diff(chosen, prepend=-1) == 1).all())


def _joined(parts: list[Indices]) -> Indices:
    return np.concatenate([np.zeros(0, np.int64), *parts])
