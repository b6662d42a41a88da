"""A large source, and files that each have a range of keys of their own: a source row goes to the file that may have its key.

One shuffle of the source, and none of the table, in place of a join; the task that owns a file matches in Arrow and writes. For
clauses without conditions that copy the source's columns; everything else is left to Spark's join.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.log.files import FileChunk
from deltamerge.log.statistics import bounds_of
from deltamerge.merge.clauses import Action, Side
from deltamerge.merge.local_changes import Constant, copy_of
from deltamerge.merge.plan import KeyPair, MergePlan, Strategy
from deltamerge.merge.prune import PrunedPlan
from deltamerge.merge.resolve import ResolvedClause, ResolvedMerge
from deltamerge.merge.scope import Reference
from deltamerge.protocol.schema import PrimitiveType, StructType, arrow_type
from deltamerge.spark.schema import to_spark
from deltamerge.spark.source import fits_arrow
from deltamerge.worker.owned import RoutedClause
from deltamerge.worker.route import Numbers, Ranges, numbers

# How many tasks a source row may be sent to, on average over the files.
_OVERLAP = 1.5
# Keys of a chunk of source rows are numbered in 64 bits, in so many columns at most.
_MOST_PAIRS = 3
_OWNER_BYTES = 24 << 20
_MOST_OWNERS = 512
# What the changed rows of a task's files may take in memory.
_HELD_BYTES = 256 << 20
# What a text takes, or something nested, where nobody has counted.
_VARYING_BYTES = 32
_RANGED = ("byte", "short", "integer", "long", "date", "timestamp", "timestamp_ntz")
_LEAST, _GREATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@dataclass(frozen=True)
class Route:
    """How a merge is routed: by which source column, which task owns which files, and what the clauses do.

    `overlap` says how many tasks a source row is sent to, about; `most` how many rows the files of a task have at most.
    `deciding` are the source's columns that matching and updating take, if they are few of those that are inserted, else ().
    """

    key: str
    ranges: Ranges = field(repr=False)
    overlap: float
    most: int
    clauses: Mapping[Side, RoutedClause]
    deciding: tuple[str, ...]


def route_of(pruned: PrunedPlan) -> Route | None:
    """How a merge is routed; None where it can't be, or where a join may be better.

    It can be where every clause copies columns of the source, or deletes, without a condition. It is where files have ranges
    of keys of their own, and what a task has to hold is bounded.
    """
    plan = pruned.plan
    forced = plan.strategy is Strategy.ROUTE
    if not forced and plan.strategy is not Strategy.AUTO:
        return None
    clauses = _clauses(plan)
    if clauses is None or not pruned.files.num_rows or not plan.keys_decide or len(plan.pairs) > _MOST_PAIRS:
        return None
    if not all(_is_looked_up(plan.resolved, pair) for pair in plan.pairs):
        return None
    routes = [_route(pruned, pair, clauses) for pair in plan.pairs if _is_ranged(plan.resolved, pair)]
    route = min(routes, key=lambda route: route.overlap, default=None)
    return route if route is None or forced or _pays(pruned, route) else None


def _pays(pruned: PrunedPlan, route: Route) -> bool:
    schema, source = pruned.plan.resolved.scope.source, pruned.source
    if route.deciding and not source.files:  # Spark joins by few columns, and would send them all
        return False
    types = [arrow_type(found.type) for found in schema.select(list(pruned.plan.source_columns))]
    width = sum(type.bit_width // 8 if _is_fixed(type) else _VARYING_BYTES for type in types)
    return route.overlap <= _OVERLAP and route.most * max(width, source.bytes // max(1, source.rows)) <= _HELD_BYTES


def _is_fixed(type: pa.DataType) -> bool:
    return bool(pa.types.is_primitive(type) or pa.types.is_decimal(type))


def _clauses(plan: MergePlan) -> dict[Side, RoutedClause] | None:
    """What the clauses do; None where Spark must evaluate something, or look at whole rows."""
    resolved = plan.resolved
    if resolved.demands or resolved.identities or resolved.asked is not None or resolved.snapshot.partition_columns:
        return None
    if not fits_arrow(to_spark(resolved.scope.source.select(list(plan.source_columns)))):
        return None
    found: dict[Side, RoutedClause] = {}
    for clause in resolved.clauses:
        routed = _routed(resolved, clause)
        if routed is None or clause.side in found:
            return None
        found[clause.side] = routed
    return found


def _routed(resolved: ResolvedMerge, clause: ResolvedClause) -> RoutedClause | None:
    if clause.condition is not None or (clause.side is Side.BY_SOURCE and clause.action is not Action.DELETE):
        return None
    if clause.side is Side.NOT_MATCHED:
        resolved = replace(resolved, scope=resolved.scope.source_alone)
    values: list[tuple[str, str | None]] = []
    for value in clause.values:
        copy = copy_of(resolved, value)
        if copy is Constant.NULL:
            values.append((value.column, None))
        elif isinstance(copy, Reference) and copy.side == "source":
            values.append((value.column, copy.path[0]))
        else:
            return None
    return RoutedClause(clause.number, tuple(values))


def _field_type(schema: StructType, name: str) -> PrimitiveType:
    found = schema.find(name, case_sensitive=True)
    assert found is not None
    assert isinstance(found.type, PrimitiveType)
    return found.type


def _is_ranged(resolved: ResolvedMerge, pair: KeyPair) -> bool:
    return _field_type(resolved.scope.target, pair.target).name in _RANGED


def _is_looked_up(resolved: ResolvedMerge, pair: KeyPair) -> bool:
    """Whether the source's keys are values of the target's column, and nulls are none."""
    target = arrow_type(_field_type(resolved.scope.target, pair.target))
    source = arrow_type(_field_type(resolved.scope.source, pair.source))
    are_whole = pa.types.is_integer(target) and pa.types.is_integer(source)
    return not pair.null_safe and (source.equals(target) or (are_whole and source.bit_width <= target.bit_width))


def _route(pruned: PrunedPlan, pair: KeyPair, clauses: Mapping[Side, RoutedClause]) -> Route:
    """The route by one pair of columns: neighbouring files in the order of their keys are one task's."""
    low, high, placed = _limits(pruned, pair.target)
    order = placed[np.lexsort((high[placed], low[placed]))]
    sizes, rows = pruned.files["size"].to_numpy(), pruned.row_counts
    each = max(_OWNER_BYTES, int(sizes.sum()) // _MOST_OWNERS)
    before = np.cumsum(sizes[order]) - sizes[order]
    cells = np.split(order, np.flatnonzero(np.diff(before // each)) + 1)
    beyond = np.setdiff1d(np.arange(len(sizes)), placed)
    ranges = Ranges(
        np.array([low[cell].min(initial=_GREATEST) for cell in cells]),
        np.maximum.accumulate(np.array([high[cell].max(initial=_LEAST) for cell in cells])),
        tuple((*cell.tolist(), *(beyond.tolist() if at == 0 else ())) for at, cell in enumerate(cells)),
    )
    matched, inserts = clauses.get(Side.MATCHED), clauses.get(Side.NOT_MATCHED)
    needed = {pair.source for pair in pruned.plan.pairs} | set(matched.columns if matched else ())
    deciding = tuple(sorted(needed)) if inserts and 2 * len(needed) <= len(inserts.columns) else ()
    middle = low[order] // 2 + high[order] // 2
    first, last = ranges.covering(middle)
    overlap = float(np.average(last - first, weights=sizes[order])) if len(order) else 1.0
    return Route(pair.source, ranges, overlap, max(int(rows[list(cell)].sum()) for cell in ranges.files), clauses, deciding)


def _limits(pruned: PrunedPlan, column: str) -> tuple[Numbers, Numbers, Numbers]:
    """The least and the greatest key of each file as far as they are known, and the files that have keys."""
    snapshot = pruned.plan.resolved.snapshot
    known = bounds_of(FileChunk(pruned.files.combine_chunks()), snapshot.schema, (), [(column,)])[(column,)]
    (low, has_low), (high, has_high) = numbers(known.low), numbers(known.high)
    is_known = has_low & has_high & (low <= high)
    without = pc.fill_null(pc.equal(known.nulls, known.rows), False).to_numpy(zero_copy_only=False) & ~has_low & ~has_high
    return np.where(is_known, low, _LEAST), np.where(is_known, high, _GREATEST), np.flatnonzero(~without)
