"""Tables and queries within SQL text: where they stand, and the text with something else in their place.

Source: Spark's grammar, `relationPrimary`, `temporalClause`, `query`. Must not know tables or sessions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from deltamerge.spark.plans.attributes import quoted
from deltamerge.spark.sql.lexer import Kind, Token, is_name, string_value
from deltamerge.spark.sql.text import Openers, keyword_at, parse, replaced, tokens_of


@dataclass(frozen=True, slots=True)
class TableName:
    """A table that a query names, at the places [first, behind) of its text, and the version or time of it, as it is written.

    `has_name` says whether it goes by this name in the query, not by an alias, `is_plain` that it is neither delta.`path` nor
    at a version or time. An alias has its place at `alias`: behind the table, and behind its options and its sample. `options`
    are those of WITH, by their names in lower case, where they ask for a version, a time or changes: what stands for the table
    takes the place of WITH, too.
    """

    first: int
    behind: int
    parts: tuple[str, ...]
    version: str | None = None
    timestamp: str | None = None
    has_name: bool = True
    is_plain: bool = False
    alias: int = -1
    options: tuple[tuple[str, str], ...] = ()


def tables_in(text: str, plain: bool = False) -> list[TableName]:
    """The tables that queries in a text name as delta.`path`, and those of any name at a version or time.

    Also all others, if `plain`, but for those that WITH defines. Outside of queries delta.`name` is a column's name, as it is in
    them where no table can stand.
    """
    tokens = tokens_of(text) or []
    found = [table for n in _table_places(tokens) if (table := _table_at(text, tokens, n)) is not None]
    if not plain:
        return [table for table in found if not table.is_plain]
    defined = list(_defined(tokens))
    return [table for table in found if not (table.is_plain and any(query.hides(table) for query in defined))]


@dataclass(frozen=True, slots=True)
class _Defined:
    """A query of WITH: the name that it defines at the places [first, behind) of a text."""

    name: str
    first: int
    behind: int

    def hides(self, table: TableName) -> bool:
        """Whether the name stands for this query there, not for a table."""
        return self.first <= table.first < self.behind and [part.lower() for part in table.parts] == [self.name]


def _defined(tokens: Sequence[Token]) -> Iterator[_Defined]:
    """The queries of each WITH: from their own ends, if they are recursive their beginnings, to the end of the query around."""
    for n in range(len(tokens)):
        at = n + 1
        if keyword_at(tokens, n) != "WITH" or at >= len(tokens):
            continue
        recursive = keyword_at(tokens, at) == "RECURSIVE"
        at += recursive
        end = _end_of_level(tokens, n)
        while at < len(tokens) and is_name(tokens[at]):
            name, begin, at = tokens[at].name.lower(), at, at + 1
            at = _behind_definition(tokens, at)
            first = begin if recursive else min(at, len(tokens)) - 1
            yield _Defined(name, tokens[first].start, end)
            if keyword_at(tokens, at) != ",":
                break
            at += 1


def _behind_definition(tokens: Sequence[Token], at: int) -> int:
    """The place behind what follows a name in WITH: its columns, a limit of its recursion, AS, and a query in parentheses."""
    while keyword_at(tokens, at) in ("(", "AS") or keyword_at(tokens, at - 1) in ("MAX", "RECURSION", "LEVEL"):
        if keyword_at(tokens, at - 1) == "AS":
            return partner(tokens, at) + 1
        at = partner(tokens, at) + 1 if keyword_at(tokens, at) == "(" else at + 1
    return at


def _end_of_level(tokens: Sequence[Token], n: int) -> int:
    """The place in the text where the parenthesis around a token closes."""
    depth = 0
    for token in tokens[n:]:
        depth += (token.text == "(") - (token.text == ")")
        if depth < 0:
            return token.start
    return tokens[-1].behind


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
    parts = name_at(tokens, n)
    behind = n + 2 * len(parts) - 1
    is_path = len(parts) == 2 and parts[0].name.lower() == "delta" and parts[1].kind is Kind.NAME
    kind, begin, end = _time_travel(text, tokens, behind) if parts else ("", behind, behind)
    options, behind_options = _options_at(tokens, end) if parts else ((), end)
    if {name.lower() for name, _ in options}.isdisjoint((VERSION, TIMESTAMP, *FEED)):
        options, behind_options = (), end
    is_plain = not (is_path or kind or options)
    if is_plain and (not parts or keyword_at(tokens, n) in _NO_TABLES or keyword_at(tokens, behind) == "("):
        return None
    version = _version(tokens[(begin + end) // 2]) if kind == "version" else None
    timestamp = text[tokens[begin].start : tokens[end - 1].behind] if kind == "timestamp" else None
    names, has_name = tuple(part.name for part in parts), keyword_at(tokens, n - 1) != "TABLE" and alias_at(tokens, end) is None
    alias, last = tokens[_behind_sample(tokens, end) - 1].behind, tokens[behind_options - 1].behind
    return TableName(parts[0].start, last, names, version, timestamp, has_name, is_plain, alias, options)


# Options that decide what is read of a table, by their names in lower case.
VERSION, TIMESTAMP = "versionasof", "timestampasof"
FEED = ("readchangefeed", "readchangedata")


def _options_at(tokens: Sequence[Token], n: int) -> tuple[tuple[tuple[str, str], ...], int]:
    """The options `WITH ('name' = 'value', ..)` that follow, and the place behind them."""
    if keyword_at(tokens, n) != "WITH" or keyword_at(tokens, n + 1) != "(":
        return (), n
    behind = min(partner(tokens, n + 1) + 1, len(tokens))
    found: list[tuple[str, str]] = []
    part: list[str] = []
    for token in tokens[n + 2 : behind]:
        if token.text not in (",", ")"):
            text = string_value(token) if token.kind is Kind.STRING else None
            part += [] if token.text in ("=", "==") else [token.name if text is None else text]
        elif part:
            found.append((part[0], "".join(part[1:])))
            part = []
    return tuple(found), behind


# What may stand where a table can, and is none.
_NO_TABLES = ("FROM", "LATERAL", "MAP", "REDUCE", "SELECT", "STREAM", "TABLE", "VALUES", "WITH")
# What may follow a table without an alias.
_BEHIND = ("ANTI", "CLUSTER", "CROSS", "DISTRIBUTE", "EXCEPT", "FROM", "FULL", "GROUP", "HAVING", "INNER", "INTERSECT", "JOIN",
           "LATERAL", "LEFT", "LIMIT", "MAP", "MINUS", "NATURAL", "OFFSET", "ON", "ORDER", "PIVOT", "QUALIFY", "REDUCE", "RIGHT",
           "SELECT", "SEMI", "SETMINUS", "SORT", "UNION", "UNPIVOT", "USING", "WHERE", "WINDOW")  # fmt: skip


def alias_at(tokens: Sequence[Token], n: int) -> int | None:
    """The place of the alias of a table that ends before a place, options and a sample not counted; None where it has none."""
    n = _behind_sample(tokens, n)
    word = keyword_at(tokens, n)
    n, word = (n + 1, "") if word == "AS" else (n, word)
    return n if n < len(tokens) and is_name(tokens[n]) and word.partition(" ")[0] not in _BEHIND else None


def _behind_sample(tokens: Sequence[Token], n: int) -> int:
    """The place behind the options and the sample of a table that ends before a place."""
    while keyword_at(tokens, n) in ("WITH", "TABLESAMPLE", "REPEATABLE"):
        while n < len(tokens) and keyword_at(tokens, n) != "(":
            n += 1
        n = min(partner(tokens, n) + 1, len(tokens))
    return n


def name_at(tokens: Sequence[Token], n: int) -> list[Token]:
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
    end, openers = begin, Openers()
    while end < len(tokens) and (openers or keyword_at(tokens, end) not in (")", ",", ";", "AS", "JOIN", "WHERE")):
        openers.read(keyword_at(tokens, end))
        end += 1
    while end > begin and parse(text[tokens[begin].start : tokens[end - 1].behind]) is None:
        end -= 1
    return end


@dataclass(frozen=True, slots=True)
class StandIn:
    """A view that stands for a table which a text names, and all parts of that table's name."""

    table: TableName
    name: tuple[str, ...]
    view: str


