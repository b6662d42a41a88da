"""The names in an expression that Spark looks up: each must be a column of the row, or a variable of a lambda function.

What else a name can be is no part of the row: a variable of the session, the user, a column of another table that is joined.
The text is read from left to right. A word where a value is expected is a name, if it does not begin a literal or an operator.
What is in no expression that Spark reads so is refused, too.

Source: Spark's grammar, `expression`, `primaryExpression`. Must not know sessions.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from deltamerge.spark.sql.allowed.keywords import (
    ALONE,
    AMBIGUOUS,
    BEHIND_COLUMNS,
    CASTS,
    CLOSED_BY,
    CONSTANTS,
    INTERVAL_UNITS,
    LITERALS,
    NEED_UNITS,
    NO_FUNCTIONS,
    OF_CASE,
    OPERATORS,
    PATTERNS,
    PREFIXES,
    QUANTIFIERS,
    SIDES,
    TAKE_UNITS,
    UNITS,
)
from deltamerge.spark.sql.allowed.pairs import cases, partners
from deltamerge.spark.sql.lexer import Kind, Token, is_name

_PLAIN = re.compile(r"\w+", re.ASCII)
_FOLDED = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


@dataclass(frozen=True, slots=True)
class Reading:
    """How a session reads names: whether they differ by case, are between double quotes, too, may be patterns between backquotes,
    and whether a reserved keyword is never a column.
    """

    case_sensitive: bool = False
    double_quotes: bool = False
    patterns: bool = False
    reserved: bool = False


class Columns:
    """The columns of a row, by name. Letters beyond ASCII differ by case: Java and Python have different pairs of these."""

    def __init__(self, names: Iterable[str], reading: Reading = Reading()) -> None:
        self.reading = reading
        self._names = frozenset(map(self.folded, names))

    def folded(self, name: str) -> str:
        """A name as it is compared."""
        return name if self.reading.case_sensitive else name.translate(_FOLDED)

    def __contains__(self, name: str) -> bool:
        return self.folded(name) in self._names


@dataclass(slots=True)
class _Open:
    """A parenthesis or bracket that is open: what closes it, the word before it, the variables that a lambda in it defines, and
    how many BETWEEN wait for their AND.
    """

    closed_by: str
    word: str = ""
    variables: list[str] = field(default_factory=list)
    between: int = 0


def strange_name(tokens: Sequence[Token], columns: Columns, words: Collection[str]) -> str | None:
    """The first name that is no column of the row, as it is written, or the first token of what is no expression; else None.

    `words` are the functions, in lower case, that may stand without parentheses.
    """
    return _Reader(tokens, columns, words).strange()


class _Reader:
    """Reads tokens from left to right. `_at` is the place, `_open` what is open there, outermost first."""

    def __init__(self, tokens: Sequence[Token], columns: Columns, words: Collection[str]) -> None:
        self._tokens = tokens
        self._columns = columns
        self._words = words
        self._partners, self._unclosed = partners(tokens)
        self._cases = cases(tokens)
        self._at = 0
        self._open = [_Open("")]
        self._variables = Counter[str]()
        self._has_value = False
        self._may_be_condition = True

    def strange(self) -> str | None:
        if self._unclosed:
            return self._tokens[self._unclosed[0]].text
        while self._at < len(self._tokens):
            place = self._at
            if not (self._behind_value() if self._has_value else self._value()):
                return self._chain(place)
        return None if self._has_value or not self._tokens else self._tokens[-1].text

    def _value(self) -> bool:
        """Whether what stands at the place may begin a value."""
        token, word = self._tokens[self._at], self._word(0)
        if word == "NOT" and self._may_be_condition and self._word(1) in AMBIGUOUS:
            return False
        if self._is_name(token):
            return self._lambda_of_one() or self._named_argument() or self._keyword(word) or self._call() or self._name()
        if token.kind is not Kind.SIGN:
            return self._pass(1, has_value=True)
        if word == "(":
            return self._lambda_of_several() or self._enter("(", "")
        if word == ")" and self._tokens[self._at - 1].text == "(":
            return self._leave(")")
        return word in PREFIXES and self._pass(1, begins=word == "!" and self._may_be_condition)

    def _behind_value(self) -> bool:
        """Whether what stands at the place may stand behind a value."""
        word = self._word(0)
        if word in (")", "]"):
            return self._leave(word)
        if word == ",":
            self._forget()
            return self._pass(1, begins=True)
        if word == "[":
            return self._enter("[", "")
        if word == "AS":
            return self._type() if self._open[-1].word in CASTS else self._alias(1)
        if word == "::":
            return self._short_cast()
        if word in (".", ":", "COLLATE"):
            is_path = word == ":" and self._word(1) == "["
            return (is_path and self._pass(1, has_value=True)) or (self._has_name(1) and self._pass(2, has_value=True))
        if word == "IS":
            return self._is()
        if word == "NOT":
            return self._word(1) in PATTERNS | {"IN", "BETWEEN"} and self._pass(1, has_value=True)
        if word == "END":
            return self._leave("END")
        if word in OF_CASE:
            return self._open[-1].closed_by == "END" and self._pass(1, begins=True)
        if word in OPERATORS:
            return self._operator(word)
        return self._second_text() or (self._open[-1].word == "STRUCT" and self._alias(0))

    def _operator(self, word: str) -> bool:
        """AND ends a BETWEEN of the same parentheses that has none yet: behind it stands no condition."""
        ends_between = word == "AND" and self._open[-1].between > 0
        self._open[-1].between += (word == "BETWEEN") - ends_between
        return self._pass(1, begins=word in ("AND", "OR") and not ends_between)

    def _word(self, ahead: int) -> str:
        """The keyword or sign so many tokens ahead, in upper case; '' for names in quotes, values, and beyond the end."""
        at = self._at + ahead
        return self._tokens[at].upper if at < len(self._tokens) else ""

    def _has_name(self, ahead: int) -> bool:
        at = self._at + ahead
        return at < len(self._tokens) and self._is_name(self._tokens[at])

    def _is_text(self, ahead: int) -> bool:
        at = self._at + ahead
        return at < len(self._tokens) and self._tokens[at].kind is Kind.STRING and not self._is_name(self._tokens[at])

    def _is_name(self, token: Token) -> bool:
        return is_name(token) or (self._columns.reading.double_quotes and token.text.startswith('"'))

    def _pass(self, count: int, has_value: bool = False, begins: bool = False) -> bool:
        """Go on behind so many tokens: behind a value, or where one is expected; `begins` says that it may be a condition."""
        self._at += count
        self._has_value = has_value
        self._may_be_condition = begins
        return True

    def _enter(self, opener: str, word: str) -> bool:
        self._open.append(_Open(CLOSED_BY[opener], word))
        return self._pass(1, begins=opener != "[")

    def _leave(self, closer: str) -> bool:
        self._forget()
        opened = self._open.pop()
        return opened.closed_by == closer and opened.word not in CASTS and self._pass(1, has_value=True)

    def _define(self, variables: Iterable[Token]) -> None:
        """Variables of a lambda, up to the next comma or the end of what is open."""
        for token in variables:
            name = self._columns.folded(token.name)
            self._open[-1].variables.append(name)
            self._variables[name] += 1

    def _forget(self) -> None:
        self._variables.subtract(self._open[-1].variables)
        self._open[-1].variables.clear()

    def _lambda_of_one(self) -> bool:
        """`x -> ..`, in which x is a variable up to the next comma, or to the end of the arguments."""
        if self._word(1) != "->":
            return False
        self._define([self._tokens[self._at]])
        return self._pass(2, begins=True)

    def _lambda_of_several(self) -> bool:
        """`(x, y) -> ..`."""
        end = self._partners.get(self._at, len(self._tokens))
        if end + 1 >= len(self._tokens) or self._tokens[end + 1].text != "->":
            return False
        if not all(self._is_name(self._tokens[n]) for n in range(self._at + 1, end, 2)):
            return False
        self._define([self._tokens[n] for n in range(self._at + 1, end, 2)])
        return self._pass(end + 2 - self._at, begins=True)

    def _named_argument(self) -> bool:
        """`name => ..`."""
        return self._word(1) == "=>" and self._open[-1].word not in QUANTIFIERS and self._pass(2, begins=True)

    def _call(self) -> bool:
        """A function, or a keyword, and the parenthesis that opens its arguments; whether it may be called is said elsewhere."""
        last = self._last_of_name()
        if last + 1 >= len(self._tokens) or self._tokens[last + 1].text != "(":
            return False
        word, before = self._tokens[last].upper, self._tokens[last - 1].upper if last else ""
        if word in NO_FUNCTIONS or (word in QUANTIFIERS and before not in PATTERNS):
            return False
        begin, end = last + 2, self._partners[last + 1]
        takes_unit = word in TAKE_UNITS and self._takes_unit(begin, end)
        if word in NEED_UNITS and not takes_unit:
            return False
        self._at = last + 1
        self._enter("(", word)
        if takes_unit or (word == "EXTRACT" and self._has_name(0) and self._word(1) == "FROM"):
            return self._pass(2)
        if word == "TRIM" and self._word(0) in SIDES and self._count("FROM", begin, end):
            return self._pass(1 + (self._word(1) == "FROM"))
        return True

    def _takes_unit(self, begin: int, end: int) -> bool:
        """Whether three arguments stand between two places, of which the first is a unit. Types, too, have commas."""
        words = [token.upper for token in self._tokens[begin : begin + 2]]
        if len(words) < 2 or words[0] not in UNITS or words[1] != ",":
            return False
        return not self._count("::", begin, end) and self._count(",", begin, end) == 2

    def _count(self, word: str, begin: int, end: int) -> int:
        """How often a keyword or sign stands between two places, outside of inner parentheses."""
        count, at = 0, begin
        while at < end:
            count += self._tokens[at].upper == word
            at = self._partners.get(at, at) + 1
        return count

    def _keyword(self, word: str) -> bool:
        """A literal, or the beginning of an expression; a column may have such a word for a name, too."""
        if word in LITERALS and self._is_text(1):
            return self._pass(2, has_value=True)
        if word == "INTERVAL" and self._interval():
            return True
        if word in CONSTANTS:
            return self._word(1) != "(" and self._pass(1, has_value=True)
        if word == "CASE":
            return self._at in self._cases and self._enter("CASE", "") and self._pass(int(self._word(0) == "WHEN"), begins=True)
        if word == "NOT":
            following = self._word(1)
            is_name = self._at + 1 == len(self._tokens) or following in BEHIND_COLUMNS or following in OPERATORS - PREFIXES
            return self._may_be_condition and not is_name and self._pass(1, begins=True)
        return word.lower() in self._words and self._word(1) != "(" and self._pass(1, has_value=True)

    def _interval(self) -> bool:
        """`INTERVAL '1' DAY`, `INTERVAL -1 DAY 2 HOURS`, `INTERVAL '1-2' YEAR TO MONTH`."""
        at = self._at + 1
        while (more := self._behind_amount(at)) is not None:
            at = more
        if at == self._at + 1:
            return False
        return self._pass(at - self._at, has_value=True)

    def _behind_amount(self, at: int) -> int | None:
        """The place behind an amount and its unit, or units; None where none stands. A text alone needs none."""
        ahead = at - self._at
        has_sign = self._word(ahead) in ("+", "-")
        place = self._at + ahead + has_sign
        ahead += has_sign
        if place >= len(self._tokens) or not (self._tokens[place].kind is Kind.NUMBER or self._is_text(ahead)):
            return None
        if self._word(ahead + 1) not in INTERVAL_UNITS:
            return place + 1 if at == self._at + 1 and not has_sign and self._is_text(ahead) else None
        both = self._word(ahead + 2) == "TO" and self._word(ahead + 3) in INTERVAL_UNITS
        return place + (4 if both else 2)

    def _name(self) -> bool:
        """A column of the row, or a variable of a lambda around, with the names of fields behind it."""
        token, reading = self._tokens[self._at], self._columns.reading
        name = token.name
        if reading.reserved and token.kind is Kind.WORD and name.lower() in ALONE:
            return False
        if reading.patterns and token.kind is Kind.NAME and not _PLAIN.fullmatch(name):
            return False
        if name not in self._columns and not self._variables[self._columns.folded(name)]:
            return False
        return self._pass(self._last_of_name() + 1 - self._at, has_value=True)

    def _last_of_name(self) -> int:
        """The place of the last of the names with dots between them that begin at this place."""
        last = self._at
        while last + 2 < len(self._tokens) and self._tokens[last + 1].text == "." and self._is_name(self._tokens[last + 2]):
            last += 2
        return last

    def _chain(self, place: int) -> str:
        """What is written at a place: a name with its dots, or a token."""
        self._at = place
        last = self._last_of_name() if self._is_name(self._tokens[place]) else place
        return "".join(token.text for token in self._tokens[place : last + 1])

    def _type(self) -> bool:
        """`AS` and the type of a cast, up to its end."""
        self._open[-1].word = ""
        self._at += 1
        while self._at < len(self._tokens) and self._tokens[self._at].text != ")":
            self._at = self._partners.get(self._at, self._at) + 1
        return self._pass(0, has_value=True)

    def _alias(self, ahead: int) -> bool:
        """A name that a field gets."""
        return self._has_name(ahead) and self._pass(ahead + 1, has_value=True)

    def _short_cast(self) -> bool:
        """`::` and a type."""
        if not self._has_name(1):
            return False
        self._pass(2, has_value=True)
        type, following = self._word(-1), self._word(0)
        if following == "(":
            return self._pass(self._partners[self._at] + 1 - self._at, has_value=True)
        if type == "INTERVAL" and following in UNITS:
            return self._pass(3 if self._word(1) == "TO" and self._word(2) in UNITS else 1, has_value=True)
        if type in ("TIME", "TIMESTAMP") and following in ("WITH", "WITHOUT"):
            written = [self._word(ahead) for ahead in range(4)]
            count = 3 if written[:3] == ["WITHOUT", "TIME", "ZONE"] else 4 if written[1:] == ["LOCAL", "TIME", "ZONE"] else 0
            return count > 0 and self._pass(count, has_value=True)
        if type in ("ARRAY", "MAP", "STRUCT") and following in ("<", "<>"):
            return self._type_arguments()
        return True

    def _type_arguments(self) -> bool:
        depth = 0
        while self._at < len(self._tokens):
            depth += {"<": 1, ">": -1}.get(self._tokens[self._at].text, 0)
            self._at += 1
            if depth == 0:
                return True
        return False

    def _is(self) -> bool:
        """`IS [NOT] NULL`, `.. TRUE`, `.. DISTINCT FROM`."""
        ahead = 2 if self._word(1) == "NOT" else 1
        if self._word(ahead) in CONSTANTS or self._word(ahead) == "UNKNOWN":
            return self._pass(ahead + 1, has_value=True)
        return (self._word(ahead), self._word(ahead + 1)) == ("DISTINCT", "FROM") and self._pass(ahead + 2)

    def _second_text(self) -> bool:
        """A text right behind another: Spark joins them."""
        return self._is_text(0) and self._tokens[self._at - 1].kind is Kind.STRING and self._pass(1, has_value=True)
