"""The clause programme: for each clause and column where the value comes from. Compiled once, whichever way rows are matched.

What is copied, from the source or from the target, never leaves Arrow. Conditions and other values are evaluated in Arrow where
that is exact, else by Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa
from sqlglot import exp

from deltamerge.merge.plan.exact import exact_condition
from deltamerge.merge.plan.exact_values import exact_value
from deltamerge.merge.plan.projection import Projection, may_be_projected
from deltamerge.merge.resolve.resolve import ColumnValue, ResolvedClause, ResolvedMerge
from deltamerge.merge.resolve.scope import Scope
from deltamerge.merge.statement.clauses import Action, ClauseKind
from deltamerge.protocol.schema.types import StructType
from deltamerge.protocol.values.computed import Value
from deltamerge.protocol.values.condition import Column as ValueOf
from deltamerge.protocol.values.condition import Comparison, Condition, Constant
from deltamerge.spark.expressions.casts import same_type
from deltamerge.spark.expressions.expression import Expression
from deltamerge.spark.session.schema import spark_type
from deltamerge.spark.stages.changes import ClauseQuery
from deltamerge.spark.stages.evaluate import value_name
from deltamerge.worker.join.clauses import ClauseProgram, Origin
from deltamerge.worker.join.clauses import Side as Origins
from deltamerge.worker.write.rewrite import ClauseAction


@dataclass(frozen=True)
class CompiledClause:
    """A clause with its programme; `evaluated` are the values, by column, that are no copies.

    `left` is, in words, what of it Spark must evaluate: None where Arrow carries out the whole clause as Spark does. Then its
    condition and these values are in the programme. `projections` are what it takes from the source in their place.
    """

    clause: ResolvedClause
    program: ClauseProgram
    evaluated: Mapping[str, ColumnValue]
    left: str | None
    projections: tuple[Projection, ...] = ()

    @property
    def in_arrow(self) -> bool:
        """Whether Arrow carries out the whole clause."""
        return self.left is None

    @property
    def expressions(self) -> list[Expression]:
        """What Spark must evaluate: the condition, and the values that are no copies."""
        condition = [] if self.clause.condition is None else [self.clause.condition]
        return [*condition, *(value.value for value in self.evaluated.values())]

    @property
    def query(self) -> ClauseQuery:
        """What Spark is asked of rows that are at hand: which clause applies, and the values that are no copies."""
        values = {name: (value.value, value.type) for name, value in self.evaluated.items()}
        return ClauseQuery(self.clause.number, self.clause.condition, values)

    @property
    def whole_query(self) -> ClauseQuery:
        """What Spark is asked where it joins: all values."""
        values = {value.column: (value.value, value.type) for value in self.clause.values}
        return ClauseQuery(self.clause.number, self.clause.condition, values)

    @property
    def action(self) -> ClauseAction:
        """What a task does with a row of the clause."""
        sets = frozenset(self.program.values) if self.clause.action is Action.UPDATE else frozenset[str]()
        return ClauseAction(self.clause.action.value, sets)


@dataclass(frozen=True)
class Program:
    """All clauses of a merge, compiled. `schema` is the target's after the merge."""

    clauses: tuple[CompiledClause, ...]
    schema: StructType

    def of(self, kind: ClauseKind) -> list[CompiledClause]:
        """The clauses about one kind of rows, in order."""
        return [compiled for compiled in self.clauses if compiled.clause.kind is kind]

    @cached_property
    def written(self) -> StructType:
        """The columns that any clause sets."""
        names = {name for compiled in self.clauses for name in compiled.program.values}
        return self.schema.select([name for name in self.schema.names if name in names])

    @property
    def projections(self) -> tuple[Projection, ...]:
        """What Spark computes of the source's rows for the clauses."""
        return tuple(projection for compiled in self.clauses for projection in compiled.projections)

    @property
    def is_left_to_spark(self) -> bool:
        """Whether Spark must evaluate some clause."""
        return not all(compiled.in_arrow for compiled in self.clauses)

    @property
    def actions(self) -> tuple[ClauseAction, ...]:
        """What a task does with the rows of each clause."""
        return tuple(compiled.action for compiled in self.clauses)

    def expressions(self, kind: ClauseKind) -> list[Expression]:
        """What Spark must evaluate for one kind of rows."""
        return [expression for compiled in self.of(kind) for expression in compiled.expressions]

    def with_all_columns(self) -> Program:
        """The programme with updates that set every column, those they keep to what they are."""
        return replace(self, clauses=tuple(_whole(compiled, self.schema.names) for compiled in self.clauses))


