"""The tokens of SQL text read one after the other, with errors that show the place. What every statement is parsed with.

Must not know any statement, table or session.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TypeVar

from deltamerge.errors import ParseError
from deltamerge.spark.sql.lexer import Kind, NoTokenError, Token, is_name, lexed, string_value
from deltamerge.spark.sql.text import Openers, keyword_at, makes_name

T = TypeVar("T")

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


class Reader:
    """The tokens of a text, one after the other."""

    def __init__(self, text: str, tokens: Sequence[Token]) -> None:
        self._text = text
        self._tokens = tokens
        self._at = 0

    @property
    def text(self) -> str:
        """The whole text."""
        return self._text

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

    def end(self) -> None:
        """Nothing but semicolons follows."""
        while self.take(";"):
            pass
        if not self.done:
            raise self.error("PARSE_SYNTAX_ERROR", "Syntax error")

    def string(self) -> str | None:
        """What the string says that stands here; None where none does."""
        if self.done or self._token.kind is not Kind.STRING:
            return None
        self._at += 1
        return string_value(self._tokens[self._at - 1])

    def type_text(self, *ends: str) -> str:
        """A data type as it is written, up to one of these words or to what separates it from the next one."""
        begin, depth = self._at, 0
        while not self.done and (depth or not any(self.sees(end) for end in (",", ")", ";", *ends))):
            depth += self.sees("(") + self.sees("<") - self.sees(")") - self.sees(">")
            self._at += 1
        if begin == self._at:
            raise self.error("PARSE_SYNTAX_ERROR", "Syntax error: a data type expected")
        return self._slice(begin, self._at)

    def rest(self) -> str:
        """All that is left of the text, but for semicolons at its end."""
        begin = end = self._at
        while not self.done:
            semicolon = self.take(";")
            self._at += not semicolon
            end = end if semicolon else self._at
        if begin == end:
            raise self.error("PARSE_SYNTAX_ERROR", "Syntax error: a query expected")
        return self._slice(begin, end)

    def number(self) -> int:
        """A whole number."""
        if self.done or not self._token.text.isdecimal():
            raise self.error("PARSE_SYNTAX_ERROR", "Syntax error: a whole number expected")
        self._at += 1
        return int(self._tokens[self._at - 1].text)

    def fraction(self) -> float:
        """A number of any kind, with a minus or none."""
        negative = self.take("-")
        if self.done or self._token.kind is not Kind.NUMBER:
            raise self.error("PARSE_SYNTAX_ERROR", "Syntax error: a number expected")
        self._at += 1
        found = float(re.sub(r"(?i)(?:bd|[dflsy])$", "", self._tokens[self._at - 1].text))
        return -found if negative else found

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
        self._skip(lambda: any(self.sees(end) and not self._compares(end) for end in (";", ")", "]", *ends)))
        if begin == self._at:
            raise self.error("PARSE_SYNTAX_ERROR", "Syntax error: an expression expected")
        found = self._slice(begin, self._at)
        if [token.text for token in lexed(found)] != [token.text for token in self._tokens[begin : self._at]]:
            self._at = begin  # `array(a)` takes the next >> for the ends of two types
            raise self.error("PARSE_SYNTAX_ERROR", "Syntax error: >> behind array, map or struct", "Write shiftright(a, b).")
        return found

    def _compares(self, end: str) -> bool:
        """Whether a FROM is that of IS DISTINCT FROM."""
        return end == "FROM" and self.sees("DISTINCT", -1)

    def _skip(self, ends: Callable[[], bool]) -> None:
        openers = Openers()
        while not self.done and (openers or not ends()):
            if openers.are_cases and (self.sees(",") or self.sees(";")):
                break
            openers.read(keyword_at(self._tokens, self._at))
            self._at += 1
            if self.sees("<") and self.sees("::", -2) and any(self.sees(type, -1) for type in _COMPLEX_TYPES):
                self._skip_type()
        if openers:
            hint = "Write a column of this name between backquotes." if openers.last == "CASE" else None
            raise self.error("PARSE_SYNTAX_ERROR", f"Syntax error: {openers.last} is not closed", hint)

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
