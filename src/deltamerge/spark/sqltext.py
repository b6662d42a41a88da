"""SQL text as a tree, by sqlglot. Only for seeing into expressions: what is not understood stays unknown."""

from __future__ import annotations

from itertools import pairwise

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokens import TokenType

DIALECT = "spark"


def parse(text: str) -> exp.Expression | None:
    """The tree of an expression, None when it does not parse as one."""
    try:
        return sqlglot.parse_one(text, dialect=DIALECT)
    except (SqlglotError, RecursionError):
        return None


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
