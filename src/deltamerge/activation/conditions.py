"""The SQL text of a Column that is a condition, where it is surely the same condition to Spark."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp

from deltamerge.spark.plans.attributes import quoted
from deltamerge.spark.pyspark.adapter import tree_of
from deltamerge.spark.session.frames import Column
from deltamerge.spark.sql.text import enclosed, name_parts

_BINARY: dict[type[exp.Expression], str] = {
    exp.EQ: "=",
    exp.NullSafeEQ: "<=>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.And: "AND",
    exp.Or: "OR",
}
_CALLS: dict[str, Callable[[str], str]] = {
    "not": "NOT {}".format,
    "!": "NOT {}".format,
    "isnull": "{} IS NULL".format,
    "isnotnull": "{} IS NOT NULL".format,
}
# What Spark may replace or unescape in a text, which a value in a Column has as it is.
_REREAD = ("$", "{", "\\", "'", '"', "\0")
_SQL = "deltamerge_sql"


def condition_text(column: Column) -> str | None:
    """The text of a condition; None where it is not known to be the same.

    F.expr's own text is taken as it is. All else is printed here, each operand in parentheses: only columns, whole numbers,
    plain texts, truth values, comparisons, IN, IS NULL, NOT, AND and OR.
    """
    tree = tree_of(column, lambda text: exp.Anonymous(this=_SQL, expressions=[exp.Literal.string(text)]))
    return None if tree is None else _own_text(tree) or _printed(tree)


def _own_text(tree: exp.Expression) -> str | None:
    is_sql = isinstance(tree, exp.Anonymous) and tree.this == _SQL
    return str(tree.expressions[0].this) if is_sql else None


def _printed(tree: exp.Expression) -> str | None:
    sql = _own_text(tree)
    if sql is not None:
        # A comment to the line's end would hide what follows, and what may be a query stays without parentheses.
        return None if "--" in sql or enclosed(sql) == sql else enclosed(sql)
    if isinstance(tree, exp.Column | exp.Dot):
        return _name(tree)
    if isinstance(tree, exp.Literal | exp.Neg | exp.Boolean):
        return _value(tree)
    if isinstance(tree, exp.In):
        return _among(tree)
    if isinstance(tree, exp.Anonymous):
        form = _CALLS.get(str(tree.this).lower())
        operands = [_operand(argument) for argument in tree.expressions]
        return form(operands[0]) if form is not None and len(operands) == 1 and operands[0] is not None else None
    sign = _BINARY.get(type(tree))
    left, right = (None, None) if sign is None else (_operand(tree.this), _operand(tree.expression))
    return None if left is None or right is None else f"{left} {sign} {right}"


def _operand(tree: exp.Expression) -> str | None:
    text = _printed(tree)
    is_atom = isinstance(tree, exp.Column | exp.Dot | exp.Literal | exp.Boolean) or _own_text(tree) is not None
    return text if text is None or is_atom else f"({text})"


def _name(tree: exp.Expression) -> str | None:
    parts = name_parts(tree)
    return ".".join(map(quoted, parts)) if parts and not any("$" in part for part in parts) else None


def _value(tree: exp.Expression) -> str | None:
    if isinstance(tree, exp.Boolean):
        return "true" if tree.this else "false"
    if isinstance(tree, exp.Neg):
        number = tree.this
        return f"-{number.this}" if isinstance(number, exp.Literal) and not number.is_string else None
    text = str(tree.this)
    if not tree.args.get("is_string"):
        return text if text.removeprefix("-").isdecimal() else None
    return None if any(sign in text for sign in _REREAD) else f"'{text}'"


def _among(tree: exp.In) -> str | None:
    operand, values = _operand(tree.this), [_operand(value) for value in tree.expressions]
    known = [value for value in values if value is not None]
    return f"{operand} IN ({', '.join(known)})" if operand is not None and known and len(known) == len(values) else None
