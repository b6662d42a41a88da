"""A routed merge into files without ranges of keys of their own: rows of both sides that have one key meet at one task.

That task decides which rows of the table change. Each changed row goes on to the task that owns its file, which writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.worker.owned import OwnedSpec, changed_rows, clause_rows, new_places, source_keys
from deltamerge.worker.pairs import OFTEN, Hits, Indices, few_of_each, pairs_of
from deltamerge.worker.route import Ranges, RouteSpec, numbers, payloads, routed, split, spread
from deltamerge.worker.scan import FILE, ROW, FileTask, scan_file
from deltamerge.worker.source import BIN, PLACE
from deltamerge.worker.streams import read_stream

# The tasks of payloads whose rows are not changed ones, but places of source rows: of those that are inserted, and of those that
# take the place of a row of the table, elsewhere.
_NEW, _MOVED = -1, -2
_CHUNK_BYTES = 64 << 20
_CHUNK_ROWS = 1 << 20
_NOWHERE = Ranges(np.zeros(0, np.int64), np.zeros(0, np.int64), ())


@dataclass(frozen=True)
class MeetSpec:
    """Where rows meet: those of the source by its column `key`, those of the table by `table_key`, spread over the tasks that
    Spark's partitioning finds by the numbers `meetings`; and where changed rows go: to the tasks of the numbers `owners`.

    Of these the first own the files that `owned.ranges` names, and the others insert rows. With `moves` an updated row is
    only deleted, and the source row that takes its place referred to, as new ones are.
    """

    owned: OwnedSpec
    table_key: str
    meetings: tuple[int, ...] = field(repr=False)
    owners: tuple[int, ...] = field(repr=False)
    moves: bool = False

    @property
    def source(self) -> RouteSpec:
        """Where source rows go."""
        return RouteSpec(self.owned.key, _NOWHERE, len(self.meetings), self.meetings)

    @property
    def table(self) -> RouteSpec:
        """Where the table's rows go."""
        return RouteSpec(self.table_key, _NOWHERE, len(self.meetings), self.meetings, is_table=True)

    @property
    def inserters(self) -> int:
        """How many tasks insert rows; 0 if none are inserted."""
        return len(self.owners) - len(self.owned.ranges.files)


def table_rows(spec: MeetSpec, tasks: Iterable[FileTask]) -> Iterator[pa.RecordBatch]:
    """The keys of the rows of some files, and where these are, on their way to the source rows of the same keys."""
    yield from routed(
        spec.table, (pa.Table.from_batches([batch]) for task in tasks for batch in scan_file(spec.owned.scan, task))
    )


