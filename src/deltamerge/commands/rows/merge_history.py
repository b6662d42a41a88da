"""Slowly changing dimensions, type 2: a merge of changes that keeps each version of a row with the times between which it held.

The versions that the table has decide which rows are merged, so that these are made anew from each snapshot that is tried.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from deltamerge.budgets import current_budgets
from deltamerge.commands.rows.merge_rows import merge_rows
from deltamerge.errors import AnalysisError, InvalidArgumentError
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.log.replay.table import DeltaLog
from deltamerge.merge.plan.choose import choose_readings
from deltamerge.merge.plan.logical import Wishes, logical_plan
from deltamerge.merge.plan.prune import FileFacts, prune, prune_by_source
from deltamerge.merge.report import MergeReport
from deltamerge.merge.resolve.resolve import resolve
from deltamerge.merge.resolve.schema_check import check_schema
from deltamerge.merge.statement.clauses import Action, Assignment, Clause, ClauseKind, MergeSpec
from deltamerge.protocol.schema.char_varchar import char_varchars
from deltamerge.protocol.schema.types import MapType, PrimitiveType, StructField, StructType, fields_of
from deltamerge.spark.expressions.analysis import empty_frame
from deltamerge.spark.expressions.casts import check_casts
from deltamerge.spark.expressions.expression import Expression, from_user
from deltamerge.spark.expressions.refused.unresolved import Sight, unresolved
from deltamerge.spark.plans.attributes import quoted
from deltamerge.spark.session.frames import Frame, Session
from deltamerge.spark.session.schema import from_spark, nullable_schema, spark_type
from deltamerge.spark.session.settings import case_sensitive, pads_chars, time_zone
from deltamerge.spark.source.evaluate import evaluate
from deltamerge.spark.source.facts import Source
from deltamerge.spark.source.inspect import Inspection, inspect_source
from deltamerge.spark.stages.row_versions import (
    CLOSED,
    CURRENT,
    SINCE,
    UNTIL,
    Cast,
    Rules,
    changes_frame,
    closing_time,
    renamed,
    staged_frame,
)
from deltamerge.spark.stages.scan import scan_frame
from deltamerge.spark.stages.target import data_store, file_tasks, scan_spec

_TARGET, _SOURCE = "history", "changes"
_TIMES = ("byte", "short", "integer", "long", "date", "timestamp", "timestamp_ntz", "string")
_PLACE = "mergeHistory"


@dataclass(frozen=True)
class History:
    """Which columns make a history, as the user names them, and what is done with late changes and missing keys.

    `tracked` is None for all columns of the source that are neither keys nor the effective time.
    """

    keys: tuple[str, ...]
    effective: str
    tracked: tuple[str, ...] | None
    valid_from: str
    valid_to: str
    current: str | None = None
    ignores_late: bool = False
    close_missing: Expression | None = None


@dataclass(frozen=True)
class _Columns:
    """The columns of a history, as source (first) and table (second) spell them; `tracked` counts the values that matter."""

    keys: tuple[tuple[StructField, StructField], ...]
    values: tuple[tuple[StructField, StructField], ...]
    tracked: int
    effective: StructField
    valid_from: StructField
    valid_to: StructField
    current: StructField | None


def merge_history(
    spark: Session, table: DeltaLog, source: Frame, history: History, known_schema: StructType | None = None
) -> MergeReport:
    """Write the versions that `source` has of its keys, and close those that they follow; one commit.

    Raises DeltaMergeError; the table is then as it was.
    """
    snapshot = table.snapshot()
    check_schema(known_schema, snapshot)
    given = from_spark(source.schema)
    columns = _resolved(history, given, snapshot.schema, case_sensitive(spark))
    rules = Rules(tuple(field.name for _, field in columns.keys), len(columns.values), columns.tracked, history.ignores_late)
    changes = changes_frame(source, _casts(spark, columns, rules))
    # Changes and versions have their blanks; the table's keys may be read without.
    widths = {} if pads_chars(spark, snapshot.schema) else _widths(columns.keys)
    kept: dict[int, Source] = {}

    def source_at(read: Snapshot) -> Frame:
        # Asked again for a version, what was kept is lost; for a newer one, another transaction was faster.
        found = None if read.version in kept else next(iter(kept.values()), None)
        kept.clear()
        kept[read.version] = evaluated = _evaluated(changes, read) if found is None else found
        versions = _versions(spark, read, columns, rules, evaluated)
        return staged_frame(evaluated.frame, versions, rules)

    spec = MergeSpec(
        staged_frame(changes, _named(empty_frame(spark, snapshot.schema), columns, rules), rules),
        _condition(columns, rules.match_columns, widths),
        _clauses(history, columns, rules),
        (_TARGET,),
        (_SOURCE,),
        with_schema_evolution=False,
        known_schema=snapshot.schema,
        source_at=source_at,
    )
    return merge_rows(spark, table, spec)


def _evaluated(changes: Frame, snapshot: Snapshot) -> Source:
    budgets = current_budgets()
    source = inspect_source(changes, Inspection(changes.columns, data_store(snapshot.store)), budgets)
    return evaluate(source, choose_readings(source.facts, budgets), budgets=budgets)


def _versions(spark: Session, snapshot: Snapshot, columns: _Columns, rules: Rules, changes: Source) -> Frame:
    """The versions that a snapshot has of the changes' keys, open or closed, and perhaps of others."""
    probe = MergeSpec(
        changes.frame,
        _condition(columns, rules.key_columns, {}),
        (Clause(ClauseKind.MATCHED, Action.DELETE),),
        (_TARGET,),
        (_SOURCE,),
        with_schema_evolution=False,
    )
    logical = logical_plan(resolve(spark, probe, snapshot), Wishes())
    files = prune_by_source(logical, prune(logical), changes, current_budgets())
    return _named(_rows(spark, files, _table_columns(columns, rules)), columns, rules)


