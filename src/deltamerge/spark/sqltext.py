"""SQL text as a tree, by sqlglot. Only for seeing into expressions: what is not understood stays unknown."""

from __future__ import annotations

from itertools import pairwise

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokens import TokenType

DIALECT = "spark"


_UNSEEN = "deltamerge_unseen"


def parse(text: str) -> exp.Expression | None:
    """The tree of an expression, None when it does not parse as one."""
    try:
        found = sqlglot.parse_one(text, into=exp.Condition, dialect=DIALECT)
    except (SqlglotError, RecursionError):
        return None
    if isinstance(found, exp.Command | exp.Block):
        return None
    found.meta[_UNSEEN] = (words_of(text) or frozenset()) - identifiers_in(found)
    return found


def identifiers_in(tree: exp.Expression) -> frozenset[str]:
    """Every identifier of a tree, in lower case."""
    return frozenset(identifier.name.lower() for identifier in tree.find_all(exp.Identifier))


def unseen_words(tree: exp.Expression | None) -> frozenset[str]:
    """The words of a tree's texts that are no identifiers in it: `current_date` is a column for Spark where there is one."""
    found = () if tree is None else (node.meta.get(_UNSEEN, ()) for node in tree.walk() if node.meta)
    return frozenset(word for words in found for word in words)


def words_of(text: str) -> frozenset[str] | None:
    """Every word of a text that might name a column, in lower case; None when the text can't be split into words."""
    try:
        tokens = sqlglot.tokenize(text, dialect=DIALECT)
    except (SqlglotError, RecursionError):
        return None
    return frozenset(token.text.lower() for token in tokens)


def column_reference(identifier: str) -> exp.Expression | None:
    """The tree of a (possibly dotted and quoted) column name as `F.col` takes it."""
    found = parse(identifier)
    return found if isinstance(found, exp.Column | exp.Dot) else None


def qualifiers_of(text: str) -> tuple[str, ...]:
    """The words that stand before a dot, in order of appearance."""
    try:
        tokens = sqlglot.tokenize(text, dialect=DIALECT)
    except (SqlglotError, RecursionError):
        return ()
    found = [a.text for a, b in pairwise(tokens) if b.token_type is TokenType.DOT]
    return tuple(dict.fromkeys(found))


def name_parts(node: exp.Expression | None) -> list[str]:
    """The parts of a column's name, outermost first; [] when the node is no name."""
    if isinstance(node, exp.Paren):
        return name_parts(node.this)
    if isinstance(node, exp.Dot):
        inner = name_parts(node.this)
        last = node.expression
        return [*inner, last.name] if inner and isinstance(last, exp.Identifier) else []
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier):
        return [part.name for part in node.parts]
    return []
