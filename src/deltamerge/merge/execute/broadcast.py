"""The broadcast: the collected source is matched with the files' rows, and the changed rows are made in the driver.

A column that is copied as it is, from the source or from the target, never leaves Arrow, nor do expressions that Arrow evaluates
just as Spark does; all others are Spark's to evaluate.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from deltamerge.merge.execute.identity_values import with_identity_values
from deltamerge.merge.execute.match import MatchedRows, match
from deltamerge.merge.execute.multiple_matches import multiple_matches
from deltamerge.merge.execute.sink import repeated_positions, write_changes
from deltamerge.merge.execute.work import Changed, Work
from deltamerge.merge.plan.logical import LogicalPlan
from deltamerge.merge.plan.physical import Broadcast
from deltamerge.merge.plan.program import CompiledClause, Program, copied
from deltamerge.merge.resolve.scope import Scope
from deltamerge.merge.statement.clauses import ClauseKind
from deltamerge.protocol.schema.types import StructType, arrow_schema
from deltamerge.protocol.values.condition import Condition, names_in
from deltamerge.protocol.values.widths import are_within
from deltamerge.spark.expressions.expression import Expression, tells_time
from deltamerge.spark.session.schema import to_spark
from deltamerge.spark.stages.evaluate import HOLDS, NUMBER, Question, about_pairs, about_rows, answers
from deltamerge.worker.join.clauses import asked_columns, change_schema, changed_rows, chosen_rows
from deltamerge.worker.join.computed import computed_values
from deltamerge.worker.join.matching import Indices
from deltamerge.worker.scan.outcomes import NotEvaluable, NotThisWay, TooLarge
from deltamerge.worker.scan.scan import FILE, ROW
from deltamerge.worker.skipping.holds import Sides, holds


def broadcast(work: Work, attempt: Broadcast) -> Changed | NotThisWay:
    """Match, make the changed rows, and write them. Raises MultipleMatchError, ExecutionError."""
    started = time.perf_counter()
    most_bytes = work.budgets.match_bytes
    if attempt.early_columns:
        work = work.with_program(work.logical.program.with_all_columns())
        most_bytes = min(most_bytes, work.budgets.early_bytes)
    matched = match(work, _needed_target(work.logical), most_bytes)
    if not isinstance(matched, MatchedRows):
        return matched
    for tried in (work.with_original_clauses, work):
        if tried is None or (tried is not work and not repeated_positions(matched.target)):
            continue
        changes = _changes(tried, matched)
        if not isinstance(changes, pa.Table):
            return changes
        collisions = 0 if work.logical.ignores_duplicate_matches else repeated_positions(changes)
        if collisions:
            raise multiple_matches(tried, collisions)
    scan_ms = int((time.perf_counter() - started) * 1000)
    changes = with_identity_values(changes, work.logical.resolved)
    change = replace(work.change, feed=None) if changes[FILE].null_count == changes.num_rows else work.change
    return Changed(write_changes(work.spark, changes, change, work.files.sizes.tolist(), work.description), scan_ms)


def _needed_target(logical: LogicalPlan) -> StructType:
    """The target columns that are copied, or that Spark needs to evaluate the clauses; none when all comes from the source."""
    program, scope = logical.program, logical.resolved.scope
    used = program.expressions(ClauseKind.MATCHED)
    used += [] if logical.matched_in_arrow else [logical.resolved.spec.condition]
    names = {*scope.used(used, "target"), *scope.target_alone.used(program.expressions(ClauseKind.BY_SOURCE), "target")}
    names.update(copied(program.clauses, "target"))
    return scope.target.select([name for name in scope.target.names if name in names])


@dataclass(frozen=True)
class _Rows:
    """Some `count` rows that clauses of one kind are about: as they are in the `target`, with their positions, None for new ones;
    the `source` row of each, if any; and what Spark is asked of them, or what is `known` without it: for each clause the rows
    that it changes, and their values that are no copies.
    """

    clauses: Sequence[CompiledClause]
    count: int
    target: pa.Table | None
    source: Indices | None
    question: Question | None = None
    known: Sequence[tuple[Indices, pa.Table | None]] | None = None


def _changes(work: Work, matched: MatchedRows) -> pa.Table | NotThisWay:
    """All changed rows; NotThisWay when only a join can tell, or when they are too large for the driver."""
    program, condition = work.logical.program, None if work.logical.matched_in_arrow else work.logical.resolved.spec.condition
    schema = change_schema(arrow_schema(program.written))
    parts: list[pa.Table] = []
    groups: list[_Rows] = []
    clauses: Sequence[CompiledClause] = program.of(ClauseKind.MATCHED)
    if condition is not None and work.logical.condition is not None:
        holding = _holding(work, matched, work.logical.condition)
        if not isinstance(holding, MatchedRows):
            return holding
        matched, condition = holding, None
    if condition is not None and len(matched.source):
        apart = _ask_time_apart(program)
        if apart and tells_time(condition):
            return NotEvaluable("the search condition and clauses of several kinds ask for the time, which is one for all")
        pairs = _pairs(work, matched, () if apart else clauses, condition)
        if not isinstance(pairs, _Rows):
            return pairs
        assert pairs.question is not None
        said = answers([pairs.question])
        if not isinstance(said, list):
            return said
        matched = matched.only(np.flatnonzero(said[0][HOLDS].to_numpy()))
        parts += _changed(work, pairs, said[0], schema)
        clauses = clauses if apart else ()
    if clauses and len(matched.source):
        pairs = _pairs(work, matched, clauses, None)
        if not isinstance(pairs, _Rows):
            return pairs
        groups.append(pairs)
    if inserts := program.of(ClauseKind.NOT_MATCHED):
        groups.append(_unmatched(work, matched.without_target(work.source.rows), inserts))
    if by_source := program.of(ClauseKind.BY_SOURCE):
        groups.append(_by_source(work, matched, by_source))
    found = answers([group.question for group in groups if group.question is not None])
    if not isinstance(found, list):
        return found
    answer_of = iter(found)
    for group in groups:
        parts += _changed(work, group, None if group.question is None else next(answer_of), schema)
    changes = pa.concat_tables(parts) if parts else schema.empty_table()
    return changes if changes.nbytes <= work.budgets.changed_bytes else _too_large(work, "the changed rows take")


def _too_large(work: Work, what: str) -> TooLarge:
    return TooLarge(f"{what} more than {work.budgets.changed_bytes >> 20} MB")


def _ask_time_apart(program: Program) -> bool:
    """Whether clauses of several kinds have the time in them, which must be the same for all: they are to be asked together."""
    return sum(any(map(tells_time, program.expressions(kind))) for kind in ClauseKind) > 1


def _pairs(
    work: Work, matched: MatchedRows, clauses: Sequence[CompiledClause], condition: Expression | None
) -> _Rows | NotThisWay:
    """The matched pairs; NotThisWay when names can't be told apart, or what they need is too large for the driver."""
    source, scope = work.source.collected, work.logical.resolved.scope
    assert source is not None

    if _are_too_large(work, matched, copied(clauses, "source"), copied(clauses, "target")):
        return _too_large(work, "what the matched rows copy takes")
    rows = _Rows(clauses, len(matched.source), matched.target, matched.source)
    programs = [compiled.program for compiled in clauses]
    asked_of_source, asked_of_target = asked_columns(programs, "source"), asked_columns(programs, "target")
    if _are_too_large(work, matched, asked_of_source, asked_of_target):
        return _too_large(work, "what the clauses ask for takes")
    if condition is None and all(compiled.in_arrow for compiled in clauses):
        known = _known(clauses, _sides(work, matched, asked_of_source, asked_of_target))
        if known is not None:
            return replace(rows, known=known)
    used = [*([condition] if condition else []), *(e for compiled in clauses for e in compiled.expressions)]
    of_source, of_target = scope.source.select(scope.used(used, "source")), scope.target.select(scope.used(used, "target"))
    if _are_too_large(work, matched, of_source.names, of_target.names):
        return _too_large(work, "what Spark evaluates takes")
    question = about_pairs(
        work.spark,
        (scope.source_alias, of_source, source.select(of_source.names).take(pa.array(matched.source))),
        (scope.target_alias, of_target, matched.target.select(of_target.names)),
        len(matched.source),
        condition,
        [compiled.query for compiled in clauses],
        to_spark(work.logical.resolved.schema),
    )
    return (
        NotEvaluable("names of columns and aliases can't be told apart") if question is None else replace(rows, question=question)
    )