def with_stand_ins(text: str, views: Sequence[StandIn], edits: Sequence[tuple[int, int, str]] = ()) -> str:
    """The text with views in place of tables, and other edits. They go by the tables' names, as far as those qualify columns.

    Columns that are qualified by more than the last part of such a name lose the rest, unless something else goes by that part:
    then they stay, and Spark does not find them.
    """
    tokens, unaliased = tokens_of(text) or [], {view.name for view in views if view.table.has_name}
    taken = _other_names(text, tokens, [view.table for view in views]) | _repeated(name[-1].lower() for name in unaliased)
    places = [*edits, *(place for view in views for place in _places(view))]
    for n in range(len(tokens)):
        parts = name_at(tokens, n)
        if keyword_at(tokens, n - 1) == "." or any(first <= tokens[n].start < behind for first, behind, _ in places):
            continue
        behind = n + 2 * len(parts)
        is_star = bool(parts) and [token.text for token in tokens[behind - 1 : behind + 1]] == [".", "*"]
        names = _lower([*(part.name for part in parts), *["*"] * is_star])
        length = max((_qualifying(names, _lower(name)) for name in unaliased if name[-1].lower() not in taken), default=0)
        if length:
            places.append((parts[0].start, parts[length - 1].start, ""))
    return replaced(text, places)


