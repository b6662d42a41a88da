"""Columns bound to one DataFrame (`df["id"]`) as columns of a merge's source or target, by name.

The merge evaluates expressions over frames of its own, where such a bond would point nowhere.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sqlglot import exp

from deltamerge.spark.adapter import bound_columns, with_names
from deltamerge.spark.attributes import quoted
from deltamerge.spark.expression import Expression, from_user
from deltamerge.spark.frames import Frame


def is_bound(expression: Expression) -> bool:
    """Whether the expression names a column of one certain DataFrame, or has parts that can't be seen into and may name one."""
    return expression.tree is not None and expression.tree.find(exp.Placeholder) is not None


def unbound(expression: Expression, source: Frame, source_alias: str, target: Collection[str], target_alias: str) -> Expression:
    """The expression with its bound columns named `alias.column`: the source's when bound to `source`, else the target's."""
    if not is_bound(expression):
        return expression
    marks = bound_columns(source)
    sides = {True: (source_alias, source.columns), False: (target_alias, target)}

    def rename(mark: Any, parts: Sequence[str]) -> str | None:
        alias, columns = sides[mark in marks]
        path = _from_column(parts, {column.lower() for column in columns})
        return None if path is None else ".".join(map(quoted, (alias, *path)))

    named = with_names(expression.column, source, rename)
    return expression if named is None else from_user(named)


def _from_column(parts: Sequence[str], columns: Collection[str]) -> Sequence[str] | None:
    """The parts of a name from the column on: there may be an alias before it. None when it is none of the columns."""
    return next((parts[start:] for start in (0, 1) if start < len(parts) and parts[start].lower() in columns), None)
