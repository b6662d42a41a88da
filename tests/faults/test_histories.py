"""Histories of transactions that overlap are equal to serial ones; `make soak` runs them for longer."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tests.effort import ALL
from tests.faults.exploring import counting, explore, finds_conflicts_that_nobody_checks
from tests.faults.histories import Histories

pytestmark = pytest.mark.classic  # what is patched is the same on Connect

STEPS = 40


@pytest.fixture(autouse=True)
def counts(spark: SparkSession) -> Iterator[Counter[str]]:
    """How statements have ended."""
    with counting(Histories, spark) as counts:
        yield counts


@pytest.mark.timeout(0)
def test_histories_are_serial() -> None:
    assert explore(Histories, float(os.environ.get("DELTAMERGE_SOAK", "60" if ALL else "8")), STEPS)


def test_a_conflict_that_is_not_seen_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    finds_conflicts_that_nobody_checks(Histories, STEPS, monkeypatch)
