"""MERGE text as data: where its clauses begin and end. Expressions stay the text that the user wrote; Spark parses them.

Source: Spark's grammar, `dmlStatementNoWith`; `* EXCEPT (..)` as Databricks has it. Must not know tables or sessions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from deltamerge.errors import ParseError
from deltamerge.merge.statement.clauses import Action, ClauseKind
from deltamerge.spark.sql.lexer import NoTokenError, lexed
from deltamerge.spark.sql.reader import Reader
from deltamerge.spark.sql.text import name_parts_of


@dataclass(frozen=True, slots=True)
class SqlClause:
    """A WHEN clause in text; an assignment without a value is to the column's DEFAULT."""

    kind: ClauseKind
    action: Action
    condition: str | None
    assignments: tuple[tuple[str, str | None], ...] = ()
    star: bool = False
    excluded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Statement:
    """A MERGE statement in text. `target` and `source` are names, unless the source is a query; `ctes` begins with WITH.

    `target` is () where IDENTIFIER(..) is yet to be evaluated.
    """

    target: tuple[str, ...]
    target_alias: str | None
    source: str
    source_is_query: bool
    source_alias: str | None
    condition: str
    clauses: tuple[SqlClause, ...]
    ctes: str = ""
    with_schema_evolution: bool = False
    explain: bool = False


def says_merge(text: str) -> bool:
    """Whether the word MERGE stands in the text, so that it may be a MERGE statement."""
    return "MERGE" in text.upper()


def parse_merge(text: str) -> Statement | None:
    """The statement that a text is; None when it is no MERGE. Raises ParseError that shows the place."""
    try:
        tokens, broken = lexed(text), None
    except NoTokenError as error:
        tokens, broken = error.before, error
    reader = Reader(text, tokens)
    explain = reader.take("EXPLAIN")
    if explain:
        next((form for form in _EXPLAINED if reader.take(form)), None)
    try:
        ctes = reader.ctes() if reader.sees("WITH") else ""
    except ParseError:  # it may be any statement: Spark says what is wrong with it
        return None
    if not reader.take("MERGE"):
        return None
    if broken is not None:
        raise reader.error("PARSE_SYNTAX_ERROR", "Syntax error", _broken(broken.found), broken)
    return _statement(reader, ctes, explain)


_EXPLAINED = ("EXTENDED", "FORMATTED", "COST", "CODEGEN")


def _broken(found: str) -> str:
    if found == "/*":
        return "The comment is not closed; a comment within it needs an end of its own."
    if found in ("'", '"', "`"):
        return "The quote is not closed; a backslash takes the quote behind it for a character."
    if found.isalpha():
        return "Write a name with other characters than A to Z, digits and _ between backquotes."
    return "Write text between quotes, and a name with such characters between backquotes."


def _statement(reader: Reader, ctes: str, explain: bool) -> Statement:
    evolution = reader.take("WITH")
    if evolution:
        reader.expect("SCHEMA")
        reader.expect("EVOLUTION")
    reader.expect("INTO")
    target = name_parts_of(reader.name_text())
    target_alias = reader.alias("USING")
    reader.expect("USING")
    is_query = reader.sees("(")
    source = reader.enclosed() if is_query else reader.name_text()
    if not is_query and reader.sees("("):
        hint = "Write a table-valued function as a query, as in USING (SELECT * FROM range(5)) s."
        raise reader.error("PARSE_SYNTAX_ERROR", "Syntax error", hint)
    source_alias = reader.alias("ON")
    reader.expect("ON")
    condition = reader.expression(",", "WHEN")
    clauses, places = [], []
    while reader.take("WHEN"):
        places.append(reader.behind - 1)
        clauses.append(_clause(reader))
    reader.end()
    _check_clauses(reader, clauses, places)
    return Statement(target, target_alias, source, is_query, source_alias, condition, tuple(clauses), ctes, evolution, explain)


