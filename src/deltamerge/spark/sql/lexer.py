"""SQL text as the tokens that Spark's lexer makes of it, so that a text is split where Spark splits it.

Source: Spark's SqlBaseLexer.g4 of 4.0 to 4.3 and its unescapeSQLString. Must not know sessions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum


class Kind(Enum):
    """What a token is. Keywords are words: they are names, too, wherever Spark lets them be."""

    WORD = "word"
    NAME = "name between backquotes"
    STRING = "string"
    NUMBER = "number"
    SIGN = "sign"


@dataclass(frozen=True, slots=True)
class Token:
    """A token at the places [start, behind) of a text. `text` is as it is written, with its quotes."""

    kind: Kind
    text: str
    start: int
    behind: int

    @property
    def name(self) -> str:
        """The token as a name, without its backquotes, or its double quotes where the session takes them for such."""
        quote = self.text[0]
        return self.text[1:-1].replace(quote * 2, quote) if quote in ("`", '"') else self.text

    @property
    def upper(self) -> str:
        """A word in upper case or a sign; '' for what is quoted and for numbers."""
        return self.text.upper() if self.kind in (Kind.WORD, Kind.SIGN) else ""


def is_name(token: Token) -> bool:
    """Whether a token may be a name or a part of one: a word, or what stands between backquotes."""
    return token.kind in (Kind.WORD, Kind.NAME)


# Spark's blanks: neither all of Unicode's nor those of `str.isspace`.
_BLANK = "[ \t\n\f\r\v\u00a0\u1680\u2000-\u200a\u2028\u202f\u205f\u3000]+"
# A backslash before the end of a line continues the comment on the next line.
_LINE_COMMENT = r"--(?:\\\n|[^\r\n])*\r?\n?"
_COMMENT = r"/\*(?!\+)"
_STRING = r"""[rR]'[^']*'|[rR]"[^"]*"|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*\""""
_NAME = r"`(?:[^`]|``)*`"
_URI = r"[A-Za-z]+://[\w/.?=&#%-]+"
_DECIMAL = r"(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?(?:[fFdD]|[bB][dD])?(?!\w)"
_INTEGER = r"\d+(?:[eE][+-]?\d+(?:[fFdD]|[bB][dD])?|[lLsSyYfFdD]|[bB][dD])?"
_WORD = r"\w+"
_SIGN = r"<=>|>>>|!=|!>|!<|==|=>|<=|<>|<<|>>|>=|->|\|\||\|>|::|/\*\+|\*/|@[vV]|[;(),.\[\]!=<>+\-*/%~&|^:?@]"

_SKIPPED = re.compile(f"(?:{_BLANK}|{_LINE_COMMENT})+", re.ASCII)
_TOKEN = re.compile(
    f"(?P<comment>{_COMMENT})|(?P<string>{_STRING})|(?P<name>{_NAME})|(?P<uri>{_URI})|(?P<decimal>{_DECIMAL})"
    f"|(?P<integer>{_INTEGER})|(?P<word>{_WORD})|(?P<sign>{_SIGN})",
    re.ASCII | re.DOTALL,
)
_WORDS = re.compile(_WORD, re.ASCII)
_COMMENT_MARK = re.compile(r"/\*(?!\+)|\*/")
_KINDS = {
    "string": Kind.STRING,
    "name": Kind.NAME,
    "decimal": Kind.NUMBER,
    "integer": Kind.NUMBER,
    "word": Kind.WORD,
    "sign": Kind.SIGN,
}
_COMPLEX_TYPES = ("ARRAY", "MAP", "STRUCT")


class NoTokenError(ValueError):
    """No token that an expression or a MERGE can have begins at this place, so that Spark refuses the text as either.

    `before` are the tokens up to there.
    """

    def __init__(self, place: int, found: str, before: list[Token]) -> None:
        super().__init__(f"{found!r} at {place}")
        self.place = place
        self.found = found
        self.before = before


def lexed(text: str) -> list[Token]:
    """The tokens of a text, without blanks and comments. Raises NoTokenError."""
    found: list[Token] = []
    place, open_types = 0, 0
    while True:
        if skipped := _SKIPPED.match(text, place):
            place = skipped.end()
        if place == len(text):
            return found
        match = _TOKEN.match(text, place)
        if match is None or match.lastgroup == "uri":
            raise NoTokenError(place, text[place], found)
        if match.lastgroup == "comment":
            behind_comment = _behind_comment(text, place)
            if behind_comment is None:
                raise NoTokenError(place, "/*", found)
            place = behind_comment
            continue
        group, behind = str(match.lastgroup), match.end()
        if group == "integer" and (word := _WORDS.match(text, place)) and word.end() > behind:
            group, behind = "word", word.end()  # the longest token counts, of equally long ones the number
        written = text[place:behind]
        if open_types and written in (">>", ">>>"):
            written, behind = ">", place + 1  # within a type two types end
        if written == ">":
            open_types = max(open_types - 1, 0)
        elif group == "word" and written.upper() in _COMPLEX_TYPES:
            open_types += 1
        found.append(Token(_KINDS[group], written, place, behind))
        place = behind


def _behind_comment(text: str, place: int) -> int | None:
    """The place behind the comment that begins at a place, None where it is not closed. Comments nest, hints in them don't."""
    depth = 0
    for mark in _COMMENT_MARK.finditer(text, place):
        depth += -1 if mark[0] == "*/" else 1
        if not depth:
            return mark.end()
    return None


_ESCAPE = re.compile(r"""(''|"")|\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([01][0-7]{2})|(.))""", re.DOTALL)
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def string_value(token: Token) -> str | None:
    """What a string says by Spark's default settings; None where that depends on the version, or is no text.

    Two quotes within a string are one quote to later versions, and none to PySpark 4.0.
    """
    if token.text[0] in "rR":
        return token.text[2:-1]
    quote, inner = token.text[0], token.text[1:-1]
    parts, place = [], 0
    for match in _ESCAPE.finditer(inner):
        parts.append(inner[place : match.start()])
        place = match.end()
        doubled, short, long, octal, char = match.groups()
        if doubled:
            if doubled[0] == quote:
                return None
            parts.append(doubled)
        elif char:
            parts.append(_ESCAPED.get(char, char))
        else:
            code = int(short or long or octal, 8 if octal else 16)
            if code > 0x10FFFF:
                return None
            parts.append(chr(code))
    try:
        return "".join([*parts, inner[place:]]).encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        return None
