"""Columns bound to one DataFrame (`df["id"]`) as columns of a merge's source or target, by name.

The merge evaluates expressions over frames of its own, where such a bond would point nowhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlglot import exp

from deltamerge.errors import AnalysisError
from deltamerge.protocol.schema import StructType
from deltamerge.spark.adapter import bound_columns, is_connect, with_names
from deltamerge.spark.attributes import quoted
from deltamerge.spark.expression import Expression, from_user
from deltamerge.spark.frames import Frame


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
    marks, is_written = bound_columns(frame), is_connect(frame.sparkSession)

    def rename(mark: Any, parts: Sequence[str]) -> str | None:
        side = source if mark in marks else target
        path = (_written if is_written else _found)(parts, side)
        return None if path is None else ".".join(map(quoted, (side.alias, *path)))

    named = with_names(expression.column, frame, rename)
    return expression if named is None else from_user(named)


def _found(parts: Sequence[str], side: Named) -> Sequence[str] | None:
    """The parts of a name that Spark has found already: its first part is a column. None when it is none of the side's."""
    return parts if side.columns.find(parts[0]) is not None else None


def _written(parts: Sequence[str], side: Named) -> Sequence[str] | None:
    """The parts, from the column on, of a name as it was written: there may be an alias before it, which Spark looks for first.

    None when it is none of the columns. Raises AnalysisError where it could be two: a name does not tell whether its DataFrame
    had the alias already.
    """
    first = side.columns.find(parts[0])
    second = side.columns.find(parts[1]) if len(parts) > 1 else None
    if first is None or second is None or parts[0].lower() != side.alias.lower():
        return parts if first is not None else parts[1:] if second is not None else None
    if isinstance(first.type, StructType) and first.type.find(parts[1]) is not None:
        name, field = ".".join(parts), ".".join((side.alias, *parts))
        raise AnalysisError(
            "DELTAMERGE_AMBIGUOUS_BOUND_COLUMN",
            f"{name} of a DataFrame could be column {parts[1]} of {side.alias}, or a field of its column {parts[0]}.",
            parameters={"name": name},
            hint=f'Name it without the DataFrame: F.col("{name}") is the column, F.col("{field}") the field.',
        )
    return parts[1:]
