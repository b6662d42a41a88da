"""All columns of a table given anew: columns added, dropped, moved and retyped in one commit.

Source: delta-spark's AlterTableReplaceColumnsDeltaCommand.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from deltamerge.commands.table.change import writable
from deltamerge.commands.table.columns import changed_schema, check_dropped, check_free, json_text, told_column
from deltamerge.errors import AnalysisError
from deltamerge.log.replay.table import DeltaLog
from deltamerge.protocol.schema.char_varchar import SIZED_TEXT
from deltamerge.protocol.schema.edits import Path
from deltamerge.protocol.schema.type_widening import WIDENING, widens
from deltamerge.protocol.schema.types import (
    ArrayType,
    DataType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
    fields_of,
    parse_schema,
)
from deltamerge.protocol.table.column_mapping import MappingMode, mode_of
from deltamerge.protocol.table.constraints import default_of
from deltamerge.protocol.table.evolution import with_type_changes
from deltamerge.protocol.table.features import named_features
from deltamerge.protocol.table.identity import is_identity
from deltamerge.spark.session.frames import Session


def replace_columns(spark: Session, log: DeltaLog, columns: StructType) -> int:
    """Have a table these columns and no others, and return the version made.

    A column or field that the table has keeps what the log notes of it, and its values. Raises AnalysisError for types that can't
    follow one another, columns that can't be dropped, and columns that are added and dropped at once: they may be renamed ones.
    """
    before = writable(log)
    old = parse_schema(before.metadata.schema_string)
    if any(is_identity(one) for one in fields_of(old)):
        raise AnalysisError(
            "DELTA_IDENTITY_COLUMNS_REPLACE_COLUMN_NOT_SUPPORTED",
            "ALTER TABLE REPLACE COLUMNS is not supported for a table with identity columns.",
            hint="ADD, DROP and ALTER COLUMN change single columns.",
        )
    _check_said(columns)
    widening = before.properties.flag(WIDENING) and "typeWidening" in named_features(before.protocol)
    line = _Replacing(mode_of(before.metadata) is not MappingMode.NONE, widening)
    found = line.struct(old, columns, ())
    for path in line.gone:
        check_dropped(before, path)
    for path in line.retyped:
        check_free(before, path, "changed")
    told = json_text([told_column((), one) for one in columns])
    return changed_schema(spark, log, before, with_type_changes(found, old), "REPLACE COLUMNS", {"columns": told})


def _check_said(columns: StructType) -> None:
    """Raise AnalysisError for columns that no statement can give: they would not hold for the rows that are there."""
    names = [one.name.lower() for one in columns]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise AnalysisError(
            "COLUMN_ALREADY_EXISTS",
            f"The column {twice} is there twice.",
            parameters={"columnName": twice},
            hint="Choose another name or leave one out.",
        )
    for one in columns:
        if not one.nullable or default_of(one) is not None or set(one.metadata) - {"comment", SIZED_TEXT}:
            raise AnalysisError(
                "DELTA_OPERATION_NOT_ALLOWED",
                f"Operation not allowed: {one.name} has NOT NULL, DEFAULT or GENERATED in ALTER TABLE REPLACE COLUMNS.",
                parameters={"operation": "ALTER TABLE REPLACE COLUMNS"},
                hint="A column that the table has keeps its default and its expression: give name, type and comment.",
            )


@dataclass(frozen=True, slots=True)
class _Replacing:
    """How types follow one another; the paths of what is dropped and of what gets another type are noted."""

    maps_names: bool
    widens: bool
    gone: list[Path] = field(default_factory=list)
    retyped: list[Path] = field(default_factory=list)

    def struct(self, old: StructType, new: StructType, path: Path) -> StructType:
        """The new fields in their order, each with what is known of the old one."""
        kept = {found.name: column for column in new if (found := old.find(column.name)) is not None}
        gone = [column.name for column in old if column.name not in kept]
        if gone and len(kept) < len(new):
            raise _unsupported(
                f"columns are dropped ({', '.join(gone)}) and added at once: they may be renamed ones",
                "ALTER TABLE .. ADD, DROP and RENAME COLUMN say which.",
            )
        if gone and not self.maps_names:
            raise _unsupported(
                f"dropping {', '.join(gone)} needs column mapping",
                "ALTER TABLE .. SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
            )
        self.gone.extend((*path, name) for name in gone)
        return StructType(tuple(self._field(old.find(column.name), column, path) for column in new))

    def _field(self, old: StructField | None, new: StructField, path: Path) -> StructField:
        here = (*path, new.name)
        if old is None:
            if any(not inner.nullable for inner in fields_of(StructType((new,)))):
                raise _unsupported(f"rows have no value for {'.'.join(here)}, which is NOT NULL", "Leave NOT NULL out.")
            return new
        if old.nullable and not new.nullable:
            raise _unsupported(f"{'.'.join(here)} may hold nulls", "Leave NOT NULL out.")
        sized = old.metadata.get(SIZED_TEXT)
        if new.metadata.get(SIZED_TEXT, sized) != sized or (sized is not None and new.type != old.type):
            raise _retyped(here, sized or str(old.type), str(new.metadata.get(SIZED_TEXT, new.type)))
        said = {"comment": new.metadata["comment"]} if "comment" in new.metadata else {}
        type = self._type(old.type, new.type, (*path, old.name))
        return replace(old, type=type, nullable=new.nullable, metadata={**old.metadata, **said})

    def _type(self, old: DataType, new: DataType, path: Path) -> DataType:
        if isinstance(old, StructType) and isinstance(new, StructType):
            return self.struct(old, new, path)
        if isinstance(old, ArrayType) and isinstance(new, ArrayType):
            return replace(old, element=self._type(old.element, new.element, (*path, "element")))
        if isinstance(old, MapType) and isinstance(new, MapType):
            key, value = self._type(old.key, new.key, (*path, "key")), self._type(old.value, new.value, (*path, "value"))
            return replace(old, key=key, value=value)
        if old != new:
            both = isinstance(old, PrimitiveType) and isinstance(new, PrimitiveType)
            if not (self.widens and both and widens(old, new)):  # type: ignore[arg-type]
                raise _retyped(path, str(old), str(new))
            self.retyped.append(path)
        return new


def _retyped(path: Path, old: str, new: str) -> AnalysisError:
    return _unsupported(
        f"{'.'.join(path)} can't be changed from {old} to {new}",
        "Types can only be widened, with delta.enableTypeWidening = true.",
    )


def _unsupported(why: str, hint: str) -> AnalysisError:
    return AnalysisError(
        "DELTA_UNSUPPORTED_ALTER_TABLE_REPLACE_COL_OP",
        f"ALTER TABLE REPLACE COLUMNS is not supported: {why}.",
        parameters={"details": why},
        hint=hint,
    )
