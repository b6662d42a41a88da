"""From what the user said to what each clause does to each column. Every error that a user can make is raised here.

Spark's own analyzer resolves names and types; no job runs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import combinations

from deltamerge.errors import AnalysisError
from deltamerge.log.snapshot import Snapshot
from deltamerge.merge.clauses import Action, Clause, MergeSpec, Side, verify
from deltamerge.merge.scope import Scope
from deltamerge.protocol.demands import NO_DEMANDS, Demands, default_of, demands_of
from deltamerge.protocol.features import check_writable
from deltamerge.protocol.schema import DataType, StructField, StructType
from deltamerge.spark.adapter import alias_of
from deltamerge.spark.analysis import Check, empty_frame, has_qualifier, types_of, unresolved
from deltamerge.spark.binding import unbound
from deltamerge.spark.casts import check_casts, with_fields
from deltamerge.spark.demands import columns_in
from deltamerge.spark.expression import Expression, from_name, from_user, null
from deltamerge.spark.frames import Session, SparkType
from deltamerge.spark.schema import from_spark, spark_type
from deltamerge.spark.session import case_sensitive
from deltamerge.spark.sqltext import column_reference, name_parts

TARGET = "__deltamerge_target"
SOURCE = "__deltamerge_source"
_RESERVED = "__deltamerge_"


@dataclass(frozen=True)
class ColumnValue:
    """What a clause writes to a column: the expression as given, and the type that it has before it is cast."""

    column: str
    value: Expression
    type: SparkType


@dataclass(frozen=True)
class ResolvedClause:
    """A clause with its values per target column: those assigned by an update, all columns of an insert.

    `computed` names the generated columns that the clause does not give; their values are placeholders.
    """

    number: int
    side: Side
    action: Action
    condition: Expression | None
    values: tuple[ColumnValue, ...] = ()
    computed: frozenset[str] = frozenset()

    @property
    def assigned(self) -> frozenset[str]:
        """Names of the columns that the clause sets."""
        return frozenset(value.column for value in self.values)


@dataclass(frozen=True)
class ResolvedMerge:
    """A merge that can run: everything is named, typed and allowed. `schema` is the target's after the merge."""

    spec: MergeSpec
    snapshot: Snapshot
    scope: Scope
    schema: StructType
    clauses: tuple[ResolvedClause, ...]
    demands: Demands = NO_DEMANDS

    def of(self, side: Side) -> tuple[ResolvedClause, ...]:
        """The clauses about one kind of rows, in order."""
        return tuple(clause for clause in self.clauses if clause.side is side)


def resolve(spark: Session, spec: MergeSpec, snapshot: Snapshot) -> ResolvedMerge:
    """Resolve a specification against the target's snapshot. Raises AnalysisError, UnsupportedTableError."""
    verify(spec)
    check_writable(snapshot.protocol, snapshot.metadata, snapshot.store.url)
    _check_append_only(spec, snapshot)
    scope = _scope(spark, spec, snapshot.schema)
    _check_names(scope)
    spec = _unbound(spec, scope)
    demands = demands_of(snapshot.schema, snapshot.metadata.configuration)
    planned = [_completed(_planned(clause, scope), clause, scope, demands) for clause in spec.clauses]
    clauses = _typed(spark, spec, scope, [pairs for pairs, _ in planned])
    clauses = tuple(replace(clause, computed=found) for clause, (_, found) in zip(clauses, planned, strict=True))
    return ResolvedMerge(spec, snapshot, scope, snapshot.schema, clauses, demands)


def _unbound(spec: MergeSpec, scope: Scope) -> MergeSpec:
    """The specification with columns that are bound to a DataFrame named instead."""

    def named(expression: Expression) -> Expression:
        return unbound(expression, spec.source, scope.source_alias, scope.target.names, scope.target_alias)

    return replace(
        spec,
        condition=named(spec.condition),
        clauses=tuple(
            replace(
                clause,
                condition=None if clause.condition is None else named(clause.condition),
                assignments=tuple(replace(a, value=a.value and named(a.value)) for a in clause.assignments),
            )
            for clause in spec.clauses
        ),
    )


@dataclass(frozen=True)
class _Place:
    """What an assignment writes to: a column, or a field within one; `path` as the schema spells it."""

    column: StructField
    path: tuple[str, ...]
    type: DataType


_Planned = list[tuple[_Place, Expression]]


def _scope(spark: Session, spec: MergeSpec, target: StructType) -> Scope:
    alias = spec.source_alias or alias_of(spec.source) or _carried_alias(spec)
    source = from_spark(spec.source.schema)
    return Scope(target, source, spec.target_alias or TARGET, alias or SOURCE, case_sensitive(spark))


