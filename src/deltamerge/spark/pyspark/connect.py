"""What the plans and expressions of a Spark Connect client hold, which are objects of its own. Only the adapter asks."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pyspark.sql import Column
from sqlglot import exp

from deltamerge.spark.plans.attributes import attribute_parts
from deltamerge.spark.plans.trees import Read, call, dotted, opaque, opaque_query


def local_bytes(plan: Any) -> int | None:
    """The size of the local data below a plan of projections and filters."""
    while plan is not None:
        kind = type(plan).__name__
        if kind in ("LocalRelation", "CachedLocalRelation"):
            table = getattr(plan, "_table", None)
            return None if table is None else int(table.nbytes)
        if kind not in ("Project", "Filter", "SubqueryAlias", "WithColumns", "WithColumnsRenamed", "Drop", "ToDF"):
            return None
        plan = plan._child
    return None


_KEEP_ALIASES = ("Filter", "Sort", "Limit", "Tail", "Offset", "Deduplicate", "Sample", "Repartition", "RepartitionByExpression")
_WITHOUT_ALIAS = ("LocalRelation", "CachedLocalRelation", "ChunkedCachedLocalRelation", "Range", "DataSource")


def _aliases(plan: Any) -> frozenset[str] | None:
    """The aliases by which a Connect plan's columns may be named; None where that is not known."""
    kind = type(plan).__name__
    if kind == "SubqueryAlias":
        return frozenset([str(plan._alias).lower()])
    if kind in _KEEP_ALIASES:
        return _aliases(plan._child)
    return frozenset() if kind in _WITHOUT_ALIAS else None


def plan_name(plan: Any) -> tuple[tuple[str, ...], bool]:
    """A plan's alias, or the parts of the table's name that it reads, () for neither; and whether those are all."""
    kind = type(plan).__name__
    if kind == "Read":
        return tuple(attribute_parts(plan.table_name)), False
    return ((str(plan._alias),) if kind == "SubqueryAlias" else ()), True


def plan_numbers(plan: Any) -> Iterator[tuple[int, frozenset[str] | None]]:
    """The numbers of a plan and of those below it, by which bound columns name them; each with its aliases."""
    if plan is None:
        return
    yield plan._plan_id, _aliases(plan)
    for name in ("_child", "_left", "_right", "left", "right"):
        child = getattr(plan, name, None)
        if hasattr(child, "_plan_id"):
            yield from plan_numbers(child)


def mapped_expression(value: Any, visit: Callable[[Any], Any]) -> Any:
    """An expression with those of its parts replaced for which `visit` gives another one."""
    if isinstance(value, list | tuple):
        return type(value)(mapped_expression(item, visit) for item in value)
    if not type(value).__module__.startswith(("pyspark.sql.connect.expressions", "pyspark.sql.connect.window")):
        return value
    if (found := visit(value)) is not None:
        return found
    copied = copy.copy(value)
    for key, inner in vars(value).items():
        setattr(copied, key, mapped_expression(inner, visit))
    return copied


def column_name(part: Any) -> tuple[Any, Sequence[str]] | None:
    """The number of the plan that a column is bound to, if it is, and the parts of its name; None for what is no column."""
    is_column = type(part).__name__ == "ColumnReference"
    return (part._plan_id, attribute_parts(part._unparsed_identifier)) if is_column else None


def sql_text(part: Any) -> str | None:
    """The SQL text that an expression is."""
    return str(part._expr) if type(part).__name__ == "SQLExpression" else None


def star_of(part: Any) -> str | None:
    """The SQL text of the star that an expression is."""
    if type(part).__name__ != "UnresolvedStar":
        return None
    target = part._unparsed_target
    return f"{target.removesuffix('.*')}.*" if target else "*"


def star_counts(part: Any) -> bool:
    """Whether an expression counts rows by a star."""
    if type(part).__name__ != "UnresolvedFunction" or part._name.lower() != "count":
        return False
    return not part._is_distinct and [star_of(argument) for argument in part._args] == ["*"]


def expression_text(part: Any) -> str | None:
    """An expression as SQL text: where it is such a text, a name of one word, or a function of no argument or a whole number."""
    kind = type(part).__name__
    if kind == "SQLExpression":
        return sql_text(part)
    if kind == "ColumnReference":
        return word_text(attribute_parts(part._unparsed_identifier), part._plan_id is not None)
    plain = kind == "UnresolvedFunction" and all(type(argument).__name__ == "LiteralExpression" for argument in part._args)
    return call_text(part._name, [argument._value for argument in part._args]) if plain else None


def word_text(parts: Sequence[str], is_bound: bool) -> str | None:
    """The text of a name of one word, which is bound to no DataFrame."""
    return parts[0] if len(parts) == 1 and parts[0].isidentifier() and not is_bound else None


def call_text(name: str, arguments: Sequence[Any]) -> str | None:
    """The text of a function of no argument, or of a whole number."""
    plain = len(arguments) < 2 and all(type(argument) is int for argument in arguments)
    return f"{name}({', '.join(map(str, arguments))})" if plain else None


def expression_tree(column: Column, seen: Read) -> exp.Expression:
    """A Column's tree in sqlglot's terms; `seen` reads the SQL texts in it. Raises for what cannot be read."""
    expression: Any = column._expr
    return _proto_tree(expression.to_plan(_NoSession()), seen)


class _NoSession:
    """Stands in for a Connect client, which the conversion of an expression only needs for artifacts."""

    def __getattr__(self, name: str) -> Any:
        raise NotImplementedError(name)


def _proto_tree(proto: Any, seen: Read) -> exp.Expression:
    kind = proto.WhichOneof("expr_type")
    if kind == "unresolved_attribute":
        attribute = proto.unresolved_attribute
        return opaque(bound=True) if attribute.HasField("plan_id") else dotted(attribute_parts(attribute.unparsed_identifier))
    if kind == "expression_string":
        return seen(proto.expression_string.expression) or opaque()
    if kind == "unresolved_function":
        function = proto.unresolved_function
        return call(function.function_name, [_proto_tree(a, seen) for a in function.arguments])
    if kind == "alias":
        return _proto_tree(proto.alias.expr, seen)
    if kind == "literal":
        return _proto_literal(proto.literal)
    if kind == "unresolved_star":
        return exp.Star()
    return opaque_query() if _asks_query(proto) else opaque()


def _asks_query(proto: Any) -> bool:
    """Whether a query is asked within an expression."""
    if proto.DESCRIPTOR.name == "ExpressionString":
        return "select" in proto.expression.lower()
    if proto.DESCRIPTOR.name == "SubqueryExpression":
        return True
    fields = [value for field, value in proto.ListFields() if field.message_type]
    return any(_asks_query(part) for value in fields for part in ([value] if hasattr(value, "DESCRIPTOR") else value))


def _proto_literal(literal: Any) -> exp.Expression:
    kind = literal.WhichOneof("literal_type")
    if kind == "string":
        return exp.Literal.string(literal.string)
    if kind in ("byte", "short", "integer", "long"):
        return exp.Literal.number(getattr(literal, kind))
    if kind == "boolean":
        return exp.Boolean(this=literal.boolean)
    return exp.Anonymous(this="literal", expressions=[])