def _sides(work: Work, matched: MatchedRows, of_source: Sequence[str], of_target: Sequence[str]) -> Sides:
    """Some columns of the matched pairs."""
    assert work.source.collected is not None
    source = work.source.collected.select(of_source).take(pa.array(matched.source))
    return Sides(len(matched.source), matched.target.select(of_target), source)


def _holding(work: Work, matched: MatchedRows, condition: Condition) -> MatchedRows | NotThisWay:
    """The pairs for which a condition is true that Arrow evaluates."""
    of_source, of_target = sorted(names_in(condition, "source")), sorted(names_in(condition, "target"))
    if _are_too_large(work, matched, of_source, of_target):
        return _too_large(work, "what the search condition asks for takes")
    return matched.only(np.flatnonzero(holds(condition, _sides(work, matched, of_source, of_target))))


def _are_too_large(work: Work, matched: MatchedRows, of_source: Sequence[str], of_target: Sequence[str]) -> bool:
    """Whether some columns of the matched pairs are too large for the driver."""
    assert work.source.collected is not None
    sides = ((work.source.collected.select(of_source), matched.source), (matched.scanned.select(of_target), matched.row))
    return not are_within(sides, work.budgets.changed_bytes)


def _known(clauses: Sequence[CompiledClause], rows: Sides) -> Sequence[tuple[Indices, pa.Table | None]] | None:
    """For each clause the rows that it changes, and its values that are no copies, made in Arrow; None where a number exceeds its
    type.
    """
    found = []
    for compiled, chosen in zip(clauses, chosen_rows([compiled.program for compiled in clauses], rows), strict=True):
        computed = compiled.program.computed
        values = computed_values(computed, rows.take(chosen)) if computed else None
        if computed and values is None:
            return None
        found.append((chosen, values))
    return found


