"""Which files can hold a match, and why the others can't: target predicates first, then what is known of the source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.budgets import Budgets
from deltamerge.log.replay.files import FileChunk, FileSet, Mask
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.log.skipping.skipping import could_match
from deltamerge.log.skipping.statistics import bounds_of, row_counts
from deltamerge.merge.plan.conditions import KeyPair
from deltamerge.merge.plan.logical import LogicalPlan
from deltamerge.protocol.schema.types import arrow_type
from deltamerge.protocol.values.predicate import And, Compare, OneOf, Or, Predicate
from deltamerge.protocol.values.widths import STORED_ROW_BYTES
from deltamerge.spark.source.facts import Source, bounds_in
from deltamerge.worker.skipping.bloom import BloomFilter
from deltamerge.worker.skipping.keys import ExactFilter, KeyFilter, build_filter, distinct_values, fits_codes

# No file has more: what says so is damaged.
_ROWS_A_BYTE = 1_000


@dataclass(frozen=True)
class FunnelStep:
    """What is left of the table after one kind of pruning: files and bytes."""

    name: str
    files: int
    bytes: int


@dataclass(frozen=True)
class KeyBounds:
    """The least and the greatest value of a column in each file, null where not known, and which files have nothing but nulls."""

    low: pa.Array
    high: pa.Array
    only_nulls: np.ndarray[Any, Any]


@dataclass(frozen=True)
class FileFacts:
    """The files of the table that a merge opens, those at the true positions of `mask`, and which of their rows can match.

    `predicate` is true for every row that the merge looks for. `row_filter` drops rows that can't match, where no row without
    a match matters. `lookup` knows the distinct keys of a collected source, and `key_ids` has the id of each source row's key
    (null: it can match nothing). Both are None where equal ids might not mean equal keys.
    """

    snapshot: Snapshot
    mask: Mask = field(repr=False)
    funnel: tuple[FunnelStep, ...]
    predicate: Predicate
    row_filter: ExactFilter | BloomFilter | None = field(default=None, repr=False)
    lookup: ExactFilter | None = field(default=None, repr=False)
    key_ids: pa.Array | None = field(default=None, repr=False)
    _bounds: dict[str, KeyBounds] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def count(self) -> int:
        """How many files there are."""
        return self.funnel[-1].files

    @property
    def bytes(self) -> int:
        """The bytes of all files."""
        return self.funnel[-1].bytes

    @cached_property
    def table(self) -> pa.Table:
        """The files, largest first."""
        return self.snapshot.files.select(self.mask).take(pa.array(self._order))

    @cached_property
    def sizes(self) -> np.ndarray[Any, Any]:
        """The bytes of each file."""
        return np.asarray(self._sizes[self._order])

    @property
    def rows(self) -> int:
        """About how many rows the files have."""
        return int(self.row_counts.sum())

    @cached_property
    def row_counts(self) -> np.ndarray[Any, Any]:
        """About how many rows each file has: as many as its statistics say, where they say what can be."""
        counts = pc.fill_null(self.counted_rows, -1).to_numpy(zero_copy_only=False)
        is_wrong = (counts < 0) | (counts > self.sizes * _ROWS_A_BYTE)
        return np.where(is_wrong, self.sizes // STORED_ROW_BYTES, counts)

    @cached_property
    def counted_rows(self) -> pa.Array:
        """How many rows each file has by its statistics; null where these don't say."""
        return self._gathered([row_counts(chunk) for chunk, _ in self._chunks], pa.int64())

    def are_too_many(self, budgets: Budgets) -> bool:
        """Whether the files have more rows than the driver matches, or nothing says how many a large one has."""
        is_unknown = self.counted_rows.null_count > 0 and self.bytes > budgets.driver_match_bytes
        return is_unknown or (pc.sum(self.counted_rows).as_py() or 0) > budgets.match_rows

    def bounds_of(self, column: str) -> KeyBounds:
        """What the statistics say of a column's values in each file; looked up once."""
        if column not in self._bounds:
            self._bounds[column] = self._looked_up(column)
        return self._bounds[column]

    def parse_together(self, columns: Sequence[str]) -> None:
        """Parse what the statistics say of some columns at once, as each parsing goes through the texts of all files."""
        for chunk, _ in self._chunks:
            bounds_of(chunk, self.snapshot.schema, self.snapshot.partition_columns, [(column,) for column in columns])

    def _looked_up(self, column: str) -> KeyBounds:
        schema, partitions = self.snapshot.schema, self.snapshot.partition_columns
        found = schema.find(column, case_sensitive=True)
        type = pa.null() if found is None else arrow_type(found.type)
        known = [bounds_of(chunk, schema, partitions, [(column,)])[(column,)] for chunk, _ in self._chunks]
        low, high = (self._gathered(ends, type) for ends in ([each.low for each in known], [each.high for each in known]))
        nulls = [pc.fill_null(pc.equal(bounds.nulls, bounds.rows), False) for bounds in known]
        return KeyBounds(low, high, self._gathered(nulls, pa.bool_()).to_numpy(zero_copy_only=False))

    def would_read(self, files: FileSet) -> Mask:
        """Which of other files the merge would have opened."""
        return could_match(files, self.predicate, self.snapshot.schema, self.snapshot.partition_columns)

    @cached_property
    def _sizes(self) -> np.ndarray[Any, Any]:
        return np.asarray(self.snapshot.files.column("size").to_numpy())[self.mask]

    @cached_property
    def _order(self) -> np.ndarray[Any, Any]:
        return np.argsort(-self._sizes, kind="stable")

    @cached_property
    def _chunks(self) -> list[tuple[FileChunk, pa.Array]]:
        """The chunks that have the files, with their rows; they keep what they have parsed."""
        return [(chunk, pa.array(rows)) for chunk, rows in self.snapshot.files.rows_of(self.mask)]

    def _gathered(self, known: Sequence[pa.Array], type: pa.DataType) -> pa.Array:
        """What is known of each file, from what is known of the chunks that have them."""
        parts = [values.take(rows) for values, (_, rows) in zip(known, self._chunks, strict=True)]
        return pa.concat_arrays([pa.array([], type), *parts]).take(pa.array(self._order))


