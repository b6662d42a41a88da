"""Search conditions that Spark surely takes: it need not be asked, which costs more than all else that it is asked of a merge."""

from __future__ import annotations

from sqlglot import exp

from deltamerge.merge.resolve.scope import Scope, conjuncts
from deltamerge.spark.expressions.expression import Expression
from deltamerge.spark.sql.text import name_parts

_COMPARED = {"byte", "short", "integer", "long", "string", "date", "timestamp", "timestamp_ntz", "boolean", "binary"}


def is_sure(condition: Expression, scope: Scope) -> bool:
    """Whether a condition is an equality of columns by their aliases, of one type, or several of them, all of which hold."""
    parts = conjuncts(condition.tree)
    return bool(parts) and all(_compares_columns(part, scope) for part in parts)


def _compares_columns(node: exp.Expression, scope: Scope) -> bool:
    if not isinstance(node, exp.EQ | exp.NullSafeEQ):
        return False
    types = [_type_of(side, scope) for side in (node.this, node.expression)]
    return types[0] is not None and types[0] == types[1]


def _type_of(node: exp.Expression, scope: Scope) -> str | None:
    """The type of a column by its alias, None where that isn't sure or it is of another than some plain ones."""
    found = scope.reference(node)
    if found is None or len(found.path) > 1 or len(name_parts(node)) != 2:
        return None
    type = scope.plain_type(found.side, found.path[0])
    return type.name if type is not None and (type.name in _COMPARED or type.decimal) else None
