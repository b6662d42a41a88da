"""Runs of a state machine of histories, for as long as is asked; each run of the suite tries others."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test
from pyspark.sql import SparkSession

from deltamerge.log.commit import transaction
from tests.faults.histories import Histories, hold_commits

_RUN: dict[str, Any] = {
    "deadline": None,
    "database": None,
    "phases": [Phase.generate],
    "suppress_health_check": list(HealthCheck),
}
_SEED = int(os.environ.get("DELTAMERGE_SEED", time.time_ns() % 1_000_000))


@contextmanager
def counting(machine: type[Histories], spark: SparkSession) -> Iterator[Counter[str]]:
    """How the machine's statements have ended."""
    machine.spark, machine.counts = spark, Counter()
    release = hold_commits()
    yield machine.counts
    release()


def explore(machine: type[Histories], seconds: float, steps: int) -> int:
    """Run histories for about so many seconds. Returns how many there were, and prints how their statements have ended."""
    started, examples = time.monotonic(), 0
    each = 10 if seconds >= 60 else 2  # the first one is the simplest there is
    while not examples or time.monotonic() - started < seconds:
        _run(machine, examples, each, steps)
        examples += each
    print(f"{examples} histories in {time.monotonic() - started:.0f} s:", dict(sorted(machine.counts.items())))
    assert sum(number for name, number in machine.counts.items() if name.endswith("commits")) >= 2 * examples
    return examples


def finds_conflicts_that_nobody_checks(machine: type[Histories], steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail unless the machine tells when transactions of deltamerge follow winners that they should have read."""
    monkeypatch.setattr(transaction, "check_conflict", lambda *_, **__: None)
    with pytest.raises((AssertionError, ExceptionGroup)):
        _run(machine, 0, 50, steps)
    assert machine.counts


def _run(machine: type[Histories], number: int, examples: int, steps: int) -> None:
    """Run the machine with a seed of its own, which it tells when it fails."""
    seeded = seed(_SEED + number)(type(f"{machine.__name__}_{_SEED}", (machine,), {}))
    run_state_machine_as_test(seeded, settings=settings(max_examples=examples, stateful_step_count=steps, **_RUN))
