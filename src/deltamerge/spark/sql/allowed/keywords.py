"""The keywords and signs of Spark's expressions, by where they stand. Source: Spark's SqlBaseParser.g4 of 4.0 to 4.3."""

from __future__ import annotations

# Signs that no expression begins with: the word before one is a column.
_BEHIND = ") , . [ ] = == <=> <> != < <= > >= / % & | ^ || << >> >>> -> ::"
BEHIND_COLUMNS = frozenset(_BEHIND.split())
# Between two values.
_BETWEEN_ARGUMENTS = frozenset({"ESCAPE", "FROM", "FOR", "PLACING"})
OF_CASE = frozenset({"WHEN", "THEN", "ELSE"})
_SIGNS = "= == <=> <> != !< !> < <= > >= + - * / % & | ^ || << >> >>>"
PATTERNS = frozenset({"LIKE", "ILIKE", "RLIKE", "REGEXP"})
OPERATORS = _BETWEEN_ARGUMENTS | PATTERNS | {*_SIGNS.split(), "AND", "OR", "DIV", "IN", "BETWEEN"}
PREFIXES = frozenset({"+", "-", "~", "!"})
# Behind a NOT that may begin a condition each of them may be a name, or an operator behind a column of the name NOT.
AMBIGUOUS = PATTERNS | {"AND", "OR", "DIV", "IN", "BETWEEN"}
CONSTANTS = frozenset({"NULL", "TRUE", "FALSE"})
_LITERAL_WORDS = "DATE TIME TIMESTAMP TIMESTAMP_LTZ TIMESTAMP_NTZ X"
LITERALS = frozenset(_LITERAL_WORDS.split())  # before a text
_PARTS = "YEAR MONTH WEEK DAY HOUR MINUTE SECOND MILLISECOND MICROSECOND NANOSECOND"
INTERVAL_UNITS = frozenset(unit for part in _PARTS.split() for unit in (part, f"{part}S"))
UNITS = INTERVAL_UNITS | {"QUARTER", "DAYOFYEAR"}
_UNIT_FUNCTIONS = "DATEADD DATE_ADD DATEDIFF DATE_DIFF"
_ONLY_WITH_UNITS = "TIMEDIFF TIMESTAMPADD TIMESTAMPDIFF"
NEED_UNITS = frozenset(_ONLY_WITH_UNITS.split())
TAKE_UNITS = NEED_UNITS | set(_UNIT_FUNCTIONS.split())
SIDES = frozenset({"BOTH", "LEADING", "TRAILING"})
_CAST_WORDS = "CAST TRY_CAST"
CASTS = frozenset(_CAST_WORDS.split())
QUANTIFIERS = frozenset({"ALL", "ANY", "SOME"})
# Keywords before a parenthesis that would be functions of users there: where a value is expected, none of them stands.
_NEVER_CALLED = """
AS BOTH BY CASE CHARACTER DEC DISTINCT ELSE END ESCAPE FOR FROM INTERVAL IS LEADING NULL NUMERIC ON PLACING THEN TIMESTAMP_LTZ
TIMESTAMP_NTZ TO TRAILING VARCHAR WITH
"""
NO_FUNCTIONS = frozenset(_NEVER_CALLED.split())
CLOSED_BY = {"(": ")", "[": "]", "CASE": "END"}
# What Spark takes for functions without parentheses, where no column has the name.
ALONE = frozenset({"current_date", "current_time", "current_timestamp", "current_user", "session_user", "user"})
