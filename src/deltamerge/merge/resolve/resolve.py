"""From what the user said to what each clause does to each column. Every error that a user can make is raised here.

Spark's own analyzer resolves names and types; no job runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from deltamerge.errors import AnalysisError, UnsupportedTableError
from deltamerge.log.replay.load import check_sound
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.merge.resolve.assignments import (
    KEEP_LATEST,
    SEARCH_CONDITION,
    SOURCE,
    TARGET,
    Given,
    Path,
    assignments,
    check_distinct,
    clause_name,
    condition_name,
    default_value,
    path_in,
    sight,
)
from deltamerge.merge.resolve.evolve import evolved, may_evolve
from deltamerge.merge.resolve.schema_check import check_schema
from deltamerge.merge.resolve.scope import Scope
from deltamerge.merge.resolve.sure import is_sure
from deltamerge.merge.statement.clauses import Action, Clause, ClauseKind, MergeSpec, verify
from deltamerge.merge.statement.qualified import with_qualifiers
from deltamerge.protocol.schema.char_varchar import CharVarchar, char_varchars
from deltamerge.protocol.schema.types import DataType, PrimitiveType, StructType
from deltamerge.protocol.table.actions import Metadata
from deltamerge.protocol.table.constraints import NO_CONSTRAINTS, TableConstraints, constraints_of
from deltamerge.protocol.table.features import check_writable, evolved_protocol
from deltamerge.protocol.table.identity import Identity, check_update, identity_columns, unnamed
from deltamerge.spark.expressions.analysis import Check, empty_frame, placed, types_of
from deltamerge.spark.expressions.binding import Named, named
from deltamerge.spark.expressions.casts import check_casts, keeping, lacks_fields, with_fields
from deltamerge.spark.expressions.constraints import check_constraints, columns_in
from deltamerge.spark.expressions.expression import Expression, as_condition, from_name, is_qualified_name, null
from deltamerge.spark.expressions.metadata_sql import check_metadata_sql
from deltamerge.spark.expressions.queries import asking
from deltamerge.spark.expressions.sized_texts import fitted
from deltamerge.spark.expressions.time import Clock
from deltamerge.spark.session.frames import Frame, Session, SparkType
from deltamerge.spark.session.schema import from_spark, spark_type
from deltamerge.spark.session.settings import RESERVED_WORDS, case_sensitive, flag, limits_texts

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

    `computed` names the generated columns that the clause does not give, `numbered` the identity columns that an insert does
    not give; their values are placeholders.
    """

    number: int
    kind: ClauseKind
    action: Action
    condition: Expression | None
    values: tuple[ColumnValue, ...] = ()
    computed: frozenset[str] = frozenset()
    numbered: frozenset[str] = frozenset()

    @property
    def assigned(self) -> frozenset[str]:
        """Names of the columns that the clause sets."""
        return frozenset(value.column for value in self.values)


@dataclass(frozen=True)
class ResolvedMerge:
    """A merge that can run: everything is named, typed and allowed.

    `schema` is the target's after the merge; `metadata` is the table's after the merge, None when it stays.
    `original_clauses` are the clauses as they were given where `clauses` apply to fewer rows. `clock` is the time that the
    expressions have, if they were given one. `projects` says that Spark computes columns of the source for the clauses.
    """

    spec: MergeSpec
    snapshot: Snapshot
    scope: Scope
    schema: StructType
    clauses: tuple[ResolvedClause, ...]
    constraints: TableConstraints = NO_CONSTRAINTS
    metadata: Metadata | None = None
    original_clauses: tuple[ResolvedClause, ...] | None = None
    clock: Clock | None = None
    projects: bool = False

    @cached_property
    def after(self) -> Snapshot:
        """The table as it is written to: the snapshot with the metadata that the merge gives it, and the protocol for it."""
        before = self.snapshot
        if self.metadata is None:
            return before
        protocol = evolved_protocol(before.protocol, before.metadata, self.metadata)
        return replace(before, protocol=protocol, metadata=self.metadata)

    @cached_property
    def identities(self) -> tuple[Identity, ...]:
        """The identity columns that some clause leaves to be numbered."""
        numbered = frozenset[str]().union(*(clause.numbered for clause in self.clauses))
        return tuple(identity for identity in identity_columns(self.schema) if identity.name in numbered)

    def of(self, kind: ClauseKind) -> tuple[ResolvedClause, ...]:
        """The clauses about one kind of rows, in order."""
        return tuple(clause for clause in self.clauses if clause.kind is kind)

    def original_of(self, kind: ClauseKind) -> tuple[ResolvedClause, ...]:
        """The clauses about one kind of rows as they were given, in order."""
        return tuple(clause for clause in self.original_clauses or self.clauses if clause.kind is kind)


