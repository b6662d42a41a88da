"""What is known of the rows that an operation looks for, as plain data, so that files can be skipped.

A predicate is a necessary condition: a row for which it is not true is not looked for. Columns are paths of logical
names; values are Arrow scalars of the column's own type, so that comparing means what it means in Spark.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Union

import pyarrow as pa

from deltamerge.protocol.values.plain import plain
from deltamerge.protocol.values.shipping import packed, unpacked

Path = tuple[str, ...]
Comparison = Literal["=", "<=>", "<", "<=", ">", ">="]
Predicate = Union["Compare", "OneOf", "StartsWith", "IsNull", "IsNotNull", "And", "Or"]


@dataclass(frozen=True, slots=True)
class Compare:
    """`column op value`."""

    column: Path
    op: Comparison
    value: pa.Scalar

    def __str__(self) -> str:
        return f"{_name(self.column)} {self.op} {_literal(self.value)}"

    def __reduce__(self) -> Any:
        return Compare._unpacked, (self.column, self.op, packed(self.value))

    @classmethod
    def _unpacked(cls, column: Path, op: Comparison, value: Any) -> Compare:
        return cls(column, op, unpacked(value))


@dataclass(frozen=True, slots=True)
class OneOf:
    """The column equals one of `values`, which are sorted, distinct and not null; `or_null` lets null rows in too."""

    column: Path
    values: pa.Array
    or_null: bool = False

    def __str__(self) -> str:
        return f"{_name(self.column)} IN ({len(self.values)} values)"


@dataclass(frozen=True, slots=True)
class StartsWith:
    """The string column starts with `prefix`."""

    column: Path
    prefix: str

    def __str__(self) -> str:
        return f"{_name(self.column)} LIKE '{self.prefix}%'"


@dataclass(frozen=True, slots=True)
class IsNull:
    """The column is null."""

    column: Path

    def __str__(self) -> str:
        return f"{_name(self.column)} IS NULL"


@dataclass(frozen=True, slots=True)
class IsNotNull:
    """The column is not null."""

    column: Path

    def __str__(self) -> str:
        return f"{_name(self.column)} IS NOT NULL"


@dataclass(frozen=True, slots=True)
class And:
    """All of `parts`; true when there are none."""

    parts: tuple[Predicate, ...]

    def __str__(self) -> str:
        return " AND ".join(f"({part})" if isinstance(part, Or) else str(part) for part in self.parts) or "true"


@dataclass(frozen=True, slots=True)
class Or:
    """Any of `parts`; false when there are none."""

    parts: tuple[Predicate, ...]

    def __str__(self) -> str:
        return " OR ".join(str(part) for part in self.parts) or "false"


ALWAYS = And(())


def columns_of(predicate: Predicate) -> set[Path]:
    """The columns that a predicate names."""
    if isinstance(predicate, And | Or):
        return {path for part in predicate.parts for path in columns_of(part)}
    return {predicate.column}


def _name(path: Path) -> str:
    return ".".join(part if part.isidentifier() else f"`{part}`" for part in path)


def _literal(value: Any) -> str:
    shown = plain(value)
    return repr(shown) if isinstance(value, pa.StringScalar) else str(shown)
