"""Columns and fields of a table added, renamed, dropped and changed.

Source: delta-spark's AlterTableAddColumnsDeltaCommand and the like.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from deltamerge.commands.table.change import Change, commit_change, with_schema, writable
from deltamerge.errors import AnalysisError
from deltamerge.log.commit.clustering import clustering_names
from deltamerge.log.commit.conflict import ReadSet, everything
from deltamerge.log.replay.snapshot import Snapshot
from deltamerge.log.replay.table import DeltaLog
from deltamerge.protocol.schema.char_varchar import SIZED_TEXT
from deltamerge.protocol.schema.edits import FIRST, Path, added, changed, dropped, field_at, has_field
from deltamerge.protocol.schema.type_widening import CHANGES, WIDENING, widens
from deltamerge.protocol.schema.types import (
    PrimitiveType,
    StructField,
    StructType,
    check_names,
    fields_of,
    parse_schema,
    type_value,
)
from deltamerge.protocol.table.column_mapping import MappingMode, mode_of, without_mapping
from deltamerge.protocol.table.constraints import GENERATED, constraints_of, default_of
from deltamerge.protocol.table.evolution import with_type_changes
from deltamerge.protocol.table.features import named_features
from deltamerge.protocol.table.identity import identity_columns, is_identity, with_mark
from deltamerge.spark.expressions.metadata_sql import check_defaults
from deltamerge.spark.plans.attributes import quoted
from deltamerge.spark.read.snapshot import snapshot_frame
from deltamerge.spark.session.frames import Session
from deltamerge.spark.sql.text import words_of
from deltamerge.spark.stages.changed import FEED_COLUMNS


@dataclass(frozen=True, slots=True)
class AddColumn:
    """A field for the struct that `parent` leads to, () for the table, and its place there."""

    parent: Path
    field: StructField
    place: Path | None = None


@dataclass(frozen=True, slots=True)
class ChangeColumn:
    """What a column or field becomes; what is None stays. `default` is '' for none."""

    path: Path
    type: StructField | None = None
    comment: str | None = None
    nullable: bool | None = None
    default: str | None = None
    place: Path | None = None


def add_columns(spark: Session, log: DeltaLog, columns: Sequence[AddColumn]) -> int:
    """Add columns or fields, which are null in the rows that are there, and return the version made. Raises AnalysisError."""
    before = writable(log)
    schema = _schema(before)
    for one in columns:
        _check_computed(one.field)
        if not one.field.nullable or any(not field.nullable for field in fields_of(one.field.type)):
            raise _not_allowed("NOT NULL in ALTER TABLE ADD COLUMNS", "Rows that are there have no value for the column.")
        if default_of(one.field) is not None:
            raise AnalysisError(
                "WRONG_COLUMN_DEFAULTS_FOR_DELTA_ALTER_TABLE_ADD_COLUMN_NOT_SUPPORTED",
                "A column that is added to a table can't have a default.",
                hint="Add the column first, then ALTER TABLE .. ALTER COLUMN .. SET DEFAULT.",
            )
        schema = added(schema, one.parent, one.field, one.place)
    told = [
        {"column": told_column(one.parent, one.field), **({} if one.place is None else {"position": _position(one.place)})}
        for one in columns
    ]
    return changed_schema(spark, log, before, schema, "ADD COLUMNS", {"columns": json_text(told)})


def rename_column(spark: Session, log: DeltaLog, path: Path, name: str) -> int:
    """Rename a column or field and return the version made. Raises AnalysisError."""
    before = writable(log)
    old = field_at(_schema(before), path)
    if mode_of(before.metadata) is MappingMode.NONE:
        raise _needs_mapping("DELTA_UNSUPPORTED_RENAME_COLUMN", "Column rename")
    check_free(before, path, "renamed")
    schema = changed(_schema(before), path, lambda field: replace(field, name=name))
    partitions = before.partition_columns
    if len(path) == 1:
        partitions = tuple(name if column == old.name else column for column in partitions)
    told = {"oldColumnPath": ".".join(path), "newColumnPath": ".".join((*path[:-1], name))}
    return changed_schema(spark, log, before, schema, "RENAME COLUMN", told, partitions)


def drop_columns(spark: Session, log: DeltaLog, paths: Sequence[Path], if_exists: bool = False) -> int:
    """Drop columns or fields, whose values stay in the data files, and return the version made. Raises AnalysisError.

    Those that are not there are left out `if_exists`; the newest version is returned where that leaves none.
    """
    before = writable(log)
    if if_exists:
        paths = [path for path in paths if has_field(_schema(before), path)]
        if not paths:
            return before.version
    if mode_of(before.metadata) is MappingMode.NONE:
        raise _needs_mapping("DELTA_UNSUPPORTED_DROP_COLUMN", "DROP COLUMN")
    schema = _schema(before)
    for path in paths:
        schema = dropped(schema, path)
        check_dropped(before, path)
    return changed_schema(spark, log, before, schema, "DROP COLUMNS", {"columns": json_text([".".join(path) for path in paths])})


def check_dropped(before: Snapshot, path: Path) -> None:
    """Raise AnalysisError for a column or field that can't be dropped: something else of the table uses it."""
    check_free(before, path, "dropped")
    held = [*before.partition_columns, *clustering_names(before)]
    if any(f"{name.lower()}.".startswith(f"{'.'.join(path).lower()}.") for name in held):  # a field of it, too
        raise AnalysisError(
            "DELTA_UNSUPPORTED_DROP_PARTITION_COLUMN",
            f"Dropping the partition or clustering column {'.'.join(path)} is not allowed.",
            parameters={"columnList": ".".join(path)},
            hint="Make the table anew, or CLUSTER BY other columns first.",
        )


