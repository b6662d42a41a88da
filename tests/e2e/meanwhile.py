"""Other transactions between what a statement has read and its commit."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from deltamerge.merge import line

RUN = line.run_attempts


def interrupting(monkeypatch: pytest.MonkeyPatch, *others: Callable[[], object]) -> list[Callable[[], object]]:
    """Let other transactions commit between what a merge has read and its commit, one an attempt; those that still wait."""
    waiting, busy = list(others), list[bool]()

    def run_attempts(*arguments: object) -> object:
        outcome = RUN(*arguments)  # type: ignore[arg-type]
        if waiting and not busy:
            busy.append(True)
            waiting.pop(0)()
            busy.clear()
        return outcome

    monkeypatch.setattr(line, "run_attempts", run_attempts)
    return waiting
