"""What three engines write into one table is what some serial order gives; DELTAMERGE_SOAK is in seconds."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import seed, settings
from hypothesis.stateful import run_state_machine_as_test
from pyspark.sql import SparkSession

from deltamerge.log.commit import transaction
from tests.faults import serial
from tests.faults.histories import hold_commits
from tests.faults.test_histories import EACH as STEPS
from tests.faults.test_histories import SEED
from tests.oracle.histories import ENGINES, EveryWriter, rust_append, rust_update

EACH = STEPS | {"stateful_step_count": 25}
SECONDS = float(os.environ.get("DELTAMERGE_SOAK", "15"))


def seeded(number: int) -> type[EveryWriter]:
    """The machine with a seed of its own, which it tells when it fails."""
    return seed(SEED + number)(type(f"EveryWriter_{SEED}", (EveryWriter,), {}))


@pytest.fixture
def counts(spark: SparkSession) -> Iterator[Counter[str]]:
    """How statements have ended."""
    EveryWriter.spark, EveryWriter.counts = spark, Counter()
    release = hold_commits()
    yield EveryWriter.counts
    release()


@pytest.mark.timeout(0)
def test_histories_of_three_engines_are_serial(counts: Counter[str]) -> None:
    started, examples = time.monotonic(), 0
    each = 10 if SECONDS >= 60 else 2  # the first one is the simplest there is
    while not examples or time.monotonic() - started < SECONDS:
        run_state_machine_as_test(seeded(examples), settings=settings(max_examples=each, **EACH))
        examples += each
    print(f"{examples} histories in {time.monotonic() - started:.0f} s:", dict(sorted(counts.items())))
    assert sum(number for name, number in counts.items() if name.endswith("commits")) >= 2 * examples
    if each > 2:  # not each history has each kind of statement
        assert {*ENGINES} <= {name.split()[0] for name in counts if name.endswith(" commits")}


@pytest.mark.parametrize("vectors", [True, False])
def test_each_engine_commits_between_others(counts: Counter[str], vectors: bool) -> None:
    machine = EveryWriter()
    machine.create(vectors, "WriteSerializable")
    machine.begin(serial.merge({0: 5}, 0))
    machine.delta_spark_merges(serial.merge({1: 5, 7: 2}, 1))
    machine.delta_rs_writes(rust_update(1, 3))
    machine.delta_spark_writes(serial.append(8, 0, 1))
    machine.delta_rs_writes(rust_append(9, 0, 1))
    machine.end(0)
    machine.end(0)
    machine.versions_are_those_of_the_model()
    machine.teardown()
    assert counts == {
        "MERGE commits": 3,
        "delta-rs UPDATE commits": 1,
        "delta-spark INSERT commits": 1,
        "delta-rs INSERT commits": 1,
        "delta-spark MERGE conflicts": 1,
    }


def test_a_conflict_that_is_not_seen_is_found(counts: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine tells when transactions of deltamerge follow winners that they should have read."""
    monkeypatch.setattr(transaction, "check_conflict", lambda *_, **__: None)
    with pytest.raises((AssertionError, ExceptionGroup)):
        run_state_machine_as_test(seeded(0), settings=settings(max_examples=50, **EACH))
    assert counts