def resolve(spark: Session, spec: MergeSpec, snapshot: Snapshot) -> ResolvedMerge:
    """Resolve a specification against the target's snapshot.

    Raises AnalysisError, UnsupportedTableError, ConstraintError.
    """
    verify(spec)
    check_schema(spec.known_schema, snapshot)
    check_writable(snapshot.protocol, snapshot.metadata, snapshot.store.url)
    check_sound(snapshot)
    _check_append_only(spec, snapshot)
    evolves = may_evolve(spark, spec.with_schema_evolution)
    spec = with_qualifiers(spec, evolves)
    scope = _scope(spark, spec, snapshot.schema)
    _check_names(scope)
    spec = _named(spec, scope)
    _check_columns(snapshot, evolves)
    given = [assignments(clause, scope, evolves) for clause in spec.clauses]
    named = zip(spec.clauses, given, strict=True)
    metadata = None
    if evolves:
        paths = [value.path for clause, values in named if clause.kind is not ClauseKind.BY_SOURCE for value in values]
        metadata = evolved(snapshot, scope, paths)
    schema = snapshot.schema if metadata is None else replace(snapshot, metadata=metadata).schema
    constraints = constraints_of(schema, snapshot.metadata.configuration)
    if any(clause.action is not Action.DELETE for clause in spec.clauses):
        check_metadata_sql(spark, schema, snapshot.metadata.configuration)
        check_constraints(spark, schema, constraints)
    planned = [_completed(c, values, scope, schema, constraints) for c, values in zip(spec.clauses, given, strict=True)]
    clauses = _typed(spark, spec, scope, schema, planned, evolves)
    if metadata is not None:
        evolved_protocol(snapshot.protocol, snapshot.metadata, metadata)  # raises for what it can't have
    return ResolvedMerge(spec, snapshot, scope, schema, clauses, constraints, metadata)


def _named(spec: MergeSpec, scope: Scope) -> MergeSpec:
    """The specification with columns as the merge's own frames have them, those that are bound to a DataFrame included."""
    source, target = Named(scope.source_alias, scope.source), Named(scope.target_alias, scope.target)

    def ready(check: Check, kind: ClauseKind) -> Expression:
        try:
            return named(check.expression, spec.source, source, target, scope.of(kind).explicit)
        except AnalysisError as error:
            raise placed(error, check) from error

    def with_names(clause: Clause) -> Clause:
        condition, kind = clause.condition, clause.kind
        return replace(
            clause,
            condition=condition and as_condition(ready(Check(condition_name(clause), condition), kind)),
            assignments=tuple(
                replace(a, value=a.value and ready(Check(clause_name(clause), a.value), kind)) for a in clause.assignments
            ),
        )

    latest = spec.latest and replace(
        spec.latest, by=tuple(ready(Check(KEEP_LATEST, order), ClauseKind.NOT_MATCHED) for order in spec.latest.by)
    )
    return replace(
        spec,
        condition=ready(Check(SEARCH_CONDITION, spec.condition), ClauseKind.MATCHED),
        clauses=tuple(map(with_names, spec.clauses)),
        latest=latest,
    )


def _scope(spark: Session, spec: MergeSpec, target: StructType) -> Scope:
    """What the names are. Where one could mean two things, the frames go by other aliases."""
    source, matters = from_spark(spec.source.schema), case_sensitive(spark)
    found = Scope(target, source, TARGET, SOURCE, matters, spec.target_name, spec.source_name, spec.source_named)
    if not found.may_go_by_names:
        return found
    return replace(found, target_alias=(spec.target_name or (TARGET,))[-1], source_alias=(spec.source_name or (SOURCE,))[-1])


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


@dataclass(frozen=True)
class _Planned:
    """All that a clause writes, and the generated and identity columns that it leaves to be computed and numbered."""

    values: Sequence[Given]
    computed: frozenset[str] = frozenset()
    numbered: frozenset[str] = frozenset()