def compile_clauses(resolved: ResolvedMerge) -> Program:
    """The programme of a resolved merge."""
    compiled = (_compiled(clause, resolved, resolved.scope.of(clause.kind)) for clause in resolved.clauses)
    return Program(tuple(compiled), resolved.schema)


def copied(clauses: Iterable[CompiledClause], side: Origins) -> list[str]:
    """The columns of one side that clauses copy."""
    return list(dict.fromkeys(name for compiled in clauses for name in compiled.program.columns(side)))


def _compiled(clause: ResolvedClause, resolved: ResolvedMerge, scope: Scope) -> CompiledClause:
    values: dict[str, Origin | None] = {}
    evaluated = {}
    for value in clause.values:
        if isinstance(value.value.tree, exp.Null):
            values[value.column] = None
            continue
        origin = _copy(value, resolved, scope)
        if origin is None:
            evaluated[value.column] = value
            origin = Origin("evaluated", value_name(clause.number, value.column))
        values[value.column] = origin
    program = ClauseProgram(clause.number, values)
    condition = None if clause.condition is None else exact_condition(clause.condition.tree, scope)
    computed = {name: _computed(value, resolved, scope) for name, value in evaluated.items()}
    left = None
    if clause.condition is not None and condition is None:
        left = f"the condition {clause.condition.text}"
    elif beyond := [name for name, value in computed.items() if value is None]:
        left = f"the value of {', '.join(beyond)}"
    if left is None:
        program = replace(program, condition=condition, computed=_by_name(clause, computed))
    compiled = CompiledClause(clause, program, evaluated, left)
    return _projected(compiled, condition, computed, resolved, scope) if left and resolved.projects else compiled


def _projected(
    compiled: CompiledClause,
    condition: Condition | None,
    computed: Mapping[str, Value | None],
    resolved: ResolvedMerge,
    scope: Scope,
) -> CompiledClause:
    """A clause with what Arrow does not evaluate as columns of the source; as it is where some of that is about the target."""
    clause, projections = compiled.clause, []
    if clause.condition is not None and condition is None:
        projection = Projection(value_name(clause.number, ""), clause.condition)
        projections.append(projection)
        condition = Comparison(ValueOf(projection.name, "source"), "=", Constant(pa.scalar(True)))
    origins = dict(compiled.program.values)
    for name in (name for name, value in computed.items() if value is None):
        given, field = compiled.evaluated[name], resolved.schema.find(name, case_sensitive=True)
        assert field is not None
        projection = Projection(value_name(clause.number, name), given.value, given.type, name, spark_type(field.type))
        projections.append(projection)
        origins[name] = Origin("source", projection.name)
    if not all(may_be_projected(projection.value, scope) for projection in projections):
        return compiled
    program = replace(compiled.program, values=origins, condition=condition, computed=_by_name(clause, computed))
    evaluated = {name: value for name, value in compiled.evaluated.items() if computed[name] is not None}
    return replace(compiled, program=program, evaluated=evaluated, left=None, projections=tuple(projections))


def _by_name(clause: ResolvedClause, computed: Mapping[str, Value | None]) -> dict[str, Value]:
    """The values that Arrow makes, by the names under which a programme has them."""
    return {value_name(clause.number, name): value for name, value in computed.items() if value is not None}


def _computed(value: ColumnValue, resolved: ResolvedMerge, scope: Scope) -> Value | None:
    """A value that is no copy, as Arrow evaluates it; None where Spark must."""
    column = resolved.schema.find(value.column, case_sensitive=True)
    return None if column is None else exact_value(value, column, scope)


def _copy(value: ColumnValue, resolved: ResolvedMerge, scope: Scope) -> Origin | None:
    """The column that a value is a plain copy of; None where Spark must evaluate it."""
    found = scope.reference(value.value.tree)
    field = resolved.schema.find(value.column, case_sensitive=True)
    if found is None or len(found.path) > 1 or field is None or not same_type(value.type, spark_type(field.type)):
        return None
    return Origin(found.side, found.path[0])


def _whole(compiled: CompiledClause, names: Iterable[str]) -> CompiledClause:
    if compiled.clause.action is not Action.UPDATE:
        return compiled
    values = {name: Origin("target", name) for name in names if name not in compiled.program.values}
    return replace(compiled, program=replace(compiled.program, values={**compiled.program.values, **values}))
