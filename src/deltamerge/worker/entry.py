"""The functions that Spark calls on executors, each for `DataFrame.mapInArrow`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.budgets import Budgets
from deltamerge.protocol.formats.roaring import decode, encode
from deltamerge.protocol.values.distinct import distinct
from deltamerge.worker.join.changes import inserted
from deltamerge.worker.join.hash_join import ChangesByFile, HashJoin, HashJoinSpec, target_rows
from deltamerge.worker.join.matching import Indices
from deltamerge.worker.join.partitioning import Partitioning, partitioned
from deltamerge.worker.join.range_join import JoinSpec, RangeJoin
from deltamerge.worker.layout.compact import CompactSpec, compact
from deltamerge.worker.layout.z_order import Z_KEY, ZOrder, distinct_keys, sampled, z_keys
from deltamerge.worker.scan.columns import conform
from deltamerge.worker.scan.scan import FileTask, ScanSpec, scan_file
from deltamerge.worker.scan.source import SourceSpec, rows_at, source_rows
from deltamerge.worker.scan.streams import arrow_stream, read_stream
from deltamerge.worker.skipping.bloom import key_hashes
from deltamerge.worker.write.apply import apply_changes
from deltamerge.worker.write.existing import ExistingSpec, schemas_of, stats_of
from deltamerge.worker.write.feed import INSERT, FeedWriter
from deltamerge.worker.write.file_rows import living_rows
from deltamerge.worker.write.results import ADD, CHANGE, POSITIONS, result_batch, written_row
from deltamerge.worker.write.rewrite import ChangeSpec, conform_column
from deltamerge.worker.write.write import PartitionWriters, WriteSpec, check_required

Batches = Iterable[pa.RecordBatch]
ArrowMap = Callable[[Batches], Iterator[pa.RecordBatch]]
Given = ParamSpec("Given")
# What a task that matches reports: rows as Arrow streams, or a null if it found more than there is room for.
MATCHED = pa.schema([("rows", pa.binary())])


@dataclass(frozen=True)
class Work:
    """What is done with batches: a function of this module, by its name, and all that it is given but the batches."""

    name: str
    args: tuple[Any, ...]
    named: Mapping[str, Any]

    def __call__(self, batches: Batches) -> Iterator[pa.RecordBatch]:
        """The batches that come of it."""
        return _WORK[self.name](batches, *self.args, **self.named)


_WORK: dict[str, Callable[..., Iterator[pa.RecordBatch]]] = {}


def arrow_map(work: Callable[Concatenate[Batches, Given], Iterator[pa.RecordBatch]]) -> Callable[Given, Work]:
    """Work on batches that takes more arguments, as a function of these that gives what is done with batches."""
    _WORK[work.__name__] = work

    def of(*args: Given.args, **named: Given.kwargs) -> Work:
        return Work(work.__name__, args, named)

    return of


def _numbers(batches: Batches) -> Iterator[int]:
    """The values of the first column."""
    return (number for batch in batches for number in batch.column(0).to_pylist())


@arrow_map
def scan_map(batches: Batches, spec: ScanSpec, bins: Sequence[Sequence[FileTask]], each: int = 1) -> Iterator[pa.RecordBatch]:
    """Bin numbers, times `each`, in; the candidate rows of each bin's files out."""
    for number in _numbers(batches):
        for task in bins[number // each]:
            yield from scan_file(spec, task)


def rows_of(spec: ScanSpec, tasks: Iterable[FileTask], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of some files, without their positions, in batches of exactly `schema`."""
    for task in tasks:
        for batch in scan_file(spec, task):
            columns = [conform(batch.column(at), field.type) for at, field in enumerate(schema)]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)


@arrow_map
def unmarked_map(batches: Batches, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Rows in; the same rows out, as ones of `schema`, in which variants are structs like any other."""
    for batch in batches:
        columns = [conform(column, field.type) for column, field in zip(batch.columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


@arrow_map
def match_map(
    batches: Batches, spec: ScanSpec, bins: Sequence[Sequence[FileTask]], rows: int, size: float, payload: int
) -> Iterator[pa.RecordBatch]:
    """Bin numbers in; batches of `MATCHED` out: the candidate rows of each bin's files, with their key ids.

    A bin may bring so many `rows` of so many bytes in all, in payloads of about so many bytes.
    """
    for number in _numbers(batches):
        found = candidates(spec, bins[number], Room(rows, size))
        table = None if found is None else pa.Table.from_batches(found, spec.output)
        step = 1 if table is None else max(1, table.num_rows * payload // max(1, table.nbytes))
        parts = [None] if table is None else [table.slice(at, step) for at in range(0, table.num_rows, step)]
        for part in parts:
            stream = None if part is None else arrow_stream(part)
            yield pa.RecordBatch.from_arrays([pa.array([stream], pa.binary())], schema=MATCHED)


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


def candidates(spec: ScanSpec, tasks: Sequence[FileTask], room: Room) -> list[pa.RecordBatch] | None:
    """The candidate rows of some files, in batches of `spec.output`; None where there is no room for them."""
    found: list[pa.RecordBatch] = []
    for task in tasks:
        for batch in scan_file(spec, task):
            if not room.takes(batch):
                return None
            found.append(batch)
    return found


@arrow_map
def payload_map(batches: Batches, spec: ChangeSpec) -> Iterator[pa.RecordBatch]:
    """Rows of (number, changed rows as an Arrow stream) in; result rows out."""
    for batch in batches:
        for number, payload in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
            yield from apply_changes(spec, read_stream(payload).to_batches(), number)


_ROW_BYTES = 8  # the least that a row takes when it is looked at here
_COUNTED_TASKS = 10_000  # the first ones, which bring something along
_BOUNDS_BYTES = 2_000


def counted_bytes(task: int, budgets: Budgets) -> int:
    """The most bytes of rows that a task brings along, by its number from 0: no task knows what the others have."""
    if task >= _COUNTED_TASKS:
        return 0
    return min(budgets.counted_part_bytes, budgets.counted_bytes // (task + 1))


@arrow_map
def count_map(batches: Batches, budgets: Budgets, bounded: Sequence[int] = ()) -> Iterator[pa.RecordBatch]:
    """Rows in, the task's number as their last column; one row out: how many they are, their bytes, the rows, and bounds.

    The rows are null if they exceed `counted_bytes`. The bounds are two rows with the least and the greatest values of the
    columns at the positions `bounded`, null if they are long.
    """
    rows = size = most = 0
    few: list[pa.RecordBatch] = []
    bounds: pa.Table | None = None
    for numbered in batches:
        if numbered.num_rows and not rows:
            most = counted_bytes(numbered.columns[-1][0].as_py(), budgets)
        batch = numbered.select(list(range(numbered.num_columns - 1)))
        rows, size = rows + batch.num_rows, size + max(batch.nbytes, _ROW_BYTES * batch.num_rows)
        few = [*few, batch] if size <= most else []
        bounds = _bounds(pa.Table.from_batches([batch.select(list(bounded))]), bounds)
    if rows and bounds is not None:
        payload = _within(most, pa.Table.from_batches(few)) if few else None
        found = [payload, _within(min(most, _BOUNDS_BYTES), bounds)]
        values = [pa.array([rows]), pa.array([size]), *(pa.array([value], pa.binary()) for value in found)]
        yield pa.RecordBatch.from_arrays(values, names=["rows", "bytes", "payload", "bounds"])


def _within(most: int, table: pa.Table) -> bytes | None:
    """A table as an Arrow stream, None if that has more than so many bytes."""
    stream = arrow_stream(table)
    return stream if len(stream) <= most else None


@arrow_map
def hash_map(batches: Batches, null_safe: Sequence[bool]) -> Iterator[pa.RecordBatch]:
    """Keys in, a column each; one row out: the distinct hashes of those that can match, as the bytes of 32-bit integers."""
    parts = [np.zeros(0, np.uint32)]
    for batch in batches:
        hashes, possible = key_hashes(batch.columns, null_safe)
        parts.append(hashes[possible])
    found = distinct(np.concatenate(parts)).tobytes()
    yield pa.RecordBatch.from_arrays([pa.array([found], pa.binary())], names=["hashes"])


def _bounds(rows: pa.Table, before: pa.Table | None) -> pa.Table:
    """Two rows: the least and the greatest values of each column, those known `before` included."""
    table = rows if before is None else pa.concat_tables([rows, before])
    found = [(pc.min_max(column), column.type) for column in table.columns]
    columns = [pa.array([bounds["min"], bounds["max"]], type) for bounds, type in found]
    return pa.table(columns, schema=table.schema)


@arrow_map
def apply_map(batches: Batches, spec: ChangeSpec, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Changed rows in, ordered by file and position, columns in the order of `names`; result rows out."""
    named = (pa.RecordBatch.from_arrays(batch.columns, names=list(names)) for batch in batches)
    yield from apply_changes(spec, named, 0)


@arrow_map
def write_map(batches: Batches, spec: WriteSpec, feed: WriteSpec | None = None) -> Iterator[pa.RecordBatch]:
    """Rows of the table's schema in, a result row per file written out; by `feed` they are change data, too."""
    writers = PartitionWriters(spec, 0)
    changes = None if feed is None else FeedWriter(feed, 0)
    try:
        for batch in batches:
            columns = [conform_column(column, field.type) for column, field in zip(batch.columns, spec.schema, strict=True)]
            rows = pa.table(columns, schema=spec.schema)
            check_required(spec.elements, rows)
            writers.write(rows)
            if changes is not None:
                changes.write(rows, INSERT)
        written = [written_row(ADD, file) for file in writers.close()]
        written += [] if changes is None else [written_row(CHANGE, file) for file in changes.close()]
        spec.store.sync(row["name"] for row in written)
    except BaseException:
        writers.discard()
        if changes is not None:
            changes.discard()
        raise
    yield result_batch(written)


@arrow_map
def compact_map(batches: Batches, spec: CompactSpec) -> Iterator[pa.RecordBatch]:
    """Bin numbers in, a result row per file written out."""
    for number in _numbers(batches):
        yield compact(spec, number)


@arrow_map
def sample_map(batches: Batches, spec: WriteSpec, bins: Sequence[Sequence[FileTask]], share: float) -> Iterator[pa.RecordBatch]:
    """Bin numbers in; batches of `MATCHED` out: about that share of the rows of each bin's files."""
    for number in _numbers(batches):
        for task in bins[number]:
            for rows in sampled(living_rows(spec, task), share):
                yield pa.RecordBatch.from_arrays([pa.array([arrow_stream(rows)], pa.binary())], schema=MATCHED)


@arrow_map
def z_key_map(batches: Batches, spec: WriteSpec, bins: Sequence[Sequence[FileTask]], order: ZOrder) -> Iterator[pa.RecordBatch]:
    """Bin numbers in; the rows of each bin's files out, with their keys as the last column, no two of a batch alike."""
    for number in _numbers(batches):
        for task in bins[number]:
            for rows in living_rows(spec, task):
                yield from rows.append_column(Z_KEY, distinct_keys(z_keys(rows, order))).combine_chunks().to_batches()


@arrow_map
def partition_map(batches: Batches, spec: Partitioning, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Source rows in, columns in the order of `names`; batches of `SHUFFLED` out."""
    yield from partitioned(spec, (pa.Table.from_arrays(batch.columns, names=list(names)) for batch in batches))


@arrow_map
def partition_files_map(batches: Batches, spec: Partitioning, source: SourceSpec) -> Iterator[pa.RecordBatch]:
    """Numbers of bins of a source's files in, batches of `SHUFFLED` out."""
    yield from partitioned(spec, (rows for number in _numbers(batches) for rows in source_rows(source, number)))


@arrow_map
def range_join_map(batches: Batches, spec: JoinSpec, change: ChangeSpec) -> Iterator[pa.RecordBatch]:
    """Batches of `SHUFFLED` in, result rows out, also of kind POSITIONS."""
    join = RangeJoin(spec, change.files)
    yield from apply_changes(change, join.changes(batches), 0)
    yield _position_rows(join.positions())


def _position_rows(found: Iterable[tuple[int, Indices]]) -> pa.RecordBatch:
    return result_batch({"kind": POSITIONS, "file": number, "positions": encode(rows)} for number, rows in found)


@arrow_map
def target_rows_map(batches: Batches, spec: HashJoinSpec, bins: Sequence[Sequence[FileTask]]) -> Iterator[pa.RecordBatch]:
    """Bin numbers in; the keys and positions of the rows of each bin's files out, in batches of `SHUFFLED`."""
    yield from target_rows(spec, (task for number in _numbers(batches) for task in bins[number]))


@arrow_map
def hash_join_map(batches: Batches, spec: HashJoinSpec) -> Iterator[pa.RecordBatch]:
    """Batches of `SHUFFLED` in, target rows first; changed rows out, in batches of `SHUFFLED`."""
    yield from HashJoin(spec).changes(batches)


@arrow_map
def write_changes_map(batches: Batches, change: ChangeSpec) -> Iterator[pa.RecordBatch]:
    """Batches of `SHUFFLED` with changed rows in, result rows out, also of kind POSITIONS."""
    changes = ChangesByFile(change.write.budgets)
    yield from apply_changes(change, changes.changes(batches), 0)
    yield _position_rows(changes.positions())


@arrow_map
def insert_map(
    batches: Batches, spec: JoinSpec, change: ChangeSpec, source: SourceSpec, positions: Mapping[int, Sequence[bytes]]
) -> Iterator[pa.RecordBatch]:
    """Numbers of bins of a source's files in; result rows out: of each bin the rows at `positions` are inserted."""

    def of_bin(number: int) -> Iterator[pa.RecordBatch]:
        chosen = np.sort(np.concatenate([decode(part).positions() for part in positions[number]]))
        for rows in rows_at(source, number, chosen):
            for changed, _ in inserted(spec.inserts, spec.changes, rows, np.arange(rows.num_rows)):
                yield from changed.to_batches()

    yield from apply_changes(change, (rows for number in _numbers(batches) for rows in of_bin(number)), 0)


@arrow_map
def schemas_map(batches: Batches, spec: ExistingSpec) -> Iterator[pa.RecordBatch]:
    """Bin numbers in; batches of `SCHEMAS` out."""
    for number in _numbers(batches):
        yield schemas_of(spec, number)


@arrow_map
def stats_map(batches: Batches, spec: ExistingSpec) -> Iterator[pa.RecordBatch]:
    """Bin numbers in; batches of `STATS` out."""
    for number in _numbers(batches):
        yield stats_of(spec, number)
