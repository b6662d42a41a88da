"""Assigned values that Arrow evaluates exactly as Spark does: literals, and sums, differences and products of numbers.

An expression is in the subset where all of it has the type of the column that it is assigned to: one operation on int or bigint,
any number of them on double. A literal is, where the column holds it without loss. What is not surely in the subset is Spark's.
"""

from __future__ import annotations

from sqlglot import exp

from deltamerge.merge.plan.literals import literal_of, plain_column
from deltamerge.merge.resolve.resolve import ColumnValue
from deltamerge.merge.resolve.scope import Scope
from deltamerge.protocol.schema.types import PrimitiveType, StructField
from deltamerge.protocol.values.arithmetic import Arithmetic, Operator, Value
from deltamerge.protocol.values.condition import Column, Constant
from deltamerge.spark.expressions.casts import same_type
from deltamerge.spark.session.schema import spark_type

_OPERATORS: dict[type[exp.Expression], Operator] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}
_COMPUTED = ("integer", "long", "double")
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
    return _number(tree, type, scope) if type.name in _COMPUTED else _constant(tree, type)


def _number(node: exp.Expression, type: PrimitiveType, scope: Scope) -> Value | None:
    """An expression all of which has a type, but for literals, which get it."""
    if isinstance(node, exp.Paren):
        return _number(node.this, type, scope)
    operator = _OPERATORS.get(node.__class__)
    if operator is not None:
        left, right = _number(node.this, type, scope), _number(node.expression, type, scope)
        # Of two literals the operation may have a narrower type.
        if left is None or right is None or (isinstance(left, Constant) and isinstance(right, Constant)):
            return None
        # Spark may put the literals of several operations on whole numbers together: then others exceed their type.
        if type.name != "double" and (isinstance(left, Arithmetic) or isinstance(right, Arithmetic)):
            return None
        return Arithmetic(left, operator, right)
    path = plain_column(node, scope)
    field = scope.target.find(path[0], case_sensitive=True) if path else None
    if field is not None:
        return Column(field.name) if field.type == type else None
    return _constant(node, type)


def _constant(node: exp.Expression, type: PrimitiveType) -> Constant | None:
    found = literal_of(node, type)
    return None if found is None or not found.is_valid else Constant(found)