def _rows(spark: Session, files: FileFacts, names: Sequence[tuple[str, str]]) -> Frame:
    snapshot, keys = files.snapshot, files.row_filter
    schema = snapshot.schema.select([*{name for name, _ in names}, *(keys.columns if keys else ())])
    tasks = file_tasks(snapshot, files.table, zone=time_zone(spark))
    spec = scan_spec(snapshot, schema, keys, padded=pads_chars(spark, schema))
    return scan_frame(spark, spec, nullable_schema(schema), tasks, files.sizes.tolist(), files.rows)


def _named(rows: Frame, columns: _Columns, rules: Rules) -> Frame:
    return renamed(rows, _table_columns(columns, rules))


def _table_columns(columns: _Columns, rules: Rules) -> list[tuple[str, str]]:
    """The table's columns that versions have, each with its name there."""
    fields = [field for _, field in (*columns.keys, *columns.values)]
    found = [(f.name, name) for f, name in zip(fields, [*rules.key_columns, *rules.value_columns], strict=True)]
    found += [(columns.valid_from.name, SINCE), (columns.valid_to.name, UNTIL)]
    return found if columns.current is None else [*found, (columns.current.name, CURRENT)]


def _casts(spark: Session, columns: _Columns, rules: Rules) -> list[tuple[str, Cast]]:
    """The source's columns as changes have them. Raises AnalysisError for a type that can't become the table's."""
    pairs = [*columns.keys, *columns.values, (columns.effective, columns.valid_from)]
    widths = _widths(pairs)
    found = [
        Cast(given.name, spark_type(given.type), spark_type(wanted.type), wanted.name, _width(wanted, widths))
        for given, wanted in pairs
    ]
    check_casts(spark, [(cast.given, cast.wanted, cast.name) for cast in found])
    return list(zip([*rules.key_columns, *rules.value_columns, SINCE], found, strict=True))


def _widths(pairs: Iterable[tuple[StructField, StructField]]) -> dict[str, int]:
    """The lengths of the table's CHAR columns."""
    return {text.path[0]: text.length for text in char_varchars(StructType(tuple(f for _, f in pairs))) if text.padded}


def _width(field: StructField, widths: Mapping[str, int]) -> int:
    return widths.get(field.name, 0) if isinstance(field.type, PrimitiveType) else 0


def _condition(columns: _Columns, names: Sequence[str], widths: Mapping[str, int]) -> Expression:
    """Whether the keys are equal; the table's get blanks up to `widths`."""
    parts = [
        f"{_with_blanks(_target(field), _width(field, widths))} = {_source(name)}"
        for (_, field), name in zip(columns.keys, names, strict=True)
    ]
    return from_user(" AND ".join(parts))


def _with_blanks(name: str, width: int) -> str:
    return f"CASE WHEN length({name}) < {width} THEN rpad({name}, {width}, ' ') ELSE {name} END" if width else name


def _clauses(history: History, columns: _Columns, rules: Rules) -> tuple[Clause, ...]:
    """Close the current version of a matched key, insert what matches nothing, and close the versions of missing keys."""
    fields = [field for _, field in (*columns.keys, *columns.values)]
    values = dict(zip((f.name for f in fields), [*rules.key_columns, *rules.value_columns], strict=True))
    insert = {name: _source(column) for name, column in values.items()}
    insert |= {columns.valid_from.name: _source(SINCE), columns.valid_to.name: _source(UNTIL)}
    closed = {columns.valid_to.name: _source(CLOSED)}
    flag = [] if columns.current is None else [Assignment(quoted(columns.current.name), from_user("false"))]
    if columns.current is not None:
        insert[columns.current.name] = f"{_source(UNTIL)} IS NULL"
    is_open = f"{_target(columns.valid_to)} IS NULL"
    clauses = (
        Clause(
            ClauseKind.MATCHED,
            Action.UPDATE,
            from_user(f"{is_open} AND {_source(CLOSED)} IS NOT NULL"),
            (*_assignments(closed), *flag),
        ),
        Clause(
            ClauseKind.NOT_MATCHED,
            Action.INSERT,
            from_user(f"{_source(rules.match_columns[0])} IS NULL"),
            _assignments(insert),
        ),
    )
    if history.close_missing is None:
        return clauses
    type = spark_type(columns.valid_to.type)
    time = from_user(closing_time(history.close_missing, from_user(_target(columns.valid_from)).column, type))
    missing = Assignment(quoted(columns.valid_to.name), replace(time, text=history.close_missing.text))
    return (*clauses, Clause(ClauseKind.BY_SOURCE, Action.UPDATE, from_user(is_open), (missing, *flag)))