def change_column(spark: Session, log: DeltaLog, asked: ChangeColumn) -> int:
    """Change a column's type, comment, nullability, default or place, and return the version made. Raises AnalysisError."""
    before = writable(log)
    old = field_at(_schema(before), asked.path)
    _check_made(old, asked)
    if asked.type is not None:
        _check_type(before, asked.path, old, asked.type)
    if asked.nullable is False and old.nullable:
        raise _unsupported(asked.path, "NULL", "NOT NULL")
    if asked.default is not None and "allowColumnDefaults" not in named_features(before.protocol):
        raise AnalysisError(
            "WRONG_COLUMN_DEFAULTS_FOR_DELTA_FEATURE_NOT_ENABLED",
            "The table lacks the feature allowColumnDefaults.",
            parameters={"commandType": "ALTER TABLE"},
            hint="ALTER TABLE .. SET TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')",
        )
    check_defaults(spark, {".".join(asked.path): asked.default})
    schema = changed(_schema(before), asked.path, lambda field: _edited(field, asked), asked.place)
    schema = with_type_changes(schema, _schema(before))
    new = field_at(schema, asked.path)
    told = {"column": json_text(told_column(asked.path[:-1], new))}
    if asked.place is not None:
        told["position"] = _position(asked.place)
    return changed_schema(spark, log, before, schema, "CHANGE COLUMN", told)


def sync_identity(spark: Session, log: DeltaLog, path: Path) -> int:
    """Have an identity column go on behind the farthest number that a row has, and return the version made. Raises AnalysisError.

    So no number is given a second time that a user has written. Source: delta-spark's IdentityColumn.syncIdentity.
    """
    before = writable(log)
    schema = _schema(before)
    column = field_at(schema, path)
    if len(path) > 1 or not is_identity(column):
        raise AnalysisError(
            "DELTA_IDENTITY_COLUMNS_ALTER_NON_IDENTITY_COLUMN",
            f"ALTER TABLE ALTER COLUMN {'.'.join(path)} SYNC IDENTITY is only supported for identity columns.",
            parameters={"colName": ".".join(path)},
            hint=f"Identity columns: {', '.join(found.name for found in identity_columns(schema)) or 'none'}.",
        )
    identity = next(found for found in identity_columns(schema) if found.name == column.name)
    last = f"{'max' if identity.step > 0 else 'min'}({quoted(column.name)})"
    ((farthest,),) = snapshot_frame(spark, before).selectExpr(last).collect()
    mark = None if farthest is None else identity.moved(farthest)
    if mark is not None:
        schema = changed(schema, path, lambda field: with_mark(field, mark), None)
    told = {"column": json_text(told_column((), field_at(schema, path)))}
    read = ReadSet(whole_table=True, would_read=everything)
    return commit_change(spark, log, before, Change("CHANGE COLUMN", told, with_schema(before.metadata, schema), read=read))