def prune(logical: LogicalPlan) -> FileFacts:
    """The files that the statement's own predicates leave."""
    snapshot = logical.resolved.snapshot
    sizes = np.asarray(snapshot.files.column("size").to_numpy())
    predicate = _touchable(logical, logical.target_predicate)
    mask = could_match(snapshot.files, predicate, snapshot.schema, snapshot.partition_columns)
    everything = FunnelStep("in the table", len(sizes), int(sizes.sum()))
    return FileFacts(snapshot, mask, (everything, _step("after target predicates", mask, sizes)), predicate)


def prune_by_bounds(logical: LogicalPlan, before: FileFacts, bounds: pa.Table) -> FileFacts:
    """The files that the bounds of a source's columns leave of those that were left `before`."""
    return _pruned(logical, before, _range_predicates(logical, bounds, collected=False))


def prune_by_source(logical: LogicalPlan, before: FileFacts, source: Source, budgets: Budgets) -> FileFacts:
    """The files that an evaluated source leaves of those that were left `before`: by its keys if it is collected, else by its
    bounds.
    """
    known = source.collected if source.collected is not None else source.facts.bounds
    found = [] if known is None else _range_predicates(logical, known, source.collected is not None)
    if not logical.pairs or source.collected is None:
        return _pruned(logical, before, found)
    arrays = _key_arrays(logical, source.collected)
    if not fits_codes(arrays):
        return _pruned(logical, before, found)
    null_safe = [pair.null_safe for pair in logical.pairs]
    keys, key_ids = build_filter([pair.target for pair in logical.pairs], arrays, null_safe, budgets.numbered_rows)
    found += _key_predicates(logical.pairs, keys, arrays)
    row_filter = keys if logical.keys else None
    counts = [source.collected.column(pair.source).null_count for pair in logical.pairs]
    if any(safe and array.null_count > count for safe, array, count in zip(null_safe, arrays, counts, strict=True)):
        return replace(_pruned(logical, before, found), row_filter=row_filter)
    return replace(_pruned(logical, before, found), row_filter=row_filter, lookup=keys, key_ids=key_ids)


