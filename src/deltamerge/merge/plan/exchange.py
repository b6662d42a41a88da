"""How an exchange would send rows: which task writes which files, by partitions and ranges of one key column, and by which
columns keys are hashed.

Facts in numbers; whether an exchange is worth it, and may be used at all, is decided elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from math import prod

import numpy as np
import pyarrow as pa

from deltamerge.budgets import Budgets
from deltamerge.log.commit.clustering import clustering_columns
from deltamerge.merge.plan.conditions import KeyPair
from deltamerge.merge.plan.logical import LogicalPlan
from deltamerge.merge.plan.prune import FileFacts
from deltamerge.protocol.schema.types import PrimitiveType, StructType, arrow_schema, arrow_type
from deltamerge.protocol.table.row_tracking import tracking_columns
from deltamerge.protocol.values.widths import row_width, width
from deltamerge.spark.source.facts import SourceFacts
from deltamerge.worker.join.clauses import ClauseProgram
from deltamerge.worker.join.matching import Flags, Indices
from deltamerge.worker.join.partitioning import KeyRanges, Partitions
from deltamerge.worker.scan.scan import POSITION_FIELDS
from deltamerge.worker.skipping.numbers import key_numbers

_RANGED = ("byte", "short", "integer", "long", "date", "timestamp", "timestamp_ntz")
_TELLING = ("string", "byte", "short", "integer", "long", "date", "boolean")
_MOST_CODES = 1 << 62
POSITION_BYTES = row_width(pa.schema(POSITION_FIELDS))
_LEAST, _GREATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@dataclass(frozen=True)
class Layout:
    """Which tasks write which files: neighbours in the order of the source's column `key`, whose `ranges` these tasks have.

    `overlap` is the number of tasks that a source row would be sent to by its key, on average; `most_rows` the most rows that the
    files of a task have; `span` how many different keys there can be in the table, 0 if that is not known.
    """

    pair: KeyPair
    ranges: KeyRanges = field(repr=False)
    overlap: float
    most_rows: int
    span: int

    @property
    def key(self) -> str:
        """The source's column by which rows are sent."""
        return self.pair.source


