"""SQL text as a tree, by sqlglot. Only for seeing into expressions: what is not understood stays unknown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token, TokenType

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


def has_subquery(tree: exp.Expression | None, text: str) -> bool:
    """Whether an expression asks a query of its own; what has no tree is judged by its words."""
    if tree is not None:
        return tree.find(exp.Select, exp.SetOperation, exp.Subquery) is not None
    return any(token.token_type is TokenType.SELECT for token in tokens_of(text) or ())


def words_of(text: str) -> frozenset[str] | None:
    """Every word of a text that might name a column, in lower case; None when the text can't be split into words."""
    try:
        tokens = sqlglot.tokenize(text, dialect=DIALECT)
    except (SqlglotError, RecursionError):
        return None
    return frozenset(token.text.lower() for token in tokens)


def united(words: Iterable[frozenset[str] | None]) -> frozenset[str] | None:
    """The words of several texts, None when those of one are unknown."""
    found = list(words)
    return None if None in found else frozenset[str]().union(*(known for known in found if known is not None))


def tokens_of(text: str) -> list[Token] | None:
    """The tokens of a text with their places in it; None when it can't be split into tokens."""
    try:
        return list(sqlglot.tokenize(text, dialect=DIALECT))
    except (SqlglotError, RecursionError):
        return None


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


def name_parts_of(text: str) -> tuple[str, ...]:
    """The parts of a table's name as it is written, unquoted; () when it is no plain name."""
    tokens = tokens_of(text) or []
    names, dots = tokens[::2], tokens[1::2]
    plain = len(names) == len(dots) + 1 and all(dot.token_type is TokenType.DOT for dot in dots)
    return tuple(token.text for token in names) if plain else ()


def is_name(token: Token) -> bool:
    """Whether a token may be a name or a part of one: a word, or what stands between backquotes."""
    return token.token_type is TokenType.IDENTIFIER or (token.token_type not in _QUOTED and _is_word(token))


def keyword_at(tokens: Sequence[Token], n: int) -> str:
    """The keyword or sign at a place, in upper case.

    It is '' beyond the ends, for what is quoted, for a part of a dotted name, and for the name of a parameter.
    """
    if not 0 <= n < len(tokens) or tokens[n].token_type in _QUOTED:
        return ""
    text = str(tokens[n].text.upper())
    if not _is_word(tokens[n]):
        return text
    follows = n > 0 and (_is(tokens, n - 1, TokenType.DOT) or _is_marked(tokens, n))
    qualifies = _is(tokens, n + 1, TokenType.DOT) and not _is(tokens, n + 2, TokenType.NUMBER)
    return "" if follows or qualifies else text


def makes_name(tokens: Sequence[Token], n: int) -> bool:
    """Whether `IDENTIFIER(..)` begins at a place, alone or as a part of a name."""
    word = tokens[n].token_type not in _QUOTED and tokens[n].text.upper() == "IDENTIFIER"
    return word and keyword_at(tokens, n + 1) == "("


def opened(openers: tuple[str, ...], keyword: str) -> tuple[str, ...]:
    """The parentheses, brackets and CASEs that are open behind a keyword or sign, outermost first, as `openers` are before it.

    END is a name where no CASE of the same parenthesis is open; one that is never ended ends with its parenthesis.
    """
    if keyword in ("(", "[", "{", "CASE"):
        return (*openers, keyword)
    if keyword in (")", "]", "}"):
        while openers[-1:] == ("CASE",):
            openers = openers[:-1]
        return openers[:-1]
    return openers[:-1] if keyword == "END" and openers[-1:] == ("CASE",) else openers


def _is(tokens: Sequence[Token], n: int, type: TokenType) -> bool:
    return n < len(tokens) and tokens[n].token_type is type


def _is_word(token: Token) -> bool:
    return bool(token.text.replace("_", "a").isalnum())


def _is_marked(tokens: Sequence[Token], n: int) -> bool:
    """Whether a colon stands directly before a token, as in `:name`."""
    return _is(tokens, n - 1, TokenType.COLON) and tokens[n - 1].end + 1 == tokens[n].start


_QUOTED = (TokenType.IDENTIFIER, TokenType.STRING, TokenType.RAW_STRING)


def with_literals(text: str, literal: Callable[[str | int], str]) -> str:
    """The text with each parameter marker (`:name`, or `?` by its number from 0) replaced by what `literal` says."""
    tokens = tokens_of(text) or []
    found, number = [], 0
    typed = _within_struct_types(tokens)
    for n, token in enumerate(tokens):
        if token.token_type is TokenType.PLACEHOLDER:
            found.append((token.start, token.end + 1, literal(number)))
            number += 1
        elif n + 1 < len(tokens) and _is_marked(tokens, n + 1) and n not in typed:
            found.append((token.start, tokens[n + 1].end + 1, literal(tokens[n + 1].text)))
    return replaced(text, found)


def _within_struct_types(tokens: Sequence[Token]) -> frozenset[int]:
    """The places of the tokens within the brackets of `STRUCT<..>`, where a colon stands between a field's name and its type."""
    found, depth = [], 0
    for n, token in enumerate(tokens):
        if depth or (token.text == "<" and n and tokens[n - 1].text.upper() == "STRUCT"):
            found.append(n)
            signs = "" if token.token_type is TokenType.STRING else token.text
            depth += signs.count("<") - signs.count(">")
    return frozenset(found)


def replaced(text: str, places: Iterable[tuple[int, int, str]]) -> str:
    """The text with each [first, behind) replaced."""
    for first, behind, by in sorted(places, reverse=True):
        text = text[:first] + by + text[behind:]
    return text
