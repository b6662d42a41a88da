"""What the clauses say to write: which column, or field within one, gets which expression. Types are not known yet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from deltamerge.errors import AnalysisError
from deltamerge.merge.resolve.scope import Scope
from deltamerge.merge.statement.clauses import Action, Clause, ClauseKind
from deltamerge.protocol.schema.types import DataType, StructField, StructType
from deltamerge.protocol.table.constraints import default_of
from deltamerge.spark.expressions.expression import Expression, from_name, from_user, null
from deltamerge.spark.expressions.refused.unresolved import Sight, unresolved
from deltamerge.spark.plans.attributes import attribute_parts, quoted
from deltamerge.spark.session.schema import spark_type
from deltamerge.spark.source.inspect import WITHOUT_COLUMNS

TARGET = "__deltamerge_target"
SOURCE = "__deltamerge_source"
SEARCH_CONDITION, KEEP_LATEST = "search condition", "keepLatest"
Path = tuple[str, ...]


@dataclass(frozen=True)
class Given:
    """A value for the column or field at `path`, which is spelled as the schema where it was found spells it.

    `keeps` says that fields of a struct which the value lacks stay as they are.
    """

    path: Path
    value: Expression
    keeps: bool = False


def assignments(clause: Clause, scope: Scope, evolves: bool) -> list[Given]:
    """What a clause assigns, `*` spelled out: to the target's columns, or if it `evolves` to the source's, too.

    Raises AnalysisError for a name that is nowhere.
    """
    if clause.action is Action.DELETE:
        return []
    if not clause.star:
        return [
            Given(path := _path(a.column, clause, scope, evolves), a.value or _default_at(path, scope))
            for a in clause.assignments
        ]
    excluded = {_path(name, clause, scope, evolves)[0].lower() for name in clause.excluded}
    fields = scope.source if evolves else scope.target
    keeps = evolves and clause.action is Action.UPDATE
    return [
        Given((field.name,), _from_source(field, clause, scope), keeps) for field in fields if field.name.lower() not in excluded
    ]


def _default_at(path: Path, scope: Scope) -> Expression:
    field = scope.target.find(path[0], scope.case_sensitive)
    return null() if field is None or len(path) > 1 else default_value(field)


def default_value(field: StructField) -> Expression:
    """The expression of a column's default, NULL when it has none."""
    text = default_of(field)
    return null() if text is None else from_user(text)


def _from_source(field: StructField, clause: Clause, scope: Scope) -> Expression:
    found = scope.source.find(field.name, scope.case_sensitive)
    if found is None:
        raise unresolved(quoted(field.name), clause_name(clause), sight(scope, ClauseKind.NOT_MATCHED), hint=_STAR_HINT)
    type = scope.plain_type("source", found.name)
    return from_name(scope.source_alias, found.name, type=None if type is None else spark_type(type))


def _path(name: str, clause: Clause, scope: Scope, evolves: bool) -> Path:
    """The target column, or the field within one, that a SET or INSERT names, with or without the target's alias or name.

    A name that the target does not have may be the source's, if the clause may add to the schema.
    """
    parts = attribute_parts(name)
    own = scope.target_path(parts)
    found = path_in(scope.target, own, scope.case_sensitive)
    if found is None and evolves and clause.kind is not ClauseKind.BY_SOURCE:
        found = path_in(scope.source, scope.source_path(parts), scope.case_sensitive)
    if found is None:
        missing = None if evolves else _no_field(own, scope)
        raise missing or unresolved(
            name, clause_name(clause), sight(scope, ClauseKind.BY_SOURCE), hint=_added(parts, clause, scope)
        )
    if len(found) > 1 and clause.action is Action.INSERT:
        raise _nested_insert(name)
    return found


# `*` sets every column of the table; with schema evolution it sets every column of the source.
_STAR_HINT = (
    "The source lacks this column, and * sets all columns of the table. Name the columns to set; or merge with schema evolution, "
    "by which * sets those of the source: .withSchemaEvolution(), in SQL MERGE WITH SCHEMA EVOLUTION INTO."
)