def _check_names(scope: Scope) -> None:
    for side, schema in (("target", scope.target), ("source", scope.source)):
        reserved = [name for name in schema.names if name.lower().startswith(_RESERVED)]
        if reserved:
            raise AnalysisError(
                "DELTAMERGE_RESERVED_COLUMN_NAME",
                f"The {side} has columns {reserved}; names that begin with {_RESERVED} are kept for the merge's own columns.",
                parameters={"columns": reserved},
                hint="Rename the columns." if side == "target" else "Rename or drop the columns of the source.",
            )


def _carried_alias(spec: MergeSpec) -> str | None:
    """The alias that the source frame carries, found by asking for the qualifiers that the expressions use."""
    expressions = [spec.condition]
    for clause in spec.clauses:
        expressions += [clause.condition] if clause.condition is not None else []
        expressions += [assignment.value for assignment in clause.assignments if assignment.value is not None]
    target = (spec.target_alias or "").lower()
    for candidate in dict.fromkeys(name for expression in expressions for name in expression.qualifiers):
        if candidate.lower() != target and has_qualifier(spec.source, candidate):
            return candidate
    return None


def _planned(clause: Clause, scope: Scope) -> _Planned:
    """Which column gets which expression, before types are known."""
    if clause.action is Action.DELETE:
        return []
    if clause.star:
        excluded = {_place(name, clause, scope).column.name for name in clause.excluded}
        return [(_whole(field), _from_source(field, clause, scope)) for field in scope.target if field.name not in excluded]
    places = [_place(assignment.column, clause, scope) for assignment in clause.assignments]
    pairs = [(place, a.value or _default(place.column)) for place, a in zip(places, clause.assignments, strict=True)]
    for (a, _), (b, _) in combinations(pairs, 2):
        shared = min(len(a.path), len(b.path))
        if a.path[:shared] == b.path[:shared]:
            raise _assigned_twice(clause, a.path, b.path)
    if clause.action is Action.INSERT:
        given = {place.column.name for place, _ in pairs}
        pairs += [(_whole(field), _default(field)) for field in scope.target if field.name not in given]
    return pairs


def _completed(pairs: _Planned, clause: Clause, scope: Scope, demands: Demands) -> tuple[_Planned, frozenset[str]]:
    """What a clause writes, with all that the table's demands are about, and the generated columns that it leaves out."""
    if clause.action is Action.DELETE or not demands:
        return pairs, frozenset()
    generated = dict(demands.generated)
    named = {place.column.name for place, _ in pairs}
    if clause.action is Action.INSERT and not clause.star:
        named = {_place(a.column, clause, scope).column.name for a in clause.assignments}
    left_out = frozenset(generated) - named
    if clause.action is Action.UPDATE:
        used = {*columns_in(scope.target, demands.texts), *generated} - named
        pairs = pairs + [
            (_whole(field), null() if field.name in generated else from_name(scope.target_alias, field.name))
            for field in scope.target
            if field.name in used
        ]
    return pairs, left_out


def _default(field: StructField) -> Expression:
    text = default_of(field)
    return null() if text is None else from_user(text)


def _whole(field: StructField) -> _Place:
    return _Place(field, (field.name,), field.type)


def _from_source(field: StructField, clause: Clause, scope: Scope) -> Expression:
    found = scope.source.find(field.name, scope.case_sensitive)
    if found is None:
        raise unresolved(field.name, _clause_name(clause), _visible(scope, Side.NOT_MATCHED))
    return from_name(scope.source_alias, found.name)


def _place(name: str, clause: Clause, scope: Scope) -> _Place:
    """The target column, or the field within one, that a SET or INSERT names, with or without the target's alias."""
    parts = name_parts(column_reference(name)) or [name]
    if len(parts) > 1 and parts[0].lower() == scope.target_alias.lower():
        parts = parts[1:]
    column = scope.target.find(parts[0], scope.case_sensitive)
    if column is None:
        raise unresolved(name, _clause_name(clause), _visible(scope, Side.BY_SOURCE))
    if len(parts) > 1 and clause.action is Action.INSERT:
        raise _nested_insert(name)
    path, type = [column.name], column.type
    for part in parts[1:]:
        if not isinstance(type, StructType):
            raise _not_a_struct(path, type)
        field = type.find(part, scope.case_sensitive)
        if field is None:
            raise unresolved(name, _clause_name(clause), [".".join([*path, inner]) for inner in type.names])
        path.append(field.name)
        type = field.type
    return _Place(column, tuple(path), type)


