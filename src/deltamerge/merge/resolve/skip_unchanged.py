"""Updates that would leave a row as it is are left out: their clauses apply to rows alone in which a value changes.

A row that is left out is not passed on to the clauses behind: its clause has decided.
"""

from __future__ import annotations

from dataclasses import replace

from deltamerge.merge.resolve.resolve import ColumnValue, ResolvedClause, ResolvedMerge
from deltamerge.merge.statement.clauses import Action, ClauseKind
from deltamerge.protocol.schema.char_varchar import char_varchars
from deltamerge.protocol.schema.types import ArrayType, DataType, MapType, StructType, has_variant
from deltamerge.spark.expressions.expression import from_name
from deltamerge.spark.expressions.unchanged import Assignment, narrowed
from deltamerge.spark.session.schema import spark_type


def without_unchanged(resolved: ResolvedMerge, pads: bool) -> ResolvedMerge:
    """The merge with its UPDATE clauses applying to rows that they change, as Spark's `<=>` tells values apart.

    `pads` says that CHAR values of the table are read with their blanks.
    """
    clauses = tuple(_narrowed(resolved, clause, pads) for clause in resolved.clauses)
    return replace(resolved, clauses=clauses, original_clauses=resolved.clauses)


def _narrowed(resolved: ResolvedMerge, clause: ResolvedClause, pads: bool) -> ResolvedClause:
    updates = clause.action is Action.UPDATE
    before = [c for c in resolved.of(clause.kind) if c.number < clause.number and c.action is Action.UPDATE]
    if clause.kind is ClauseKind.NOT_MATCHED or not (before or updates):
        return clause
    decided = [c.condition for c in before if c.condition is not None]
    update = (
        [_assignment(resolved, value, pads) for value in clause.values if _can_change(resolved, clause, value)]
        if updates
        else None
    )
    return replace(clause, condition=narrowed(clause.condition, decided, update))


def _can_change(resolved: ResolvedMerge, clause: ResolvedClause, value: ColumnValue) -> bool:
    """Whether the clause may give the column another value: not if it is computed from others, or set to itself."""
    tree = value.value.tree
    found = None if tree is None else resolved.scope.reference(tree)
    itself = found is not None and (found.side, found.path) == ("target", (value.column,))
    return not itself and value.column not in clause.computed


def _assignment(resolved: ResolvedMerge, value: ColumnValue, pads: bool) -> Assignment:
    before = resolved.snapshot.schema.find(value.column, case_sensitive=True)
    after = resolved.schema.find(value.column, case_sensitive=True)
    alike = before is not None and after is not None and before.type == after.type and _comparable(after.type)
    old = from_name(resolved.scope.target_alias, value.column) if alike else None
    wanted = value.type if after is None else spark_type(after.type)
    sized = char_varchars(StructType((after,))) if pads and after is not None else []
    blanks = sum(text.length for text in sized if text.padded and len(text.path) == 1)
    return Assignment(value.column, value.value, value.type, wanted, old, blanks)


def _comparable(type: DataType) -> bool:
    """Whether Spark compares values of a type: it does not compare maps and variants, nor what has them."""
    if isinstance(type, StructType):
        return all(_comparable(field.type) for field in type)
    if isinstance(type, ArrayType):
        return _comparable(type.element)
    return not isinstance(type, MapType) and not has_variant(type)