def _added(parts: Sequence[str], clause: Clause, scope: Scope) -> str | None:
    """What adds a column that a clause sets and only the source has."""
    if clause.kind is ClauseKind.BY_SOURCE or scope.source.find(scope.source_path(parts)[0], scope.case_sensitive) is None:
        return None
    return (
        "The source has this column and the table does not. Schema evolution adds it: .withSchemaEvolution(), "
        "in SQL MERGE WITH SCHEMA EVOLUTION INTO."
    )


def _no_field(parts: Sequence[str], scope: Scope) -> AnalysisError | None:
    """The error for a field that a struct of the target does not have; None when the column is missing."""
    path, struct = _walked(scope.target, parts, scope.case_sensitive)
    if not path or not isinstance(struct, StructType):
        return None
    missing, fields = quoted(parts[len(path)]), ", ".join(map(quoted, struct.names))
    return AnalysisError(
        "FIELD_NOT_FOUND",
        f"No such struct field {missing} in {fields} (of {'.'.join(path)}).",
        parameters={"fieldName": missing, "fields": fields},
    )


def path_in(schema: StructType, parts: Sequence[str], case_sensitive: bool) -> Path | None:
    """A path as the schema spells it, None when it isn't there. Raises AnalysisError for a field of what is no struct."""
    path, type = _walked(schema, parts, case_sensitive)
    if len(path) == len(parts):
        return path
    if not isinstance(type, StructType):
        raise _not_a_struct(path, type)
    return None


def _walked(schema: StructType, parts: Sequence[str], case_sensitive: bool) -> tuple[Path, DataType]:
    """As much of a path as is there, as the schema spells it, and the type at its end."""
    path: Path = ()
    type: DataType = schema
    for part in parts:
        field = type.find(part, case_sensitive) if isinstance(type, StructType) else None
        if field is None:
            break
        path, type = (*path, field.name), field.type
    return path, type


def check_distinct(clause: Clause, given: Iterable[Given]) -> None:
    """Raise AnalysisError when a clause assigns a column twice, or a struct and a field in it."""
    of_column: dict[str, list[Path]] = {}
    for value in given:
        others = of_column.setdefault(value.path[0], [])
        for other in others:
            shared = min(len(value.path), len(other))
            if value.path[:shared] == other[:shared]:
                raise _assigned_twice(clause, other, value.path)
        others.append(value.path)


def sight(scope: Scope, kind: ClauseKind) -> Sight:
    """The columns that clauses about a kind of rows see, qualified where their side goes by a name."""
    said = 2 if scope.shares_a_name else 1
    source, target = scope.source_name[-said:], scope.target_name[-said:]
    if scope.source.names == [WITHOUT_COLUMNS]:  # of DELETE and UPDATE, where nothing has to be told from a table's path
        kind, target = ClauseKind.BY_SOURCE, () if any("/" in part for part in target) else target
    seen: list[tuple[tuple[str, ...], list[str]]] = []
    if kind in (ClauseKind.MATCHED, ClauseKind.NOT_MATCHED):
        seen.append((source, scope.source.names))
    if kind in (ClauseKind.MATCHED, ClauseKind.BY_SOURCE):
        seen.append((target, scope.target.names))
    return Sight(
        [".".join((*qualifier, name)) for qualifier, names in seen for name in names],
        [".".join(name) for name in (target, source) if name],
        any(not qualifier for qualifier, _ in seen),
    )


def clause_name(clause: Clause) -> str:
    """How an error calls a clause."""
    return f"{clause.action.name} clause"


def condition_name(clause: Clause) -> str:
    """How an error calls a clause's condition."""
    return f"{clause.action.name} condition"


def _assigned_twice(clause: Clause, *paths: Path) -> AnalysisError:
    columns = list(dict.fromkeys(".".join(path) for path in paths))
    if clause.action is Action.INSERT:
        condition, message = "DELTA_DUPLICATE_COLUMNS_ON_INSERT", "Duplicate column names in INSERT clause"
    else:
        condition, message = "DELTA_CONFLICT_SET_COLUMN", "There is a conflict from these SET columns"
    return AnalysisError(condition, f"{message}: {', '.join(columns)}.", parameters={"columnList": columns})


def _not_a_struct(path: Path, type: DataType) -> AnalysisError:
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
