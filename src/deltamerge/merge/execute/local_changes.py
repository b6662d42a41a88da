"""The rows that change, made in Arrow from matched pairs and unmatched source rows.

A column that is copied as it is, from the source or from the target, never leaves Arrow; all other expressions are Spark's to
evaluate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from deltamerge.merge.execute.matching import Matches
from deltamerge.merge.plan.prune import PrunedPlan
from deltamerge.merge.plan.repeated import repeated_bytes
from deltamerge.merge.resolve.resolve import ColumnValue, ResolvedClause, ResolvedMerge
from deltamerge.merge.resolve.scope import Reference
from deltamerge.merge.statement.clauses import Side
from deltamerge.protocol.schema.types import StructType, arrow_schema
from deltamerge.spark.expressions.casts import same_type
from deltamerge.spark.expressions.expression import Expression, tells_time
from deltamerge.spark.session.frames import Session
from deltamerge.spark.session.schema import spark_type, to_spark
from deltamerge.spark.stages.changes import ClauseQuery
from deltamerge.spark.stages.evaluate import HOLDS, NUMBER, Question, about_pairs, about_rows, answers, value_name
from deltamerge.worker.join.pairs import Indices
from deltamerge.worker.scan.scan import FILE, POSITION_FIELDS, ROW
from deltamerge.worker.write.rewrite import CLAUSE, conform_column


class Constant(Enum):
    """What is written without asking Spark, and is in no column."""

    NULL = "NULL"


def needed_target(pruned: PrunedPlan) -> StructType:
    """The target columns that are copied, or that Spark needs to evaluate the clauses; none when all comes from the source."""
    resolved = pruned.plan.resolved
    matched = resolved.of(Side.MATCHED)
    used = _evaluated(resolved, matched)
    if not pruned.plan.keys_decide:
        used.append(resolved.spec.condition)
    names = {*resolved.scope.used(used, "target"), *_copies(resolved, matched, "target")}
    alone = replace(resolved, scope=resolved.scope.target_alone)
    by_source = alone.of(Side.BY_SOURCE)
    names.update(alone.scope.used(_evaluated(alone, by_source), "target"), _copies(alone, by_source, "target"))
    return alone.scope.target.select([name for name in alone.scope.target.names if name in names])


@dataclass(frozen=True)
class _Rows:
    """Rows that the clauses of one kind are about: as they are in the `target`, with their positions, null for new ones; their
    `partners` among the source's rows, if any; and what Spark is asked of them, if it has to be.
    """

    resolved: ResolvedMerge
    clauses: Sequence[ResolvedClause]
    target: pa.Table
    partners: Indices | None
    question: Question | None = None


def local_changes(spark: Session, pruned: PrunedPlan, matches: Matches) -> pa.Table | None:
    """All changed rows: FILE, ROW (null for inserted rows), CLAUSE and the written columns.

    None when only a join can tell, or when they are too large to be held.
    """
    resolved = pruned.plan.resolved
    written = arrow_schema(resolved.schema.select([n for c in resolved.clauses for n in c.assigned]))
    parts: list[pa.Table] = []
    groups: list[_Rows | None] = []
    condition = None if pruned.plan.keys_decide else resolved.spec.condition
    matched = resolved.of(Side.MATCHED)
    if condition is not None and len(matches.source):
        apart = _tell_time_apart(resolved)
        if apart and tells_time(condition):
            return None
        pairs = _pairs(spark, pruned, matches, () if apart else matched, condition)
        if pairs is None or pairs.question is None:
            return None
        (told,) = answers([pairs.question])
        matches = matches.only(np.flatnonzero(told[HOLDS].to_numpy()))
        parts += _changed(pruned, pairs, told, written)
        matched = matched if apart else ()
    if matched and len(matches.source):
        groups.append(_pairs(spark, pruned, matches, matched, None))
    if inserts := resolved.of(Side.NOT_MATCHED):
        groups.append(_unmatched(spark, pruned, matches.without_target(pruned.source.rows), inserts))
    if by_source := resolved.of(Side.BY_SOURCE):
        groups.append(_by_source(spark, pruned, matches, by_source))
    known = [group for group in groups if group is not None]
    if len(known) < len(groups):
        return None
    told_of = iter(answers([group.question for group in known if group.question is not None]))
    for group in known:
        parts += _changed(pruned, group, None if group.question is None else next(told_of), written)
    changes = pa.concat_tables(parts) if parts else _schema(written).empty_table()
    return changes if changes.nbytes <= pruned.plan.budgets.changed_bytes else None


def _tell_time_apart(resolved: ResolvedMerge) -> bool:
    """Whether clauses of several kinds have the time in them, which must be the same for all: they are to be asked together."""
    kinds = [resolved.of(side) for side in Side]
    return sum(any(map(tells_time, _evaluated(resolved, clauses))) for clauses in kinds) > 1


def _pairs(
    spark: Session, pruned: PrunedPlan, matches: Matches, clauses: Sequence[ResolvedClause], condition: Expression | None
) -> _Rows | None:
    """The matched pairs; None when names can't be told apart, or what they need is too large to be held."""
    resolved, rows = pruned.plan.resolved, pruned.source.collected
    assert rows is not None
    copies = (
        (rows.select(_copies(resolved, clauses, "source")), matches.source),
        (matches.scanned.select(_copies(resolved, clauses, "target")), matches.row),
    )
    if sum(repeated_bytes(table, taken) for table, taken in copies) > pruned.plan.budgets.changed_bytes:
        return None
    found = _Rows(resolved, clauses, matches.target, matches.source)
    used = [*([condition] if condition else []), *_evaluated(resolved, clauses)]
    if not used and len(clauses) <= 1:
        return found
    scope = resolved.scope
    source = scope.source.select(scope.used(used, "source"))
    target = scope.target.select(scope.used(used, "target"))
    sides = ((rows.select(source.names), matches.source), (matches.scanned.select(target.names), matches.row))
    if sum(repeated_bytes(table, taken) for table, taken in sides) > pruned.plan.budgets.changed_bytes:
        return None
    question = about_pairs(
        spark,
        (scope.source_alias, source, rows.select(source.names).take(pa.array(matches.source))),
        (scope.target_alias, target, matches.target.select(target.names)),
        len(matches.source),
        condition,
        [_query(resolved, clause) for clause in clauses],
        to_spark(resolved.schema),
    )
    return None if question is None else replace(found, question=question)