def _places(view: StandIn) -> list[tuple[int, int, str]]:
    """Where the view and the alias are put that it needs."""
    table, alias = view.table, f" AS {quoted(view.name[-1])}" if view.table.has_name else ""
    if not alias or table.alias <= table.behind:
        return [(table.first, table.behind, view.view + alias)]
    return [(table.first, table.behind, view.view), (table.alias, table.alias, alias)]


def _other_names(text: str, tokens: Sequence[Token], tables: Sequence[TableName]) -> frozenset[str]:
    """What a text calls by one name, such as columns and aliases, and the last parts of the names of all but some `tables`."""
    known = [table.first for table in tables]
    found = {table.parts[-1].lower() for table in tables_in(text, plain=True) if table.first not in known}
    for n in range(len(tokens)):
        inside = any(table.first <= tokens[n].start < table.behind for table in tables)
        if not inside and keyword_at(tokens, n - 1) != "." and len(name_at(tokens, n)) == 1:
            found.add(tokens[n].name.lower())
    return frozenset(found)


def _repeated(names: Iterable[str]) -> frozenset[str]:
    return frozenset(name for name, count in Counter(names).items() if count > 1)


def _qualifying(parts: tuple[str, ...], table: tuple[str, ...]) -> int:
    """How many parts of a column's name are the table's, when those are several; 0 when they are not."""
    lengths = range(min(len(table), len(parts) - 1), 1, -1)
    return next((length for length in lengths if parts[:length] == table[-length:]), 0)


def _lower(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(name.lower() for name in names)


def with_ctes(text: str, ctes: str) -> str:
    """The text with WITH queries known to each of its subqueries."""
    tokens = (tokens_of(text) or []) if ctes else []
    places, behind = [], 0
    for n in range(len(tokens)):
        if n < behind or not (opens_query(tokens, n) or _opens_union(tokens, n)):
            continue
        behind = partner(tokens, n)
        first, last = tokens[n + 1].start, tokens[min(behind, len(tokens) - 1)].start
        if keyword_at(tokens, n + 1) == "WITH":
            places += [(first, first, f"{ctes} ("), (last, last, ")")]
        else:
            places.append((first, first, f"{ctes} "))
    return replaced(text, places)


def query_with_ctes(query: str, ctes: str) -> str:
    """A whole query, to which WITH queries are known, in parentheses."""
    begins = keyword_at(tokens_of(query) or [], 0)
    return f"({ctes} ({query}))" if ctes and begins == "WITH" else f"({ctes} {query})" if ctes else f"({query})"


_UNIONS = ("UNION", "EXCEPT", "INTERSECT", "MINUS", "SETMINUS")


def _opens_union(tokens: Sequence[Token], n: int) -> bool:
    """Whether a query stands in the parenthesis at a place that begins with VALUES or a query in parentheses of its own, and of
    which another part has none.
    """
    if keyword_at(tokens, n) != "(" or keyword_at(tokens, n + 1) not in ("(", "VALUES"):
        return False
    openers = Openers()
    for at in range(n + 1, partner(tokens, n)):
        behind = at + 1 + (keyword_at(tokens, at + 1) in ("ALL", "DISTINCT"))
        if not openers and keyword_at(tokens, at) in _UNIONS and keyword_at(tokens, behind) in ("SELECT", "FROM", "TABLE"):
            return True
        openers.read(keyword_at(tokens, at))
    return False


def opens_query(tokens: Sequence[Token], n: int) -> bool:
    """Whether a query stands in the parenthesis at a place, not counting VALUES, which reads no table."""
    word = keyword_at(tokens, n + 1)
    if keyword_at(tokens, n) != "(" or word in ("SELECT", "WITH"):
        return keyword_at(tokens, n) == "("
    names_table = keyword_at(tokens, n + 2) == "(" or bool(name_at(tokens, n + 2))
    return names_table and (word == "TABLE" or (word == "FROM" and keyword_at(tokens, n - 1) != "TRIM"))


def partner(tokens: Sequence[Token], n: int) -> int:
    """The place of what closes the parenthesis at a place, the end of the tokens when nothing does."""
    openers = Openers()
    openers.read(keyword_at(tokens, n))
    while openers and (n := n + 1) < len(tokens):
        openers.read(keyword_at(tokens, n))
    return n
