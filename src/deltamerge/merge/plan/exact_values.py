"""Assigned values that Arrow evaluates exactly as Spark does: columns, literals, the current time, sums, differences and products
of numbers, casts that can't fail, CASE WHEN, IF and COALESCE of these. Other calls are Spark's.

An expression is in the subset where all of it has the type of the column that it is assigned to, or a narrower one: one operation
on int or bigint, any number of them on double. A literal is, where the column holds it without loss. What is not surely in the
subset is Spark's.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from deltamerge.merge.plan.calls import alternatives, conditional, moment
from deltamerge.merge.plan.exact import exact_condition
from deltamerge.merge.plan.literals import WHOLE, cast_type, literal_of, plain_field
from deltamerge.merge.resolve.resolve import ColumnValue
from deltamerge.merge.resolve.scope import Scope
from deltamerge.protocol.schema.types import PrimitiveType, StructField, arrow_type
from deltamerge.protocol.values.computed import Arithmetic, Choice, Converted, Null, Operator, Value
from deltamerge.protocol.values.condition import Column, Condition, Constant, Missing, Negation
from deltamerge.spark.expressions.casts import same_type
from deltamerge.spark.session.schema import spark_type

_OPERATORS: dict[type[exp.Expression], Operator] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}
_COMPUTED = ("integer", "long", "double")
_CARRIED = (*_COMPUTED, "byte", "short", "date", "boolean", "string", "float", "timestamp", "timestamp_ntz")
# Spark's types of the numbers in its text, which are known by the names of their classes here.
_LITERALS = ("IntegerType", "LongType", "DecimalType")
_SPARK_WHOLE = {"ByteType": "byte", "ShortType": "short", "IntegerType": "integer", "LongType": "long"}
_NUMBERS = ("byte", "short", "integer", "long", "double")


def exact_value(value: ColumnValue, field: StructField, scope: Scope) -> Value | None:
    """The value for a column; None where Spark must evaluate it."""
    tree, type = value.value.tree, field.type
    is_plain = not any("COLLATION" in key or "CHAR_VARCHAR" in key for key in field.metadata)
    if tree is None or not is_plain or not isinstance(type, PrimitiveType):
        return None
    if not same_type(value.type, spark_type(type)):
        return _assigned(tree, value.type.__class__.__name__, type, scope)
    return _value(tree, type, scope) if type.name in _CARRIED or type.decimal else None


def _assigned(tree: exp.Expression, given: str, type: PrimitiveType, scope: Scope) -> Value | None:
    """A value of another type than the column's, given by the name of its class in Spark."""
    if given in _LITERALS and (type.name in _NUMBERS or type.decimal) and (found := _constant(tree, type)) is not None:
        return found
    narrow = PrimitiveType(_SPARK_WHOLE.get(given, ""))
    inner = _value(tree, narrow, scope) if _widens(narrow, type) else None
    return None if inner is None else Converted(inner, arrow_type(type))


def _widens(given: PrimitiveType, type: PrimitiveType) -> bool:
    """Whether a type has a value for each whole number of a type; the nearest one, if it is double."""
    if given.name not in WHOLE:
        return False
    return type.name in ("double", "string") or (type.name in WHOLE and WHOLE.index(given.name) <= WHOLE.index(type.name))


def _value(node: exp.Expression, type: PrimitiveType, scope: Scope) -> Value | None:
    """An expression all of which has a type, but for literals, which get it."""
    match node:
        case exp.Paren():
            return _value(node.this, type, scope)
        case exp.Null():
            return Null(arrow_type(type))
        case exp.Case() if node.this is None:
            branches = [(branch.this, branch.args["true"]) for branch in node.args["ifs"]]
            return _choice(branches, node.args.get("default"), type, scope)
        case exp.Cast():
            return _cast(node, type, scope)
        case exp.Anonymous() if (parts := conditional(node, scope)) is not None:
            return _choice([parts[:2]], parts[2], type, scope)
        case exp.Anonymous() if others := alternatives(node, scope):
            return _first(others, type, scope)
        case exp.Add() | exp.Sub() | exp.Mul() if type.name in _COMPUTED:
            return _arithmetic(node, type, scope)
    found = plain_field(node, scope)
    if found is not None:
        return Column(found[1].name, found[0]) if found[1].type == type else None
    now = moment(node, type, scope)
    return _constant(node, type) if now is None else Constant(now)


