"""A routed merge into files without ranges of keys of their own: rows of both sides that have one key meet at one task.

That task decides which rows of the table change. Each changed row goes on to the task that owns its file, which writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from deltamerge.budgets import Budgets
from deltamerge.worker.join.lookup import Lookup, lookup_of
from deltamerge.worker.join.owned import OwnedSpec, changed_rows, clause_pieces, clause_rows, new_places
from deltamerge.worker.join.pairs import Hits, Indices
from deltamerge.worker.join.route import Ranges, RouteSpec, payloads, routed, split, spread
from deltamerge.worker.join.sized import Chunk, Held
from deltamerge.worker.scan.row_errors import Refused
from deltamerge.worker.scan.scan import FILE, ROW, FileTask, scan_file
from deltamerge.worker.scan.source import BIN, PLACE
from deltamerge.worker.scan.streams import read_stream

# The task of payloads whose rows are not changed ones, but places of source rows that are written elsewhere.
_PLACES = -1
# Said of a source row that would have to be written in several places: what is only told of places can't say so.
REPEATED = "DELTAMERGE_KEYS_REPEATED"
# So many neighbours of the source, as a power of two, are told to one task; those of other bins elsewhere.
_TOGETHER, _FAR = 16, 7_919
_NOWHERE = Ranges(np.zeros(0, np.int64), np.zeros(0, np.int64), ())


@dataclass(frozen=True)
class MeetSpec:
    """Where rows meet: by the `keys`, columns of the table and of the source, spread over the tasks that Spark's partitioning
    finds by the numbers `meetings`; and where changed rows go: to the tasks of the numbers `owners`.

    Of these the first own the files that `owned.ranges` names, and the others insert rows. With `moves` an updated row is
    only deleted, and the source row that takes its place referred to, as new ones are.
    """

    owned: OwnedSpec
    keys: tuple[tuple[str, str], ...]
    meetings: tuple[int, ...] = field(repr=False)
    owners: tuple[int, ...] = field(repr=False)
    moves: bool = False

    @property
    def source(self) -> RouteSpec:
        """Where source rows go."""
        return self._route(self.source_columns, is_table=False)

    @property
    def table(self) -> RouteSpec:
        """Where the table's rows go."""
        return self._route(tuple(table for table, _ in self.keys), is_table=True)

    @property
    def source_columns(self) -> tuple[str, ...]:
        """The source's columns by which rows meet."""
        return tuple(source for _, source in self.keys)

    def _route(self, columns: tuple[str, ...], is_table: bool) -> RouteSpec:
        return RouteSpec(columns[0], _NOWHERE, len(self.meetings), self.meetings, is_table, columns, self.owned.budgets)

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
        self._lookup: Lookup | None = None
        self._waiting = Chunk(spec.owned.budgets)
        self._hits = Hits()
        self._held_bytes = Held(spec.owned.budgets.hash_buffer_bytes)

    def changes(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batches of `ROUTED` in and out."""
        for batch in batches:
            for task, payload in zip(batch.column(1).to_pylist(), batch.column(2), strict=True):
                yield from self._take(task < 0, read_stream(payload))
        rest = self._waiting.take()
        if rest is not None:
            yield from self._match(rest)
        yield from self._deleted()

    def _take(self, is_table: bool, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        if is_table:
            if self._table is not None:
                raise RuntimeError("a row of the table came after it had been matched")
            self._held_bytes.add(rows)
            self._parts.append(rows)
            return
        if self._waiting.add(rows):
            yield from self._match(self._waiting.take())

    def _held(self) -> pa.Table:
        """The rows of the table."""
        if self._table is None:
            schema = self._spec.owned.scan.output
            self._table = pa.concat_tables([schema.empty_table(), *self._parts]).combine_chunks()
            self._parts = []
        return self._table

    def _match(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        owned, held, source = self._spec.owned, self._held(), rows.combine_chunks()
        if self._lookup is None:
            self._lookup = lookup_of(owned, held)
        found = self._lookup.find(source)
        first = self._hits.add(found.places)
        if owned.matched is not None and first.any():
            partners, (files, rows) = found.partners[first], _where(held, found.places[first])
            if self._spec.moves:
                yield from self._moved(source, partners)
                yield from self._sent(changed_rows(owned, owned.matched, source, len(files), files, rows))
            else:
                for changed in clause_pieces(owned, owned.matched, source, partners, files, rows):
                    yield from self._sent(changed)
        if owned.inserts is not None:
            yield from self._inserted(source, np.flatnonzero(~found.hit))

    def _inserted(self, source: pa.Table, alone: Indices) -> Iterator[pa.RecordBatch]:
        """Source rows without a partner, by their keys: a task that runs again sends them the same way."""
        spec = self._spec
        assert spec.owned.inserts is not None
        if spec.owned.refers:
            yield from self._places(source, alone)
            return
        tasks = len(spec.owned.ranges.files) + spread(source, spec.source_columns, spec.inserters)[alone]
        yield from self._payloads(clause_rows(spec.owned, spec.owned.inserts, source, alone), tasks)

    def _moved(self, source: pa.Table, partners: Indices) -> Iterator[pa.RecordBatch]:
        """The places of source rows that stand for updated ones.

        Raises Refused (`REPEATED`) for one that stands for several: a place can't be told twice.
        """
        counts = np.bincount(partners)
        if (counts > 1).any():
            raise Refused(REPEATED, "A source row matches several rows of the table.")
        yield from self._places(source, np.flatnonzero(counts))

    def _places(self, source: pa.Table, chosen: Indices) -> Iterator[pa.RecordBatch]:
        """The places of some source rows, neighbours together, so that a bit is enough for each."""
        found = source.select([BIN, PLACE]).take(pa.array(chosen))
        bins, places = found.column(BIN).to_numpy().astype(np.int64), found.column(PLACE).to_numpy()
        tasks = (bins * _FAR + (places >> _TOGETHER)) % len(self._spec.owners)
        for task, rows in split(found, np.arange(len(chosen)), tasks):
            yield from payloads(self._spec.owners[task], _PLACES, rows, self._spec.owned.budgets.payload_bytes)

    def _deleted(self) -> Iterator[pa.RecordBatch]:
        """The rows of the table without a partner, which a NOT MATCHED BY SOURCE clause deletes."""
        owned, held = self._spec.owned, self._held()
        if owned.by_source is None:
            return
        alone = self._hits.without(np.arange(held.num_rows))
        step = owned.budgets.piece_rows
        for start in range(0, len(alone), step):
            files, rows = _where(held, alone[start : start + step])
            yield from self._sent(changed_rows(owned, owned.by_source, pa.table({}), len(files), files, rows))

    def _sent(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        """Changed rows on their way to the owners of their files."""
        yield from self._payloads(rows, self._owner_of[rows.column(FILE).to_numpy()])

    def _payloads(self, rows: pa.Table, tasks: Indices) -> Iterator[pa.RecordBatch]:
        for task, part in split(rows, np.arange(len(tasks)), tasks):
            yield from payloads(self._spec.owners[task], task, part, self._spec.owned.budgets.payload_bytes)


def _where(held: pa.Table, chosen: Indices) -> tuple[Any, Any]:
    """The files and positions of some rows of the table."""
    return held.column(FILE).to_numpy()[chosen], held.column(ROW).to_numpy()[chosen]


class Settled:
    """A task that owns files, or inserts rows: `changes` in the order in which they are applied, then places of source rows."""

    def __init__(self, budgets: Budgets) -> None:
        self._held: dict[int, list[pa.Table]] = {}
        self._new: list[pa.Table] = []
        self._held_bytes = Held(budgets.exchange_buffer_bytes)

    def changes(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Batches of `ROUTED` in, changed rows out: inserted ones as they come, then those of each file by position."""
        for batch in batches:
            for task, payload in zip(batch.column(1).to_pylist(), batch.column(2), strict=True):
                rows = read_stream(payload)
                if task == _PLACES:
                    self._new.append(rows)
                elif rows.column(FILE).null_count:
                    yield from rows.to_batches()
                else:
                    self._held_bytes.add(rows)
                    for file, part in split(rows, np.arange(rows.num_rows), rows.column(FILE).to_numpy()):
                        self._held.setdefault(file, []).append(part)
        for file in sorted(self._held):
            yield from pa.concat_tables(self._held.pop(file)).sort_by(ROW).to_batches()

    def new(self) -> Iterator[tuple[int, Indices]]:
        """For each bin of the source the places of rows to be written that `changes` did not give, ascending."""
        yield from new_places(self._new)
