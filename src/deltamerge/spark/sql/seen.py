"""SQL text as this session reads it; what it reads otherwise than sqlglot does is not seen into."""

from __future__ import annotations

from sqlglot import exp

from deltamerge.spark.session.frames import Session
from deltamerge.spark.session.settings import RESERVED_WORDS, setting
from deltamerge.spark.sql.text import parse, words_of

# What stands in a text in small letters, the setting under which Spark reads it otherwise, and that setting's default.
_READINGS = (
    ('"', "spark.sql.ansi.doubleQuotedIdentifiers", "false"),
    ("`", "spark.sql.parser.quotedRegexColumnNames", "false"),
    ("'", "spark.sql.parser.escapedStringLiterals", "false"),  # R'..' is no raw text then
    ('"', "spark.sql.parser.escapedStringLiterals", "false"),
    ("user", RESERVED_WORDS, "false"),  # whoever runs the query, and no column
    ("${", "spark.sql.variable.substitute", "true"),
)


def seen(text: str) -> exp.Expression | None:
    """The tree of an expression; None when it does not parse, or may be another one to Spark: `IDENTIFIER(..)` names anything."""
    small = text.lower()
    if any(mark in small and setting(Session.active(), key, default).lower() == "true" for mark, key, default in _READINGS):
        return None
    return None if words_of(text) is None else parse(text)