class Meeting:
    """A task where rows meet: those of the table, which come first, are held, their keys and places; `changes` go on."""

    def __init__(self, spec: MeetSpec) -> None:
        self._spec = spec
        files = spec.owned.ranges.files
        self._owner_of = np.zeros(1 + max((file for owned in files for file in owned), default=-1), np.int64)
        for owner, owned in enumerate(files):
            self._owner_of[list(owned)] = owner
        self._parts: list[pa.Table] = []
        self._table: pa.Table | None = None
        self._waiting: list[pa.Table] = []
        self._hits = Hits()

    def changes(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batches of `ROUTED` in and out."""
        for batch in batches:
            for task, payload in zip(batch.column(1).to_pylist(), batch.column(2), strict=True):
                yield from self._take(task < 0, read_stream(payload))
        if self._waiting:
            yield from self._match()
        yield from self._deleted()

    def _take(self, is_table: bool, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        if is_table:
            if self._table is not None:
                raise RuntimeError("a row of the table came after it had been matched")
            self._parts.append(rows)
            return
        self._waiting.append(rows)
        waiting = self._waiting
        if sum(part.nbytes for part in waiting) >= _CHUNK_BYTES or sum(part.num_rows for part in waiting) >= _CHUNK_ROWS:
            yield from self._match()

    def _held(self) -> pa.Table:
        """The rows of the table."""
        if self._table is None:
            schema = self._spec.owned.scan.output
            self._table = pa.concat_tables([schema.empty_table(), *self._parts]).combine_chunks()
            self._parts = []
        return self._table

    def _match(self) -> Iterator[pa.RecordBatch]:
        owned, held = self._spec.owned, self._held()
        source = pa.concat_tables(self._waiting).combine_chunks()
        self._waiting = []
        keys, own = source_keys(owned, source)
        ranks = keys.rank([held.column(name) for name in keys.columns])
        pairs = pairs_of(ranks, few_of_each(own, OFTEN))
        assert pairs is not None
        places, partners = pairs
        first = self._hits.add(places)
        if owned.matched is not None and first.any():
            files, rows = _where(held, places[first])
            if self._spec.moves:
                yield from self._places(source, np.unique(partners[first]), _MOVED)
                changed = changed_rows(owned, owned.matched, source, len(files), files, rows)
            else:
                changed = clause_rows(owned, owned.matched, source, partners[first], files, rows)
            yield from self._sent(changed, files)
        if owned.inserts is not None:
            hit = pc.fill_null(pc.is_in(own, value_set=pc.unique(ranks.drop_null())), False)
            yield from self._inserted(source, np.flatnonzero(~np.asarray(hit.to_numpy(zero_copy_only=False))))

    def _inserted(self, source: pa.Table, alone: Indices) -> Iterator[pa.RecordBatch]:
        """Source rows without a partner, by their keys: a task that runs again sends them the same way."""
        spec = self._spec
        assert spec.owned.inserts is not None
        if spec.owned.refers:
            yield from self._places(source, alone, _NEW)
            return
        tasks = len(spec.owned.ranges.files) + spread(self._keys(source, alone), spec.inserters)
        yield from self._payloads(clause_rows(spec.owned, spec.owned.inserts, source, alone), tasks)

    def _places(self, source: pa.Table, chosen: Indices, kind: int) -> Iterator[pa.RecordBatch]:
        """The places of some source rows, by their keys, too."""
        tasks = spread(self._keys(source, chosen), len(self._spec.owners))
        for task, rows in split(source.select([BIN, PLACE]).take(pa.array(chosen)), np.arange(len(chosen)), tasks):
            yield from payloads(self._spec.owners[task], kind, rows)

    def _keys(self, source: pa.Table, chosen: Indices) -> Indices:
        return numbers(source.column(self._spec.owned.key).take(pa.array(chosen)))[0]

    def _deleted(self) -> Iterator[pa.RecordBatch]:
        """The rows of the table without a partner, which a NOT MATCHED BY SOURCE clause deletes."""
        owned, held = self._spec.owned, self._held()
        if owned.by_source is not None:
            files, rows = _where(held, self._hits.without(np.arange(held.num_rows)))
            yield from self._sent(changed_rows(owned, owned.by_source, pa.table({}), len(files), files, rows), files)

    def _sent(self, rows: pa.Table, files: Indices) -> Iterator[pa.RecordBatch]:
        """Changed rows on their way to the owners of their files."""
        yield from self._payloads(rows, self._owner_of[files])

    def _payloads(self, rows: pa.Table, tasks: Indices) -> Iterator[pa.RecordBatch]:
        for task, part in split(rows, np.arange(len(tasks)), tasks):
            yield from payloads(self._spec.owners[task], task, part)


def _where(held: pa.Table, chosen: Indices) -> tuple[Any, Any]:
    """The files and positions of some rows of the table."""
    return held.column(FILE).to_numpy()[chosen], held.column(ROW).to_numpy()[chosen]


class Settled:
    """A task that owns files, or inserts rows: `changes` in the order in which they are applied, then places of source rows."""

    def __init__(self) -> None:
        self._held: dict[int, list[pa.Table]] = {}
        self._places: dict[int, list[pa.Table]] = {_NEW: [], _MOVED: []}

    def changes(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batches of `ROUTED` in, changed rows out: inserted ones as they come, then those of each file by position."""
        for batch in batches:
            for task, payload in zip(batch.column(1).to_pylist(), batch.column(2), strict=True):
                rows = read_stream(payload)
                if task < 0:
                    self._places[task].append(rows)
                elif rows.column(FILE).null_count:
                    yield from rows.to_batches()
                else:
                    for file, part in split(rows, np.arange(rows.num_rows), rows.column(FILE).to_numpy()):
                        self._held.setdefault(file, []).append(part)
        for file in sorted(self._held):
            yield from pa.concat_tables(self._held.pop(file)).sort_by(ROW).to_batches()

    def new(self) -> Iterator[tuple[int, Indices]]:
        """For each bin of the source the places of rows to be inserted, ascending."""
        yield from new_places(self._places[_NEW])

    def moved(self) -> Iterator[tuple[int, Indices]]:
        """For each bin of the source the places of rows that stand for updated ones, ascending."""
        yield from new_places(self._places[_MOVED])