def _completed(clause: Clause, given: Sequence[Given], scope: Scope, schema: StructType, required: TableConstraints) -> _Planned:
    """What a clause writes, spelled as the schema spells it: with the columns that an INSERT leaves out, and all that the
    table's constraints are about.
    """
    if clause.action is Action.DELETE:
        return _Planned(())
    sees = scope.of(clause.kind)
    values = [replace(value, value=_of_known_type(value.value, sees)) for value in _spelled(given, clause, scope, schema)]
    check_distinct(clause, values)
    named = {value.path[0] for value in values}
    generated = frozenset(name for name, _ in required.generated)
    numbered = _numbered(clause, values, schema)
    if clause.action is Action.INSERT:
        values += [Given((field.name,), default_value(field)) for field in schema if field.name not in named]
    elif required:
        used = {*columns_in(schema, required.texts), *generated} - named
        for field in schema:
            if field.name in used:
                stays = field.name not in generated and scope.target.find(field.name, case_sensitive=True)
                values.append(Given((field.name,), from_name(scope.target_alias, field.name) if stays else null()))
    return _Planned(values, generated - named, numbered)


def _numbered(clause: Clause, values: Sequence[Given], schema: StructType) -> frozenset[str]:
    """The identity columns that a clause leaves to be numbered. Raises AnalysisError for one that it must not give."""
    identities = identity_columns(schema)
    if clause.action is Action.UPDATE:
        check_update(identities, [value.path for value in values])
        return frozenset()
    return frozenset(identity.name for identity in unnamed(identities, [value.path[0] for value in values]))


def _spelled(given: Iterable[Given], clause: Clause, scope: Scope, schema: StructType) -> Iterator[Given]:
    for value in given:
        path = path_in(schema, value.path, scope.case_sensitive)
        if path is None:
            raise _unmergeable(".".join(value.path), clause, schema)
        yield replace(value, path=path)


def _of_known_type(expression: Expression, scope: Scope) -> Expression:
    """The expression with its type where it is surely a column of one side by its alias: Spark need not be asked."""
    if expression.type is not None or not is_qualified_name(expression):
        return expression
    found = scope.reference(expression.tree)
    if found is None or len(found.path) > 1:
        return expression
    type = scope.plain_type(found.side, found.path[0])
    return expression if type is None else replace(expression, type=spark_type(type))


def _unmergeable(name: str, clause: Clause, schema: StructType) -> AnalysisError:
    """The error for a column or field of the source that the table can't take: it has one that differs in case only."""
    return AnalysisError(
        "DELTA_MISSING_SET_COLUMN",
        f"{clause_name(clause)} column {name} not found given columns: {', '.join(schema.names)}.",
        parameters={"columnName": name, "columnList": ", ".join(schema.names)},
        hint="The table has a column that differs from it in case only, and a table can't have both: rename the source's.",
    )


def frames_of(spark: Session, scope: Scope, source: Frame) -> dict[ClauseKind, Frame]:
    """What Spark resolves the clauses about each kind of rows against; the target's rows are none."""
    return {kind: frame_of(spark, scope, source, kind) for kind in ClauseKind}


def frame_of(spark: Session, scope: Scope, source: Frame, kind: ClauseKind) -> Frame:
    """What Spark resolves the clauses about one kind of rows against; the target's rows are none."""
    if kind is ClauseKind.NOT_MATCHED:
        return source.alias(scope.source_alias)
    target = empty_frame(spark, scope.target).alias(scope.target_alias)
    return target if kind is ClauseKind.BY_SOURCE else source.alias(scope.source_alias).crossJoin(target)


