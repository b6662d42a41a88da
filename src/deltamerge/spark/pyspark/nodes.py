"""What a Column of classic Spark is made of: nodes in the JVM, which PySpark hides. Only the adapter asks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlglot import exp

from deltamerge.spark.plans.trees import Read, call, dotted, literal, opaque, opaque_query
from deltamerge.spark.pyspark.connect import call_text, word_text


def parts_of(column: Any) -> Any:
    """What a Column is made of."""
    return column._jc.node()


def made_of(part: Any, jvm: Any) -> Any:
    """The JVM's Column that is made of a part."""
    return jvm.org.apache.spark.sql.Column(part)


def part_name(node: Any) -> tuple[Any, list[str]] | None:
    """The mark of the column that a node names, None where it is bound to no frame, and the parts of its name."""
    kind = node.getClass().getSimpleName()
    if kind == "UnresolvedAttribute" and not node.planId().isDefined():
        return None, java_list(node.nameParts())
    return attribute(node.expression()) if kind == "ExpressionColumnNode" else None


def part_sql(node: Any) -> str | None:
    """The SQL text that a node is."""
    return str(node.expression()) if node.getClass().getSimpleName() == "SqlExpression" else None


def star_of(node: Any) -> str | None:
    """The SQL text of the star that a node is."""
    if node.getClass().getSimpleName() != "UnresolvedStar":
        return None
    target = node.unparsedTarget()
    return f"{target.get().removesuffix('.*')}.*" if target.isDefined() else "*"


def star_counts(node: Any) -> bool:
    """Whether a node counts rows by a star."""
    if node.getClass().getSimpleName() != "UnresolvedFunction" or str(node.functionName()).lower() != "count":
        return False
    return not node.isDistinct() and [star_of(argument) for argument in java_list(node.arguments())] == ["*"]


def part_text(node: Any) -> str | None:
    """A node as SQL text, where it is such a text, a name of one word, or a function of no argument or of a whole number."""
    kind = node.getClass().getSimpleName()
    if kind == "SqlExpression":
        return part_sql(node)
    if kind == "UnresolvedAttribute":
        return word_text(java_list(node.nameParts()), node.planId().isDefined())
    if kind != "UnresolvedFunction":
        return None
    arguments = java_list(node.arguments())
    plain = all(argument.getClass().getSimpleName() == "Literal" for argument in arguments)
    return call_text(node.functionName(), [argument.value() for argument in arguments]) if plain else None


def part_tree(node: Any, seen: Read) -> exp.Expression:
    """A node's tree in sqlglot's terms; `seen` reads the SQL texts in it."""
    kind = node.getClass().getSimpleName()
    if kind == "UnresolvedAttribute":
        parts = java_list(node.nameParts())
        return opaque(bound=True) if node.planId().isDefined() else dotted(parts)
    if kind == "SqlExpression":
        return seen(node.expression()) or opaque()
    if kind == "UnresolvedFunction":
        return call(node.functionName(), [part_tree(a, seen) for a in java_list(node.arguments())])
    if kind == "Alias":
        return part_tree(node.child(), seen)
    if kind == "Literal":
        return literal(node.value())
    if kind == "UnresolvedStar":
        return exp.Star()
    if kind == "ExpressionColumnNode" and node.expression().getClass().getSimpleName() == "AttributeReference":
        return opaque(bound=True)
    return opaque_query() if _asks_query(node) else opaque()


def _asks_query(node: Any) -> bool:
    """Whether a query is asked within a node, or within one of Spark's expressions."""
    kind = node.getClass().getSimpleName()
    if kind == "SqlExpression":
        return "select" in str(node.expression()).lower()
    if kind == "ExpressionColumnNode":
        return _asks_query(node.expression())
    return "Subquery" in kind or kind in ("Exists", "ListQuery") or any(map(_asks_query, java_list(node.children())))


def mapped_part(node: Any, visit: Callable[[Any], Any], jvm: Any) -> Any:
    """A node with those of its parts replaced for which `visit` gives another one."""
    found = visit(node)
    if found is not None or node.getClass().getSimpleName() == "ExpressionColumnNode":
        return node if found is None else found
    parts = [node.productElement(i) for i in range(node.productArity())]
    return node.copy(*[_mapped_field(part, visit, jvm) for part in parts])


def mapped_call(node: Any, visit: Callable[[Any], Any], jvm: Any) -> Any:
    """As `mapped_part`, of a call of a function in Python; None for another node."""
    if node.getClass().getSimpleName() != "ExpressionColumnNode" or node.expression().getClass().getSimpleName() != "PythonUDF":
        return None
    made = jvm.java.lang.Class.forName("org.apache.spark.sql.classic.ColumnNodeExpression$").getField("MODULE$").get(None)
    arguments = java_list(node.expression().children())
    parts = [a.node() if a.getClass().getSimpleName() == "ColumnNodeExpression" else _as_node(node, a) for a in arguments]
    changed = [made.apply(mapped_part(part, visit, jvm)) for part in parts]
    return _as_node(node, node.expression().withNewChildren(jvm.PythonUtils.toSeq(changed)))


def _as_node(node: Any, expression: Any) -> Any:
    return node.copy(expression, node.origin())


def _mapped_field(part: Any, visit: Callable[[Any], Any], jvm: Any) -> Any:
    """A field of a node: a node, an option or sequence of nodes, a pair of nodes, or something to keep."""
    if not hasattr(part, "getClass"):
        return part
    # Windows and their frames are such parts, which are no nodes; so are orders of rows, without parts of their own.
    kinds = [jvm.java.lang.Class.forName(name) for name in ("org.apache.spark.sql.internal.ColumnNodeLike", "scala.Product")]
    if all(kind.isInstance(part) for kind in kinds) and part.productArity():
        return mapped_part(part, visit, jvm)
    kind = part.getClass().getName()
    if kind == "scala.Some":
        return jvm.scala.Some(_mapped_field(part.get(), visit, jvm))
    if kind.startswith("scala.Tuple2"):
        return jvm.scala.Tuple2(_mapped_field(part._1(), visit, jvm), _mapped_field(part._2(), visit, jvm))
    if kind.startswith("scala.collection") and hasattr(part, "length"):
        return jvm.PythonUtils.toSeq([_mapped_field(item, visit, jvm) for item in java_list(part)])
    return part


def attribute(expression: Any) -> tuple[str, list[str]] | None:
    """The mark of the column that an expression is, or is a field of, and the names from it on; None for another expression."""
    kind = expression.getClass().getSimpleName()
    if kind == "AttributeReference":
        return expression.exprId().toString(), [expression.name()]
    if kind == "Alias":
        return attribute(expression.child())
    found = attribute(expression.child()) if kind == "GetStructField" else None
    return None if found is None else (found[0], [*found[1], expression.extractFieldName()])


def java_list(sequence: Any) -> list[Any]:
    """The items of one of Scala's sequences."""
    return [sequence.apply(i) for i in range(sequence.length())]
