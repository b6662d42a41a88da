"""The rows that change, made in Arrow from matched pairs and unmatched source rows.

A column that is copied from the source as it is never leaves Arrow; all other expressions are Spark's to evaluate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from deltamerge.merge.clauses import Side
from deltamerge.merge.matching import Indices, Matches
from deltamerge.merge.prune import PrunedPlan
from deltamerge.merge.repeated import repeated_bytes
from deltamerge.merge.resolve import ColumnValue, ResolvedClause, ResolvedMerge
from deltamerge.protocol.schema import StructType, arrow_schema
from deltamerge.spark.casts import same_type
from deltamerge.spark.changes import ClauseQuery
from deltamerge.spark.evaluate import HOLDS, NUMBER, evaluate_alone, evaluate_pairs, value_name
from deltamerge.spark.expression import Expression
from deltamerge.spark.frames import Session
from deltamerge.spark.schema import spark_type, to_spark
from deltamerge.worker.rewrite import CLAUSE, conform_column
from deltamerge.worker.scan import FILE, POSITION_FIELDS, ROW

_NULL = object()
# What is held of changed rows, and sent to Spark: more in one task is too much for a driver of 1 GB.
MOST_BYTES = 96 << 20


def needed_target(pruned: PrunedPlan) -> StructType:
    """The target columns that Spark needs to evaluate the clauses: none when all is copied from the source."""
    resolved = pruned.plan.resolved
    used = _evaluated(resolved, resolved.of(Side.MATCHED))
    if not pruned.plan.keys_decide:
        used.append(resolved.spec.condition)
    names = set(resolved.scope.used(used, "target"))
    alone = replace(resolved, scope=resolved.scope.target_alone)
    names.update(alone.scope.used(_evaluated(alone, alone.of(Side.BY_SOURCE)), "target"))
    return alone.scope.target.select([name for name in alone.scope.target.names if name in names])


def local_changes(spark: Session, pruned: PrunedPlan, matches: Matches) -> pa.Table | None:
    """All changed rows: FILE, ROW (null for inserted rows), CLAUSE and the written columns.

    None when only a join can tell, or when they are too large to be held.
    """
    resolved = pruned.plan.resolved
    written = arrow_schema(resolved.schema.select([n for c in resolved.clauses for n in c.assigned]))
    parts: list[pa.Table] = []
    matched = resolved.of(Side.MATCHED)
    if matched or not pruned.plan.keys_decide:
        held = _matched_part(spark, pruned, matches, matched, written)
        if held is None:
            return None
        matches, tables = held
        parts += tables
    inserts, by_source = resolved.of(Side.NOT_MATCHED), resolved.of(Side.BY_SOURCE)
    if inserts:
        parts += _unmatched_part(spark, pruned, matches.without_target(pruned.source.rows), inserts, written)
    if by_source:
        parts += _by_source_part(spark, pruned, matches, by_source, written)
    changes = pa.concat_tables(parts) if parts else _schema(written).empty_table()
    return changes if changes.nbytes <= MOST_BYTES else None


def _matched_part(
    spark: Session, pruned: PrunedPlan, matches: Matches, clauses: Sequence[ResolvedClause], written: pa.Schema
) -> tuple[Matches, list[pa.Table]] | None:
    """The pairs for which the search condition really holds, and the rows that MATCHED clauses change."""
    resolved = pruned.plan.resolved
    rows = pruned.source.collected
    assert rows is not None
    condition = None if pruned.plan.keys_decide else resolved.spec.condition
    used = [*([condition] if condition else []), *_evaluated(resolved, clauses)]
    if repeated_bytes(rows.select(_copies(resolved, clauses)), matches.source) > MOST_BYTES:
        return None
    evaluated: pa.Table | None = None
    if used or len(clauses) > 1:
        if not len(matches.source):
            return matches, []
        scope = resolved.scope
        source = scope.source.select(scope.used(used, "source"))
        target = scope.target.select(scope.used(used, "target"))
        sides = ((rows.select(source.names), matches.source), (matches.scanned.select(target.names), matches.row))
        if sum(repeated_bytes(table, taken) for table, taken in sides) > MOST_BYTES:
            return None
        evaluated = evaluate_pairs(
            spark,
            (resolved.scope.source_alias, source, rows.select(source.names).take(pa.array(matches.source))),
            (resolved.scope.target_alias, target, matches.target.select(target.names)),
            len(matches.source),
            condition,
            [_query(resolved, clause) for clause in clauses],
            to_spark(resolved.schema),
        )
        if evaluated is None:
            return None
    parts = []
    numbers = _numbers(evaluated, clauses, len(matches.source))
    for clause in clauses:
        chosen = np.flatnonzero(numbers == clause.number)
        if len(chosen):
            positions = matches.target.select([FILE, ROW]).take(pa.array(chosen))
            parts.append(_part(pruned, resolved, clause, positions, matches.source[chosen], evaluated, chosen, written))
    if evaluated is not None and condition is not None:
        matches = matches.only(np.flatnonzero(evaluated[HOLDS].to_numpy()))
    return matches, parts


def _unmatched_part(
    spark: Session, pruned: PrunedPlan, alone: Indices, clauses: Sequence[ResolvedClause], written: pa.Schema
) -> list[pa.Table]:
    """The rows that NOT MATCHED clauses insert."""
    resolved = replace(pruned.plan.resolved, scope=pruned.plan.resolved.scope.source_alone)
    assert pruned.source.collected is not None
    if not len(alone):
        return []
    evaluated = None
    used = _evaluated(resolved, clauses)
    if used or len(clauses) > 1:
        columns = resolved.scope.source.select(resolved.scope.used(used, "source"))
        rows = pruned.source.collected.select(columns.names).take(pa.array(alone))
        queries = [_query(resolved, clause) for clause in clauses]
        source_side = (resolved.scope.source_alias, columns, rows)
        evaluated = evaluate_alone(spark, source_side, len(alone), queries, to_spark(resolved.schema))
    numbers = _numbers(evaluated, clauses, len(alone))
    parts = []
    for clause in clauses:
        chosen = np.flatnonzero(numbers == clause.number)
        if len(chosen):
            nowhere = pa.table([pa.nulls(len(chosen), f.type) for f in POSITION_FIELDS], names=[FILE, ROW])
            parts.append(_part(pruned, resolved, clause, nowhere, alone[chosen], evaluated, chosen, written))
    return parts


def _by_source_part(
    spark: Session, pruned: PrunedPlan, matches: Matches, clauses: Sequence[ResolvedClause], written: pa.Schema
) -> list[pa.Table]:
    """The rows that NOT MATCHED BY SOURCE clauses change, whose expressions see the target alone."""
    resolved = replace(pruned.plan.resolved, scope=pruned.plan.resolved.scope.target_alone)
    alone = matches.without_source
    if not len(alone):
        return []
    target = matches.scanned.take(pa.array(alone))
    evaluated = None
    used = _evaluated(resolved, clauses)
    if used or len(clauses) > 1:
        columns = resolved.scope.target.select(resolved.scope.used(used, "target"))
        queries = [_query(resolved, clause) for clause in clauses]
        target_side = (resolved.scope.target_alias, columns, target.select(columns.names))
        evaluated = evaluate_alone(spark, target_side, len(alone), queries, to_spark(resolved.schema))
    numbers = _numbers(evaluated, clauses, len(alone))
    parts = []
    for clause in clauses:
        chosen = np.flatnonzero(numbers == clause.number)
        if len(chosen):
            positions = target.select([FILE, ROW]).take(pa.array(chosen))
            parts.append(_changed(resolved, clause, positions, None, evaluated, chosen, written))
    return parts


def _part(
    pruned: PrunedPlan,
    resolved: ResolvedMerge,
    clause: ResolvedClause,
    positions: pa.Table,
    source_rows: Indices,
    evaluated: pa.Table | None,
    rows: Indices,
    written: pa.Schema,
) -> pa.Table:
    """The rows that one clause changes, which have source rows as partners."""
    assert pruned.source.collected is not None
    taken = pruned.source.collected.select(_copies(resolved, [clause])).take(pa.array(source_rows))
    return _changed(resolved, clause, positions, taken, evaluated, rows, written)


def _changed(
    resolved: ResolvedMerge,
    clause: ResolvedClause,
    positions: pa.Table,
    taken: pa.Table | None,
    evaluated: pa.Table | None,
    rows: Indices,
    written: pa.Schema,
) -> pa.Table:
    """The rows that one clause changes, with its value or null in every written column; source columns are in `taken`."""
    copied = {value.column: _copied(resolved, value) for value in clause.values}
    columns = [positions[FILE], positions[ROW], pa.array(np.full(len(rows), clause.number, np.int32))]
    for field in written:
        source = copied.get(field.name, _NULL)
        if source is _NULL:
            columns.append(pa.nulls(len(rows), field.type))
        elif isinstance(source, str):
            assert taken is not None
            columns.append(conform_column(taken[source], field.type))
        else:
            assert evaluated is not None
            column = evaluated[value_name(clause.number, field.name)].take(pa.array(rows))
            columns.append(conform_column(column, field.type))
    return pa.table(columns, schema=_schema(written))


def _schema(written: pa.Schema) -> pa.Schema:
    nullable = [field.with_nullable(True) for field in (*POSITION_FIELDS, *written)]
    return pa.schema([*nullable[:2], pa.field(CLAUSE, pa.int32()), *nullable[2:]])


def _numbers(evaluated: pa.Table | None, clauses: Sequence[ResolvedClause], rows: int) -> Indices:
    """The number of the applying clause of each row, -1 for none."""
    if evaluated is not None:
        return np.asarray(pc.fill_null(evaluated[NUMBER], -1).to_numpy(), np.int64)
    return np.full(rows, clauses[0].number if clauses else -1, np.int64)


def _evaluated(resolved: ResolvedMerge, clauses: Sequence[ResolvedClause]) -> list[Expression]:
    """The expressions of clauses that Spark must evaluate: conditions, and values that are no plain copies."""
    found = [clause.condition for clause in clauses if clause.condition is not None]
    return found + [v.value for clause in clauses for v in clause.values if _copied(resolved, v) is None]


def _query(resolved: ResolvedMerge, clause: ResolvedClause) -> ClauseQuery:
    values: Mapping[str, ColumnValue] = {v.column: v for v in clause.values if _copied(resolved, v) is None}
    return ClauseQuery(clause.number, clause.condition, {n: (v.value, v.type) for n, v in values.items()})


def _copies(resolved: ResolvedMerge, clauses: Sequence[ResolvedClause]) -> list[str]:
    """The source columns that clauses copy as they are."""
    copied = [_copied(resolved, value) for clause in clauses for value in clause.values]
    return list(dict.fromkeys(name for name in copied if isinstance(name, str)))


def _copied(resolved: ResolvedMerge, value: ColumnValue) -> str | object | None:
    """The source column that a value is a plain copy of, _NULL for NULL, None when Spark must evaluate it."""
    if isinstance(value.value.tree, exp.Null):
        return _NULL
    found = resolved.scope.reference(value.value.tree)
    field = resolved.schema.find(value.column, case_sensitive=True)
    if found is None or found.side != "source" or len(found.path) > 1 or field is None:
        return None
    return found.path[0] if same_type(value.type, spark_type(field.type)) else None
