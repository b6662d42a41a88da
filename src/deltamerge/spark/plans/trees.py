"""Trees in sqlglot's terms of what Columns are made of, in classic Spark and in a Spark Connect client."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from deltamerge.spark.plans.calls import call_name

Read = Callable[[str], exp.Expression | None]

_BINARY: dict[str, type[exp.Expression]] = {
    "=": exp.EQ,
    "==": exp.EQ,
    "<=>": exp.NullSafeEQ,
    "<": exp.LT,
    "<=": exp.LTE,
    ">": exp.GT,
    ">=": exp.GTE,
    "and": exp.And,
    "or": exp.Or,
}


def literal(value: Any) -> exp.Expression:
    """A value; of what is no truth value, whole number or text, the tree only says that it is one."""
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, int):
        return exp.Literal.number(value)
    if isinstance(value, str):
        return exp.Literal.string(value)
    return exp.Anonymous(this="literal", expressions=[])


def call(name: str, arguments: list[exp.Expression]) -> exp.Expression:
    """A function or operator with its arguments."""
    binary = _BINARY.get(name.lower())
    if binary is not None and len(arguments) == 2:
        return binary(this=arguments[0], expression=arguments[1])
    if name.lower() == "in" and arguments:
        return exp.In(this=arguments[0], expressions=arguments[1:])
    return exp.Anonymous(this=call_name(name) or name, expressions=arguments)


def dotted(parts: list[str]) -> exp.Expression:
    """A name of one part or several."""
    identifiers = [exp.to_identifier(part, quoted=True) for part in parts]
    if len(identifiers) == 1:
        return exp.Column(this=identifiers[0])
    found: exp.Expression = exp.Column(this=identifiers[1], table=identifiers[0])
    for identifier in identifiers[2:]:
        found = exp.Dot(this=found, expression=identifier)
    return found


def opaque(bound: bool = False) -> exp.Expression:
    """A part that can't be seen into; `bound` when it names a column of one certain DataFrame."""
    return exp.Placeholder(this="bound" if bound else "opaque")


def opaque_query() -> exp.Expression:
    """A part that can't be seen into, in which a query is asked."""
    return exp.Subquery(this=exp.select(opaque()))