def _unmatched(spark: Session, pruned: PrunedPlan, alone: Indices, clauses: Sequence[ResolvedClause]) -> _Rows:
    """The source rows without a partner, which NOT MATCHED clauses insert."""
    resolved = replace(pruned.plan.resolved, scope=pruned.plan.resolved.scope.source_alone)
    assert pruned.source.collected is not None
    nowhere = pa.table([pa.nulls(len(alone), f.type) for f in POSITION_FIELDS], names=[FILE, ROW])
    question = _about(spark, resolved, "source", pruned.source.collected, alone, clauses)
    return _Rows(resolved, clauses, nowhere, alone, question)


def _by_source(spark: Session, pruned: PrunedPlan, matches: Matches, clauses: Sequence[ResolvedClause]) -> _Rows:
    """The target rows without a partner, which NOT MATCHED BY SOURCE clauses change; their expressions see the target alone."""
    resolved = replace(pruned.plan.resolved, scope=pruned.plan.resolved.scope.target_alone)
    alone = matches.without_source
    question = _about(spark, resolved, "target", matches.scanned, alone, clauses)
    columns = [*_copies(resolved, clauses, "target"), FILE, ROW]
    return _Rows(resolved, clauses, matches.scanned.select(columns).take(pa.array(alone)), None, question)


def _about(
    spark: Session,
    resolved: ResolvedMerge,
    side: Literal["source", "target"],
    table: pa.Table,
    alone: Indices,
    clauses: Sequence[ResolvedClause],
) -> Question | None:
    """What Spark must be asked of those rows of one side that have no partner; None when nothing."""
    used, scope = _evaluated(resolved, clauses), resolved.scope
    if not len(alone) or not (used or len(clauses) > 1):
        return None
    schema, alias = (scope.source, scope.source_alias) if side == "source" else (scope.target, scope.target_alias)
    columns = schema.select(scope.used(used, side))
    rows = (alias, columns, table.select(columns.names).take(pa.array(alone)))
    return about_rows(spark, rows, len(alone), [_query(resolved, clause) for clause in clauses], to_spark(resolved.schema))


