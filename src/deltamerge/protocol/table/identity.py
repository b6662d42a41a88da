"""Identity columns: which numbers a table hands out next, and the mark up to which they are used.

Source: PROTOCOL.md, "Identity Columns"; delta-spark's IdentityColumn. Pure data; must not know Spark.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from deltamerge.errors import AnalysisError, ArithmeticDataError, CorruptTableError, restore_action
from deltamerge.protocol.schema.types import StructField, StructType, parse_schema, schema_json
from deltamerge.protocol.table.actions import AddFile, Metadata

_START, _STEP = "delta.identity.start", "delta.identity.step"
_MARK, _EXPLICIT = "delta.identity.highWaterMark", "delta.identity.allowExplicitInsert"
_LIMIT = 1 << 63
EXHAUSTED = "ARITHMETIC_OVERFLOW"


@dataclass(frozen=True, slots=True)
class Identity:
    """An identity column: its numbers are start + k * step; `mark` is the farthest one that is used, None when none is."""

    name: str
    start: int
    step: int
    mark: int | None
    allows_values: bool

    @property
    def next(self) -> int:
        """The first number that is not used."""
        return self.start if self.mark is None or self._before_start(self.mark) else self._rounded(self.mark) + self.step

    def numbers(self, count: int) -> range:
        """The next `count` numbers. Raises ArithmeticDataError when they leave the range of a long."""
        found = range(self.next, self.next + count * self.step, self.step)
        if count and not fits(found[-1]):
            raise exhausted(self.name)
        return found

    def moved(self, value: int) -> int | None:
        """The mark when `value` is the farthest one that a write has put into the column; None when it stays."""
        if self._before_start(value):
            return None
        candidate = self._rounded(value)
        beyond = self.mark is None or (candidate - self.mark) * self.step > 0
        if beyond and not fits(candidate):
            raise exhausted(self.name)
        return candidate if beyond else None

    def _before_start(self, value: int) -> bool:
        return (value - self.start) * self.step < 0

    def _rounded(self, value: int) -> int:
        """The number itself, or the next one for a value that is none."""
        return self.start - (self.start - value) // self.step * self.step


def fits(value: int) -> bool:
    """Whether a number is one of a long."""
    return -_LIMIT <= value < _LIMIT


def exhausted(name: str) -> ArithmeticDataError:
    """The error for an identity column that has no number left."""
    return ArithmeticDataError(
        EXHAUSTED,
        f"The identity column {name} has no number left: the next ones do not fit into a long.",
        parameters={"columnName": name},
        hint="Give explicit values, or make the table anew with another start and step.",
    )


def identity_metadata(start: int, step: int, explicit: bool) -> dict[str, Any]:
    """What the log notes about an identity column; whether it also takes values that are given."""
    return {_START: start, _STEP: step, _EXPLICIT: explicit}


def identity_columns(schema: StructType) -> tuple[Identity, ...]:
    """The identity columns of a table. Raises CorruptTableError for one whose numbers can't be told."""
    return tuple(_identity(field) for field in schema if is_identity(field))


def is_identity(field: StructField) -> bool:
    """Whether a column is an identity column."""
    return any(key in field.metadata for key in (_START, _STEP, _EXPLICIT))


def _identity(field: StructField) -> Identity:
    metadata = field.metadata
    try:
        mark = metadata.get(_MARK)
        step = int(metadata[_STEP])
        if not step or str(field.type) != "long":
            raise ValueError(step)
        start, explicit = int(metadata[_START]), bool(metadata[_EXPLICIT])
        return Identity(field.name, start, step, None if mark is None else int(mark), explicit)
    except (KeyError, ValueError, TypeError) as error:
        raise CorruptTableError(
            "DELTA_IDENTITY_COLUMN_INCONSISTENT_METADATA",
            f"Inconsistent IDENTITY metadata for column {field.name} of type {field.type} detected: {dict(metadata)}.",
            parameters={"colName": field.name},
            hint=restore_action("metaData"),
        ) from error


def check_update(identities: Iterable[Identity], paths: Iterable[tuple[str, ...]]) -> None:
    """Raise AnalysisError when one of the assigned columns is an identity column."""
    names = {identity.name for identity in identities}
    found = next((path[0] for path in paths if len(path) == 1 and path[0] in names), None)
    if found is not None:
        raise AnalysisError(
            "DELTA_IDENTITY_COLUMNS_UPDATE_NOT_SUPPORTED",
            f"UPDATE on IDENTITY column {found} is not supported.",
            parameters={"colName": found},
            hint="Leave the column out; instead of *, list the columns to be set.",
        )


def unnamed(identities: Iterable[Identity], given: Iterable[str]) -> tuple[Identity, ...]:
    """The identity columns that an insert of the columns `given` leaves to be numbered.

    Raises AnalysisError for a given one that takes no values.
    """
    names = set(given)
    for identity in identities:
        if identity.name in names and not identity.allows_values:
            raise AnalysisError(
                "DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED",
                f"Providing values for GENERATED ALWAYS AS IDENTITY column {identity.name} is not supported.",
                parameters={"colName": identity.name},
                hint="Leave the column out; instead of *, list the columns to be inserted.",
            )
    return tuple(identity for identity in identities if identity.name not in names)


def with_marks(metadata: Metadata, names: Iterable[str], added: Iterable[AddFile]) -> Metadata:
    """The metadata with the marks of identity columns moved past every value in the added files, by the files' statistics.

    The very same object when no mark moves. Raises ArithmeticDataError.
    """
    schema = parse_schema(metadata.schema_string)
    chosen = set(names)
    statistics = [json.loads(file.stats) for file in added if file.stats]
    marks = {}
    for identity in identity_columns(schema):
        field = schema.find(identity.name, case_sensitive=True)
        assert field is not None
        if identity.name in chosen:
            mark = _moved(identity, field.physical_name, statistics)
            if mark is not None:
                marks[identity.name] = mark
    if not marks:
        return metadata
    return replace(metadata, schema_string=schema_json(_with_marks(schema, marks)))


def with_later_marks(schema: StructType, later: StructType) -> StructType:
    """A schema whose identity columns have used up what those of another one, by physical names, have. The very same object if
    none has used more there. Raises ArithmeticDataError.
    """
    before, after = ({field.name: field.physical_name for field in fields} for fields in (schema, later))
    used = {after[identity.name]: identity.mark for identity in identity_columns(later) if identity.mark is not None}
    marks = {}
    for identity in identity_columns(schema):
        mark = used.get(before[identity.name])
        if mark is not None and (moved := identity.moved(mark)) is not None:
            marks[identity.name] = moved
    return _with_marks(schema, marks) if marks else schema


def _with_marks(schema: StructType, marks: Mapping[str, int]) -> StructType:
    return StructType(tuple(with_mark(f, marks[f.name]) if f.name in marks else f for f in schema))


def with_mark(field: StructField, mark: int) -> StructField:
    """The identity column with another mark."""
    return replace(field, metadata={**field.metadata, _MARK: mark})


def _moved(identity: Identity, physical_name: str, statistics: Iterable[Mapping[str, Mapping[str, int]]]) -> int | None:
    key, farthest = ("maxValues", max) if identity.step > 0 else ("minValues", min)
    values = [stats[key][physical_name] for stats in statistics if physical_name in stats.get(key, ())]
    return identity.moved(farthest(values)) if values else None
