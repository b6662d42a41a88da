"""Which files can hold a match, and why the others can't: target predicates first, then the source's own keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.log.replay.files import FileChunk, FileSet, Mask
from deltamerge.log.skipping.skipping import could_match
from deltamerge.log.skipping.statistics import row_counts
from deltamerge.merge.plan.plan import KeyPair, MergePlan
from deltamerge.protocol.schema.types import arrow_type
from deltamerge.protocol.values.predicate import And, Compare, OneOf, Or, Predicate
from deltamerge.spark.source.source import Source
from deltamerge.spark.stages.scan import ROW_BYTES
from deltamerge.worker.scan.bloom import BloomFilter
from deltamerge.worker.scan.keys import KeyFilter, build_filter, fits_codes

# No file has more: what says so is damaged.
_ROWS_A_BYTE = 1_000


@dataclass(frozen=True)
class FunnelStep:
    """What is left of the table after one kind of pruning: files and bytes."""

    name: str
    files: int
    bytes: int


@dataclass(frozen=True)
class PrunedPlan:
    """A plan with the files that it will open, in `files`, largest first, and the filter that their rows must pass.

    `lookup` knows the distinct keys of a collected source; `ranks` gives each of its rows' place among them (null: it can
    match nothing). Both are None when equal ranks might not mean equal keys.
    """

    plan: MergePlan
    source: Source
    files: pa.Table = field(repr=False)
    funnel: tuple[FunnelStep, ...]
    predicate: Predicate
    keys: KeyFilter | BloomFilter | None = field(default=None, repr=False)
    lookup: KeyFilter | None = field(default=None, repr=False)
    ranks: pa.Array | None = field(default=None, repr=False)

    @property
    def rows(self) -> int:
        """About how many rows the files have."""
        return int(self.row_counts.sum())

    @cached_property
    def row_counts(self) -> np.ndarray[Any, Any]:
        """About how many rows each file has: as many as its statistics say, where they say what can be."""
        sizes = self.files["size"].to_numpy()
        if not len(sizes):
            return np.zeros(0, np.int64)
        counts = pc.fill_null(row_counts(FileChunk(self.files.combine_chunks())), -1).to_numpy(zero_copy_only=False)
        found: np.ndarray[Any, Any] = np.where((counts < 0) | (counts > sizes * _ROWS_A_BYTE), sizes // ROW_BYTES, counts)
        return found

    def would_read(self, files: FileSet) -> Mask:
        """Which of other files this merge would have opened."""
        snapshot = self.plan.resolved.snapshot
        return could_match(files, self.predicate, snapshot.schema, snapshot.partition_columns)


def prune(plan: MergePlan, source: Source) -> PrunedPlan:
    """Prune the target's files for a materialized source."""
    snapshot = plan.resolved.snapshot
    files = snapshot.files
    sizes = np.asarray(files.column("size").to_numpy())
    predicate, mask, funnel = _by_target(plan, sizes)
    keys, lookup, ranks = None, None, None
    found: list[Predicate] = _range_predicates(plan, source)
    if plan.pairs and source.collected is not None:
        arrays = _key_arrays(plan, source.collected)
        if fits_codes(arrays):
            keys, ranks = build_filter([p.target for p in plan.pairs], arrays, [p.null_safe for p in plan.pairs])
            found += _key_predicates(plan.pairs, keys, arrays)
            if any(
                pair.null_safe and array.null_count > source.collected.column(pair.source).null_count
                for pair, array in zip(plan.pairs, arrays, strict=True)
            ):
                ranks = None
            lookup = None if ranks is None else keys
            keys = keys if plan.keys else None
    if found:
        predicate = _touchable(plan, And((plan.target_predicate, *found)))
        mask = mask & could_match(files, predicate, snapshot.schema, snapshot.partition_columns)
    funnel.append(_step("after source keys", mask, sizes))
    chosen = files.select(mask).sort_by([("size", "descending")])
    return PrunedPlan(plan, source, chosen, tuple(funnel), predicate, keys, lookup, ranks)


def foreseen(plan: MergePlan) -> tuple[FunnelStep, ...]:
    """What is known of the pruning before the source is: the files of the table, and those that its own predicates leave."""
    return tuple(_by_target(plan, np.asarray(plan.resolved.snapshot.files.column("size").to_numpy()))[2])


def _by_target(plan: MergePlan, sizes: np.ndarray[Any, Any]) -> tuple[Predicate, Mask, list[FunnelStep]]:
    snapshot = plan.resolved.snapshot
    predicate = _touchable(plan, plan.target_predicate)
    mask = could_match(snapshot.files, predicate, snapshot.schema, snapshot.partition_columns)
    everything = FunnelStep("in the table", len(sizes), int(sizes.sum()))
    return predicate, mask, [everything, _step("after target predicates", mask, sizes)]


def _step(name: str, mask: Mask, sizes: np.ndarray[Any, Any]) -> FunnelStep:
    return FunnelStep(name, int(mask.sum()), int(sizes[mask].sum()))


def _touchable(plan: MergePlan, matching: Predicate) -> Predicate:
    """True for every row that can be touched: one that can match, or that a NOT MATCHED BY SOURCE clause can change."""
    return matching if plan.by_source is None else Or((matching, plan.by_source))


def _range_predicates(plan: MergePlan, source: Source) -> list[Predicate]:
    """What the source's least and greatest values say of matching rows; equalities are left to its keys where they are known."""
    found: list[Predicate] = []
    for wanted in plan.ranges:
        limits = None if wanted.op == "=" and source.collected is not None else source.limits(wanted.source)
        field = plan.resolved.scope.target.find(wanted.target, case_sensitive=True)
        if limits is None or field is None:
            continue
        low, high = converted(limits, arrow_type(field.type))
        if wanted.op != "<" and wanted.op != "<=" and low.is_valid:
            found.append(Compare((wanted.target,), ">" if wanted.op == ">" else ">=", low))
        if wanted.op != ">" and wanted.op != ">=" and high.is_valid:
            found.append(Compare((wanted.target,), "<" if wanted.op == "<" else "<=", high))
    return found


def _key_arrays(plan: MergePlan, collected: pa.Table) -> list[pa.Array]:
    """Each key pair's source values as values of the target column's type; what the type can't hold matches nothing."""
    schema = plan.resolved.scope.target
    arrays = []
    for pair in plan.pairs:
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
        low, high = _limits(type)
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


def _limits(type: pa.DataType) -> tuple[int, int]:
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


def _key_predicates(pairs: Sequence[KeyPair], keys: KeyFilter, arrays: Sequence[pa.Array]) -> list[Predicate]:
    found: list[Predicate] = []
    for pair, values, array in zip(pairs, keys.values, arrays, strict=True):
        ordered = values.take(pc.sort_indices(values)) if len(values) else values
        found.append(OneOf((pair.target,), ordered, or_null=pair.null_safe and array.null_count > 0))
    return found