def _check_made(old: StructField, asked: ChangeColumn) -> None:
    """Raise AnalysisError for what may not change of a column whose values the table makes."""
    retyped = asked.type is not None and asked.type.type != old.type
    if is_identity(old) and (retyped or asked.default is not None):
        raise AnalysisError(
            "DELTA_IDENTITY_COLUMNS_ALTER_COLUMN_NOT_SUPPORTED",
            f"ALTER TABLE ALTER COLUMN is not supported for the identity column {old.name}.",
            parameters={"columnName": old.name},
            hint="Its comment, name and place can change; else make the table anew.",
        )
    if retyped and GENERATED in old.metadata:
        raise AnalysisError(
            "DELTA_GENERATED_COLUMNS_EXPR_TYPE_MISMATCH",
            f"The type of the generated column {old.name} is that of its expression, {old.metadata[GENERATED]}.",
            parameters={"columnName": old.name, "expressionType": str(old.type)},
            hint="Make the table anew with another expression.",
        )


def _edited(field: StructField, asked: ChangeColumn) -> StructField:
    metadata = dict(field.metadata)
    if asked.comment is not None:
        metadata["comment"] = asked.comment
    if asked.default:
        metadata["CURRENT_DEFAULT"] = asked.default
    elif asked.default is not None:
        metadata.pop("CURRENT_DEFAULT", None)
    type = field.type if asked.type is None else asked.type.type
    return replace(field, type=type, metadata=metadata, nullable=field.nullable if asked.nullable is None else asked.nullable)


def _check_computed(column: StructField) -> None:
    """Raise AnalysisError for a new column whose values the table makes: the rows that are there have none."""
    kind = next((kind for field in fields_of(StructType((column,))) if (kind := _computed(field))), None)
    if kind is not None:
        raise _not_allowed(f"{kind} in ALTER TABLE ADD COLUMNS", "Make the table anew with this column.")


def _computed(field: StructField) -> str | None:
    """What a column is called whose values the table makes; None for any other one."""
    if is_identity(field):
        return "An identity column"
    return "A generated column" if GENERATED in field.metadata else None


def _check_type(before: Snapshot, path: Path, old: StructField, new: StructField) -> None:
    if old.type == new.type and not new.metadata:
        return
    primitive = isinstance(old.type, PrimitiveType) and isinstance(new.type, PrimitiveType)
    widening = before.properties.flag(WIDENING) and "typeWidening" in named_features(before.protocol)
    texts = SIZED_TEXT in old.metadata or bool(new.metadata)
    if not primitive or texts or not widening or not widens(old.type, new.type):  # type: ignore[arg-type]
        raise _unsupported(path, str(old.type), str(new.type))
    check_free(before, path, "changed")


