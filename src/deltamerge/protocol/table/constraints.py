"""What a table requires of a written row beyond its types: constraints, generated columns, defaults; as SQL texts.

Source: PROTOCOL.md, "Column Invariants", "CHECK Constraints", "Generated Columns", "Default Columns".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from deltamerge.errors import CorruptTableError, restore_action
from deltamerge.protocol.formats.json_text import json_value
from deltamerge.protocol.schema.types import StructField, StructType

_CONSTRAINT = "delta.constraints."
GENERATED = "delta.generationExpression"
_INVARIANT = "delta.invariants"
_DEFAULT = "CURRENT_DEFAULT"


@dataclass(frozen=True, slots=True)
class Check:
    """A condition over a row's columns that must be true; null violates it."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class TableConstraints:
    """A table's checks, and its generated columns with their expressions. Columns with DEFAULT are known by their fields."""

    checks: tuple[Check, ...] = ()
    generated: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.checks or self.generated)

    @property
    def texts(self) -> list[str]:
        """Every expression that is evaluated over a written row."""
        return [check.text for check in self.checks] + [text for _, text in self.generated]


NO_CONSTRAINTS = TableConstraints()


def constraints_of(schema: StructType, configuration: Mapping[str, str]) -> TableConstraints:
    """What a table requires of its rows. Raises CorruptTableError for an invariant that does not parse."""
    named = sorted((key, text) for key, text in configuration.items() if key.lower().startswith(_CONSTRAINT))
    checks = [Check(key[len(_CONSTRAINT) :], text) for key, text in named]
    checks += [Check(f"EXPRESSION({text})", text) for field in _structs_fields(schema) for text in _invariants(field)]
    generated = [(field.name, str(field.metadata[GENERATED])) for field in schema if GENERATED in field.metadata]
    return TableConstraints(tuple(checks), tuple(generated))


def default_of(field: StructField) -> str | None:
    """The SQL text of a column's default, None when it has none and so is null."""
    found = field.metadata.get(_DEFAULT)
    return None if found is None else str(found)


def _structs_fields(schema: StructType) -> Iterator[StructField]:
    for field in schema:
        yield field
        if isinstance(field.type, StructType):
            yield from _structs_fields(field.type)


def _invariants(field: StructField) -> list[str]:
    text = field.metadata.get(_INVARIANT)
    if text is None:
        return []
    try:
        return [str(json_value(text)["expression"]["expression"])]
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptTableError(
            "DELTAMERGE_CORRUPT_INVARIANT",
            f"The invariant of the column {field.name} does not parse: {text}.",
            parameters={"column": field.name},
            hint=restore_action("metaData"),
        ) from error
