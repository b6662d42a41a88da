"""Assigned values that Arrow evaluates exactly as Spark does: columns, literals, sums, differences and products of numbers,
and CASE WHEN of these. Calls are Spark's: a session may have a function of its own by any name.

An expression is in the subset where all of it has the type of the column that it is assigned to: one operation on int or bigint,
any number of them on double. A literal is, where the column holds it without loss. What is not surely in the subset is Spark's.
"""

from __future__ import annotations

from sqlglot import exp

from deltamerge.merge.plan.exact import exact_condition
from deltamerge.merge.plan.literals import literal_of, plain_field
from deltamerge.merge.resolve.resolve import ColumnValue
from deltamerge.merge.resolve.scope import Scope
from deltamerge.protocol.schema.types import PrimitiveType, StructField, arrow_type
from deltamerge.protocol.values.computed import Arithmetic, Choice, Null, Operator, Value
from deltamerge.protocol.values.condition import Column, Constant
from deltamerge.spark.expressions.casts import same_type
from deltamerge.spark.session.schema import spark_type

_OPERATORS: dict[type[exp.Expression], Operator] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}
_COMPUTED = ("integer", "long", "double")
_CARRIED = (*_COMPUTED, "byte", "short", "date", "boolean", "string", "float", "timestamp", "timestamp_ntz")
# Spark's types of the numbers in its text, which are known by the names of their classes here.
_LITERALS = ("IntegerType", "LongType", "DecimalType")
_NUMBERS = ("byte", "short", "integer", "long", "double")


def exact_value(value: ColumnValue, field: StructField, scope: Scope) -> Value | None:
    """The value for a column; None where Spark must evaluate it."""
    tree, type = value.value.tree, field.type
    is_plain = not any("COLLATION" in key or "CHAR_VARCHAR" in key for key in field.metadata)
    if tree is None or not is_plain or not isinstance(type, PrimitiveType):
        return None
    if not same_type(value.type, spark_type(type)):
        is_number = value.type.__class__.__name__ in _LITERALS
        return _constant(tree, type) if is_number and (type.name in _NUMBERS or type.decimal) else None
    return _value(tree, type, scope) if type.name in _CARRIED or type.decimal else None


def _value(node: exp.Expression, type: PrimitiveType, scope: Scope) -> Value | None:
    """An expression all of which has a type, but for literals, which get it."""
    match node:
        case exp.Paren():
            return _value(node.this, type, scope)
        case exp.Null():
            return Null(arrow_type(type))
        case exp.Case() if node.this is None:
            return _choice(node.args["ifs"], node.args.get("default"), type, scope)
        case exp.Add() | exp.Sub() | exp.Mul() if type.name in _COMPUTED:
            return _arithmetic(node, type, scope)
    found = plain_field(node, scope)
    if found is not None:
        return Column(found[1].name, found[0]) if found[1].type == type else None
    return _constant(node, type)


def _arithmetic(node: exp.Binary, type: PrimitiveType, scope: Scope) -> Value | None:
    left, right = _value(node.this, type, scope), _value(node.expression, type, scope)
    # Of two literals the operation may have a narrower type.
    if left is None or right is None or (isinstance(left, Constant) and isinstance(right, Constant)):
        return None
    # Spark may put the literals of several operations on whole numbers together: then others exceed their type.
    parts = (Column, Constant, Arithmetic) if type.name == "double" else (Column, Constant)
    if not (isinstance(left, parts) and isinstance(right, parts)):
        return None
    return Arithmetic(left, _OPERATORS[node.__class__], right)


def _choice(branches: list[exp.If], otherwise: exp.Expression | None, type: PrimitiveType, scope: Scope) -> Value | None:
    last = Null(arrow_type(type)) if otherwise is None else _value(otherwise, type, scope)
    found = []
    for branch in branches:
        condition, value = exact_condition(branch.this, scope), _value(branch.args["true"], type, scope)
        if condition is None or value is None:
            return None
        found.append((condition, value))
    return None if last is None else Choice(tuple(found), last)


def _constant(node: exp.Expression, type: PrimitiveType) -> Constant | None:
    found = literal_of(node, type)
    return None if found is None or not found.is_valid else Constant(found)
