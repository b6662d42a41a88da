"""How an attempt of a merge ends without changed rows: a value that leads to the next attempt.

A task can stop the job that it is part of only by an exception: `AttemptEnded` carries the value to the driver.
"""

from __future__ import annotations

import json
from dataclasses import dataclass


@dataclass(frozen=True)
class TooLarge:
    """Rows take more than there is room for; `reason` says which, and how much room there is."""

    reason: str


@dataclass(frozen=True)
class SourceUnreadable:
    """Workers can't read a file of the source just as Spark does, or it is no longer the file that was found."""

    reason: str


@dataclass(frozen=True)
class KeysRepeated:
    """A source row matches several target rows, where each row that is written may only be reported once; or so many pairs of
    rows match that one must.
    """

    reason: str


@dataclass(frozen=True)
class NotEvaluable:
    """The expressions of the clauses can't be evaluated on the matched rows alone."""

    reason: str


NotThisWay = TooLarge | SourceUnreadable | KeysRepeated | NotEvaluable
_KINDS: dict[str, type[TooLarge | SourceUnreadable | KeysRepeated | NotEvaluable]] = {
    kind.__name__: kind for kind in (TooLarge, SourceUnreadable, KeysRepeated, NotEvaluable)
}


class AttemptEnded(Exception):
    """Ends the job of an attempt. The message is a marked JSON, which the driver reads."""

    MARK = "deltamerge-attempt-ended:"

    def __init__(self, outcome: NotThisWay) -> None:
        self.outcome = outcome
        super().__init__(self.MARK + json.dumps([type(outcome).__name__, outcome.reason]))


def outcome_in(text: str) -> NotThisWay | None:
    """The outcome that a failed job's text carries; None if it carries none."""
    if AttemptEnded.MARK not in text:
        return None
    kind, reason = json.JSONDecoder().raw_decode(text[text.index(AttemptEnded.MARK) + len(AttemptEnded.MARK) :])[0]
    return _KINDS[kind](reason)