def _changed(pruned: PrunedPlan, rows: _Rows, told: pa.Table | None, written: pa.Schema) -> list[pa.Table]:
    """The rows that clauses change, a table for each clause."""
    numbers = _numbers(told, rows.clauses, rows.target.num_rows)
    chosen = ((clause, np.flatnonzero(numbers == clause.number)) for clause in rows.clauses)
    return [_changed_by(pruned, rows, clause, indices, told, written) for clause, indices in chosen if len(indices)]


def _changed_by(
    pruned: PrunedPlan, rows: _Rows, clause: ResolvedClause, chosen: Indices, told: pa.Table | None, written: pa.Schema
) -> pa.Table:
    """The chosen rows as one clause changes them, with its value or null in every written column."""
    resolved = rows.resolved
    own = rows.target.select([*_copies(resolved, [clause], "target"), FILE, ROW]).take(pa.array(chosen))
    taken = {"target": own}
    if rows.partners is not None:
        assert pruned.source.collected is not None
        copies = pruned.source.collected.select(_copies(resolved, [clause], "source"))
        taken["source"] = copies.take(pa.array(rows.partners[chosen]))
    copied = {value.column: copy_of(resolved, value) for value in clause.values}
    columns = [own[FILE], own[ROW], pa.array(np.full(len(chosen), clause.number, np.int32))]
    for field in written:
        copy = copied.get(field.name, Constant.NULL)
        if copy is Constant.NULL:
            columns.append(pa.nulls(len(chosen), field.type))
        elif isinstance(copy, Reference):
            columns.append(conform_column(taken[copy.side][copy.path[0]], field.type))
        else:
            assert told is not None
            column = told[value_name(clause.number, field.name)].take(pa.array(chosen))
            columns.append(conform_column(column, field.type))
    return pa.table(columns, schema=_schema(written))


def _schema(written: pa.Schema) -> pa.Schema:
    nullable = [field.with_nullable(True) for field in (*POSITION_FIELDS, *written)]
    return pa.schema([*nullable[:2], pa.field(CLAUSE, pa.int32()), *nullable[2:]])


def _numbers(told: pa.Table | None, clauses: Sequence[ResolvedClause], rows: int) -> Indices:
    """The number of the applying clause of each row, -1 for none."""
    if told is not None:
        return np.asarray(pc.fill_null(told[NUMBER], -1).to_numpy(), np.int64)
    return np.full(rows, clauses[0].number if clauses else -1, np.int64)


def _evaluated(resolved: ResolvedMerge, clauses: Sequence[ResolvedClause]) -> list[Expression]:
    """The expressions of clauses that Spark must evaluate: conditions, and values that are no plain copies."""
    found = [clause.condition for clause in clauses if clause.condition is not None]
    return found + [v.value for clause in clauses for v in clause.values if copy_of(resolved, v) is None]


def _query(resolved: ResolvedMerge, clause: ResolvedClause) -> ClauseQuery:
    values: Mapping[str, ColumnValue] = {v.column: v for v in clause.values if copy_of(resolved, v) is None}
    return ClauseQuery(clause.number, clause.condition, {n: (v.value, v.type) for n, v in values.items()})


def _copies(resolved: ResolvedMerge, clauses: Sequence[ResolvedClause], side: Literal["source", "target"]) -> list[str]:
    """The columns of one side that clauses copy as they are."""
    copied = [copy_of(resolved, value) for clause in clauses for value in clause.values]
    return list(dict.fromkeys(copy.path[0] for copy in copied if isinstance(copy, Reference) and copy.side == side))


def copy_of(resolved: ResolvedMerge, value: ColumnValue) -> Reference | Constant | None:
    """The column that a value is a plain copy of, or the constant that it is; None when Spark must evaluate it."""
    if isinstance(value.value.tree, exp.Null):
        return Constant.NULL
    found = resolved.scope.reference(value.value.tree)
    field = resolved.schema.find(value.column, case_sensitive=True)
    if found is None or len(found.path) > 1 or field is None:
        return None
    return found if same_type(value.type, spark_type(field.type)) else None
