"""Comparisons of a target column with literals, as predicates for data skipping; plain columns and literals.

Only what surely compares values of the column's own type is taken; the rest says nothing.
"""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal
from typing import Any

import pyarrow as pa
from sqlglot import exp

from deltamerge.merge.resolve.scope import Scope
from deltamerge.protocol.schema.types import PrimitiveType, StructField, arrow_type
from deltamerge.protocol.values.condition import Side
from deltamerge.protocol.values.predicate import And, Compare, Comparison, IsNotNull, IsNull, Or, Path, Predicate, StartsWith

COMPARISONS: dict[type[exp.Expression], Comparison] = {
    exp.EQ: "=",
    exp.NullSafeEQ: "<=>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
FLIPPED: dict[Comparison, Comparison] = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
# From the narrowest to the widest.
WHOLE = ("byte", "short", "integer", "long")
_INTEGER_RANGE = {"byte": 8, "short": 16, "integer": 32, "long": 64}


def predicate_of(node: exp.Expression, scope: Scope) -> Predicate | None:
    """A necessary condition on target columns for `node` to be true; None when none is known."""
    if node.args.get("negate"):
        return None
    if isinstance(node, exp.Paren):
        return predicate_of(node.this, scope)
    if isinstance(node, exp.And):
        known = [p for part in node.flatten() if (p := predicate_of(part, scope)) is not None]
        return And(tuple(known)) if known else None
    if isinstance(node, exp.Or):
        options = [predicate_of(part, scope) for part in node.flatten()]
        return None if None in options else Or(tuple(p for p in options if p is not None))
    if type(node) in COMPARISONS:
        return _comparison(node, scope)
    if isinstance(node, exp.Between) and not node.args.get("symmetric"):
        low = _compare(node.this, ">=", node.args["low"], scope)
        high = _compare(node.this, "<=", node.args["high"], scope)
        known = [p for p in (low, high) if p is not None]
        return And(tuple(known)) if known else None
    if isinstance(node, exp.In) and node.expressions and node.args.get("query") is None:
        options = [_compare(node.this, "=", value, scope) for value in node.expressions]
        return None if None in options else Or(tuple(p for p in options if p is not None))
    if isinstance(node, exp.Is) and isinstance(node.expression, exp.Null):
        path = plain_column(node.this, scope)
        return IsNull(path) if path else None
    if isinstance(node, exp.Not) and isinstance(node.this, exp.Is) and isinstance(node.this.expression, exp.Null):
        path = plain_column(node.this.this, scope)
        return IsNotNull(path) if path else None
    if isinstance(node, exp.Like):
        return _like(node, scope)
    return None


def _comparison(node: exp.Expression, scope: Scope) -> Predicate | None:
    op = COMPARISONS[type(node)]
    left, right = node.this, node.expression
    return _compare(left, op, right, scope) or _compare(right, FLIPPED.get(op, op), left, scope)


def _compare(column: exp.Expression, op: Comparison, value: exp.Expression, scope: Scope) -> Predicate | None:
    path = plain_column(column, scope)
    if not path:
        return None
    field = scope.target.find(path[0], case_sensitive=True)
    if field is None or not isinstance(field.type, PrimitiveType):
        return None
    found = literal_of(value, field.type)
    return None if found is None else Compare(path, op, found)


def plain_column(node: exp.Expression, scope: Scope) -> Path | None:
    """The path of a plain top-level target column without a collation or padding."""
    found = plain_field(node, scope)
    return (found[1].name,) if found is not None and found[0] == "target" else None


def plain_field(node: exp.Expression, scope: Scope) -> tuple[Side, StructField] | None:
    """The side and the field of a plain top-level column without a collation or padding."""
    found = scope.reference(node)
    if found is None or len(found.path) > 1:
        return None
    field = (scope.target if found.side == "target" else scope.source).find(found.path[0], case_sensitive=True)
    if field is None or any("COLLATION" in key or "CHAR_VARCHAR" in key for key in field.metadata):
        return None
    return found.side, field


def literal_of(node: exp.Expression, type: PrimitiveType) -> pa.Scalar | None:
    """A literal as a scalar of a column's type, when Spark compares the two without any loss; else None."""
    negative = isinstance(node, exp.Neg)
    if isinstance(node, exp.Neg | exp.Paren):
        node = node.this
    value: Any = None
    if isinstance(node, exp.Literal) and not node.is_string:
        value = _number(("-" if negative else "") + node.this, type)
    elif negative:
        return None
    elif isinstance(node, exp.Boolean):
        value = bool(node.this) if type.name == "boolean" else None
    elif isinstance(node, exp.Literal):
        value = _text(node.this, type)
    elif isinstance(node, exp.Cast) and node.to.this is exp.DataType.Type.DATE and isinstance(node.this, exp.Literal):
        value = _text(node.this.this, type) if type.name == "date" else None
    if value is None:
        return None
    try:
        return pa.scalar(value, arrow_type(type))
    except (pa.ArrowException, OverflowError, ValueError, TypeError):
        return None


_CAST_TYPES = {
    exp.DataType.Type.TINYINT: "byte",
    exp.DataType.Type.SMALLINT: "short",
    exp.DataType.Type.INT: "integer",
    exp.DataType.Type.BIGINT: "long",
    exp.DataType.Type.DOUBLE: "double",
}


def cast_type(node: exp.Cast) -> PrimitiveType | None:
    """The type that a CAST leads to: a whole number or a double; None for others: a text may be a CHAR of some length."""
    is_plain = not node.args.get("format") and not any(value for key, value in node.to.args.items() if key != "this")
    name = _CAST_TYPES.get(node.to.this) if is_plain else None
    return None if name is None else PrimitiveType(name)


def is_text(node: exp.Expression) -> bool:
    """Whether a node is the literal of a text."""
    return isinstance(node.unnest(), exp.Literal) and bool(node.unnest().is_string)


def _text(text: str, type: PrimitiveType) -> Any:
    if type.name == "string":
        return text
    if type.name == "date" and _DATE.fullmatch(text):
        try:
            return date.fromisoformat(text)
        except ValueError:
            return None
    return None


def _number(text: str, type: PrimitiveType) -> Any:
    if not re.fullmatch(r"-?\d+(\.\d+)?", text):
        return None
    bits = _INTEGER_RANGE.get(type.name)
    if bits is not None:
        value = int(text) if "." not in text else None
        return value if value is not None and -(2 ** (bits - 1)) <= value < 2 ** (bits - 1) else None
    if decimal := type.decimal:
        return _decimal(Decimal(text), *decimal)
    if type.name == "double":
        # Spark's numbers in texts are whole numbers and decimals, which have one zero: -0.0 is 0.0.
        return float(text) + 0.0
    return None


def _decimal(number: Decimal, precision: int, scale: int) -> Decimal | None:
    """The literal where the type in which Spark compares it with a column loses no digit of either; else Spark rounds the column.

    A whole number may count as one of 10 or 20 digits, whatever its own are: it does in IN. Source: Spark's DecimalPrecision.
    """
    _, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int) or -exponent > scale:
        return None
    whole = len(digits) + exponent if exponent else 10 if abs(number) < 1 << 31 else 20
    return number if max(precision - scale, whole) + scale <= 38 else None


def _like(node: exp.Like, scope: Scope) -> Predicate | None:
    path, pattern = plain_column(node.this, scope), node.expression
    if not path or not isinstance(pattern, exp.Literal) or not pattern.is_string:
        return None
    field = scope.target.find(path[0], case_sensitive=True)
    prefix = re.split(r"[%_\\]", pattern.this, maxsplit=1)[0]
    return StartsWith(path, prefix) if field is not None and str(field.type) == "string" and prefix else None
