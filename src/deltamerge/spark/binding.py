"""Columns bound to one DataFrame (`df["id"]`) as columns of a merge's source or target, by name.

The merge evaluates expressions over frames of its own, where such a bond would point nowhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlglot import exp

from deltamerge.spark.adapter import bound_columns, with_names
from deltamerge.spark.attributes import quoted
from deltamerge.spark.expression import Expression, from_user
from deltamerge.spark.frames import Frame


def is_bound(expression: Expression) -> bool:
    """Whether the expression names a column of one certain DataFrame, or has parts that can't be seen into and may name one."""
    return expression.tree is not None and expression.tree.find(exp.Placeholder) is not None


def unbound(expression: Expression, source: Frame, source_alias: str, target: Iterable[str], target_alias: str) -> Expression:
    """The expression with its bound columns named `alias.column`: the source's when bound to `source`, else the target's."""
    if not is_bound(expression):
        return expression
    marks = bound_columns(source)
    names = {name.lower() for name in target}

    def rename(mark: Any, name: str) -> str | None:
        if mark in marks:
            return f"{quoted(source_alias)}.{quoted(name)}"
        return f"{quoted(target_alias)}.{quoted(name)}" if name.lower() in names else None

    named = with_names(expression.column, source, rename)
    return expression if named is None else from_user(named)
