"""Tables and queries within SQL text: where they stand, and the text with something else in their place.

Source: Spark's grammar, `relationPrimary`, `temporalClause`, `query`. Must not know tables or sessions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from deltamerge.spark.sql.lexer import Kind, Token, is_name, string_value
from deltamerge.spark.sql.text import keyword_at, opened, parse, replaced, tokens_of


@dataclass(frozen=True, slots=True)
class TableName:
    """A table that a query names, at the places [first, behind) of its text, and the version or time of it, as it is written."""

    first: int
    behind: int
    parts: tuple[str, ...]
    version: str | None = None
    timestamp: str | None = None


def tables_in(text: str) -> list[TableName]:
    """The tables that queries in a text name as delta.`path`, and those of any name at a version or time.

    Outside of queries delta.`name` is a column's name, as it is in them where no table can stand.
    """
    tokens = tokens_of(text) or []
    found = [_table_at(text, tokens, n) for n in _table_places(tokens)]
    return [table for table in found if table is not None]


@dataclass(slots=True)
class _Level:
    """A parenthesis up to the current place: whether FROM names tables in it, and whether a comma names another one."""

    begin: int
    queries: bool = False
    lists: bool = False


def _table_places(tokens: Sequence[Token]) -> Iterator[int]:
    """Where a table's name may begin: behind FROM, JOIN or TABLE, in a FROM list, and in parentheses that stand there."""
    levels, expected = [_Level(0)], False
    for n in range(len(tokens)):
        word, level = keyword_at(tokens, n), levels[-1]
        if expected:
            yield n
        if word == "(":
            levels.append(_Level(n + 1))
            continue
        if word == ")" and len(levels) > 1:
            levels.pop()
        if word in ("SELECT", "WITH"):
            level.queries = True
        if word == "SELECT" or word in ("|>", "BY"):
            level.lists = False
        if word == "FROM" and _names_tables(tokens, n, level):
            level.queries = level.lists = expected = True
        else:
            expected = word in ("JOIN", "TABLE") or (word == "," and level.lists)


def _names_tables(tokens: Sequence[Token], n: int, level: _Level) -> bool:
    """Whether this FROM is a query's: others are in `trim(FROM a)`, `extract(year FROM a)` and `a IS DISTINCT FROM b`."""
    begins = n == level.begin and keyword_at(tokens, n - 2) != "TRIM"
    return begins or (level.queries and keyword_at(tokens, n - 1) != "DISTINCT")


