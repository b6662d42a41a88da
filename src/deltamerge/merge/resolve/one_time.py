"""One time for a whole merge, its source included, as delta-spark has it, which runs a merge as one command.

Where the source and an expression both ask for the time, expressions get the time at which the source was evaluated. Elsewhere
Spark is asked by one query, which has one time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from deltamerge.errors import AnalysisError
from deltamerge.merge.resolve.resolve import ResolvedClause, ResolvedMerge, frames_of
from deltamerge.merge.statement.clauses import ClauseKind
from deltamerge.spark.expressions.analysis import empty_frame
from deltamerge.spark.expressions.expression import Expression, from_user, tells_time
from deltamerge.spark.expressions.own_functions import own_functions
from deltamerge.spark.expressions.time import (
    Clock,
    asks_unseen,
    empty_like,
    first_asking,
    frame_asks_time,
    may_ask_time,
    own_clocks,
    time_of,
)
from deltamerge.spark.session.frames import Frame, Session


def shares_time(spark: Session, resolved: ResolvedMerge, rows: Frame) -> bool:
    """Whether the `rows` of the source and an expression of the merge may both ask for the time. No job runs.

    Raises AnalysisError where an expression asks for it out of sight, within a function or a view.
    """
    expressions = list(_expressions(resolved))
    if not any(map(may_ask_time, expressions)) or not frame_asks_time(rows):
        return False
    _check(spark, at_time(spark, resolved, 0))
    return True


def with_own_time(spark: Session, resolved: ResolvedMerge) -> ResolvedMerge:
    """The merge with its clauses at Spark's time, so that Arrow can evaluate them; as it is where they can't all have it."""
    asking = [expression for expression in _expressions(resolved) if may_ask_time(expression)]
    clauses = [expression for clause in resolved.clauses for expression in _of_clause(clause)]
    if not any(map(tells_time, clauses)) or any(map(asks_unseen, asking)) or frame_asks_time(resolved.spec.source):
        return resolved
    now = time_of(spark)
    timed = resolved if now is None else at_time(spark, resolved, *now)
    return resolved if timed.scope.clock is None else timed


def at_time(spark: Session, resolved: ResolvedMerge, micros: int, days: int | None = None) -> ResolvedMerge:
    """The merge with its expressions at a time in microseconds since 1970; `days` since then is its date in the session's zone.

    Its scope has the time where no expression asks for it any more.
    """
    columns = frozenset(name.lower() for schema in (resolved.scope.source, resolved.scope.target) for name in schema.names)
    own = own_clocks(spark, [expression.text for expression in _expressions(resolved)])
    clock = Clock(micros, own, columns, days)

    def moved(clause: ResolvedClause) -> ResolvedClause:
        condition = None if clause.condition is None else clock.expression(spark, clause.condition)
        values = (replace(value, value=clock.expression(spark, value.value)) for value in clause.values)
        return replace(clause, condition=condition, values=tuple(values))

    timed = replace(
        resolved,
        spec=replace(resolved.spec, condition=clock.expression(spark, resolved.spec.condition)),
        clauses=tuple(map(moved, resolved.clauses)),
        original_clauses=None if resolved.original_clauses is None else tuple(map(moved, resolved.original_clauses)),
        clock=clock,
    )
    parts = (timed.spec.condition, *(expression for clause in timed.clauses for expression in _of_clause(clause)))
    return timed if any(map(tells_time, parts)) else replace(timed, scope=replace(timed.scope, clock=clock))


def with_known_functions(spark: Session, resolved: ResolvedMerge) -> ResolvedMerge:
    """The merge with those functions that it calls which are surely Spark's own."""
    found = own_functions(spark, _expressions(resolved))
    return replace(resolved, scope=replace(resolved.scope, functions=found)) if found else resolved


def _expressions(resolved: ResolvedMerge) -> Iterator[Expression]:
    """Every expression of a merge."""
    yield resolved.spec.condition
    for clause in (*resolved.clauses, *(resolved.original_clauses or ())):
        yield from _of_clause(clause)
    yield from map(from_user, resolved.constraints.texts)


def _of_clause(clause: ResolvedClause) -> Iterator[Expression]:
    if clause.condition is not None:
        yield clause.condition
    yield from (value.value for value in clause.values)


def _check(spark: Session, resolved: ResolvedMerge) -> None:
    """Raise AnalysisError for an expression that still asks for the time."""
    assert resolved.clock is not None
    asked = [(empty_frame(spark, resolved.schema), from_user(resolved.clock.text(text))) for text in resolved.constraints.texts]
    for kind, frame in frames_of(spark, resolved.scope, empty_like(resolved.spec.source)).items():
        asked += [(frame, resolved.spec.condition)] if kind is ClauseKind.MATCHED else []
        asked += [(frame, found) for clause in resolved.of(kind) for found in _of_clause(clause)]
    for frame in dict.fromkeys(frame for frame, _ in asked):
        found = first_asking(frame, [expression for other, expression in asked if other is frame])
        if found is not None:
            raise _out_of_sight(found)


def _out_of_sight(expression: Expression) -> AnalysisError:
    return AnalysisError(
        "DELTAMERGE_TIME_OUT_OF_SIGHT",
        f"The source asks for the current time, and so does {expression.text}, but where it can't be seen: the two would differ.",
        parameters={"expression": expression.text},
        hint="Call current_timestamp() in the expression itself, not in a function, view or subquery, or take the time from a "
        "column of the source.",
    )
