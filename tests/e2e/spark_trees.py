"""What the library sees in an expression, and what Spark reads in it, in one form."""

from __future__ import annotations

import re
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

from sqlglot import exp

from deltamerge.merge.resolve.scope import _outermost_names
from deltamerge.spark.sql.text import has_subquery, name_parts, unseen_words
from tests.e2e.spark_parser import Tree, nested, text_of

UNKNOWN = ("unknown",)
_SEEN: dict[type[exp.Expression], str] = {
    exp.EQ: "EqualTo",
    exp.NullSafeEQ: "EqualNullSafe",
    exp.LT: "LessThan",
    exp.LTE: "LessThanOrEqual",
    exp.GT: "GreaterThan",
    exp.GTE: "GreaterThanOrEqual",
}
_QUERIES = {"Exists", "ScalarSubquery", "ListQuery", "InSubquery"}
_NUMBERS = ("INT", "BIGINT", "SMALLINT", "TINYINT", "FLOAT", "DOUBLE", "DECIMAL")


def difference(tree: exp.Expression, spark: str) -> str | None:
    """What the library would see otherwise than Spark reads it; None when nothing is."""
    read = nested(spark)
    while read[0] == "Alias":
        read = read[1]
    ours, theirs = seen(tree), meant(read)
    if not says(ours, theirs):
        return f"{ours} is {theirs}"
    kinds = set(_kinds(read))
    if kinds & _QUERIES:
        return None if has_subquery(tree, "") else "a query is not seen"
    if any(kind.startswith("UnresolvedStar") for kind in kinds) and tree.find(exp.Star) is None:
        return "a star is not seen"
    if "LambdaFunction" in kinds or tree.find(exp.Placeholder, exp.Star, exp.Lambda) is not None:
        return None
    named = [tuple(part.lower() for part in name_parts(node)) for node in _outermost_names(tree)]
    words = unseen_words(tree)
    columns = [tuple(part.lower() for part in column) for column in _columns(read)]
    unseen = [column for column in columns if column not in named and () not in named and not words & {*column[:2]}]
    return f"columns {unseen} are not seen" if unseen else None


def seen(node: exp.Expression) -> tuple[Any, ...]:
    """What the library sees in a tree; what it makes nothing of is unknown."""
    if isinstance(node, exp.Paren):
        return seen(node.this)
    if node.args.get("negate"):
        return UNKNOWN
    if isinstance(node, exp.And | exp.Or):
        return (type(node).__name__, *[seen(part) for part in _flat(node, type(node))])
    if type(node) in _SEEN:
        return (_SEEN[type(node)], seen(node.this), seen(node.expression))
    if isinstance(node, exp.Between) and not node.args.get("symmetric"):
        return ("between", *map(seen, (node.this, node.args["low"], node.args["high"])))
    if isinstance(node, exp.In) and node.expressions and node.args.get("query") is None:
        return ("In", *map(seen, (node.this, *node.expressions)))
    if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
        return ("IsNull", seen(node.this))
    if isinstance(node, exp.Not) and isinstance(node.this, exp.Is) and isinstance(node.this.expression, exp.Null):
        return ("IsNotNull", seen(node.this.this))
    if isinstance(node, exp.Like) and isinstance(node.expression, exp.Literal):
        return ("Like", seen(node.this), seen(node.expression))
    return _value_seen(node)


def _value_seen(node: exp.Expression) -> tuple[Any, ...]:
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string:
        return ("number", -Decimal(node.this.this))
    if isinstance(node, exp.Literal):
        return ("STRING", node.this) if node.is_string else ("number", Decimal(node.this))
    if isinstance(node, exp.Boolean):
        return ("BOOLEAN", "true" if node.this else "false")
    if isinstance(node, exp.Null):
        return ("null",)
    if isinstance(node, exp.Cast) and node.to.this is exp.DataType.Type.DATE and isinstance(node.this, exp.Literal):
        return ("DATE", node.this.this) if re.fullmatch(r"\d{4}-\d{2}-\d{2}", node.this.this) else UNKNOWN
    parts = name_parts(node)
    return ("column", *parts) if parts else UNKNOWN


def meant(tree: Tree) -> tuple[Any, ...]:
    """What Spark reads, in the same form."""
    kind, *rest = tree
    if kind in ("And", "Or"):
        parts = [meant(part) for part in rest]
        return (kind, *[inner for part in parts for inner in (part[1:] if part[0] == kind else (part,))])
    if kind in (*_SEEN.values(), "In", "IsNull", "IsNotNull"):
        return (kind, *map(meant, rest))
    if kind == "Not" and rest[0][0] == "IsNull":
        return ("IsNotNull", meant(rest[0][1]))
    if kind == "UnresolvedFunction" and [text_of(name).lower() for name in rest[:1]] in (["between"], ["and"], ["or"], ["like"]):
        return (text_of(rest[0]).lower(), *map(meant, rest[1:]))
    if kind == "Like":
        return ("Like" if text_of(rest[0]) == "\\" else "escaped", *map(meant, rest[1:]))
    if kind == "UnresolvedAttribute":
        return ("column", *map(text_of, rest))
    if kind == "UnresolvedFunction" and text_of(rest[0]).lower() == "date" and rest[1][0] == "Literal":
        return ("DATE", text_of(rest[1][2]))
    if kind == "Cast" and text_of(rest[0]) == "DATE" and rest[1][0] == "Literal":
        return ("DATE", text_of(rest[1][2]))
    return _literal(rest) if kind == "Literal" else (kind,)


def _literal(rest: list[str]) -> tuple[Any, ...]:
    type, value = text_of(rest[0]), None if rest[1] == "null" else text_of(rest[1])
    if value is None:
        return ("null",)
    if type.startswith(_NUMBERS):
        return ("number", Decimal(value))
    return ("DATE", str(date(1970, 1, 1) + timedelta(int(value)))) if type == "DATE" else (type, value)


def says(ours: tuple[Any, ...], theirs: tuple[Any, ...]) -> bool:
    """Whether all that is seen is so."""
    if ours == UNKNOWN:
        return True
    if ours[0] == "IsNull" and not theirs[0].startswith("IsN"):
        return "Unknown" in theirs[0] or theirs[0] == "IsUnknown$"
    if ours[0] != theirs[0] or len(ours) != len(theirs):
        return False
    return all(says(a, b) if isinstance(a, tuple) else a == b for a, b in zip(ours[1:], theirs[1:], strict=True))


def _flat(node: exp.Expression, kind: type[exp.Expression]) -> list[exp.Expression]:
    if isinstance(node, exp.Paren):
        return _flat(node.this, kind)
    return [inner for part in node.flatten() for inner in _flat(part, kind)] if isinstance(node, kind) else [node]


def _kinds(tree: Tree) -> list[str]:
    inner = [kind for part in tree if isinstance(part, list) for kind in _kinds(part)]
    return [*(part for part in tree[:1] if isinstance(part, str)), *inner]


def _columns(tree: Tree) -> list[tuple[str, ...]]:
    if tree[0] == "UnresolvedAttribute":
        return [tuple(map(text_of, tree[1:]))]
    return [column for part in tree if isinstance(part, list) for column in _columns(part)]