def _table_at(text: str, tokens: Sequence[Token], n: int) -> TableName | None:
    parts = _name_at(tokens, n)
    behind = n + 2 * len(parts) - 1
    is_path = len(parts) == 2 and parts[0].name.lower() == "delta" and parts[1].kind is Kind.NAME
    kind, begin, end = _time_travel(text, tokens, behind) if parts else ("", behind, behind)
    if not (is_path or kind):
        return None
    version = _version(tokens[(begin + end) // 2]) if kind == "version" else None
    timestamp = text[tokens[begin].start : tokens[end - 1].behind] if kind == "timestamp" else None
    return TableName(parts[0].start, tokens[end - 1].behind, tuple(part.name for part in parts), version, timestamp)


def _name_at(tokens: Sequence[Token], n: int) -> list[Token]:
    """The parts of the dotted name that begins at a place."""
    found: list[Token] = []
    while n < len(tokens) and is_name(tokens[n]):
        found.append(tokens[n])
        if n + 1 == len(tokens) or tokens[n + 1].text != ".":
            break
        n += 2
    return found


_TRAVEL = re.compile("(?:SYSTEM_)?(VERSION)|TIMESTAMP|SYSTEM_TIME")


def _time_travel(text: str, tokens: Sequence[Token], n: int) -> tuple[str, int, int]:
    """Whether `[FOR] VERSION AS OF ..` or `[FOR] TIMESTAMP AS OF ..` follows, and the places [begin, end) of what it says.

    Without one the kind is '' and both places are the given one.
    """
    begin = n + (keyword_at(tokens, n) == "FOR")
    word = _TRAVEL.fullmatch(keyword_at(tokens, begin))
    if word is None or [keyword_at(tokens, begin + 1), keyword_at(tokens, begin + 2)] != ["AS", "OF"] or begin + 3 >= len(tokens):
        return "", n, n
    kind, begin = "version" if word[1] else "timestamp", begin + 3
    end = _version_end(tokens, begin) if word[1] else _expression_end(text, tokens, begin)
    return (kind, begin, end) if end > begin else ("", n, n)


def _version_end(tokens: Sequence[Token], begin: int) -> int:
    """The place behind a number or text, which stands in parentheses where it is a parameter's value."""
    enclosed = keyword_at(tokens, begin) == "(" and keyword_at(tokens, begin + 2) == ")"
    return begin if _version(tokens[begin + enclosed]) is None else begin + 1 + 2 * enclosed


def _version(token: Token) -> str | None:
    """What a whole number or a text says, None for anything else."""
    if token.kind is Kind.STRING:
        return string_value(token)
    return token.text if token.kind is Kind.NUMBER and token.text.isdigit() else None


def _expression_end(text: str, tokens: Sequence[Token], begin: int) -> int:
    """The place behind the longest text that is an expression: a table's alias may follow it without any sign."""
    end, openers = begin, tuple[str, ...]()
    while end < len(tokens) and (openers or keyword_at(tokens, end) not in (")", ",", ";", "AS", "JOIN", "WHERE")):
        openers = opened(openers, keyword_at(tokens, end))
        end += 1
    while end > begin and parse(text[tokens[begin].start : tokens[end - 1].behind]) is None:
        end -= 1
    return end


def with_short_names(text: str, tables: Sequence[Sequence[str]], home: Callable[[], Sequence[str]]) -> str:
    """The text with columns qualified by these tables' names, in whole or in part, qualified by the names' last parts only.

    `home` says the catalog and the database of names that leave them out; it is asked when the text says more than such a name.
    """
    tokens = tokens_of(text) or []
    cuts = []
    for n in range(len(tokens)):
        if n and tokens[n - 1].text == ".":
            continue
        parts = _name_at(tokens, n)
        length = max((_qualifying(_lower(part.name for part in parts), _lower(table), home) for table in tables), default=0)
        if length:
            cuts.append((parts[0].start, parts[length - 1].start, ""))
    return replaced(text, cuts)


def _qualifying(parts: tuple[str, ...], table: tuple[str, ...], home: Callable[[], Sequence[str]]) -> int:
    """How many parts of a column's name are the table's, when those are several; 0 when they are not."""
    for length in range(min(max(len(table), 3), len(parts) - 1), 1, -1):
        said = parts[:length]
        if said == table[-length:]:
            return length
        if said[-len(table) :] == table and length > len(table) and said == (*_lower(home())[: 3 - len(table)], *table)[-length:]:
            return length
    return 0


def _lower(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(name.lower() for name in names)


def with_ctes(text: str, ctes: str) -> str:
    """The text with WITH queries known to each of its subqueries."""
    tokens = (tokens_of(text) or []) if ctes else []
    places, behind = [], 0
    for n in range(len(tokens)):
        if n < behind or not _opens_query(tokens, n):
            continue
        behind = partner(tokens, n)
        first, last = tokens[n + 1].start, tokens[min(behind, len(tokens) - 1)].start
        if keyword_at(tokens, n + 1) == "WITH":
            places += [(first, first, f"{ctes} ("), (last, last, ")")]
        else:
            places.append((first, first, f"{ctes} "))
    return replaced(text, places)


def _opens_query(tokens: Sequence[Token], n: int) -> bool:
    """Whether a query stands in the parenthesis at a place, not counting VALUES, which reads no table."""
    word = keyword_at(tokens, n + 1)
    if keyword_at(tokens, n) != "(" or word in ("SELECT", "WITH"):
        return keyword_at(tokens, n) == "("
    names_table = keyword_at(tokens, n + 2) == "(" or bool(_name_at(tokens, n + 2))
    return names_table and (word == "TABLE" or (word == "FROM" and keyword_at(tokens, n - 1) != "TRIM"))


def partner(tokens: Sequence[Token], n: int) -> int:
    """The place of what closes the parenthesis at a place, the end of the tokens when nothing does."""
    openers = opened((), keyword_at(tokens, n))
    while openers and (n := n + 1) < len(tokens):
        openers = opened(openers, keyword_at(tokens, n))
    return n
