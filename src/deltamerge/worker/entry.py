"""The functions that Spark calls on executors, each for `DataFrame.mapInArrow`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.protocol.values.distinct import distinct
from deltamerge.protocol.values.roaring import decode, encode
from deltamerge.worker.join.meet import Meeting, MeetSpec, Settled, table_rows
from deltamerge.worker.join.owned import OwnedSpec, Owner, changed_rows
from deltamerge.worker.join.pairs import Indices
from deltamerge.worker.join.route import RouteSpec, routed
from deltamerge.worker.scan.bloom import key_hashes
from deltamerge.worker.scan.scan import FILE, RANK, ROW, FileTask, ScanSpec, scan_file
from deltamerge.worker.scan.source import SourceSpec, chosen_rows, source_rows
from deltamerge.worker.scan.streams import arrow_stream, read_stream
from deltamerge.worker.write.apply import apply_changes
from deltamerge.worker.write.results import ADD, NEW, result_batch, written_row
from deltamerge.worker.write.rewrite import ChangeSpec, conform_column
from deltamerge.worker.write.write import PartitionWriters, WriteSpec, check_required

Batches = Iterable[pa.RecordBatch]
ArrowMap = Callable[[Batches], Iterator[pa.RecordBatch]]


def scan_map(spec: ScanSpec, bins: Sequence[Sequence[FileTask]], each: int = 1) -> ArrowMap:
    """Bin numbers, times `each`, in; the candidate rows of each bin's files out."""

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for task in bins[number // each]:
                    yield from scan_file(spec, task)

    return run


def match_map(spec: ScanSpec, bins: Sequence[Sequence[FileTask]], limit: int, most: float) -> ArrowMap:
    """Bin numbers in, the ranked rows of each bin's files out; for a bin with too many (`ranked_rows`) a row of file -1."""

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from ranked_rows(spec, bins[number], Room(limit, most))

    return run


@dataclass
class Room:
    """For how many more rows and bytes there is room; what is read at the same time may share it."""

    rows: int
    bytes: float

    def takes(self, batch: pa.RecordBatch) -> bool:
        """Whether there was room for a batch too; once there is none it stays so."""
        self.rows -= batch.num_rows
        self.bytes -= batch.nbytes
        return self.rows >= 0 and self.bytes >= 0


def ranked_rows(spec: ScanSpec, tasks: Sequence[FileTask], room: Room) -> list[pa.RecordBatch]:
    """The ranked rows of some files, in batches of `spec.output`; a row of file -1 alone where there is no room for them."""
    found: list[pa.RecordBatch] = []
    for task in tasks:
        for batch in scan_file(spec, task):
            if not room.takes(batch):
                return [overflow_row(spec.output)]
            found.append(batch)
    return found


def overflow_row(schema: pa.Schema) -> pa.RecordBatch:
    """A row that says that there were too many."""
    constants = {FILE: -1, ROW: -1, RANK: -1}
    values = [pa.array([constants.get(field.name)], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(values, schema=schema)


def payload_map(spec: ChangeSpec) -> ArrowMap:
    """Rows of (number, modified rows as an Arrow stream) in; result rows out."""

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number, payload in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
                yield from apply_changes(spec, read_stream(payload).to_batches(), number)

    return run


def sized_map(limit: int, bounded: Sequence[int] = ()) -> ArrowMap:
    """Rows in; one row out: how many they are, their bytes, the rows themselves unless they exceed `limit` bytes, and limits.

    The limits are two rows with the least and the greatest values of the columns at the places `bounded`.
    """

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        rows = size = 0
        kept: list[pa.RecordBatch] = []
        limits: pa.Table | None = None
        for batch in batches:
            rows, size = rows + batch.num_rows, size + batch.nbytes
            kept = [*kept, batch] if size <= limit else []
            limits = _limits(pa.Table.from_batches([batch.select(list(bounded))]), limits)
        payload = arrow_stream(pa.Table.from_batches(kept)) if kept else None
        if rows and limits is not None:
            found = [payload, arrow_stream(limits)]
            values = [pa.array([rows]), pa.array([size]), *(pa.array([value], pa.binary()) for value in found)]
            yield pa.RecordBatch.from_arrays(values, names=["rows", "bytes", "payload", "limits"])

    return run


def hash_map(null_safe: Sequence[bool]) -> ArrowMap:
    """Keys in, a column each; one row out: the distinct hashes of those that can match, as the bytes of 32-bit integers."""

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        parts = [np.zeros(0, np.uint32)]
        for batch in batches:
            hashes, possible = key_hashes(batch.columns, null_safe)
            parts.append(hashes[possible])
        found = distinct(np.concatenate(parts)).tobytes()
        yield pa.RecordBatch.from_arrays([pa.array([found], pa.binary())], names=["hashes"])

    return run


def _limits(rows: pa.Table, before: pa.Table | None) -> pa.Table:
    """Two rows: the least and the greatest values of each column, those known `before` included."""
    table = rows if before is None else pa.concat_tables([rows, before])
    found = [(pc.min_max(column), column.type) for column in table.columns]
    columns = [pa.array([limits["min"], limits["max"]], type) for limits, type in found]
    return pa.table(columns, schema=table.schema)


def apply_map(spec: ChangeSpec, names: Sequence[str]) -> ArrowMap:
    """Modified rows in, ordered by file and position, columns in the order of `names`; result rows out."""

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        named = (pa.RecordBatch.from_arrays(batch.columns, names=list(names)) for batch in batches)
        yield from apply_changes(spec, named, 0)

    return run


def write_map(spec: WriteSpec) -> ArrowMap:
    """Rows of the table's schema in, a result row per file written out."""

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        writers = PartitionWriters(spec, 0)
        try:
            for batch in batches:
                columns = [conform_column(column, field.type) for column, field in zip(batch.columns, spec.schema, strict=True)]
                rows = pa.table(columns, schema=spec.schema)
                check_required(spec.elements, rows)
                writers.write(rows)
            written = writers.close()
        except BaseException:
            writers.discard()
            raise
        yield result_batch(written_row(ADD, file) for file in written)

    return run


def route_map(spec: RouteSpec, names: Sequence[str]) -> ArrowMap:
    """Source rows in, columns in the order of `names`; batches of `ROUTED` out."""

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        yield from routed(spec, (pa.Table.from_arrays(batch.columns, names=list(names)) for batch in batches))

    return run


def route_files_map(spec: RouteSpec, source: SourceSpec) -> ArrowMap:
    """Numbers of bins of a source's files in, batches of `ROUTED` out."""

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        numbers = (number for batch in batches for number in batch.column(0).to_pylist())
        yield from routed(spec, (rows for number in numbers for rows in source_rows(source, number)))

    return run


def owned_map(spec: OwnedSpec, change: ChangeSpec) -> ArrowMap:
    """Batches of `ROUTED` in, result rows out; the source rows to be inserted that are only referred to are kept in rows NEW."""

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        owner = Owner(spec, change.files)
        yield from apply_changes(change, owner.changes(batches), 0)
        yield _new_rows(owner.new())

    return run


def _new_rows(found: Iterable[tuple[int, Indices]]) -> pa.RecordBatch:
    return result_batch({"kind": NEW, "file": number, "positions": encode(places)} for number, places in found)


def table_map(spec: MeetSpec, bins: Sequence[Sequence[FileTask]]) -> ArrowMap:
    """Bin numbers in; the keys and places of the rows of each bin's files out, in batches of `ROUTED`."""

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        numbers = (number for batch in batches for number in batch.column(0).to_pylist())
        yield from table_rows(spec, (task for number in numbers for task in bins[number]))

    return run


def meet_map(spec: MeetSpec) -> ArrowMap:
    """Batches of `ROUTED` in, rows of the table first; changed rows out, in batches of `ROUTED`."""

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        yield from Meeting(spec).changes(batches)

    return run


def settled_map(change: ChangeSpec) -> ArrowMap:
    """Batches of `ROUTED` with changed rows in, result rows out, also of kind NEW."""

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        settled = Settled(change.write.budgets)
        yield from apply_changes(change, settled.changes(batches), 0)
        yield _new_rows(settled.new())

    return run


def insert_map(spec: OwnedSpec, change: ChangeSpec, source: SourceSpec, places: Mapping[int, Sequence[bytes]]) -> ArrowMap:
    """Numbers of bins of a source's files in; result rows out: of each bin the rows at `places` are inserted."""

    def inserted(number: int) -> Iterator[pa.RecordBatch]:
        assert spec.inserts is not None
        chosen = np.sort(np.concatenate([decode(part).positions() for part in places[number]]))
        for rows in chosen_rows(source, number, chosen):
            yield from changed_rows(spec, spec.inserts, rows, rows.num_rows).to_batches()

    def run(batches: Batches) -> Iterator[pa.RecordBatch]:
        numbers = (number for batch in batches for number in batch.column(0).to_pylist())
        yield from apply_changes(change, (rows for number in numbers for rows in inserted(number)), 0)

    return run
