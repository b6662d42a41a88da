"""What belongs together in an expression's tokens: a parenthesis and what closes it, a CASE and its END."""

from __future__ import annotations

from collections.abc import Sequence

from deltamerge.spark.sql.lexer import Token


def partners(tokens: Sequence[Token]) -> tuple[dict[int, int], list[int]]:
    """The places of parentheses and brackets with those of what closes each, and the places of those that nothing closes."""
    found: dict[int, int] = {}
    opened: list[int] = []
    for n, token in enumerate(tokens):
        if token.text in ("(", "["):
            opened.append(n)
        elif token.text in (")", "]") and opened:
            found[opened.pop()] = n
    return found, opened


def cases(tokens: Sequence[Token]) -> frozenset[int]:
    """The places of CASE that have a WHEN and an END of their own, within the same parentheses."""
    found = set()
    opened: list[tuple[str, int, bool]] = []  # what is open, where, and whether it has a WHEN
    for n, token in enumerate(tokens):
        word = token.upper
        if word in ("(", "[", "CASE"):
            opened.append((word, n, False))
        elif word in (")", "]"):
            while opened and opened.pop()[0] == "CASE":
                pass
        elif opened and opened[-1][0] == "CASE":
            _, place, has_when = opened[-1]
            if word == "WHEN":
                opened[-1] = ("CASE", place, True)
            elif word == "END":
                opened.pop()
                found |= {place} if has_when else set()
    return frozenset(found)
