"""The queries within SQL text: where each begins, which tokens are its own, and what stands in its FROM. Must not know tables.

Source: Spark's grammar, `queryTerm`, `querySpecification`, `fromStatement`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from deltamerge.spark.sql.lexer import Token
from deltamerge.spark.sql.tables import opens_query
from deltamerge.spark.sql.text import keyword_at

_UNIONS = ("UNION", "EXCEPT", "INTERSECT", "MINUS", "SETMINUS")
# Behind these a query's FROM has ended.
_BEHIND_FROM = ("WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "WINDOW", "QUALIFY", "CLUSTER", "DISTRIBUTE", "SORT")
_MAKES_ROWS = ("GROUP", "HAVING", "LATERAL", "WINDOW", "QUALIFY", "TRANSFORM")


@dataclass(slots=True, eq=False)
class Query:
    """A SELECT with its FROM, from token `begin` to before `end`; `source` is the place of FROM, `end` where it has none.

    `opened` and `closed` are the parentheses around it, -1 where there are none; `around` is the query within which it stands,
    whose columns it sees unless it stands in its FROM.
    """

    begin: int
    end: int
    source: int
    around: Query | None
    opened: int = -1
    closed: int = -1
    in_from: bool = False
    is_united: bool = False
    only_chooses: bool = False

    @property
    def sees_around(self) -> bool:
        """Whether columns of the query around can be named in it."""
        return not self.in_from


@dataclass(slots=True)
class _Level:
    """A parenthesis up to the current place: the query in it, and the one around it."""

    opened: int
    around: Query | None
    in_from: bool = False
    own: Query | None = None
    is_united: bool = False
    behind_from: bool = False


class Queries:
    """The queries of a text, and which of them each token belongs to."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.all: list[Query] = []
        self._owners: list[Query | None] = []
        self._tokens = tokens
        levels = [_Level(-1, None)]
        for n in range(len(tokens)):
            word, level = keyword_at(tokens, n), levels[-1]
            if word == "(":
                self._owners.append(level.own or level.around)
                levels.append(_Level(n, level.own or level.around, self._is_source(n, levels)))
                continue
            if word == ")" and len(levels) > 1:
                self._end(levels.pop(), n)
                level = levels[-1]
            elif word in _UNIONS and level.own is not None and not self._is_star_without(n):
                level.is_united = True
                self._end(level, n)
                level.own = None
            else:
                self._word(level, word, n)
            self._owners.append(level.own or level.around)
        for level in levels:
            self._end(level, len(tokens))
        for query in self.all:
            words = {keyword_at(tokens, n) for n in self.places(query)}
            distinct = keyword_at(tokens, query.begin + 1) == "DISTINCT"
            is_plain = query.source < query.end and keyword_at(tokens, query.begin) == "SELECT" and not query.is_united
            query.only_chooses = is_plain and not distinct and not words & {*_MAKES_ROWS}

    def owner(self, n: int) -> Query | None:
        """The query to which a token belongs."""
        return self._owners[n]

    def places(self, query: Query) -> Iterator[int]:
        """The tokens that belong to a query, those of queries within it not among them."""
        return (n for n in range(query.begin, query.end) if self._owners[n] is query)

    @property
    def of_from(self) -> list[Query]:
        """The queries that stand in another one's FROM."""
        return [query for query in self.all if query.in_from and query.closed > 0]

    def _word(self, level: _Level, word: str, n: int) -> None:
        begins = word == "SELECT" and (level.own is None or keyword_at(self._tokens, level.own.begin) == "SELECT")
        first = word == "FROM" and n == level.opened + 1 and keyword_at(self._tokens, n - 2) != "TRIM"
        if begins or (first and level.own is None):
            self._end(level, n)
            query = Query(n, len(self._tokens), len(self._tokens), level.around, level.opened, in_from=level.in_from)
            query.is_united = level.is_united
            level.own, level.behind_from = query, False
            self.all.append(query)
        if word == "FROM" and level.own is not None and keyword_at(self._tokens, n - 1) != "DISTINCT":
            level.own.source = min(level.own.source, n)
        level.behind_from = level.behind_from or word in _BEHIND_FROM

    def _end(self, level: _Level, n: int) -> None:
        if level.own is not None:
            level.own.end, level.own.closed = n, n if level.opened >= 0 else -1
            level.own.source = min(level.own.source, n)
        if level.is_united and level.own is not None:
            level.own.is_united = True

    def _is_star_without(self, n: int) -> bool:
        """Whether an EXCEPT says which columns a star leaves out."""
        return keyword_at(self._tokens, n - 1) == "*" and not opens_query(self._tokens, n + 1)

    def _is_source(self, n: int, levels: Sequence[_Level]) -> bool:
        """Whether a parenthesis stands where a table can in a query's FROM."""
        level, before = levels[-1], keyword_at(self._tokens, n - 1)
        if before in ("FROM", "JOIN"):
            return (level.own or level.around) is not None
        if before == "(":
            return level.in_from and level.own is None
        return before == "," and level.own is not None and n > level.own.source and not level.behind_from


def queries_of(tokens: Sequence[Token]) -> Queries:
    """The queries of a text."""
    return Queries(tokens)
