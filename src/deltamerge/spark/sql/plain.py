"""An expression in the plainest words, so that sqlglot's tokens of it are surely Spark's.

Comments are left out, strings have the value that Spark gives them, numbers with a suffix are casts. Functions don't go by their
names: sqlglot knows some of other systems, and leaves out arguments that it does not expect.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import sqlglot
from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token as SqlglotToken
from sqlglot.tokens import TokenType

from deltamerge.spark.plans.calls import CALL, call_name
from deltamerge.spark.sql.lexer import Kind, Token, is_name, string_value

DIALECT = "spark"


@dataclass(frozen=True, slots=True)
class _Piece:
    """A piece of the plain text, the kind of token that it is to be, and the token's text where that is not the piece's."""

    text: str
    kind: TokenType | None = None
    value: str | None = None

    def is_read(self, token: SqlglotToken) -> bool:
        """Whether a token of sqlglot is this piece."""
        if self.kind is not None:
            return token.token_type is self.kind and token.text == (self.text if self.value is None else self.value)
        return token.token_type not in _VALUES and token.text.upper() == self.text.upper()


_VALUES = (TokenType.STRING, TokenType.RAW_STRING, TokenType.NATIONAL_STRING, TokenType.HEX_STRING, TokenType.IDENTIFIER)
_NUMBER = re.compile(r"(\d*)(\.\d*)?(e[+-]?\d+)?(l|s|y|bd|d|f)?", re.IGNORECASE | re.ASCII)
_TYPES = {"L": "BIGINT", "S": "SMALLINT", "Y": "TINYINT", "D": "DOUBLE", "F": "FLOAT", "BD": "DECIMAL"}
_UNKNOWN = [_Piece(CALL), _Piece("("), _Piece(")")]
# Words before a parenthesis that are no names of functions, and functions with a grammar of their own.
_GRAMMAR = frozenset(
    "ALL AND ANY AS BETWEEN BY CASE CAST CHAR CHARACTER DEC DECIMAL DISTINCT DIV ELSE EXISTS EXTRACT FROM IN NOT NUMERIC OR "  # noqa: SIM905
    "OVERLAY POSITION SELECT SOME STRUCT SUBSTR SUBSTRING THEN TRIM TRY_CAST VARCHAR WHEN WHERE".split()
)
# Operators that sqlglot takes for functions before a parenthesis.
_PATTERNS = ("LIKE", "ILIKE", "RLIKE", "REGEXP")


def plain(tokens: Sequence[Token]) -> str | None:
    """The text that Spark's tokens say; None when sqlglot reads other tokens in it."""
    if any(a.text == "->" and b.kind in (Kind.STRING, Kind.NUMBER) for a, b in pairwise(tokens)):
        return None  # a path within JSON to sqlglot, which logs a warning about most
    pieces, n = list[_Piece](), 0
    while n < len(tokens):
        word = tokens[n].upper
        follows = [token.kind if token.kind is Kind.STRING else token.text for token in tokens[n + 1 : n + 4]]
        if word == "X" and follows[:1] == [Kind.STRING]:
            pieces.append(_bytes(tokens[n + 1]))
            n += 2
        elif word == "DATE" and follows == ["(", Kind.STRING, ")"]:
            pieces += [_Piece("DATE"), *_pieces(tokens[n + 2])]
            n += 4
        elif follows[:1] == ["("] and is_name(tokens[n]) and word not in _GRAMMAR:
            if word in _PATTERNS:
                return None
            pieces.append(_Piece(call_name(word) or CALL))
            n += 1
        else:
            pieces += _pieces(tokens[n])
            n += 1
    text = " ".join(piece.text for piece in pieces)
    return text if _agrees(text, pieces) else None


def _pieces(token: Token) -> list[_Piece]:
    if token.kind is Kind.STRING:
        value = string_value(token)
        return _UNKNOWN if value is None else [_Piece(_literal(value), TokenType.STRING, value)]
    if token.kind is Kind.NAME:
        return [_Piece(token.text, TokenType.IDENTIFIER, token.name)]
    if token.kind is Kind.NUMBER:
        return _number(token.text)
    return [_Piece(token.text)]


def _literal(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _bytes(token: Token) -> _Piece:
    value = string_value(token) or ""
    return _Piece(f"X'{value}'", TokenType.HEX_STRING, value)


def _number(text: str) -> list[_Piece]:
    match = _NUMBER.fullmatch(text)
    assert match is not None
    digits, fraction, exponent, suffix = match.groups("")
    number = _Piece(f"{digits or 0}{fraction}{exponent}", TokenType.NUMBER)
    if not suffix:
        return [number]
    return [_Piece("CAST"), _Piece("("), number, _Piece("AS"), _Piece(_TYPES[suffix.upper()]), _Piece(")")]


def _agrees(text: str, pieces: Sequence[_Piece]) -> bool:
    """Whether sqlglot's tokens are these pieces; several words may be one keyword to it, as in ORDER BY."""
    try:
        tokens = sqlglot.tokenize(text, dialect=DIALECT)
    except SqlglotError:
        return False
    starts, place = {}, 0
    for n, piece in enumerate(pieces):
        starts[place] = n
        place += len(piece.text) + 1
    at = 0
    for token in tokens:
        behind = starts.get(token.end + 2)
        if starts.get(token.start) != at or (behind is None and token.end + 1 != len(text)):
            return False
        covered = pieces[at:behind]
        if len(covered) == 1 and not covered[0].is_read(token):
            return False
        if len(covered) > 1 and not all(piece.kind is None and piece.text.isidentifier() for piece in covered):
            return False
        at += len(covered)
    return at == len(pieces)