def _unmatched(work: Work, alone: Indices, clauses: Sequence[CompiledClause]) -> _Rows:
    """The source rows without a match, which NOT MATCHED clauses insert."""
    assert work.source.collected is not None
    scope = work.logical.resolved.scope.source_alone
    asked = asked_columns([compiled.program for compiled in clauses], "source")
    sides = Sides(len(alone), None, work.source.collected.select(asked).take(pa.array(alone)))
    rows = _Rows(clauses, len(alone), None, alone)
    return _decided(work, rows, scope, (scope.source_alias, scope.source, work.source.collected), alone, sides)


def _by_source(work: Work, matched: MatchedRows, clauses: Sequence[CompiledClause]) -> _Rows:
    """The target rows without a match, which NOT MATCHED BY SOURCE clauses change; their expressions see the target alone."""
    scope, alone = work.logical.resolved.scope.target_alone, matched.without_source
    asked = asked_columns([compiled.program for compiled in clauses], "target")
    sides = Sides(len(alone), matched.scanned.select(asked).take(pa.array(alone)))
    target = matched.scanned.select([*copied(clauses, "target"), FILE, ROW]).take(pa.array(alone))
    rows = _Rows(clauses, len(alone), target, None)
    return _decided(work, rows, scope, (scope.target_alias, scope.target, matched.scanned), alone, sides)


def _decided(
    work: Work, rows: _Rows, scope: Scope, side: tuple[str, StructType, pa.Table], alone: Indices, sides: Sides
) -> _Rows:
    """Rows of one side without a match, with what clauses make of them, known in Arrow or to be asked of Spark."""
    known = _known(rows.clauses, sides) if all(compiled.in_arrow for compiled in rows.clauses) else None
    if known is not None or not len(alone):
        return replace(rows, known=known)
    alias, schema, table = side
    used = [expression for compiled in rows.clauses for expression in compiled.expressions]
    columns = schema.select(scope.used(used, "source" if schema is scope.source else "target"))
    asked = (alias, columns, table.select(columns.names).take(pa.array(alone)))
    queries = [compiled.query for compiled in rows.clauses]
    return replace(rows, question=about_rows(work.spark, asked, len(alone), queries, to_spark(work.logical.resolved.schema)))


def _changed(work: Work, rows: _Rows, answer: pa.Table | None, schema: pa.Schema) -> list[pa.Table]:
    """The rows that clauses change, a table for each clause."""
    decided = rows.known or ()
    if answer is not None:
        numbers = np.asarray(pc.fill_null(answer[NUMBER], -1).to_numpy(), np.int64)
        chosen = [np.flatnonzero(numbers == compiled.clause.number) for compiled in rows.clauses]
        decided = [
            (own, answer.select(compiled.program.columns("evaluated")).take(pa.array(own)))
            for compiled, own in zip(rows.clauses, chosen, strict=True)
        ]
    of_clauses = zip(rows.clauses, decided, strict=True) if decided else ()
    return [_changed_by(work, compiled, rows, values, own, schema) for compiled, (own, values) in of_clauses if len(own)]


def _changed_by(
    work: Work, compiled: CompiledClause, rows: _Rows, values: pa.Table | None, chosen: Indices, schema: pa.Schema
) -> pa.Table:
    """The chosen rows as one clause changes them, by the `values` that are no copies."""
    program = compiled.program
    sides, files, positions = {"evaluated": values}, None, None
    if rows.target is not None:
        own = rows.target.select([*program.columns("target"), FILE, ROW]).take(pa.array(chosen))
        sides["target"], files, positions = own, own[FILE].to_numpy(), own[ROW].to_numpy()
    if rows.source is not None:
        assert work.source.collected is not None
        sides["source"] = work.source.collected.select(program.columns("source")).take(pa.array(rows.source[chosen]))
    return changed_rows(program, schema, len(chosen), sides, files, positions)
