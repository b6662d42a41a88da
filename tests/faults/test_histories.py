"""Histories of transactions that overlap are equal to serial ones; `make soak` runs them for longer."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test
from pyspark.sql import SparkSession

from deltamerge.log.commit import transaction
from tests.effort import ALL
from tests.faults.histories import Histories, hold_commits

pytestmark = pytest.mark.classic  # what is patched is the same on Connect

EACH: dict[str, Any] = {
    "stateful_step_count": 40,
    "deadline": None,
    "database": None,
    "phases": [Phase.generate],
    "suppress_health_check": list(HealthCheck),
}
# So that one run of the suite tries what the next one does not.
SEED = int(os.environ.get("DELTAMERGE_SEED", time.time_ns() % 1_000_000))


def seeded(number: int) -> type[Histories]:
    """The machine with a seed of its own, which it tells when it fails."""
    return seed(SEED + number)(type(f"Histories_{SEED}", (Histories,), {}))


@pytest.fixture
def counts(spark: SparkSession) -> Iterator[Counter[str]]:
    """How statements have ended."""
    Histories.spark, Histories.counts = spark, Counter()
    release = hold_commits()
    yield Histories.counts
    release()


@pytest.mark.timeout(0)
def test_histories_are_serial(counts: Counter[str]) -> None:
    seconds = float(os.environ.get("DELTAMERGE_SOAK", "60" if ALL else "8"))
    started, examples = time.monotonic(), 0
    each = 10 if seconds >= 60 else 2  # the first one is the simplest there is
    while not examples or time.monotonic() - started < seconds:
        run_state_machine_as_test(seeded(examples), settings=settings(max_examples=each, **EACH))
        examples += each
    print(f"{examples} histories in {time.monotonic() - started:.0f} s:", dict(sorted(counts.items())))
    assert sum(number for name, number in counts.items() if name.endswith("commits")) >= 2 * examples


def test_a_conflict_that_is_not_seen_is_found(counts: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine tells when transactions follow winners that they should have read."""
    monkeypatch.setattr(transaction, "check_conflict", lambda *_, **__: None)
    with pytest.raises((AssertionError, ExceptionGroup)):
        run_state_machine_as_test(seeded(0), settings=settings(max_examples=50, **EACH))
    assert counts
