"""The names in an expression that Spark looks up: each must be a column of the row, or a variable of a lambda function.

What else a name can be is no part of the row: a variable of the session, the user, a column of another table that is joined.
The text is read from left to right. A word where a value is expected is a name, if it does not begin a literal or an operator.
What is in no expression that Spark reads so is refused, too.

Source: Spark's grammar, `expression`, `primaryExpression`. Must not know sessions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from deltamerge.spark.sql.lexer import Kind, Token, is_name

# Signs that no expression begins with: the word before one is a column.
_BEHIND = ") , . [ ] = == <=> <> != < <= > >= / % & | ^ || << >> >>> -> ::"
BEHIND_COLUMNS = frozenset(_BEHIND.split())
# Between two values.
_NEVER_CALLED = frozenset({"ESCAPE", "THEN", "ELSE", "FROM", "FOR", "PLACING"})
_SIGNS = "= == <=> <> != !< !> < <= > >= + - * / % & | ^ || << >> >>>"
_OPERATORS = _NEVER_CALLED | {*_SIGNS.split(), "AND", "OR", "DIV", "IN", "LIKE", "ILIKE", "RLIKE", "REGEXP", "BETWEEN", "WHEN"}
_PREFIXES = frozenset({"+", "-", "~", "!", "NOT", "CASE"})
_CONSTANTS = frozenset({"NULL", "TRUE", "FALSE"})
_LITERAL_WORDS = "DATE TIME TIMESTAMP TIMESTAMP_LTZ TIMESTAMP_NTZ X"
_LITERALS = frozenset(_LITERAL_WORDS.split())  # before a text
_PARTS = "YEAR QUARTER MONTH WEEK DAY DAYOFYEAR HOUR MINUTE SECOND MILLISECOND MICROSECOND NANOSECOND"
_UNITS = frozenset(unit for part in _PARTS.split() for unit in (part, f"{part}S"))
_UNIT_FUNCTIONS = "DATEADD DATE_ADD DATEDIFF DATE_DIFF TIMEDIFF TIMESTAMPADD TIMESTAMPDIFF"
_TAKE_UNITS = frozenset(_UNIT_FUNCTIONS.split())
_SIDES = frozenset({"BOTH", "LEADING", "TRAILING"})
_CAST_WORDS = "CAST TRY_CAST"
_CASTS = frozenset(_CAST_WORDS.split())
_CLOSED_BY = {"(": ")", "[": "]"}


class Columns:
    """The columns of a row, by name.

    `case_sensitive` says that names differ by case, `quotes` that what is between double quotes is a name, not a text.
    """

    def __init__(self, names: Iterable[str], case_sensitive: bool = False, quotes: bool = False) -> None:
        self.case_sensitive = case_sensitive
        self.quotes = quotes
        self._names = frozenset(map(self.folded, names))

    def folded(self, name: str) -> str:
        """A name as it is compared."""
        return name if self.case_sensitive else name.lower()

    def __contains__(self, name: str) -> bool:
        return self.folded(name) in self._names


@dataclass(slots=True)
class _Open:
    """A parenthesis or bracket that is open: what closes it, the word before it, the variables that a lambda in it defines."""

    closed_by: str
    word: str = ""
    variables: list[str] = field(default_factory=list)


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
        self._partners = _partners(tokens)
        self._at = 0
        self._open = [_Open("")]
        self._variables = Counter[str]()
        self._has_value = False

    def strange(self) -> str | None:
        while self._at < len(self._tokens):
            place = self._at
            if not (self._behind_value() if self._has_value else self._value()):
                return self._chain(place)
        return None

    def _value(self) -> bool:
        """Whether what stands at the place may begin a value."""
        token, word = self._tokens[self._at], self._word(0)
        if self._is_name(token):
            return self._lambda_of_one() or self._named_argument() or self._call() or self._keyword(word) or self._name()
        if token.kind is not Kind.SIGN:
            return self._pass(1, has_value=True)
        if word == "(":
            return self._lambda_of_several() or self._enter("(", "")
        if word == ")" and self._tokens[self._at - 1].text == "(":
            return self._leave(")")
        return word in _PREFIXES and self._pass(1)

    def _behind_value(self) -> bool:
        """Whether what stands at the place may stand behind a value."""
        word = self._word(0)
        if word in (")", "]"):
            return self._leave(word)
        if word == ",":
            self._forget()
            return self._pass(1)
        if word == "[":
            return self._enter("[", "")
        if word == "AS":
            return self._type() if self._open[-1].word in _CASTS else self._alias(1)
        if word == "::":
            return self._short_cast()
        if word in (".", ":", "COLLATE"):
            is_path = word == ":" and self._word(1) == "["
            return (is_path and self._pass(1, has_value=True)) or (self._has_name(1) and self._pass(2, has_value=True))
        if word == "IS":
            return self._is()
        if word in ("NOT", "END"):
            return self._pass(1, has_value=True)
        if word in _OPERATORS:
            return self._pass(1)
        return self._second_text() or (self._open[-1].word == "STRUCT" and self._alias(0))

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
        return is_name(token) or (self._columns.quotes and token.text.startswith('"'))

    def _pass(self, count: int, has_value: bool = False) -> bool:
        self._at += count
        self._has_value = has_value
        return True

    def _enter(self, opener: str, word: str) -> bool:
        self._open.append(_Open(_CLOSED_BY[opener], word))
        return self._pass(1)

    def _leave(self, closer: str) -> bool:
        self._forget()
        return self._open.pop().closed_by == closer and self._pass(1, has_value=True)

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
        return self._pass(2)

    def _lambda_of_several(self) -> bool:
        """`(x, y) -> ..`."""
        end = self._partners.get(self._at, len(self._tokens))
        if end + 1 >= len(self._tokens) or self._tokens[end + 1].text != "->":
            return False
        if not all(self._is_name(self._tokens[n]) for n in range(self._at + 1, end, 2)):
            return False
        self._define([self._tokens[n] for n in range(self._at + 1, end, 2)])
        return self._pass(end + 2 - self._at)

    def _named_argument(self) -> bool:
        """`name => ..`."""
        return self._word(1) == "=>" and self._pass(2)

    def _call(self) -> bool:
        """A function, or a keyword, and the parenthesis that opens its arguments; whether it may be called is said elsewhere."""
        last = self._last_of_name()
        if last + 1 >= len(self._tokens) or self._tokens[last + 1].text != "(":
            return False
        word = self._tokens[last].upper
        if word in _NEVER_CALLED:
            return False
        end = self._partners.get(last + 1, len(self._tokens))
        self._at = last + 1
        self._enter("(", word)
        if (
            (word == "EXTRACT" and self._has_name(0) and self._word(1) == "FROM")
            or (word == "TRIM" and self._word(0) in _SIDES and self._word(1) == "FROM")
            or (word in _TAKE_UNITS and self._word(0) in _UNITS and self._word(1) == "," and self._has_three(end))
        ):
            return self._pass(2)
        if word == "TRIM" and self._word(0) in _SIDES and self._word(1) not in BEHIND_COLUMNS:
            return self._pass(1)
        return True

    def _has_three(self, end: int) -> bool:
        """Whether three arguments follow up to a parenthesis, of which the first is a unit."""
        commas, at = 0, self._at
        while at < end:
            commas += self._tokens[at].text == ","
            at = self._partners.get(at, at) + 1
        return commas == 2

    def _keyword(self, word: str) -> bool:
        """A literal, or the beginning of an expression; a column may have such a word for a name, too."""
        if word in _LITERALS and self._is_text(1):
            return self._pass(2, has_value=True)
        if word == "INTERVAL" and self._interval():
            return True
        if word in _CONSTANTS:
            return self._pass(1, has_value=True)
        if word in _PREFIXES and self._at + 1 < len(self._tokens) and self._tokens[self._at + 1].text not in BEHIND_COLUMNS:
            return self._pass(2 if (word, self._word(1)) == ("CASE", "WHEN") else 1)
        return word.lower() in self._words and self._pass(1, has_value=True)

    def _interval(self) -> bool:
        """`INTERVAL '1' DAY`, `INTERVAL -1 DAY 2 HOURS`, `INTERVAL '1-2' YEAR TO MONTH`."""
        at = self._at + 1
        while (more := self._behind_amount(at)) is not None:
            at = more
        if at == self._at + 1:
            return False
        return self._pass(at - self._at, has_value=True)

    def _behind_amount(self, at: int) -> int | None:
        """The place behind an amount and its unit, or units; None where none stands."""
        ahead = at - self._at
        ahead += self._word(ahead) in ("+", "-")
        place = self._at + ahead
        if place >= len(self._tokens) or not (self._tokens[place].kind is Kind.NUMBER or self._is_text(ahead)):
            return None
        if self._word(ahead + 1) not in _UNITS:
            return place + 1 if at == self._at + 1 else None
        both = self._word(ahead + 2) == "TO" and self._word(ahead + 3) in _UNITS
        return place + (4 if both else 2)

    def _name(self) -> bool:
        """A column of the row, or a variable of a lambda around, with the names of fields behind it."""
        name = self._tokens[self._at].name
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
        if self._word(0) == "(":
            return self._pass(self._partners.get(self._at, len(self._tokens)) + 1 - self._at, has_value=True)
        if self._word(-1) == "INTERVAL":
            both = self._word(1) == "TO" and self._word(2) in _UNITS
            return self._word(0) in _UNITS and self._pass(3 if both else 1, has_value=True)
        if self._word(-1) in ("ARRAY", "MAP", "STRUCT") and self._word(0) == "<":
            return self._type_arguments()
        return True

    def _type_arguments(self) -> bool:
        depth = 0
        while self._at < len(self._tokens):
            depth += {"<": 1, ">": -1}.get(self._tokens[self._at].text, 0)
            self._at += 1
            if depth == 0:
                return True
        return True

    def _is(self) -> bool:
        """`IS [NOT] NULL`, `.. TRUE`, `.. DISTINCT FROM`."""
        ahead = 2 if self._word(1) == "NOT" else 1
        if self._word(ahead) in _CONSTANTS or self._word(ahead) == "UNKNOWN":
            return self._pass(ahead + 1, has_value=True)
        return (self._word(ahead), self._word(ahead + 1)) == ("DISTINCT", "FROM") and self._pass(ahead + 2)

    def _second_text(self) -> bool:
        """A text right behind another: Spark joins them."""
        return self._is_text(0) and self._tokens[self._at - 1].kind is Kind.STRING and self._pass(1, has_value=True)


def _partners(tokens: Sequence[Token]) -> dict[int, int]:
    """The places of parentheses and brackets, each with the place of what closes it."""
    found: dict[int, int] = {}
    opened: list[int] = []
    for n, token in enumerate(tokens):
        if token.text in ("(", "["):
            opened.append(n)
        elif token.text in (")", "]") and opened:
            found[opened.pop()] = n
    return found
