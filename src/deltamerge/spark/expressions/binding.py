"""Columns as the merge's own frames have them: those bound to one DataFrame (`df["id"]`), and those with a table's whole name.

The merge evaluates expressions over frames of its own, where such a bond would point nowhere, and which go by one alias each.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlglot import exp

from deltamerge.errors import AnalysisError
from deltamerge.protocol.schema.types import ArrayType, DataType, MapType, StructType
from deltamerge.spark.expressions.expression import Expression, from_user
from deltamerge.spark.plans.attributes import attribute_of, quoted
from deltamerge.spark.pyspark.adapter import bound_columns, is_connect, with_names
from deltamerge.spark.session.frames import Frame
from deltamerge.spark.sql.names import with_aliases

Explicit = Callable[[tuple[str, ...]], tuple[str, ...] | None]


@dataclass(frozen=True)
class Named:
    """A side of a merge: the alias it goes by, and its columns."""

    alias: str
    columns: StructType


def is_bound(expression: Expression) -> bool:
    """Whether the expression names a column of one certain DataFrame, or has parts that can't be seen into and may name one."""
    return expression.tree is not None and expression.tree.find(exp.Placeholder) is not None


def named(expression: Expression, frame: Frame, source: Named, target: Named, explicit: Explicit) -> Expression:
    """The expression with each column named as the merge's own frames have it: `alias.column`.

    A bound column is the source's when it is bound to its `frame`, else the target's. Of other names `explicit` says what they
    mean. Raises AnalysisError where a name could mean two columns.
    """
    bound = is_bound(expression)
    if not bound and not any(map(explicit, expression.names)):
        return expression
    marks = bound_columns(frame) if bound else {}
    others = None if is_connect(frame.sparkSession) else frozenset[str]()

    def rename(mark: Any, parts: Sequence[str]) -> str | None:
        if mark is None:
            found = explicit(tuple(parts))
            return None if found is None else ".".join(map(quoted, found))
        side = source if mark in marks else target
        path = _from_column(parts, side, marks.get(mark, others))
        return None if path is None else ".".join(map(quoted, (side.alias, *path)))

    renamed = with_names(expression.column, frame, rename, lambda text: with_aliases(text, explicit))
    if renamed is None:
        return expression
    return from_user(renamed) if bound else replace(from_user(renamed), text=expression.text)


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
