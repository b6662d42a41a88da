"""A user's expression: what Spark evaluates, and as much as can be seen of it from outside.

`deltamerge` never evaluates an expression itself; the tree only tells which columns it may use and which comparisons
it surely makes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from pyspark.sql import Column
from pyspark.sql import functions as F
from sqlglot import exp

from deltamerge.spark.plans.attributes import quoted
from deltamerge.spark.pyspark.adapter import tree_of
from deltamerge.spark.session.frames import Frame, SparkType
from deltamerge.spark.sql.clock import CLOCKS
from deltamerge.spark.sql.names import dotted_names
from deltamerge.spark.sql.seen import seen
from deltamerge.spark.sql.text import enclosed, identifiers_in, name_parts, qualifiers_of, unseen_words, words_of

_QUALIFIED_NAME = re.compile(r"[A-Za-z_]\w*\.[A-Za-z_]\w*", re.ASCII)


@dataclass(frozen=True)
class Expression:
    """An expression over source and target columns; Spark's `column` of it is built when it is first asked for.

    `words` are the lower-case words that may name columns, None when it could be any; `tree` is None when nothing can
    be seen. `qualifiers` are the names before a dot, which may be aliases; `names` the names of several parts outside of
    queries; `unseen` the words that the tree holds no identifier for. `type` is known where nobody has to be asked. One that
    `has_time` does not ask for the time: it has it.
    """

    build: Callable[[], Column] = field(compare=False, repr=False)
    text: str
    tree: exp.Expression | None = field(compare=False, default=None)
    words: frozenset[str] | None = None
    qualifiers: tuple[str, ...] = ()
    unseen: frozenset[str] = frozenset()
    names: tuple[tuple[str, ...], ...] = ()
    type: SparkType | None = field(compare=False, default=None)
    has_time: bool = field(compare=False, default=False)

    @cached_property
    def column(self) -> Column:
        """The expression as Spark evaluates it."""
        return self.build()

    def mentions(self, name: str) -> bool:
        """Whether the expression may use a column of this name; True when in doubt."""
        return self.words is None or name.lower() in self.words

    def overlooks(self, name: str) -> bool:
        """Whether the expression may use a column of this name though none of its tree's identifiers is it."""
        return name.lower() in self.unseen


def from_user(value: str | Column) -> Expression:
    """The expression of an SQL text or a Column. Raises TypeError for anything else, on classic Spark ParseException."""
    if isinstance(value, str):
        tree = seen(value)
        words = words_of(value)
        if tree is None or tree.find(exp.Star) is not None:
            words = None
        names = dotted_names(value)
        found = Expression(lambda: F.expr(value), value, tree, words, qualifiers_of(value), unseen_words(tree), names)
        if not is_qualified_name(found):
            found.column  # noqa: B018 - classic Spark parses it here
        return found
    if isinstance(value, Column):
        tree = tree_of(value, seen)
        names = _tree_names(tree)
        qualifiers = tuple(dict.fromkeys(part for name in names for part in name[:-1]))
        return Expression(lambda: value, column_text(value), tree, _tree_words(tree), qualifiers, unseen_words(tree), names)
    raise TypeError(f"an expression must be a string or a Column, not {type(value).__name__}")


def is_qualified_name(expression: Expression) -> bool:
    """Whether an expression is surely a name with its qualifier, which Spark need not parse to tell."""
    return isinstance(expression.tree, exp.Column) and _QUALIFIED_NAME.fullmatch(expression.text) is not None


def from_clause(text: str) -> Expression:
    """The expression of a text in a statement, where none has an alias."""
    return replace(from_user(text), build=lambda: F.expr(enclosed(text)))


def from_name(*parts: str, type: SparkType | None = None) -> Expression:
    """The expression of a column, given by the parts of its name, and its type if that is known."""
    text = ".".join(quoted(part) for part in parts)
    identifiers = [exp.to_identifier(part, quoted=True) for part in parts]
    tree = exp.column(*reversed(identifiers), copy=False) if len(parts) <= 4 else None
    return Expression(lambda: F.col(text), text, tree, frozenset(part.lower() for part in parts), type=type)


def only(frame: Frame, columns: Sequence[str]) -> Frame:
    """Some columns of a frame, itself where these are all; as SQL text where Spark reads names as they are."""
    if list(columns) == frame.columns:
        return frame
    if any("${" in name for name in columns):
        return frame.select([F.col(quoted(name)) for name in columns])
    return frame.selectExpr(*map(quoted, columns))


def column_text(column: Column) -> str:
    """How a Column prints, without its wrapping."""
    text = str(column)
    return text[len("Column<'") : -len("'>")] if text.startswith("Column<'") else text


def _tree_words(tree: exp.Expression | None) -> frozenset[str] | None:
    if tree is None or tree.find(exp.Placeholder, exp.Star) is not None:
        return None
    literals = frozenset(literal.name.lower() for literal in tree.find_all(exp.Literal))
    return identifiers_in(tree) | literals | unseen_words(tree)


def _tree_names(tree: exp.Expression | None) -> tuple[tuple[str, ...], ...]:
    found = [] if tree is None else [tuple(name_parts(node)) for node in tree.find_all(exp.Column, exp.Dot)]
    return tuple(dict.fromkeys(parts for parts in found if len(parts) > 1))


def tells_time(expression: Expression) -> bool:
    """Whether the expression may ask for the time of the statement; True when in doubt."""
    if expression.type is not None:  # a column that is there
        return False
    words = None if expression.tree is None else words_of(expression.text)
    return not expression.has_time and (words is None or not CLOCKS.isdisjoint(words))


def as_condition(expression: Expression) -> Expression:
    """The expression where a truth value is wanted: a bare NULL, which has no type, is one that is never true."""
    if not isinstance(expression.tree, exp.Null):
        return expression
    return replace(expression, build=lambda: F.lit(None).cast("boolean"))


def null() -> Expression:
    """The expression NULL."""
    return Expression(lambda: F.lit(None), "NULL", exp.Null(), frozenset())