@dataclass(frozen=True)
class Layouts:
    """The layouts by each key column that has an order."""

    logical: LogicalPlan = field(repr=False)
    files: FileFacts = field(repr=False)
    budgets: Budgets

    @cached_property
    def all(self) -> tuple[Layout, ...]:
        """A layout for each key column of whole numbers, dates or timestamps."""
        schema = self.logical.resolved.scope.target
        pairs = [pair for pair in self.logical.pairs if is_ranged(schema, pair)]
        self.files.parse_together([pair.target for pair in self.logical.pairs])
        return tuple(_layout(self.files, pair, self.budgets, self._partitions) for pair in pairs)

    @cached_property
    def best(self) -> Layout:
        """The one by which a source row is sent to the fewest tasks."""
        return min(self.all, key=lambda layout: layout.overlap)

    @cached_property
    def hashed(self) -> tuple[Layout, ...]:
        """The layouts of the columns whose hash spreads rows: the one with most possible keys if these are many, else all.

        Rows that are alike in one column are matched faster where they are together.
        """
        widest = max(self.all, key=lambda layout: layout.span)
        return (widest,) if widest.span >= self.budgets.hash_column_keys else self.all

    @property
    def hash_span(self) -> int:
        """How many different keys there can be of the columns that are hashed; 0 if that is not known."""
        return prod(layout.span for layout in self.hashed)

    def hash_tasks(self, source: SourceFacts, sent: Sequence[str] = ()) -> int:
        """How many tasks match the keys, if these columns of the source are `sent` with the positions of its rows, all if none
        are named.
        """
        size = source.bytes or 0
        if sent and source.rows:
            columns = arrow_schema(self.logical.resolved.scope.source.select(list(sent)))
            size = min(size, source.rows * (row_width(columns) + POSITION_BYTES))
        wanted = max(size // self.budgets.hash_source_bytes, self._key_bytes // self.budgets.hash_key_bytes)
        return max(self.budgets.hash_least_tasks, min(wanted, self.budgets.exchange_tasks))

    @cached_property
    def _partitions(self) -> _Members | None:
        """The partitions of the files, by those of their columns whose values a source row tells; None if there are none."""
        wanted = [pair for pair in self.logical.pairs if _tells_partition(self.logical, pair)]
        return _members(self.files, wanted) if wanted else None

    @property
    def _key_bytes(self) -> int:
        """About the bytes of the keys and positions of the table's rows."""
        schema = self.logical.resolved.scope.target
        types = [arrow_type(field_type(schema, pair.target)) for pair in self.logical.pairs]
        each: int = POSITION_BYTES + sum(map(width, types))
        return self.files.rows * each


def field_type(schema: StructType, name: str) -> PrimitiveType:
    """The type of a key column."""
    found = schema.find(name, case_sensitive=True)
    assert found is not None
    assert isinstance(found.type, PrimitiveType)
    return found.type


def is_ranged(target: StructType, pair: KeyPair) -> bool:
    """Whether a key column has an order by which files have ranges."""
    return field_type(target, pair.target).name in _RANGED


@dataclass(frozen=True)
class _Members:
    """The files of each partition; `columns`, `values` and `codes` as of `Partitions`, a code below 0 for nulls."""

    columns: tuple[str, ...]
    values: tuple[pa.Array, ...]
    codes: Indices
    files: tuple[Indices, ...]


def _tells_partition(logical: LogicalPlan, pair: KeyPair) -> bool:
    """Whether a source row tells by its value in a key column in which partitions it may match, as Arrow compares values."""
    field = logical.resolved.scope.target.find(pair.target, case_sensitive=True)
    return (
        pair.target in logical.resolved.snapshot.partition_columns
        and field is not None
        and isinstance(field.type, PrimitiveType)
        and field.type.name in _TELLING
    )


def _members(files: FileFacts, pairs: list[KeyPair]) -> _Members:
    columns: list[str] = []
    values: list[pa.Array] = []
    codes, known = np.zeros(files.count, np.int64), np.ones(files.count, np.bool_)
    for pair in pairs:
        encoded = files.bounds_of(pair.target).low.dictionary_encode()
        if prod(map(len, values)) * len(encoded.dictionary) > _MOST_CODES:
            break
        places = np.asarray(encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False), np.int64)
        known &= places >= 0
        codes = codes * max(1, len(encoded.dictionary)) + places
        columns.append(pair.source)
        values.append(encoded.dictionary)
    codes = np.where(known, codes, -1)
    order = np.argsort(codes, kind="stable")
    begins = np.flatnonzero(np.diff(codes[order], prepend=-2))
    own = np.split(order, begins[1:]) if len(order) else []
    return _Members(tuple(columns), tuple(values), codes[order][begins], tuple(own))


@dataclass(frozen=True)
class _Part:
    """The ranges of some files, all or those of a partition: their bounds, their files, and `reach`: of each file that has keys
    how many ranges a source row in its middle falls into, with the file's bytes.
    """

    low: Indices
    high: Indices
    files: tuple[Indices, ...]
    reach: tuple[Indices, Indices]


