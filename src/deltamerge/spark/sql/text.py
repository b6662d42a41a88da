"""SQL text as tokens and trees. Only for seeing into it: what is not understood, or may be otherwise to Spark, stays unknown.

Tokens are Spark's. Trees are sqlglot's, where it surely reads what Spark reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

import sqlglot
from sqlglot import exp

from deltamerge.spark.sql.agreement import agrees, unseen
from deltamerge.spark.sql.lexer import Kind, NoTokenError, Token, is_name, lexed, string_value
from deltamerge.spark.sql.plain import DIALECT, plain

_UNSEEN = "deltamerge_unseen"


def parse(text: str) -> exp.Expression | None:
    """The tree of an expression, None when it does not parse as one."""
    tokens = tokens_of(text)
    # sqlglot takes what stands before a semicolon, Spark none in an expression.
    told = None if tokens is None or any(token.text == ";" for token in tokens) else plain(tokens)
    if tokens is None or told is None:
        return None
    try:
        found = sqlglot.parse_one(told, into=exp.Condition, dialect=DIALECT)
    except Exception:  # sqlglot's own errors, and those that its functions stumble over
        return None
    if isinstance(found, exp.Command | exp.Block) or not agrees(found, [keyword_at(tokens, n) for n in range(len(tokens))]):
        return None
    found.meta[_UNSEEN] = unseen(found, [token.name.lower() for token in tokens if is_name(token)])
    return found


def alias_of(text: str) -> str:
    """The name that an expression gives itself behind it; '' for none, and for a text that is not read."""
    tokens = tokens_of(text)
    told = None if tokens is None else plain(tokens)
    try:
        found = None if told is None else sqlglot.parse_one(told, dialect=DIALECT)
    except Exception:  # sqlglot's own errors, and those that its functions stumble over
        return ""
    return found.alias if isinstance(found, exp.Alias) else ""


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
    return any(token.upper == "SELECT" for token in tokens_of(text) or ())


def words_of(text: str) -> frozenset[str] | None:
    """Every word of a text that might name a column, in lower case; None when that can't be said.

    `IDENTIFIER(..)` and a variable name anything.
    """
    tokens = tokens_of(text)
    if tokens is None or "${" in text or any(makes_name(tokens, n) for n in range(len(tokens))):
        return None
    names = {token.name.lower() for token in tokens if is_name(token) or token.text.startswith('"')}
    return frozenset(names | {(string_value(token) or "").lower() for token in tokens if token.kind is Kind.STRING})


def called_in(text: str) -> frozenset[str] | None:
    """Every word before a parenthesis in a text, in lower case, functions among them; None when the text can't be split."""
    tokens = tokens_of(text)
    if tokens is None:
        return None
    return frozenset(a.name.lower() for a, b in pairwise(tokens) if b.text == "(" and is_name(a))


def united(words: Iterable[frozenset[str] | None]) -> frozenset[str] | None:
    """The words of several texts, None when those of one are unknown."""
    found = list(words)
    return None if None in found else frozenset[str]().union(*(known for known in found if known is not None))


def tokens_of(text: str) -> list[Token] | None:
    """The tokens of a text with their places in it; None when Spark surely refuses it as an expression and as a MERGE."""
    try:
        return lexed(text)
    except NoTokenError:
        return None


def qualifiers_of(text: str) -> tuple[str, ...]:
    """The names that stand before a dot, in order of appearance."""
    found = [a.name for a, b in pairwise(tokens_of(text) or ()) if b.text == "."]
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
    plain = len(names) == len(dots) + 1 and all(dot.text == "." for dot in dots) and all(map(is_name, names))
    return tuple(token.name for token in names) if plain else ()


def keyword_at(tokens: Sequence[Token], n: int) -> str:
    """The keyword or sign at a place, in upper case.

    It is '' beyond the ends, for what is quoted, for numbers, for a part of a dotted name, and for the name of a parameter.
    """
    if not 0 <= n < len(tokens):
        return ""
    is_part = tokens[n].kind is Kind.WORD and (_sign_at(tokens, n - 1) in (".", ":") or _sign_at(tokens, n + 1) == ".")
    return "" if is_part else tokens[n].upper


def makes_name(tokens: Sequence[Token], n: int) -> bool:
    """Whether `IDENTIFIER(..)` begins at a place, alone or as a part of a name."""
    return tokens[n].upper == "IDENTIFIER" and _sign_at(tokens, n + 1) == "("


_QUERIES = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "MAP", "REDUCE")


def enclosed(text: str) -> str:
    """An expression in parentheses, in which Spark takes no alias; one that might be a query in them stays without."""
    tokens = tokens_of(text) or []
    is_call = keyword_at(tokens, 0) in ("MAP", "REDUCE") and keyword_at(tokens, 1) == "("
    return text if keyword_at(tokens, 0) in _QUERIES and not is_call else f"({text})"


class Openers:
    """The parentheses, brackets and CASEs that are open behind the keywords and signs read so far, outermost first.

    END is a name where no CASE of the same parenthesis is open; one that is never ended ends with its parenthesis.
    """

    def __init__(self) -> None:
        self._open: list[str] = []
        self._cases = 0

    def __bool__(self) -> bool:
        return bool(self._open)

    @property
    def last(self) -> str:
        return self._open[-1]

    @property
    def are_cases(self) -> bool:
        """Whether nothing but CASEs is open."""
        return 0 < self._cases == len(self._open)

    def read(self, keyword: str) -> None:
        """Take the next keyword or sign, which may be ''."""
        if keyword in ("(", "[", "{", "CASE"):
            self._open.append(keyword)
            self._cases += keyword == "CASE"
        elif keyword in (")", "]", "}"):
            while self._ends_case():
                pass
            del self._open[-1:]
        elif keyword == "END":
            self._ends_case()

    def _ends_case(self) -> bool:
        ends = self._open[-1:] == ["CASE"]
        if ends:
            self._open.pop()
            self._cases -= 1
        return ends


def _sign_at(tokens: Sequence[Token], n: int) -> str:
    return tokens[n].text if 0 <= n < len(tokens) and tokens[n].kind is Kind.SIGN else ""


def with_literals(text: str, literal: Callable[[str | int], str]) -> str:
    """The text with each parameter marker (`:name`, or `?` by its number from 0) replaced by what `literal` says."""
    tokens = tokens_of(text) or []
    found, number = [], 0
    typed = _within_struct_types(tokens)
    for n, token in enumerate(tokens):
        if token.text == "?":
            found.append((token.start, token.behind, literal(number)))
            number += 1
        elif token.text == ":" and n + 1 < len(tokens) and is_name(tokens[n + 1]) and n not in typed:
            found.append((token.start, tokens[n + 1].behind, literal(tokens[n + 1].name)))
    return replaced(text, found)


def _within_struct_types(tokens: Sequence[Token]) -> frozenset[int]:
    """The places of the tokens within the brackets of `STRUCT<..>`, where a colon stands between a field's name and its type."""
    found, depth = [], 0
    for n, token in enumerate(tokens):
        if depth or (token.text == "<" and n and tokens[n - 1].upper == "STRUCT"):
            found.append(n)
            depth += (token.text == "<") - (token.text == ">")
    return frozenset(found)


def replaced(text: str, places: Iterable[tuple[int, int, str]]) -> str:
    """The text with each [first, behind) replaced."""
    for first, behind, by in sorted(places, reverse=True):
        text = text[:first] + by + text[behind:]
    return text
