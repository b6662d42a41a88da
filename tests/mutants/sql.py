"""Breaks of what SQL text of a table's metadata may do."""

from __future__ import annotations

from tests.mutants.base import Break

_FILE, _TESTS = "spark/sql/allowed/functions.py", "spark/sql/allowed/test_functions.py"
_NAMES = "spark/sql/allowed/operands.py"

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
    Break("the unit of two arguments is no column", _NAMES, ' and self._count(",", begin, end) == 2', "", _TESTS),
    Break("a side of TRIM is never a column", _NAMES, ' and self._count("FROM", begin, end):', ":", _TESTS),
    Break(
        "double quotes enclose texts in each session", _NAMES, "(self._columns.reading.double_quotes and ", "(False and ", _TESTS
    ),
    Break(
        "case never tells names apart",
        _NAMES,
        "name if self.reading.case_sensitive else name.translate(_FOLDED)",
        "name.translate(_FOLDED)",
        _TESTS,
    ),
    Break("a field's alias may follow any value", _NAMES, '(self._open[-1].word == "STRUCT" and', "(True and", _TESTS),
    Break(
        "NOT begins a condition anywhere", _NAMES, "return self._may_be_condition and not is_name", "return not is_name", _TESTS
    ),
    Break("CASE needs no END", "spark/sql/allowed/pairs.py", "{place} if has_when else set()", "{place}", _TESTS),
    Break("an amount needs no unit", _NAMES, "not has_sign and self._is_text(ahead) else None", "True else None", _TESTS),
    Break("keywords are called as functions", _NAMES, "if word in NO_FUNCTIONS or", "if False or", _TESTS),
    Break(
        "a generated column may name one that is generated",
        "spark/expressions/metadata_sql.py",
        " if GENERATED not in field.metadata]",
        "]",
        "spark/expressions/test_metadata_sql.py",
    ),
)
