"""MERGE text as data: where its clauses begin and end. Expressions stay the text that the user wrote; Spark parses them.

Source: Spark's grammar, `dmlStatementNoWith`; `* EXCEPT (..)` as Databricks has it. Must not know tables or sessions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from deltamerge.errors import ParseError
from deltamerge.merge.statement.clauses import Action, ClauseKind
from deltamerge.spark.sql.lexer import NoTokenError, Token, is_name, lexed
from deltamerge.spark.sql.text import keyword_at, makes_name, name_parts_of, opened

T = TypeVar("T")


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
    reader = _Reader(text, tokens)
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


def _statement(reader: _Reader, ctes: str, explain: bool) -> Statement:
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
    while reader.take(";"):
        pass
    if not reader.done:
        raise reader.error("PARSE_SYNTAX_ERROR", "Syntax error")
    _check_clauses(reader, clauses, places)
    return Statement(target, target_alias, source, is_query, source_alias, condition, tuple(clauses), ctes, evolution, explain)


_ORDER = tuple(ClauseKind)
_ACTIONS = {
    ClauseKind.MATCHED: (Action.UPDATE, Action.DELETE),
    ClauseKind.NOT_MATCHED: (Action.INSERT,),
    ClauseKind.BY_SOURCE: (Action.UPDATE, Action.DELETE),
}


def _clause(reader: _Reader) -> SqlClause:
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
    pairs = _set_list(reader) if action is Action.UPDATE else _insert_lists(reader)
    return SqlClause(kind, action, condition, pairs)


def _excluded(reader: _Reader) -> tuple[str, ...]:
    return tuple(reader.listed(reader.name_text)) if reader.take("EXCEPT") else ()


def _set_list(reader: _Reader) -> tuple[tuple[str, str | None], ...]:
    found = []
    while True:
        column = reader.name_text()
        if not reader.take("=="):
            reader.expect("=")
        found.append((column, reader.value("WHEN")))
        if not reader.take(","):
            return tuple(found)


def _insert_lists(reader: _Reader) -> tuple[tuple[str, str | None], ...]:
    columns = reader.listed(reader.name_text)
    reader.expect("VALUES")
    values = reader.listed(reader.value)
    if len(columns) != len(values):
        message = f"The INSERT clause names {len(columns)} columns and gives {len(values)} values"
        raise reader.error("MERGE_INSERT_VALUE_COUNT_MISMATCH", message)
    return tuple(zip(columns, values, strict=True))


def _check_clauses(reader: _Reader, clauses: Sequence[SqlClause], places: Sequence[int]) -> None:
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


# Spark's `strictNonReserved`.
_NO_ALIASES = (
    "ANTI",
    "CROSS",
    "EXCEPT",
    "FULL",
    "INNER",
    "INTERSECT",
    "JOIN",
    "LATERAL",
    "LEFT",
    "MINUS",
    "NATURAL",
    "ON",
    "RIGHT",
    "SEMI",
    "UNION",
    "USING",
)
_COMPLEX_TYPES = ("ARRAY", "MAP", "STRUCT")


class _Reader:
    """The tokens of a text, one after the other."""

    def __init__(self, text: str, tokens: Sequence[Token]) -> None:
        self._text = text
        self._tokens = tokens
        self._at = 0

    @property
    def done(self) -> bool:
        return self._at >= len(self._tokens)

    @property
    def behind(self) -> int:
        """The number of tokens that are read."""
        return self._at

    def go_to(self, place: int) -> None:
        """Read on from a token."""
        self._at = place

    def sees(self, word: str, ahead: int = 0) -> bool:
        """Whether the next token is this keyword or sign; a quoted name or a part of a dotted one is neither."""
        return keyword_at(self._tokens, self._at + ahead) == word

    def take(self, word: str) -> bool:
        found = self.sees(word)
        self._at += found
        return found

    def expect(self, word: str) -> None:
        if not self.take(word):
            raise self.error("PARSE_SYNTAX_ERROR", f"Syntax error: {word} expected")

    def ctes(self) -> str:
        """WITH and its queries."""
        begin = self._at
        self.expect("WITH")
        self.take("RECURSIVE")
        self._named_query()
        while self.take(","):
            self._named_query()
        return self._slice(begin, self._at)

    def _named_query(self) -> None:
        """A name with whatever says what it stands for: `(columns)`, `MAX RECURSION LEVEL n`, AS, `(query)`."""
        self._part()
        while self.sees("(") or self.take("AS") or self._takes_limit():
            if self.sees("("):
                self.enclosed()

    def _takes_limit(self) -> bool:
        found = self.sees("MAX") and self.sees("RECURSION", 1)
        self._at += 4 * found
        return found

    def name_text(self) -> str:
        """A name as it is written."""
        begin = self._at
        self._part_or_identifier()
        while self.take("."):
            self._part_or_identifier()
        return self._slice(begin, self._at)

    def _part_or_identifier(self) -> None:
        made = not self.done and makes_name(self._tokens, self._at)
        self._part()
        if made:
            self.enclosed()

    def _part(self) -> str:
        if self.done or not is_name(self._token):
            raise self.error("PARSE_SYNTAX_ERROR", "Syntax error: a name expected")
        self._at += 1
        return self._tokens[self._at - 1].name

    def alias(self, follows: str) -> str | None:
        """An alias before the keyword that follows it."""
        if not self.take("AS") and self.sees(follows):
            return None
        if any(self.sees(word) for word in _NO_ALIASES):
            raise self.error("PARSE_SYNTAX_ERROR", "Syntax error: an alias expected", "Write such an alias between backquotes.")
        found = None if self.sees("(") else self._part()
        if self.sees("("):
            raise self.error("COLUMN_ALIASES_NOT_ALLOWED", "Column aliases are not allowed in MERGE")
        return found

    def enclosed(self) -> str:
        """The text between a parenthesis and its partner."""
        self.expect("(")
        begin = self._at
        self._skip(lambda: self.sees(")"))
        inner = self._slice(begin, self._at)
        self.expect(")")
        return inner

    def listed(self, item: Callable[[], T]) -> list[T]:
        """Items in parentheses, separated by commas."""
        self.expect("(")
        found = [item()]
        while self.take(","):
            found.append(item())
        self.expect(")")
        return found

    def value(self, *ends: str) -> str | None:
        """An expression up to a comma, a closing parenthesis or an end word; None for DEFAULT."""
        begin = self._at
        if self.take("DEFAULT") and (self.done or any(self.sees(end) for end in (",", ")", ";", *ends))):
            return None
        self._at = begin
        return self.expression(",", *ends)

    def expression(self, *ends: str) -> str:
        """The text up to one of these words, or what closes nothing, outside of parentheses and CASE."""
        begin = self._at
        self._skip(lambda: any(self.sees(end) for end in (";", ")", "]", *ends)))
        if begin == self._at:
            raise self.error("PARSE_SYNTAX_ERROR", "Syntax error: an expression expected")
        found = self._slice(begin, self._at)
        if [token.text for token in lexed(found)] != [token.text for token in self._tokens[begin : self._at]]:
            self._at = begin  # `array(a)` takes the next >> for the ends of two types
            raise self.error("PARSE_SYNTAX_ERROR", "Syntax error: >> behind array, map or struct", "Write shiftright(a, b).")
        return found

    def _skip(self, ends: Callable[[], bool]) -> None:
        openers: tuple[str, ...] = ()
        while not self.done and (openers or not ends()):
            if {*openers} == {"CASE"} and (self.sees(",") or self.sees(";")):
                break
            openers = opened(openers, keyword_at(self._tokens, self._at))
            self._at += 1
            if self.sees("<") and self.sees("::", -2) and any(self.sees(type, -1) for type in _COMPLEX_TYPES):
                self._skip_type()
        if openers:
            hint = "Write a column of this name between backquotes." if openers[-1] == "CASE" else None
            raise self.error("PARSE_SYNTAX_ERROR", f"Syntax error: {openers[-1]} is not closed", hint)

    def _skip_type(self) -> None:
        depth = 1
        while depth and not self.done:
            self._at += 1
            depth += self.sees("<") - self.sees(">")

    @property
    def _token(self) -> Token:
        return self._tokens[self._at]

    def _slice(self, begin: int, end: int) -> str:
        return self._text[self._tokens[begin].start : self._tokens[end - 1].behind] if end > begin else ""

    def error(self, condition: str, message: str, hint: str | None = None, at: NoTokenError | None = None) -> ParseError:
        """An error at the current place, or where no token begins, with the line and a mark below it."""
        place = at.place if at else len(self._text) if self.done else self._token.start
        number = self._text.count("\n", 0, place) + 1
        first = self._text.rfind("\n", 0, place) + 1
        line = self._text[first:].split("\n", 1)[0]
        near = f"'{at.found}'" if at else "end of input" if self.done else f"'{self._token.text}'"
        return ParseError(
            condition,
            f"{message}, at or near {near} (line {number}, position {place - first}).\n{line}\n{' ' * (place - first)}^^^",
            parameters={"line": number, "position": place - first},
            hint=hint,
        )
