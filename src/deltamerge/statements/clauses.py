"""Clauses that statements about tables share: columns, lists of names, properties."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from deltamerge.errors import AnalysisError
from deltamerge.protocol.schema.types import StructField, StructType
from deltamerge.protocol.table.identity import identity_metadata
from deltamerge.spark.session.frames import SparkType
from deltamerge.spark.session.schema import check_identity, column_types, table_schema
from deltamerge.spark.sql.reader import Reader
from deltamerge.spark.sql.text import name_parts_of

_OPTIONS = ("NOT", "NULL", "COMMENT", "DEFAULT", "GENERATED", "CONSTRAINT", "PRIMARY", "FOREIGN", "CHECK", "UNIQUE", "REFERENCES")
_REFUSED = _OPTIONS[5:]


@dataclass(frozen=True, slots=True)
class ColumnText:
    """A column as a statement says it: its name and type as text, and what the log notes about it."""

    name: str
    type: str
    nullable: bool = True
    metadata: Mapping[str, Any] = field(default_factory=dict)


def not_allowed(what: str, hint: str) -> AnalysisError:
    """The error for a clause that Delta tables, or this library, do not have."""
    return AnalysisError(
        "DELTA_OPERATION_NOT_ALLOWED",
        f"Operation not allowed: {what} is not supported for Delta tables.",
        parameters={"operation": what},
        hint=hint,
    )


def one_name(reader: Reader) -> str:
    """A name of one part. Raises ParseError."""
    parts = name_parts_of(reader.name_text())
    if len(parts) != 1:
        raise reader.error("PARSE_SYNTAX_ERROR", "Syntax error: a name of one part expected")
    return parts[0]


def any_name(reader: Reader) -> tuple[str, ...]:
    """The parts of a name. Raises ParseError."""
    return name_parts_of(reader.name_text())


def column(reader: Reader, ends: tuple[str, ...] = (), read_name: str | None = None) -> ColumnText:
    """A column's definition, up to a comma, a closing parenthesis or one of these words; without its name where that was read.

    Raises ParseError, AnalysisError.
    """
    if any(reader.sees(word) for word in ("CONSTRAINT", "PRIMARY", "FOREIGN", "CHECK", "UNIQUE")) and not reader.sees(",", 1):
        raise not_allowed("A table constraint", "Add it afterwards: ALTER TABLE .. ADD CONSTRAINT .. CHECK (..).")
    name = one_name(reader) if read_name is None else read_name
    type = reader.type_text(*_OPTIONS, *ends)
    nullable, metadata = True, dict[str, Any]()
    while True:
        if reader.take("NOT"):
            reader.expect("NULL")
            nullable = False
        elif reader.take("NULL"):
            nullable = True
        elif reader.take("COMMENT"):
            metadata["comment"] = text(reader)
        elif reader.take("DEFAULT"):
            metadata["CURRENT_DEFAULT"] = reader.expression(",", *_OPTIONS, *ends)
        elif reader.take("GENERATED"):
            metadata.update(_generated(reader))
        elif any(reader.sees(word) for word in _REFUSED):
            raise not_allowed("A column constraint", "Add it afterwards: ALTER TABLE .. ADD CONSTRAINT .. CHECK (..).")
        else:
            return ColumnText(name, type, nullable, metadata)


def columns_of(texts: list[ColumnText]) -> StructType:
    """The columns that statements say, their types parsed by Spark. Raises ParseError, UnsupportedTableError."""
    found = []
    for one in texts:
        schema = column_types({one.name: one.type})
        _check_identity(one, schema.fields[0].dataType)
        (plain,) = table_schema(schema)
        found.append(StructField(plain.name, plain.type, one.nullable, {**plain.metadata, **one.metadata}))
    return StructType(tuple(found))


def column_of(name: str, type: str) -> StructField:
    """A column of a type that a text says. Raises ParseError."""
    (found,) = columns_of([ColumnText(name, type)])
    return found


def text(reader: Reader) -> str:
    """A string. Raises ParseError."""
    found = reader.string()
    if found is None:
        raise reader.error("PARSE_SYNTAX_ERROR", "Syntax error: a string expected")
    return found


def properties(reader: Reader) -> dict[str, str]:
    """Keys and values in parentheses. Raises ParseError."""
    return dict(reader.listed(lambda: _property(reader)))


def property_key(reader: Reader) -> str:
    """A key as a string, or as words with dots. Raises ParseError."""
    found = reader.string()
    return ".".join(name_parts_of(reader.name_text())) if found is None else found


def _property(reader: Reader) -> tuple[str, str]:
    key = property_key(reader)
    reader.take("=")
    found = reader.string()
    return key, reader.expression(",") if found is None else found


def _generated(reader: Reader) -> dict[str, Any]:
    if reader.take("BY"):
        for word in ("DEFAULT", "AS", "IDENTITY"):
            reader.expect(word)
        return _identity(reader, True)
    reader.expect("ALWAYS")
    reader.expect("AS")
    if reader.take("IDENTITY"):
        return _identity(reader, False)
    return {"delta.generationExpression": reader.enclosed()}


def _identity(reader: Reader, explicit: bool) -> dict[str, Any]:
    start = step = 1
    if reader.take("("):
        while not reader.take(")"):
            if reader.take("START"):
                reader.expect("WITH")
                start = _number(reader)
            else:
                reader.expect("INCREMENT")
                reader.expect("BY")
                step = _number(reader)
            reader.take(",")
    return identity_metadata(start, step, explicit)


def _number(reader: Reader) -> int:
    negative = reader.take("-")
    return -reader.number() if negative else reader.number()


def _check_identity(one: ColumnText, type: SparkType) -> None:
    step = one.metadata.get("delta.identity.step")
    if step is not None:
        check_identity(type)
        if step == 0:
            raise AnalysisError(
                "DELTA_IDENTITY_COLUMNS_ILLEGAL_STEP",
                "IDENTITY column step cannot be 0.",
                parameters={"colName": one.name},
            )
