"""What a statement that nobody understands may have been meant to be. Only asked when it has failed."""

from __future__ import annotations

from collections.abc import Collection
from difflib import SequenceMatcher

from deltamerge.spark.sql.lexer import is_name
from deltamerge.spark.sql.text import tokens_of

_LEAST = 0.75  # of the letters are the same, in the same order: FORM is FROM, OPTIMISE is OPTIMIZE


def meant_start(text: str, known: Collection[tuple[str, ...]]) -> str | None:
    """The first words that a text may have been meant to begin with, of those that are known; None where it begins with such."""
    tokens = tokens_of(text) or ()
    first = [token.upper if is_name(token) else "" for token in tokens[: max(map(len, known))]]
    likeness = {start: _likeness(start, first) for start in known if len(tokens) > len(start)}
    alike = [start for start in known if likeness.get(start, 0) >= _LEAST]
    # A longer one goes first: DESCRIBE HISTROY is no DESCRIBE of a table.
    best = max(alike, key=lambda start: (len(start), likeness[start]), default=())
    return " ".join(best) if list(best) != first[: len(best)] else None


def _likeness(start: tuple[str, ...], words: list[str]) -> float:
    """How much of the least alike word is the same."""
    return min(SequenceMatcher(None, *pair).ratio() for pair in zip(start, words, strict=False))
