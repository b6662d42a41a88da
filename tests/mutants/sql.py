"""Breaks of what SQL text of a table's metadata may do."""

from __future__ import annotations

from tests.mutants.base import Break

_FILE, _TESTS = "spark/sql/functions.py", "spark/sql/test_functions.py"
_NAMES = "spark/sql/operands.py"

SQL = (
    Break(
        "a query of a table's metadata passes if a sign follows its first word",
        _FILE,
        "return token.upper in _OF_EXPRESSIONS and following.text not in BEHIND_COLUMNS",
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
    Break(
        "text that has no tokens passes",
        _FILE,
        "    if tokens is None:\n        return text\n",
        "    tokens = tokens or []\n",
        _TESTS,
    ),
    Break(
        "a variable of which nothing is left hides what Spark reads",
        _FILE,
        '_VARIABLE = "${"',
        '_VARIABLE = "${e"',
        _TESTS,
    ),
    Break("any name is a column", _NAMES, "        if name not in self._columns and", "        if False and", _TESTS),
    Break(
        "a variable of a lambda function is one behind it, too",
        _NAMES,
        "self._variables.subtract(self._open[-1].variables)",
        "pass",
        _TESTS,
    ),
    Break("the unit of two arguments is no column", _NAMES, "        return commas == 2", "        return True", _TESTS),
    Break("a side of TRIM is never a column", _NAMES, " and self._word(1) not in BEHIND_COLUMNS:", ":", _TESTS),
    Break("double quotes enclose texts in each session", _NAMES, "(self._columns.quotes and ", "(False and ", _TESTS),
    Break("case never tells names apart", _NAMES, "name if self.case_sensitive else name.lower()", "name.lower()", _TESTS),
    Break("a field's alias may follow any value", _NAMES, '(self._open[-1].word == "STRUCT" and', "(True and", _TESTS),
    Break(
        "a generated column may name one that is generated",
        "spark/expressions/metadata_sql.py",
        " if GENERATED not in field.metadata]",
        "]",
        "spark/expressions/test_metadata_sql.py",
    ),
)