def _part(own: Indices, keys: tuple[Indices, Indices], placed: Flags, sizes: Indices, each: int) -> _Part:
    """The ranges of `own` files, of about `each` bytes; files without keys, that are not `placed`, are the first one's."""
    has_keys = placed[own]
    if len(own) == 1 and has_keys[0]:  # as many partitions have
        return _Part(keys[0][own], keys[1][own], (own,), (np.ones(1, np.int64), sizes[own]))
    order = own[has_keys]
    order = order[np.lexsort((keys[1][order], keys[0][order]))]
    before = np.cumsum(sizes[order]) - sizes[order]
    cells = np.split(order, np.flatnonzero(np.diff(before // each)) + 1)
    low = np.array([keys[0][cell].min(initial=_GREATEST) for cell in cells])
    high = np.maximum.accumulate(np.array([keys[1][cell].max(initial=_LEAST) for cell in cells]))
    begin, end = keys[0][order], keys[1][order]
    first, last = KeyRanges(low, high, ()).covering(begin // 2 + end // 2 + (begin & end & 1))
    files = (np.append(cells[0], own[~has_keys]), *cells[1:])
    return _Part(low, high, files, (last - first, sizes[order]))


def _layout(files: FileFacts, pair: KeyPair, budgets: Budgets, partitions: _Members | None) -> Layout:
    low, high, placed = _bounds(files, pair.target)
    sizes, rows = files.sizes, files.row_counts
    has_keys = np.zeros(len(sizes), np.bool_)
    has_keys[placed] = True
    each = max(budgets.range_task_bytes, int(sizes.sum()) // budgets.exchange_tasks)
    groups = (np.arange(len(sizes)),) if partitions is None else partitions.files
    parts = [_part(own, (low, high), has_keys, sizes, each) for own in groups]
    by_range = [own for part in parts for own in part.files]
    tasks, found = np.arange(len(by_range)), None
    if partitions is not None:
        starts = np.cumsum([0, *(len(part.files) for part in parts)])
        tasks = _shared([int(sizes[own].sum()) for own in by_range], starts.tolist(), each)
        found = Partitions(partitions.columns, partitions.values, partitions.codes, starts, tasks)
    by_task: list[list[int]] = [[] for _ in range(int(tasks[-1]) + 1)]
    for task, own in zip(tasks.tolist(), by_range, strict=True):
        by_task[task] += own.tolist()
    bounds = (np.concatenate([part.low for part in parts]), np.concatenate([part.high for part in parts]))
    ranges = KeyRanges(*bounds, tuple(map(tuple, by_task)), found)
    counts, weights = (np.concatenate([part.reach[at] for part in parts]) for at in (0, 1))
    overlap = float(np.average(counts, weights=np.maximum(weights, 1))) if len(placed) else 1.0
    least, greatest = low[placed].min(initial=_GREATEST), high[placed].max(initial=_LEAST)
    span = 0 if least == _LEAST else max(0, int(greatest) - int(least) + 1)
    return Layout(pair, ranges, overlap, max(int(rows[own].sum()) for own in by_task), span)


def _shared(sizes: list[int], starts: list[int], each: int) -> Indices:
    """The task of each range: neighbouring partitions of one range share one as long as its files have at most `each` bytes."""
    tasks: list[int] = []
    task, filled = -1, each + 1
    for start, end in pairwise(starts):
        alone = end - start == 1
        if alone and filled + sizes[start] <= each:
            filled += sizes[start]
            tasks.append(task)
            continue
        tasks += range(task + 1, task + 1 + end - start)
        task += end - start
        filled = sizes[start] if alone else each + 1
    return np.array(tasks, np.int64)


def _bounds(files: FileFacts, column: str) -> tuple[Indices, Indices, Indices]:
    """The least and the greatest key of each file as far as they are known, and the files that have keys."""
    known = files.bounds_of(column)
    (low, has_low), (high, has_high) = key_numbers(known.low), key_numbers(known.high)
    is_known = has_low & has_high & (low <= high)
    without = known.only_nulls & ~has_low & ~has_high
    return np.where(is_known, low, _LEAST), np.where(is_known, high, _GREATEST), np.flatnonzero(~without)


def spread_columns(inserts: Sequence[ClauseProgram], partitions: Sequence[str]) -> tuple[str, ...]:
    """The source's columns that tell an inserted row's partition; () if there are none, or they don't."""
    found = [{program.values.get(name) for program in inserts} for name in partitions]
    origins = [next(iter(values)) for values in found if len(values) == 1]
    columns = [origin.column for origin in origins if origin is not None and origin.side == "source"]
    return tuple(columns) if len(columns) == len(partitions) else ()


def updates_whole_rows(logical: LogicalPlan, matched: Sequence[ClauseProgram], inserts: Sequence[ClauseProgram]) -> bool:
    """Whether an updated row is a whole source row, and nothing ties it to its place: it may be deleted, and inserted elsewhere.

    Conditions do not matter: they say which rows are updated, not what becomes of them.
    """
    after = logical.resolved.after
    programs = (*matched, *inserts)
    if (
        len(matched) != 1
        or len(inserts) > 1
        or not all(program.copies_source for program in programs)
        or logical.feed
        or tracking_columns(after.protocol, after.metadata) is not None
        or clustering_columns(after)
        or after.partition_columns
    ):
        return False
    names = set(logical.resolved.schema.names)
    return all(program.values.keys() == names and program.values == matched[0].values for program in programs)
