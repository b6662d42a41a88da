"""A large source whose rows are sent as Arrow to the tasks that own the files, in place of a join.

Where files have ranges of keys of their own, straight to the file that may have the key, and matched there: one shuffle of the
source, none of the table. Else the keys of both sides meet first, which tells the file: one more shuffle of the source. For
clauses without conditions that copy the source's columns; everything else is left to Spark's join.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.log.commit.clustering import clustering_columns
from deltamerge.log.replay.files import FileChunk
from deltamerge.log.skipping.statistics import bounds_of
from deltamerge.merge.execute.local_changes import Constant, copy_of
from deltamerge.merge.plan.plan import KeyPair, MergePlan, Strategy
from deltamerge.merge.plan.prune import PrunedPlan
from deltamerge.merge.resolve.resolve import ResolvedClause, ResolvedMerge
from deltamerge.merge.resolve.scope import Reference
from deltamerge.merge.statement.clauses import Action, Side
from deltamerge.protocol.schema.types import PrimitiveType, StructType, arrow_schema, arrow_type
from deltamerge.protocol.table.row_tracking import tracking_columns
from deltamerge.protocol.values.widths import row_width, width
from deltamerge.spark.session.schema import to_spark
from deltamerge.spark.source.source import fits_arrow
from deltamerge.worker.join.owned import RoutedClause
from deltamerge.worker.join.route import Numbers, Ranges, numbers
from deltamerge.worker.scan.scan import POSITION_FIELDS

_RANGED = ("byte", "short", "integer", "long", "date", "timestamp", "timestamp_ntz")
SENT = (Strategy.ROUTE, Strategy.MEET)
_LEAST, _GREATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@dataclass(frozen=True)
class Route:
    """How a merge is routed: by which column of the source, which task owns which files, and what the clauses do.

    `overlap` says how many tasks a source row would be sent to, about, by its key; `most` how many rows the files of a task
    have at most; `span` how many keys there can be in the table, 0 if that is not known. `deciding` are the source's columns
    that matching and updating take, if they are few of those that are inserted, else (). The keys of both sides meet at as
    many tasks as `meetings`, by some columns of the table and the source; 0 says that each source row goes straight to the
    owners of its key. With `moves` an updated row may be written elsewhere than it was, as nothing of it is kept.
    """

    key: str
    ranges: Ranges = field(repr=False)
    overlap: float
    most: int
    span: int
    clauses: Mapping[Side, RoutedClause]
    deciding: tuple[str, ...]
    meetings: int = 0
    keys: tuple[tuple[str, str], ...] = ()
    moves: bool = False

    @property
    def text(self) -> str:
        """Where rows go, in words."""
        if self.meetings:
            columns = ", ".join(source for _, source in self.keys)
            return f"rows of both sides meet by {columns} if workers can read it; changes go to the tasks that own the files"
        return f"rows are sent by {self.key} to the tasks that own the files"


def route_of(pruned: PrunedPlan) -> Route | None:
    """How a merge is routed; None where it can't be, or where a join may be better.

    It can be where every clause copies columns of the source, or deletes, without a condition. Rows go straight to the files
    where these have ranges of keys of their own; and either way what a task has to hold is bounded.
    """
    plan = pruned.plan
    if plan.strategy not in (Strategy.AUTO, *SENT):
        return None
    clauses = _clauses(plan)
    if clauses is None or not pruned.files.num_rows or not plan.keys_decide or len(plan.pairs) > plan.budgets.exchange_keys:
        return None
    if not all(_is_looked_up(plan.resolved, pair) for pair in plan.pairs):
        return None
    ranged = [pair for pair in plan.pairs if _is_ranged(plan.resolved, pair)]
    routes = [_route(pruned, pair, clauses) for pair in ranged]
    if not routes:
        return None
    straight = min(routes, key=lambda route: route.overlap)
    met = _met(pruned, straight, ranged, routes)
    if plan.strategy in SENT:
        return met if plan.strategy is Strategy.MEET else straight
    # What Spark reads it joins as fast as it sends it twice.
    route = (
        straight
        if straight.overlap <= plan.budgets.range_overlap
        else met
        if pruned.source.files and _is_spread(plan, met)
        else None
    )
    return route if route is not None and _fits(pruned, route) else None


def _met(pruned: PrunedPlan, route: Route, pairs: Sequence[KeyPair], routes: Sequence[Route]) -> Route:
    """A route if the rows of both sides meet, by all `pairs`, of which each has one of the `routes`.

    By one column alone if it has many keys: rows that are alike in it are matched faster where they are together.
    """
    widest = max(range(len(routes)), key=lambda at: routes[at].span)
    budgets = pruned.plan.budgets
    if routes[widest].span >= budgets.hash_column_keys:
        pairs, routes = [pairs[widest]], [routes[widest]]
    wanted = max(pruned.source.bytes // budgets.hash_source_bytes, _key_bytes(pruned) // budgets.hash_key_bytes)
    moves = bool(pruned.source.files) and _moves(pruned.plan, route.clauses)
    return replace(
        route,
        meetings=max(budgets.hash_least_tasks, min(wanted, budgets.exchange_tasks)),
        keys=tuple((pair.target, pair.source) for pair in pairs),
        span=prod(route.span for route in routes),
        moves=moves,
        deciding=tuple(sorted(pair.source for pair in pruned.plan.pairs)) if moves else route.deciding,
    )


def _moves(plan: MergePlan, clauses: Mapping[Side, RoutedClause]) -> bool:
    """Whether an updated row is a whole source row, which is as if it had been deleted and that one inserted."""
    matched, inserts = clauses.get(Side.MATCHED), clauses.get(Side.NOT_MATCHED)
    after = plan.resolved.after
    if matched is None or plan.feed or tracking_columns(after.protocol, after.metadata) is not None or clustering_columns(after):
        return False
    values = dict(matched.values)
    return values.keys() == set(plan.resolved.schema.names) and (inserts is None or dict(inserts.values) == values)


def _fits(pruned: PrunedPlan, route: Route) -> bool:
    """Whether the rows that change a task's files can be held, and no more columns are sent than a join would move."""
    if route.deciding and not pruned.source.files:
        return False
    schema, source = pruned.plan.resolved.scope.source, pruned.source
    sent = row_width(arrow_schema(schema.select(list(pruned.plan.source_columns))))
    # Each source row changes one row, mostly; where it changes many, the task says that it holds too much. Collected rows that
    # are not matched where they are do change many.
    may_be_all = Side.BY_SOURCE in route.clauses or source.collected is not None or not source.rows
    most = route.most if may_be_all else min(route.most, source.rows)
    return most * max(sent, source.bytes // max(1, source.rows)) <= pruned.plan.budgets.exchange_task_rows_bytes


def _is_spread(plan: MergePlan, met: Route) -> bool:
    """Whether there are many different keys to meet by, so that no task has most of the rows."""
    possible = plan.budgets.hash_keys_per_task * met.meetings
    return met.span >= (possible if len(met.keys) == len(plan.pairs) else max(possible, plan.budgets.hash_column_keys))


def _key_bytes(pruned: PrunedPlan) -> int:
    """About the bytes of the keys and places of the table's rows."""
    types = (arrow_type(_field_type(pruned.plan.resolved.scope.target, pair.target)) for pair in pruned.plan.pairs)
    place = sum(field.type.bit_width // 8 for field in POSITION_FIELDS)
    each: int = place + sum(map(width, types))
    return int(pruned.row_counts.sum()) * each


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
    budgets = pruned.plan.budgets
    each = max(budgets.range_task_bytes, int(sizes.sum()) // budgets.exchange_tasks)
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
    most = max(int(rows[list(cell)].sum()) for cell in ranges.files)
    least, greatest = low[order].min(initial=_GREATEST), high[order].max(initial=_LEAST)
    span = 0 if least == _LEAST else max(0, int(greatest) - int(least) + 1)
    return Route(pair.source, ranges, overlap, most, span, clauses, deciding)


def _limits(pruned: PrunedPlan, column: str) -> tuple[Numbers, Numbers, Numbers]:
    """The least and the greatest key of each file as far as they are known, and the files that have keys."""
    snapshot = pruned.plan.resolved.snapshot
    known = bounds_of(FileChunk(pruned.files.combine_chunks()), snapshot.schema, (), [(column,)])[(column,)]
    (low, has_low), (high, has_high) = numbers(known.low), numbers(known.high)
    is_known = has_low & has_high & (low <= high)
    without = pc.fill_null(pc.equal(known.nulls, known.rows), False).to_numpy(zero_copy_only=False) & ~has_low & ~has_high
    return np.where(is_known, low, _LEAST), np.where(is_known, high, _GREATEST), np.flatnonzero(~without)
