"""Columns bound to one DataFrame (`df["id"]`) as columns of a merge's source or target, by name.

The merge evaluates expressions over frames of its own, where such a bond would point nowhere.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from deltamerge.errors import AnalysisError
from deltamerge.protocol.schema.types import ArrayType, DataType, MapType, StructType
from deltamerge.spark.expressions.expression import Expression, from_user
from deltamerge.spark.session.adapter import bound_columns, is_connect, with_names
from deltamerge.spark.session.attributes import attribute_of, quoted
from deltamerge.spark.session.frames import Frame


@dataclass(frozen=True)
class Named:
    """A side of a merge: the alias it goes by, and its columns."""

    alias: str
    columns: StructType


def is_bound(expression: Expression) -> bool:
    """Whether the expression names a column of one certain DataFrame, or has parts that can't be seen into and may name one."""
    return expression.tree is not None and expression.tree.find(exp.Placeholder) is not None


def unbound(expression: Expression, frame: Frame, source: Named, target: Named) -> Expression:
    """The expression with its bound columns named `alias.column`: the source's when bound to its `frame`, else the target's.

    Raises AnalysisError where a name could mean two of them.
    """
    if not is_bound(expression):
        return expression
    marks = bound_columns(frame)
    others = None if is_connect(frame.sparkSession) else frozenset[str]()

    def rename(mark: Any, parts: Sequence[str]) -> str | None:
        side = source if mark in marks else target
        path = _from_column(parts, side, marks.get(mark, others))
        return None if path is None else ".".join(map(quoted, (side.alias, *path)))

    named = with_names(expression.column, frame, rename)
    return expression if named is None else from_user(named)


def _from_column(parts: Sequence[str], side: Named, aliases: Collection[str] | None) -> Sequence[str] | None:
    """The parts of a name from the column on; None when it is none of the columns.

    One of the `aliases` may stand before the column, and goes before a column of the same name. Raises AnalysisError where they
    are not known (None), and the name could begin with the side's own or with a column.
    """
    possible = (side.alias.lower(),) if aliases is None else aliases
    rest_is_column = len(parts) > 1 and _reaches(side.columns, parts[1:])
    if rest_is_column and parts[0].lower() in possible:
        if aliases is None and _reaches(side.columns, parts):
            raise _ambiguous(parts, side)
        return parts[1:]
    if side.columns.find(parts[0]) is not None:
        return parts  # what it lacks Spark says
    return parts[1:] if rest_is_column and aliases is None else None


def _ambiguous(parts: Sequence[str], side: Named) -> AnalysisError:
    name, field = attribute_of(parts), attribute_of((side.alias, *parts))
    return AnalysisError(
        "DELTAMERGE_AMBIGUOUS_BOUND_COLUMN",
        f"{name} of a DataFrame could be column {parts[1]} of {parts[0]}, or what the column {parts[0]} holds by that name.",
        parameters={"name": name},
        hint=f'Name it without the DataFrame: F.col("{name}") is the column, F.col("{field}") what is in the other.',
    )


def _reaches(type: DataType, parts: Sequence[str]) -> bool:
    """Whether a value of this type has something by these names: fields, also of all structs in an array, or keys of a map."""
    if not parts:
        return True
    if isinstance(type, StructType):
        field = type.find(parts[0])
        return field is not None and _reaches(field.type, parts[1:])
    if isinstance(type, ArrayType):
        return _reaches(type.element, parts)
    return isinstance(type, MapType) and _reaches(type.value, parts[1:])