def check_free(before: Snapshot, path: Path, what: str) -> None:
    """Raise AnalysisError for a column that a constraint or a generated column may use."""
    name = path[0].lower()
    if what != "changed" and name in (words_of(before.properties.stats_columns or "") or ()):
        raise _not_allowed(
            f"A column of delta.dataSkippingStatsColumns that is {what}", "Set the property to other columns first."
        )
    found = constraints_of(before.schema, before.metadata.configuration)
    uses = {check.name: check.text for check in found.checks}
    checks = [key for key, text in uses.items() if name in (words_of(text) or {name})]
    if checks:
        raise AnalysisError(
            "DELTA_CONSTRAINT_DEPENDENT_COLUMN_CHANGE",
            f"Cannot alter column {'.'.join(path)}: it can't be {what} because CHECK constraints use it: {', '.join(checks)}.",
            parameters={"columnName": ".".join(path), "constraints": checks},
            hint="Drop the constraints first.",
        )
    generated = [key for key, text in found.generated if name in (words_of(text) or {name})]
    if generated:
        raise AnalysisError(
            "DELTA_GENERATED_COLUMNS_DEPENDENT_COLUMN_CHANGE",
            f"Cannot alter column {'.'.join(path)}: it can't be {what} because generated columns use it: {', '.join(generated)}.",
            parameters={"columnName": ".".join(path), "generatedColumns": generated},
        )


def changed_schema(
    spark: Session,
    log: DeltaLog,
    before: Snapshot,
    schema: StructType,
    operation: str,
    parameters: dict[str, Any],
    partitions: tuple[str, ...] | None = None,
) -> int:
    """Commit another schema, and other partition columns, as history tells it; return the version made. Raises AnalysisError."""
    if mode_of(before.metadata) is MappingMode.NONE:
        check_names(schema)
    _check_feed(before, schema)
    metadata = with_schema(before.metadata, schema)
    if partitions is not None:
        metadata = replace(metadata, partition_columns=partitions)
    return commit_change(spark, log, before, Change(operation, parameters, metadata))


def _check_feed(before: Snapshot, schema: StructType) -> None:
    """Raise AnalysisError for a name that is new and that the change data feed gives a column of its own."""
    taken = [name for name in FEED_COLUMNS.names if schema.find(name) is not None and before.schema.find(name) is None]
    if taken and before.properties.change_data_feed:
        raise AnalysisError(
            "RESERVED_CDC_COLUMNS_ON_WRITE",
            f"The change data feed of the table has columns {', '.join(taken)} of its own.",
            parameters={"columnList": taken},
            hint="Choose another name.",
        )


def _schema(before: Snapshot) -> StructType:
    return parse_schema(before.metadata.schema_string)


def told_column(parent: Path, field: StructField) -> dict[str, Any]:
    """A column as history tells it."""
    (plain,) = without_mapping(StructType((field,)))
    metadata = {key: value for key, value in plain.metadata.items() if key not in (SIZED_TEXT, CHANGES)}
    kind = field.type.name if isinstance(field.type, PrimitiveType) else type_value(field.type)["type"]
    kind = field.metadata.get(SIZED_TEXT, kind) if kind == "string" else kind
    return {"name": ".".join((*parent, field.name)), "type": kind, "nullable": field.nullable, "metadata": metadata}


def _position(place: Path) -> str:
    return "FIRST" if place == FIRST else f"AFTER {place[0]}"


def _unsupported(path: Path, old: str, new: str) -> AnalysisError:
    return AnalysisError(
        "DELTA_UNSUPPORTED_ALTER_TABLE_CHANGE_COL_OP",
        f"ALTER TABLE CHANGE COLUMN is not supported for changing column {'.'.join(path)} from {old} to {new}.",
        parameters={"fieldPath": ".".join(path), "oldField": old, "newField": new},
        hint="Types can only be widened, with delta.enableTypeWidening = true. Otherwise replace the table.",
    )


def _needs_mapping(condition: str, what: str) -> AnalysisError:
    return AnalysisError(
        condition,
        f"{what} is not supported for a Delta table without column mapping.",
        hint="ALTER TABLE .. SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
    )


def _not_allowed(what: str, hint: str) -> AnalysisError:
    return AnalysisError(
        "DELTA_OPERATION_NOT_ALLOWED",
        f"Operation not allowed: {what} is not supported for Delta tables.",
        parameters={"operation": what},
        hint=hint,
    )


def json_text(value: object) -> str:
    """A value as JSON without blanks, as history has it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
