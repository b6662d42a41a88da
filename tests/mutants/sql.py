"""Breaks of what SQL text of a table's metadata may do."""

from __future__ import annotations

from tests.mutants.base import Break

_FILE, _TESTS = "spark/sql/functions.py", "spark/sql/test_functions.py"

SQL = (
    Break(
        "a query of a table's metadata passes if a sign follows its first word",
        _FILE,
        "return token.upper in _OF_EXPRESSIONS and following.text not in _BEHIND_COLUMNS",
        "return token.upper in _OF_EXPRESSIONS and following.kind is not Kind.SIGN",
        _TESTS,
    ),
    Break("a table's metadata runs commands", _FILE, 'if token.upper == "USING" and', "if False and", _TESTS),
    Break("a function between double quotes passes", _FILE, """ or token.text.startswith('"')""", "", _TESTS),
    Break(
        "what is between double quotes is taken for a keyword",
        _FILE,
        "token.kind is not Kind.WORD",
        "token.kind is Kind.NAME",
        _TESTS,
    ),
    Break("a relation between parentheses passes", _FILE, """ or following.text == "("\n""", "\n", _TESTS),
    Break("a query that is the whole text passes", _FILE, "(n == 0 or tokens[n - 1]", "(n and tokens[n - 1]", _TESTS),
)