def _typed(
    spark: Session, spec: MergeSpec, scope: Scope, schema: StructType, planned: Sequence[_Planned], evolves: bool
) -> tuple[ResolvedClause, ...]:
    """All clauses with the types of their values: one analysis per kind when nothing is wrong."""
    found: dict[int, ResolvedClause] = {}
    fits = spec.statement == "UPDATE" and limits_texts(spark, schema)
    sized = {text.path: text for text in char_varchars(schema)} if fits else {}
    for kind in ClauseKind:
        numbers = [n for n, clause in enumerate(spec.clauses) if clause.kind is kind]
        # On Connect nobody else asks whether its names are words that Spark reserves.
        asks = kind is ClauseKind.MATCHED and (flag(spark, RESERVED_WORDS) or not is_sure(spec.condition, scope))
        conditions = [Check(SEARCH_CONDITION, spec.condition)] if asks else []
        for n in numbers:
            condition = spec.clauses[n].condition
            if condition is not None:
                conditions.append(Check(condition_name(spec.clauses[n]), condition))
        asked = [(n, given.value) for n in numbers for given in planned[n].values if given.value.type is None]
        values = [Check(clause_name(spec.clauses[n]), value) for n, value in asked]
        types: Iterator[SparkType] = iter(())
        if conditions or values:
            with asking(spark):
                types = iter(types_of(frame_of(spark, scope, spec.source, kind), conditions, values, sight(scope, kind)))
        for n in numbers:
            clause = spec.clauses[n]
            given = [(value, value.value.type or next(types)) for value in planned[n].values]
            casts = [(type, spark_type(_type_at(schema, value.path)), ".".join(value.path)) for value, type in given]
            check_casts(spark, casts, fills=evolves)
            given = [_fitted(value, type, sized) for value, type in given]
            columns = _column_values(given, scope, schema)
            found[n] = ResolvedClause(n, kind, clause.action, clause.condition, columns, planned[n].computed, planned[n].numbered)
    return tuple(found[n] for n in range(len(planned)))


def _type_at(schema: StructType, path: Sequence[str]) -> DataType:
    type: DataType = schema
    for name in path:
        field = type.find(name, case_sensitive=True) if isinstance(type, StructType) else None
        assert field is not None
        type = field.type
    return type


def _column_values(given: Sequence[tuple[Given, SparkType]], scope: Scope, schema: StructType) -> tuple[ColumnValue, ...]:
    """A value per column: what is given for fields of a struct becomes the struct with these fields in it."""
    by_column: dict[str, list[tuple[Given, SparkType]]] = {}
    for value, type in given:
        by_column.setdefault(value.path[0], []).append((value, type))
    return tuple(_column_value(name, entries, scope, schema) for name, entries in by_column.items())


def _column_value(name: str, entries: Sequence[tuple[Given, SparkType]], scope: Scope, schema: StructType) -> ColumnValue:
    whole, given_type = entries[0]
    type = spark_type(_type_at(schema, (name,)))
    field = scope.target.find(name, case_sensitive=True)
    old = None if field is None else from_name(scope.target_alias, name)
    old_type = type if field is None else spark_type(field.type)
    if len(whole.path) > 1:
        fields = {value.path: (value.value, value_type) for value, value_type in entries}
        return ColumnValue(name, with_fields(old, old_type, type, fields, (name,)), type)
    if whole.keeps and old is not None and lacks_fields(given_type, type):
        return ColumnValue(name, keeping(whole.value, given_type, type, old, old_type, name), type)
    return ColumnValue(name, whole.value, given_type)


def _fitted(value: Given, type: SparkType, sized: Mapping[Path, CharVarchar]) -> tuple[Given, SparkType]:
    """The value and its type as an UPDATE writes them to a CHAR or VARCHAR, others as they are."""
    text = sized.get(value.path)
    if text is None:
        return value, type
    return replace(value, value=fitted(value.value, text)), spark_type(PrimitiveType("string"))


def _check_columns(snapshot: Snapshot, evolves: bool) -> None:
    if not snapshot.schema.fields and not evolves:
        raise AnalysisError(
            "DELTA_MERGE_INTO_EMPTY_SCHEMA_TARGET",
            f"Cannot MERGE INTO {snapshot.store.url}: the table has no columns.",
            parameters={"table": snapshot.store.url},
            hint="Merge with schema evolution, which adds the source's columns.",
        )


def _check_append_only(spec: MergeSpec, snapshot: Snapshot) -> None:
    changing = [clause for clause in spec.clauses if clause.action is not Action.INSERT]
    if changing and snapshot.properties.append_only:
        raise UnsupportedTableError(
            "DELTA_CANNOT_MODIFY_APPEND_ONLY",
            f"The table {snapshot.store.url} only allows appends, and this merge has {changing[0].action.name} clauses.",
            parameters={"table_name": snapshot.store.url, "config": "delta.appendOnly"},
            hint="To permit updates and deletes set the table property delta.appendOnly to false.",
        )