def _assignments(values: dict[str, str]) -> tuple[Assignment, ...]:
    return tuple(Assignment(quoted(name), from_user(value)) for name, value in values.items())


def _target(field: StructField) -> str:
    return f"{_TARGET}.{quoted(field.name)}"


def _source(name: str) -> str:
    return f"{_SOURCE}.{quoted(name)}"


def _resolved(history: History, source: StructType, table: StructType, case_sensitive: bool) -> _Columns:
    """The columns that the user names. Raises AnalysisError for unknown ones and wrong types, InvalidArgumentError."""

    def found(schema: StructType, name: str) -> StructField:
        field = schema.find(name, case_sensitive)
        if field is None:
            side = _SOURCE if schema is source else _TARGET
            raise unresolved(quoted(name), _PLACE, Sight([f"{side}.{known}" for known in schema.names]))
        return field

    def pairs(names: Sequence[str]) -> tuple[tuple[StructField, StructField], ...]:
        return tuple((given := found(source, name), found(table, given.name)) for name in names)

    keys, effective = pairs(history.keys), found(source, history.effective)
    besides = {effective.name, *(given.name for given, _ in keys)}
    others = [name for name in source.names if name not in besides]
    tracked = pairs(others if history.tracked is None else history.tracked)
    carried = pairs([name for name in others if name not in {given.name for given, _ in tracked}])
    valid_from, valid_to = found(table, history.valid_from), found(table, history.valid_to)
    current = None if history.current is None else found(table, history.current)
    columns = _Columns(keys, (*tracked, *carried), len(tracked), effective, valid_from, valid_to, current)
    _check_roles(columns)
    _check_types(columns)
    return columns


def _check_roles(columns: _Columns) -> None:
    """Raise InvalidArgumentError for a column that is named twice, and when there are no keys or nothing is tracked."""
    times = [columns.valid_from, columns.valid_to, *([columns.current] if columns.current else [])]
    written = [field.name for _, field in (*columns.keys, *columns.values)] + [field.name for field in times]
    read = [field.name for field, _ in (*columns.keys, *columns.values)] + [columns.effective.name]
    for names in (written, read):
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise _invalid_columns(f"The columns {', '.join(repeated)} have several roles in one history.", repeated)
    if not columns.keys or not columns.tracked:
        raise _invalid_columns(
            f"A history needs keys and tracked columns, and has no {'tracked columns' if columns.keys else 'keys'}."
        )


def _invalid_columns(message: str, columns: Sequence[str] = ()) -> InvalidArgumentError:
    return InvalidArgumentError(
        "DELTAMERGE_HISTORY_COLUMNS",
        message,
        parameters={"columns": list(columns)},
        hint="Keys, tracked columns, effective, validFrom, validTo and current are different columns; "
        "validFrom, validTo and current are the table's alone.",
    )


def _check_types(columns: _Columns) -> None:
    """Raise AnalysisError for a column of a type that its role does not allow."""
    valid_from, valid_to, current = columns.valid_from, columns.valid_to, columns.current
    if not isinstance(valid_from.type, PrimitiveType) or not (valid_from.type.decimal or valid_from.type.name in _TIMES):
        raise _wrong_type(valid_from, "a date, timestamp, whole number, decimal or string")
    if valid_to.type != valid_from.type:
        raise _wrong_type(valid_to, f"{valid_from.type}, as {valid_from.name} is")
    if current is not None and current.type != PrimitiveType("boolean"):
        raise _wrong_type(current, "boolean")
    for _, field in (*columns.keys, *columns.values):
        if isinstance(field.type, MapType) or any(isinstance(inner.type, MapType) for inner in fields_of(field.type)):
            raise _wrong_type(field, "comparable: Spark compares no maps")


def _wrong_type(field: StructField, wanted: str) -> AnalysisError:
    return AnalysisError(
        "DELTAMERGE_HISTORY_TYPE",
        f"The column {field.name} has type {field.type}; in a history it must be {wanted}.",
        parameters={"column": field.name, "type": str(field.type)},
        hint="Change the column's type, or name another column.",
    )
