"""Conditions that Arrow evaluates exactly as Spark does.

The subset: comparisons of a column with a literal or another column of its type, of either side, IN, BETWEEN, IS NULL, `%` by a
literal, COALESCE, the current time, casts to a wider whole number, AND, OR and NOT, over whole numbers, dates, booleans, texts
without a collation, decimals and doubles; of timestamps and floats columns with columns. What is not surely within it is Spark's.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from sqlglot import exp

from deltamerge.merge.plan.calls import alternatives, moment
from deltamerge.merge.plan.literals import COMPARISONS, FLIPPED, WHOLE, cast_type, is_text, literal_of, plain_field
from deltamerge.merge.resolve.scope import Scope
from deltamerge.protocol.schema.types import PrimitiveType, arrow_type
from deltamerge.protocol.values.condition import (
    Among,
    Column,
    Comparison,
    Condition,
    Constant,
    Every,
    First,
    Missing,
    Negation,
    Operand,
    Operator,
    Remainder,
    Some,
)

_COMPARED = ("date", "boolean", "string", "double", "float", "timestamp", "timestamp_ntz")
_LONG = PrimitiveType("long")


def exact_condition(node: exp.Expression | None, scope: Scope) -> Condition | None:
    """A condition as Arrow evaluates it; None where that may differ from what Spark makes of it."""
    found = None if node is None else _affirmed(node, scope)
    return Negation(found) if found is not None and node is not None and node.args.get("negate") else found


def _affirmed(node: exp.Expression, scope: Scope) -> Condition | None:
    """The condition without a NOT that the node has by itself, as in NOT IN."""
    match node:
        case exp.Paren():
            return exact_condition(node.this, scope)
        case exp.And() | exp.Or():
            parts = [exact_condition(part, scope) for part in node.flatten()]
            known = tuple(part for part in parts if part is not None)
            if len(known) < len(parts):
                return None
            return Every(known) if isinstance(node, exp.And) else Some(known)
        case exp.Boolean():
            return Every(()) if node.this else Some(())
        case exp.Not():
            inner = exact_condition(node.this, scope)
            return None if inner is None else Negation(inner)
        case exp.Is() if isinstance(node.expression, exp.Null):
            found = _operand(node.this, scope)
            return None if found is None else Missing(found[0])
        case exp.Between() if not node.args.get("symmetric"):
            low = _comparison(node.this, ">=", node.args["low"], scope)
            high = _comparison(node.this, "<=", node.args["high"], scope)
            return None if low is None or high is None else Every((low, high))
        case exp.In() if node.expressions and node.args.get("query") is None:
            return _among(node, scope)
        case exp.NEQ():
            equal = _comparison(node.this, "=", node.expression, scope)
            return None if equal is None else Negation(equal)
        case _ if type(node) in COMPARISONS:
            return _comparison(node.this, COMPARISONS[type(node)], node.expression, scope)
    found = _operand(node, scope)
    if found is None or found[1].name != "boolean":
        return None
    return Comparison(found[0], "=", Constant(pa.scalar(True)))


def _comparison(left: exp.Expression, op: Operator, right: exp.Expression, scope: Scope) -> Condition | None:
    one, other = _operand(left, scope), _operand(right, scope)
    if one is not None and other is not None:
        return Comparison(one[0], op, other[0]) if one[1] == other[1] else None
    if one is not None:
        value = _constant(right, one[1], scope)
        return None if value is None else Comparison(one[0], op, Constant(value))
    if other is not None:
        value = _constant(left, other[1], scope)
        return None if value is None else Comparison(other[0], FLIPPED.get(op, op), Constant(value))
    return None


def _constant(node: exp.Expression, type: PrimitiveType, scope: Scope) -> pa.Scalar | None:
    """A literal, or the merge's time, of a type."""
    found = literal_of(node, type)
    return moment(node, type, scope) if found is None else found


def _among(node: exp.In, scope: Scope) -> Condition | None:
    found = _operand(node.this, scope)
    if found is None or found[1].name == "double":
        return None
    values = [literal_of(value, found[1]) for value in node.expressions]
    if any(value is None for value in values):
        return None
    known = pa.array([value.as_py() for value in values if value is not None], arrow_type(found[1]))
    return Among(found[0], known)


def _operand(node: exp.Expression, scope: Scope) -> tuple[Operand, PrimitiveType] | None:
    """A value of a row, with the type as which it is compared."""
    if isinstance(node, exp.Paren):
        return _operand(node.this, scope)
    if isinstance(node, exp.Mod):
        found, divisor = _operand(node.this, scope), literal_of(node.expression, PrimitiveType("integer"))
        if found is None or not isinstance(found[0], Column) or found[1] != _LONG or divisor is None or divisor.as_py() < 1:
            return None
        return Remainder(found[0], divisor.as_py()), _LONG
    if isinstance(node, exp.Cast):
        found = _operand(node.this, scope)
        return found if found is not None and found[1] == _LONG and _holds_all(node, scope) else None
    if parts := alternatives(node, scope):
        return _first(parts, scope)
    known = plain_field(node, scope)
    if known is None or not isinstance(known[1].type, PrimitiveType):
        return None
    (side, field), type = known, known[1].type
    if type.name in WHOLE:
        return Column(field.name, side), _LONG
    return (Column(field.name, side), type) if type.name in _COMPARED or type.decimal else None


def _holds_all(node: exp.Cast, scope: Scope) -> bool:
    """Whether a CAST is one of a column of whole numbers to a type that holds them all."""
    known, wanted = plain_field(node.this.unnest(), scope), cast_type(node)
    if known is None or wanted is None or not isinstance(known[1].type, PrimitiveType):
        return False
    given = known[1].type.name
    return given in WHOLE and wanted.name in WHOLE and WHOLE.index(given) <= WHOLE.index(wanted.name)


def _first(nodes: Sequence[exp.Expression], scope: Scope) -> tuple[Operand, PrimitiveType] | None:
    """COALESCE of values of one type, some of them literals."""
    found = [_operand(node, scope) for node in nodes]
    types = {known[1] for known in found if known is not None}
    if len(types) != 1:
        return None
    type, parts = types.pop(), list[Operand]()
    for node, known in zip(nodes, found, strict=True):
        # A date beside a text may be a text.
        value = None if known is not None or (type.name == "date" and is_text(node)) else _constant(node, type, scope)
        if known is None and value is None:
            return None
        parts.append(Constant(value) if known is None else known[0])
    return First(tuple(parts)), type