def _cast(node: exp.Cast, type: PrimitiveType, scope: Scope) -> Value | None:
    """A CAST of a column to a type that has a value for each of its own; DATE'..' is a literal, and one to sqlglot, too."""
    wanted, known = cast_type(node), plain_field(node.this.unnest(), scope)
    if known is None or wanted != type or not isinstance(known[1].type, PrimitiveType):
        return _constant(node, type)
    side, field = known
    if field.type == type:
        return Column(field.name, side)
    return Converted(Column(field.name, side), arrow_type(type)) if _widens(known[1].type, type) else None


def _arithmetic(node: exp.Binary, type: PrimitiveType, scope: Scope) -> Value | None:
    sides = [_value(side, type, scope) for side in (node.this, node.expression)]
    # Of two literals, or of a literal and a narrower column, the operation may have a narrower type.
    if not any(side is not None and _surely_has_type(side) for side in sides):
        return None
    left, right = (
        _widened(node_, type, scope) if side is None else side
        for node_, side in zip((node.this, node.expression), sides, strict=True)
    )
    if left is None or right is None or (type.name != "double" and not (_is_plain(left) and _is_plain(right))):
        return None
    return Arithmetic(left, _OPERATORS[node.__class__], right)


def _surely_has_type(value: Value) -> bool:
    """Whether Spark gives a value its type by itself, not only beside others of that type."""
    match value:
        case Constant() | Null():
            return False
        case Choice(branches, otherwise):
            return any(map(_surely_has_type, (otherwise, *(chosen for _, chosen in branches))))
    return True


def _widened(node: exp.Expression, type: PrimitiveType, scope: Scope) -> Value | None:
    """A column of narrower whole numbers beside a value of the type, as which Spark takes it then."""
    known = plain_field(node.unnest(), scope)
    if known is None or not isinstance(known[1].type, PrimitiveType) or not _widens(known[1].type, type):
        return None
    return Converted(Column(known[1].name, known[0]), arrow_type(type))


def _is_plain(value: Value) -> bool:
    """Whether a value has no operation in it.

    Spark may put the literals of several operations on whole numbers together: then others exceed their type.
    """
    match value:
        case Arithmetic():
            return False
        case Converted(inner):
            return _is_plain(inner)
        case Choice(branches, otherwise):
            return _is_plain(otherwise) and all(_is_plain(chosen) for _, chosen in branches)
    return True


def _choice(
    branches: Sequence[tuple[exp.Expression, exp.Expression]], otherwise: exp.Expression | None, type: PrimitiveType, scope: Scope
) -> Value | None:
    last = Null(arrow_type(type)) if otherwise is None else _value(otherwise, type, scope)
    found = []
    for when, then in branches:
        condition, value = exact_condition(when, scope), _value(then, type, scope)
        if condition is None or value is None:
            return None
        found.append((condition, value))
    return None if last is None else Choice(tuple(found), last)


def _first(nodes: Sequence[exp.Expression], type: PrimitiveType, scope: Scope) -> Value | None:
    """COALESCE: each column where it is not null, else what follows it."""
    *tried, last = [_value(node, type, scope) for node in nodes]
    branches = list[tuple[Condition, Value]]()
    for value in tried:
        if not isinstance(value, Column):
            return None
        branches.append((Negation(Missing(value)), value))
    return None if last is None else Choice(tuple(branches), last)


def _constant(node: exp.Expression, type: PrimitiveType) -> Constant | None:
    found = literal_of(node, type)
    return None if found is None or not found.is_valid else Constant(found)
