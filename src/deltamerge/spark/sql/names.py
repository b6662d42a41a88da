"""Names of columns within SQL text: where they stand, and the text with other names in their place.

Source: Spark's grammar, `primaryExpression`. What stands within a query of its own, and what the variable of a lambda function
may be, is left alone: another scope says what it means. Must not know tables or sessions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from deltamerge.spark.plans.attributes import quoted
from deltamerge.spark.sql.lexer import Token
from deltamerge.spark.sql.tables import name_at, opens_query, partner
from deltamerge.spark.sql.text import keyword_at, replaced, tokens_of

Parts = tuple[str, ...]


def dotted_names(text: str) -> tuple[Parts, ...]:
    """The names of several parts that a text has, each once, in order of appearance."""
    return tuple(dict.fromkeys(parts for parts, _ in _found(tokens_of(text) or [])))


def with_aliases(text: str, explicit: Callable[[Parts], Parts | None]) -> str:
    """The text with the names that `explicit` says otherwise, each of which keeps its last parts, as many as make up the rest."""
    places = []
    for parts, tokens in _found(tokens_of(text) or []):
        found = explicit(parts)
        if found is not None:
            kept = len(found) - 1
            places.append((tokens[0].start, tokens[len(parts) - kept].start, f"{quoted(found[0])}."))
    return replaced(text, places)


def _found(tokens: Sequence[Token]) -> Iterator[tuple[Parts, list[Token]]]:
    """The names of several parts outside of queries, with their parts' tokens."""
    variables, behind = _variables(tokens), 0
    for n in range(len(tokens)):
        if n < behind:
            continue
        if opens_query(tokens, n):
            behind = partner(tokens, n)
            continue
        if keyword_at(tokens, n - 1) == ".":
            continue
        found = name_at(tokens, n)
        parts = tuple(token.name for token in found)
        if len(parts) > 1 and keyword_at(tokens, n + 2 * len(parts) - 1) != "(" and parts[0].lower() not in variables:
            yield parts, found


def _variables(tokens: Sequence[Token]) -> frozenset[str]:
    """The variables of lambda functions: `x -> ..`, `(x, y) -> ..`."""
    found = set[str]()
    for n in range(1, len(tokens)):
        if tokens[n].text != "->":
            continue
        first = n - 1
        while keyword_at(tokens, n - 1) == ")" and first > 0 and keyword_at(tokens, first) != "(":
            first -= 1
        found.update(token.name.lower() for token in tokens[first:n])
    return frozenset(found)