def _typed(spark: Session, spec: MergeSpec, scope: Scope, planned: list[_Planned]) -> tuple[ResolvedClause, ...]:
    """All clauses with the types of their values: one analysis per side when nothing is wrong."""
    source = spec.source.alias(scope.source_alias)
    target = empty_frame(spark, scope.target).alias(scope.target_alias)
    frames = {Side.MATCHED: source.crossJoin(target), Side.NOT_MATCHED: source, Side.BY_SOURCE: target}
    found: dict[int, ResolvedClause] = {}
    for side, frame in frames.items():
        numbers = [n for n, clause in enumerate(spec.clauses) if clause.side is side]
        conditions = [Check("search condition", spec.condition)] if side is Side.MATCHED else []
        for n in numbers:
            condition = spec.clauses[n].condition
            if condition is not None:
                conditions.append(Check(f"{spec.clauses[n].action.name} condition", condition))
        values = [Check(_clause_name(spec.clauses[n]), value) for n in numbers for _, value in planned[n]]
        types = iter(types_of(frame, conditions, values, _visible(scope, side)) if conditions or values else [])
        for n in numbers:
            clause = spec.clauses[n]
            given = [(place, value, next(types)) for place, value in planned[n]]
            check_casts(spark, [(type, spark_type(place.type), ".".join(place.path)) for place, _, type in given])
            found[n] = ResolvedClause(n, side, clause.action, clause.condition, _column_values(given, scope))
    return tuple(found[n] for n in range(len(planned)))


def _column_values(given: list[tuple[_Place, Expression, SparkType]], scope: Scope) -> tuple[ColumnValue, ...]:
    """A value per column: what is given for fields of a struct becomes the struct with these fields in it."""
    by_column: dict[str, list[tuple[_Place, Expression, SparkType]]] = {}
    for entry in given:
        by_column.setdefault(entry[0].column.name, []).append(entry)
    found = []
    for name, entries in by_column.items():
        place, value, type = entries[0]
        if len(place.path) > 1:
            type = spark_type(place.column.type)
            fields = {inner.path: (expression, inner_type) for inner, expression, inner_type in entries}
            value = with_fields(from_name(scope.target_alias, name), type, fields, (name,))
        found.append(ColumnValue(name, value, type))
    return tuple(found)


def _visible(scope: Scope, side: Side) -> list[str]:
    names: list[str] = []
    if side in (Side.MATCHED, Side.NOT_MATCHED):
        names += _qualified(scope.source_alias, scope.source.names)
    if side in (Side.MATCHED, Side.BY_SOURCE):
        names += _qualified(scope.target_alias, scope.target.names)
    return names


def _qualified(alias: str, names: Iterable[str]) -> list[str]:
    return [name if alias in (TARGET, SOURCE) else f"{alias}.{name}" for name in names]


def _clause_name(clause: Clause) -> str:
    return f"{clause.action.name} clause"


def _assigned_twice(clause: Clause, *paths: tuple[str, ...]) -> AnalysisError:
    columns = list(dict.fromkeys(".".join(path) for path in paths))
    if clause.action is Action.INSERT:
        condition, message = "DELTA_DUPLICATE_COLUMNS_ON_INSERT", "Duplicate column names in INSERT clause"
    else:
        condition, message = "DELTA_CONFLICT_SET_COLUMN", "There is a conflict from these SET columns"
    return AnalysisError(condition, f"{message}: {', '.join(columns)}.", parameters={"columnList": columns})


def _not_a_struct(path: list[str], type: DataType) -> AnalysisError:
    name = ".".join(path)
    return AnalysisError(
        "DELTA_UNSUPPORTED_NESTED_FIELD_IN_UPDATE",
        f"Updating nested fields is only supported for StructType, but you are trying to update a field of {name}, "
        f"which is of type {type}.",
        parameters={"columnName": name, "dataType": str(type)},
        hint="Assign the whole array or map, for example with transform(..) or map_concat(..).",
    )


def _nested_insert(name: str) -> AnalysisError:
    return AnalysisError(
        "DELTA_UNSUPPORTED_NESTED_FIELD_IN_OPERATION",
        f"Nested field is not supported in the INSERT clause of MERGE operation (field = {name}).",
        parameters={"operation": "INSERT clause of MERGE operation", "fieldName": name},
        hint="Insert the whole struct, for example named_struct('a', s.a, 'b', s.b).",
    )


def _check_append_only(spec: MergeSpec, snapshot: Snapshot) -> None:
    changing = [clause for clause in spec.clauses if clause.action is not Action.INSERT]
    if changing and snapshot.properties.append_only:
        raise AnalysisError(
            "DELTA_CANNOT_MODIFY_APPEND_ONLY",
            f"The table {snapshot.store.url} only allows appends, and this merge has {changing[0].action.name} clauses.",
            parameters={"table_name": snapshot.store.url, "config": "delta.appendOnly"},
            hint="To permit updates and deletes set the table property delta.appendOnly to false.",
        )