def _pruned(logical: LogicalPlan, before: FileFacts, found: Sequence[Predicate]) -> FileFacts:
    """The files that predicates about matching rows leave of those that were left `before`."""
    snapshot, mask, predicate = before.snapshot, before.mask, before.predicate
    if found:
        predicate = _touchable(logical, And((logical.target_predicate, *found)))
        mask = mask & could_match(snapshot.files, predicate, snapshot.schema, snapshot.partition_columns)
    step = _step("after source keys", mask, np.asarray(snapshot.files.column("size").to_numpy()))
    return FileFacts(snapshot, mask, (*before.funnel[:2], step), predicate)


def _step(name: str, mask: Mask, sizes: np.ndarray[Any, Any]) -> FunnelStep:
    return FunnelStep(name, int(mask.sum()), int(sizes[mask].sum()))


def _touchable(logical: LogicalPlan, matching: Predicate) -> Predicate:
    """True for every row that can be touched: one that can match, or that a NOT MATCHED BY SOURCE clause can change."""
    return matching if logical.by_source is None else Or((matching, logical.by_source))


def _range_predicates(logical: LogicalPlan, known: pa.Table, collected: bool) -> list[Predicate]:
    """What the least and greatest values of a source's columns say of matching rows; equalities are left to its keys where these
    are `collected`.
    """
    found: list[Predicate] = []
    for wanted in logical.ranges:
        bounds = None if wanted.op == "=" and collected else bounds_in(known, wanted.source)
        field = logical.resolved.scope.target.find(wanted.target, case_sensitive=True)
        if bounds is None or field is None:
            continue
        low, high = converted(bounds, arrow_type(field.type))
        if wanted.op != "<" and wanted.op != "<=" and low.is_valid:
            found.append(Compare((wanted.target,), ">" if wanted.op == ">" else ">=", low))
        if wanted.op != ">" and wanted.op != ">=" and high.is_valid:
            found.append(Compare((wanted.target,), "<" if wanted.op == "<" else "<=", high))
    return found


def _key_arrays(logical: LogicalPlan, collected: pa.Table) -> list[pa.Array]:
    """Each key pair's source values as values of the target column's type; what the type can't hold matches nothing."""
    schema = logical.resolved.scope.target
    arrays = []
    for pair in logical.pairs:
        found = schema.find(pair.target, case_sensitive=True)
        assert found is not None
        arrays.append(converted(collected.column(pair.source).combine_chunks(), arrow_type(found.type)))
    return arrays


def converted(values: pa.Array, type: pa.DataType) -> pa.Array:
    """Source values in the target column's type. A value that has no equal there becomes one that equals nothing: null.

    Null-safe keys must not be fooled by that null; it then only lets more rows through.
    """
    if values.type.equals(type):
        return values
    if pa.types.is_integer(type):
        low, high = _range_of(type)
        wide = values.cast(pa.int64())
        fits = pc.and_(pc.greater_equal(wide, low), pc.less_equal(wide, high))
        return pc.if_else(fits, wide, pa.scalar(None, pa.int64())).cast(type)
    if pa.types.is_floating(type):
        narrow = values.cast(type, safe=False)
        same = pc.or_(pc.equal(narrow.cast(pa.float64()), values.cast(pa.float64())), pc.is_nan(values))
        return pc.if_else(same, narrow, pa.scalar(None, type))
    if pa.types.is_decimal(type):
        return _decimals(values, type)
    return values.cast(type)


def _range_of(type: pa.DataType) -> tuple[int, int]:
    bits = type.bit_width
    return -(2 ** (bits - 1)), 2 ** (bits - 1) - 1


def _decimals(values: pa.Array, type: pa.DataType) -> pa.Array:
    try:
        return values.cast(type)
    except pa.ArrowInvalid:
        converted = []
        for value in values:
            try:
                converted.append(value.cast(type).as_py())
            except pa.ArrowInvalid:
                converted.append(None)
        return pa.array(converted, type)


def _key_predicates(pairs: Sequence[KeyPair], keys: ExactFilter, arrays: Sequence[pa.Array]) -> list[Predicate]:
    found: list[Predicate] = []
    distinct = keys.values if isinstance(keys, KeyFilter) else map(distinct_values, arrays)
    for pair, values, array in zip(pairs, distinct, arrays, strict=True):
        ordered = values.take(pc.sort_indices(values)) if len(values) else values
        found.append(OneOf((pair.target,), ordered, or_null=pair.null_safe and array.null_count > 0))
    return found
