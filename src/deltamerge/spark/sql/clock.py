"""The functions that ask for the time of a statement, in SQL text and in plans as Spark prints them."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta

from deltamerge.spark.sql.lexer import Token, is_name
from deltamerge.spark.sql.tables import partner
from deltamerge.spark.sql.text import keyword_at, replaced, tokens_of

# Each with the text of its value, of the time as a timestamp and in whole seconds.
_VALUES = {
    "current_timestamp": "{time}",
    "now": "{time}",
    "current_date": "CAST({time} AS DATE)",
    "curdate": "CAST({time} AS DATE)",
    "localtimestamp": "CAST({time} AS TIMESTAMP_NTZ)",
    "unix_timestamp": "{seconds}L",
    "current_time": "CAST(date_format({time}, 'HH:mm:ss{fraction}') AS TIME({precision}))",
}
CLOCKS = frozenset(_VALUES)
# Those that Spark takes for the function without parentheses, too, where no column has the name.
_WORDS = frozenset({"current_timestamp", "current_date", "current_time"})
# Spark takes these texts for the time where they are made a time (its rule SpecialDatetimeValues).
_MOMENTS = r"\s*(?:now|today|tomorrow|yesterday)\s*"
_ASKED = re.compile(r"\b(?:current_timestamp|now|current_date|localtimestamp|current_time)\(", re.IGNORECASE)
_MOMENT = re.compile(
    rf"\b(?:try_)?cast\({_MOMENTS} as (?:timestamp|date)|\b(?:try_)?to_(?:timestamp|date)(?:_ltz|_ntz)?\({_MOMENTS}[,)]",
    re.IGNORECASE,
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def asks_time(plan: str) -> bool:
    """Whether a plan that Spark has analyzed, as it prints it, may ask for the time of its statement."""
    return _ASKED.search(plan) is not None


def has_moment(plan: str) -> bool:
    """Whether a plan that Spark has analyzed, as it prints it, has a text such as 'now' that is cast to the moment it stands for.

    That is no time of a statement: each such text is a moment of its own, when Spark plans the query.
    """
    return _MOMENT.search(plan) is not None


def at_time(text: str, micros: int, own: Collection[str], columns: Collection[str]) -> str:
    """The text with each function of `own`, which ask for the time, replaced by what it is at `micros` since 1970.

    A word without parentheses stays where it may be something else: one of the `columns` (in lower case), a lambda's variable, or
    a column of a subquery's tables.
    """
    tokens = tokens_of(text) or []
    hides = any(token.upper in ("SELECT", "->") for token in tokens)
    found = []
    for n, token in enumerate(tokens):
        word = token.name.lower() if is_name(token) else ""
        start = _start(tokens, n)
        if word not in own or keyword_at(tokens, start - 1) == ".":
            continue
        if keyword_at(tokens, n + 1) == "(":
            last = partner(tokens, n + 1)
            arguments = [token.text for token in tokens[n + 2 : last]]
            if last < len(tokens) and (not arguments or (word == "current_time" and _are_digits(arguments))):
                found.append((tokens[start].start, tokens[last].behind, _value(word, micros, arguments)))
        elif word in _WORDS and start == n and not hides and word not in columns and not _is_name_here(tokens, n):
            named = _names_a_field(tokens, n)
            if named is not None:
                found.append((token.start, token.behind, _value(word, micros, []) + (f" AS `{token.name}`" if named else "")))
    return replaced(text, found)


def _start(tokens: Sequence[Token], n: int) -> int:
    """The token at which a function's name starts: Spark's own may stand with the schema `builtin` of the catalog `system`."""
    for schema in ("SYSTEM.BUILTIN.", "BUILTIN."):
        said = "".join(token.upper for token in tokens[max(0, n - schema.count(".") * 2) : n])
        if said == schema:
            return n - schema.count(".") * 2
    return n


def _is_name_here(tokens: Sequence[Token], n: int) -> bool:
    """Whether a word stands where a name does: before a dot, as an alias, or as the name of an argument."""
    return keyword_at(tokens, n + 1) in (".", "=>") or keyword_at(tokens, n - 1) == "AS"


def _names_a_field(tokens: Sequence[Token], n: int) -> bool | None:
    """Whether a word without parentheses is an argument of STRUCT, which names a field by it; None where no alias can say so."""
    if keyword_at(tokens, n - 1) not in ("(", ",") or keyword_at(tokens, n + 1) not in (")", ","):
        return False
    opening = next((m for m in range(n - 1, -1, -1) if keyword_at(tokens, m) == "(" and partner(tokens, m) > n), 0)
    if not opening or tokens[opening - 1].name.lower() != "struct":
        return False
    # The grammar knows aliases in STRUCT(..) alone: not where the function's name is quoted, or has its schema before it.
    return True if keyword_at(tokens, opening - 1) == "STRUCT" else None


def _are_digits(arguments: Sequence[str]) -> bool:
    return len(arguments) == 1 and arguments[0].isdecimal()


def _value(word: str, micros: int, arguments: Sequence[str]) -> str:
    moment = _EPOCH + timedelta(microseconds=micros)
    precision = int(arguments[0]) if arguments else 6
    value = _VALUES[word].format(
        time=f"TIMESTAMP_LTZ '{moment:%Y-%m-%d %H:%M:%S.%f}Z'",
        seconds=micros // 1_000_000,
        fraction="." + "S" * precision if precision else "",
        precision=precision,
    )
    return f"({value})"
