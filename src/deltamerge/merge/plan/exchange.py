"""How an exchange would send rows: which task writes which files, by ranges of one key column, and by which columns keys are
hashed.

Facts in numbers; whether an exchange is worth it, and may be used at all, is decided elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import prod

import numpy as np

from deltamerge.budgets import Budgets
from deltamerge.merge.plan.conditions import KeyPair
from deltamerge.merge.plan.logical import LogicalPlan
from deltamerge.merge.plan.prune import FileFacts
from deltamerge.protocol.schema.types import PrimitiveType, StructType, arrow_type
from deltamerge.protocol.values.widths import width
from deltamerge.worker.join.matching import Indices
from deltamerge.worker.join.partitioning import KeyRanges, key_numbers
from deltamerge.worker.scan.scan import POSITION_FIELDS

_RANGED = ("byte", "short", "integer", "long", "date", "timestamp", "timestamp_ntz")
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
        return tuple(_layout(self.files, pair, self.budgets) for pair in pairs)

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

    def hash_tasks(self, source_bytes: int) -> int:
        """How many tasks match the keys of a source of so many bytes."""
        wanted = max(source_bytes // self.budgets.hash_source_bytes, self._key_bytes // self.budgets.hash_key_bytes)
        return max(self.budgets.hash_least_tasks, min(wanted, self.budgets.exchange_tasks))

    @property
    def _key_bytes(self) -> int:
        """About the bytes of the keys and positions of the table's rows."""
        schema = self.logical.resolved.scope.target
        types = [arrow_type(field_type(schema, pair.target)) for pair in self.logical.pairs]
        each: int = sum(field.type.bit_width // 8 for field in POSITION_FIELDS) + sum(map(width, types))
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


def _layout(files: FileFacts, pair: KeyPair, budgets: Budgets) -> Layout:
    low, high, placed = _bounds(files, pair.target)
    order = placed[np.lexsort((high[placed], low[placed]))]
    sizes, rows = files.sizes, files.row_counts
    each = max(budgets.range_task_bytes, int(sizes.sum()) // budgets.exchange_tasks)
    before = np.cumsum(sizes[order]) - sizes[order]
    cells = np.split(order, np.flatnonzero(np.diff(before // each)) + 1)
    beyond = np.setdiff1d(np.arange(len(sizes)), placed)
    ranges = KeyRanges(
        np.array([low[cell].min(initial=_GREATEST) for cell in cells]),
        np.maximum.accumulate(np.array([high[cell].max(initial=_LEAST) for cell in cells])),
        tuple((*cell.tolist(), *(beyond.tolist() if at == 0 else ())) for at, cell in enumerate(cells)),
    )
    first, last = ranges.covering(low[order] // 2 + high[order] // 2)
    overlap = float(np.average(last - first, weights=sizes[order])) if len(order) else 1.0
    most = max(int(rows[list(cell)].sum()) for cell in ranges.files)
    least, greatest = low[order].min(initial=_GREATEST), high[order].max(initial=_LEAST)
    span = 0 if least == _LEAST else max(0, int(greatest) - int(least) + 1)
    return Layout(pair, ranges, overlap, most, span)


def _bounds(files: FileFacts, column: str) -> tuple[Indices, Indices, Indices]:
    """The least and the greatest key of each file as far as they are known, and the files that have keys."""
    known = files.bounds_of(column)
    (low, has_low), (high, has_high) = key_numbers(known.low), key_numbers(known.high)
    is_known = has_low & has_high & (low <= high)
    without = known.only_nulls & ~has_low & ~has_high
    return np.where(is_known, low, _LEAST), np.where(is_known, high, _GREATEST), np.flatnonzero(~without)