_ORDER = tuple(ClauseKind)
_ACTIONS = {
    ClauseKind.MATCHED: (Action.UPDATE, Action.DELETE),
    ClauseKind.NOT_MATCHED: (Action.INSERT,),
    ClauseKind.BY_SOURCE: (Action.UPDATE, Action.DELETE),
}


def _clause(reader: Reader) -> SqlClause:
    kind = ClauseKind.NOT_MATCHED if reader.take("NOT") or reader.take("!") else ClauseKind.MATCHED
    reader.expect("MATCHED")
    if kind is ClauseKind.NOT_MATCHED and reader.take("BY"):
        if reader.take("SOURCE"):
            kind = ClauseKind.BY_SOURCE
        else:
            reader.expect("TARGET")
    condition = reader.expression(",", "THEN") if reader.take("AND") else None
    reader.expect("THEN")
    action = next((action for action in _ACTIONS[kind] if reader.take(action.name)), None)
    if action is None:
        allowed = " or ".join(action.name for action in _ACTIONS[kind])
        raise reader.error("PARSE_SYNTAX_ERROR", f"WHEN {kind.value} is followed by THEN {allowed}")
    if action is Action.DELETE:
        return SqlClause(kind, action, condition)
    if action is Action.UPDATE:
        reader.expect("SET")
    if kind is not ClauseKind.BY_SOURCE and reader.take("*"):
        return SqlClause(kind, action, condition, star=True, excluded=_excluded(reader))
    pairs = set_list(reader, "WHEN") if action is Action.UPDATE else _insert_lists(reader)
    return SqlClause(kind, action, condition, pairs)


def _excluded(reader: Reader) -> tuple[str, ...]:
    return tuple(reader.listed(reader.name_text)) if reader.take("EXCEPT") else ()


def set_list(reader: Reader, end: str) -> tuple[tuple[str, str | None], ...]:
    """The columns and values of SET, up to a word; None for DEFAULT."""
    found = []
    while True:
        column = reader.name_text()
        if not reader.take("=="):
            reader.expect("=")
        found.append((column, reader.value(end)))
        if not reader.take(","):
            return tuple(found)


def _insert_lists(reader: Reader) -> tuple[tuple[str, str | None], ...]:
    columns = reader.listed(reader.name_text)
    reader.expect("VALUES")
    values = reader.listed(reader.value)
    if len(columns) != len(values):
        message = f"The INSERT clause names {len(columns)} columns and gives {len(values)} values"
        raise reader.error("MERGE_INSERT_VALUE_COUNT_MISMATCH", message)
    return tuple(zip(columns, values, strict=True))


def _check_clauses(reader: Reader, clauses: Sequence[SqlClause], places: Sequence[int]) -> None:
    """Raise ParseError, which points at the clause that is wrong; the clauses begin at these `places` among the tokens."""
    if not clauses:
        raise reader.error("MERGE_WITHOUT_WHEN", "There must be at least one WHEN clause in a MERGE statement")
    for (before, after), (first, second) in zip(pairwise(clauses), pairwise(places), strict=True):
        if _ORDER.index(before.kind) > _ORDER.index(after.kind):
            reader.go_to(second)
            message = f"WHEN {after.kind.value} must come before WHEN {before.kind.value}"
            hint = "SQL wants WHEN MATCHED clauses first, then WHEN NOT MATCHED, then WHEN NOT MATCHED BY SOURCE."
            raise reader.error("PARSE_SYNTAX_ERROR", message, hint)
        if before.kind is after.kind and before.condition is None:
            reader.go_to(first)
            words = "NOT_MATCHED_BY_TARGET" if before.kind is ClauseKind.NOT_MATCHED else before.kind.value.replace(" ", "_")
            message = f"Of several WHEN {before.kind.value} clauses only the last can omit the condition"
            raise reader.error(f"NON_LAST_{words}_CLAUSE_OMIT_CONDITION", message)
